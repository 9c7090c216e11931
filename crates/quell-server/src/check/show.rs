//! Show: a report for people.

use std::fmt::Write;

use super::report::{Lint, NotUsed, Report, Route, Worst};

pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    let lints: usize = report.routes.iter().map(|route| route.lints.len()).sum();
    let _ = writeln!(
        text,
        "{}: right; {}, {}, {} not used by any host yet",
        report.file,
        count(report.routes.len(), "route"),
        count(lints, "lint"),
        count(report.not_used.len(), "setting"),
    );
    for route in &report.routes {
        self::route(&mut text, route);
    }
    if !report.not_used.is_empty() {
        let _ = writeln!(text, "\nnot used by any host yet:");
        let longest = report.not_used.iter().map(|one| one.setting.len()).max().unwrap_or_default();
        for NotUsed { setting, place, instead } in &report.not_used {
            let _ = writeln!(text, "  {setting:longest$}  {instead} ({place})");
        }
    }
    let found = &report.found;
    for (heading, lines) in [
        ("not on this machine, so not looked at (--here if they should be):", &found.missing),
        ("works, and should not be so:", &found.warnings),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{heading}");
            for line in lines {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
    text
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn route(text: &mut String, route: &Route) {
    let Route { route, upstream, policy, effective, worst, lints } = route;
    let _ = writeln!(text, "\n{route} → {upstream} (policy: {policy})");
    for (label, words) in effective {
        line(text, label, words);
    }
    let _ = writeln!(text, "  on the worst day:");
    for (label, words) in day(worst) {
        line(text, &label, &words);
    }
    if !lints.is_empty() {
        let _ = writeln!(text, "  what will hurt:");
    }
    for Lint { code, setting, value, why, fix } in lints {
        line(text, code, &format!("{setting} is {value}: {why}; {fix}"));
    }
}

fn line(text: &mut String, label: &str, words: &str) {
    let _ = writeln!(text, "    {label:<16} {words}");
}

fn day(worst: &Worst) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut say = |label: &str, words: String| lines.push((label.to_owned(), words));
    say(
        "one call",
        format!(
            "up to {}, and {:.1} s for its caller",
            count(worst.attempts as usize, "send"),
            worst.latency_s
        ),
    );
    let share = worst.failure_rate * 100.0;
    say(
        "load",
        format!(
            "{:.2} × with {share:.0} % failing, once what was saved up is spent",
            worst.sends_per_call
        ),
    );
    match (worst.w_rho, worst.load, worst.capacity) {
        (Some(w_rho), Some(load), Some(capacity)) => {
            let verdict =
                if w_rho < 1.0 { "it heals by itself" } else { "it does not heal by itself" };
            say("w·ρ", format!("{w_rho:.2} at {load:.0}/s of {capacity:.0}/s: {verdict}"));
        }
        _ => say("w·ρ", "not known: give --load and --capacity".to_owned()),
    }
    let processes = count(worst.instances as usize, "process").replace("processs", "processes");
    let fleet = match worst.fleet_retries {
        Some(retries) => format!("{} in a minute without a success", count_retries(retries)),
        None => "no bound on retries".to_owned(),
    };
    say(&processes, fleet);
    say(
        "breaker",
        format!("everybody returns up to {:.2} s after the service", worst.added_recovery_s),
    );
    let chain = &worst.chain;
    if chain.layers > 1 {
        let words = format!(
            "up to {} for one request, {:.2} with {share:.0} % failing (up to {} where every hop hands the credit down, as gateways do)",
            count(chain.sends as usize, "send"),
            chain.sends_per_request,
            chain.sends_with_credit,
        );
        say(&format!("{} layers", chain.layers), words);
    }
    lines
}

fn count_retries(retries: u64) -> String {
    if retries == 1 { "1 retry".to_owned() } else { format!("{retries} retries") }
}
