//! `rate_limit = { … }` and `mode`: what an upstream, a route and a tenant write alike.

use quell_core::{limiter, mode::Mode};

use super::fields::{Fields, Switch};

/// The modes, by the words for them.
pub const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("report", Mode::Report)];

/// A `rate_limit` that is valid, whether it is obeyed, and what else stands in it.
pub fn limited<T>(
    fields: &Fields<'_>,
    more: impl FnOnce(&Fields<'_>) -> T,
) -> Option<(limiter::Spec, Mode, T)> {
    let Switch::On(inside) = fields.switch("rate_limit") else { return None };
    let mut obeyed = Mode::default();
    mode(&inside, &mut obeyed);
    let more = more(&inside);
    let spec = rate_limit(&inside)?;
    if let Err(error) = limiter::Limiter::new(spec, quell_core::Time::ZERO) {
        fields.invalid(&error);
    }
    Some((spec, obeyed, more))
}

/// A rate limit has no default: an operator who limits has a number in mind.
pub(super) fn rate_limit(fields: &Fields<'_>) -> Option<limiter::Spec> {
    fields.needs("per_second", "how many per second, such as 1000");
    let burst = fields.get("burst");
    let per_second: f64 = fields.get("per_second")?;
    // One second's worth.
    let usual = per_second.ceil().max(1.0) as u32;
    Some(limiter::Spec { per_second, burst: burst.unwrap_or(usual) })
}

/// Whether a control is obeyed or only counted.
pub(super) fn mode(fields: &Fields<'_>, mode: &mut Mode) {
    if let Some(word) = fields.word("mode", &MODES) {
        *mode = word;
    }
}
