//! `rate_limit = { … }` and `mode`: what an upstream, a route and a tenant write alike.

use quell_core::{
    limiter::{Limiter, Spec},
    mode::Mode,
};

use super::table::Table;

const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("report", Mode::Report)];

/// A `rate_limit` that is valid, whether it is obeyed, and what else stands in its table.
pub fn limited(
    table: &Table<'_>,
    limit: &mut Option<Spec>,
    obeyed: &mut Mode,
    means: &'static str,
    more: impl FnOnce(&Table<'_>),
) {
    table.maybe_off("rate_limit", limit, means, |inside, written| {
        inside.written_last(&["key", "mode"]);
        mode(inside, obeyed);
        more(inside);
        let limit = rate_limit(inside, written)?;
        if let Err(error) = Limiter::new(limit, quell_core::Time::ZERO) {
            table.invalid(&error);
        }
        Some(limit)
    });
}

/// A rate limit has no default: an operator who limits has a number in mind.
pub(super) fn rate_limit(table: &Table<'_>, written: Option<Spec>) -> Option<Spec> {
    let (mut per_second, mut burst) =
        (written.map(|limit| limit.per_second), written.map(|limit| limit.burst));
    table.needs("per_second", "how many per second, such as 1000");
    table.set("per_second", &mut per_second, "how many per second in the long run");
    table.set("burst", &mut burst, "how many at once; one second's worth if not written");
    let per_second: f64 = per_second?;
    // One second's worth.
    let usual = per_second.ceil().max(1.0) as u32;
    Some(Spec { per_second, burst: burst.unwrap_or(usual) })
}

/// Whether a control is obeyed or only counted.
pub(super) fn mode(table: &Table<'_>, mode: &mut Mode) {
    let means = "enforce; report: decides and counts, and changes nothing";
    table.word("mode", mode, &MODES, means);
}
