//! Show: a report for people.

use std::fmt::Write;
use std::time::Duration;

use quell_charts::Ink;

use super::report::{After, Deadline, Fleet, RUNS, Report};
use super::sequence::{Course, Part};

/// Characters of a plot.
const WIDTH: usize = 40;

pub(super) fn text(report: &Report, ink: Ink) -> String {
    let Report { file, route, upstream, policy, request, happened, attempt, why, .. } = report;
    let mut text = format!("{file}: {request} → route {route} → {upstream} (policy: {policy})\n\n");
    let answer = match report.retried {
        None => "is not reached".to_owned(),
        Some(share) if share >= 1.0 => "is retried".to_owned(),
        Some(share) if share <= 0.0 => stops(report.reason),
        Some(share) => {
            format!("is retried by {} of calls, else {}", percent(share), stops(report.reason))
        }
    };
    let _ = writeln!(text, "{happened}, attempt {attempt}: {answer}\n  {why}");
    waits(&mut text, &report.after, ink);
    deadline(&mut text, &report.deadline);
    fleet(&mut text, &report.fleet);
    if let Some(course) = &report.sequence {
        sequence(&mut text, course, ink);
    }
    text
}

fn stops(reason: Option<&str>) -> String {
    reason.map_or_else(|| "needs no other".to_owned(), |reason| format!("is not retried: {reason}"))
}

fn waits(text: &mut String, after: &[After], ink: Ink) {
    let longest = after.iter().filter_map(|after| after.waits.last()).max().copied();
    let Some(longest) = longest else { return };
    let _ = writeln!(
        text,
        "\nwaits of {RUNS} calls, plotted from 0 to {}\n  after  retried  shortest    median   longest",
        short(longest)
    );
    for After { attempt, retried, wait, stopped, waits } in after {
        let _ = write!(text, "  {attempt:<5}  {:>7}", percent(*retried));
        if let (Some(_), [first, .., last] | [first @ last]) = (wait, waits.as_slice()) {
            let median = waits[waits.len() / 2];
            let plot = ink.line(&heights(waits, longest), WIDTH);
            let [first, median, last] = [*first, median, *last].map(short);
            let _ = write!(text, "  {first:>8}  {median:>8}  {last:>8}  {plot}");
        }
        let stopped: Vec<_> =
            stopped.iter().map(|(reason, share)| format!("{} {reason}", percent(*share))).collect();
        if !stopped.is_empty() {
            let _ = write!(text, "  stops: {}", stopped.join(", "));
        }
        text.push('\n');
    }
}

/// How many waits are how long, the most being 1.
fn heights(waits: &[Duration], longest: Duration) -> Vec<f64> {
    let mut counts = vec![0.0; WIDTH];
    for wait in waits {
        let at = wait.as_secs_f64() / longest.as_secs_f64().max(1e-9) * WIDTH as f64;
        counts[(at as usize).min(WIDTH - 1)] += 1.0;
    }
    let most = counts.iter().copied().fold(1.0, f64::max);
    counts.into_iter().map(|count| count / most).collect()
}

fn deadline(text: &mut String, deadline: &Deadline) {
    let Deadline { timeout_ms, per_try_ms, attempts, fit: (fewest, most) } = deadline;
    let fit = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
    let [timeout, per_try] =
        [timeout_ms, per_try_ms].map(|ms| short(Duration::from_secs_f64(ms / 1e3)));
    let _ = writeln!(
        text,
        "\ndeadline: {fit} of {attempts} attempts can begin within {timeout} if each takes up to {per_try}"
    );
}

fn fleet(text: &mut String, fleet: &Fleet) {
    let Fleet { instances, whole, each, each_allows, together, overshoot, fix } = fleet;
    let _ = write!(text, "budget: {whole}");
    if each != whole {
        let _ = write!(text, ", divided: {each} for each");
    }
    let (Some(each), Some(together)) = (each_allows, together) else {
        let _ = writeln!(text, "; nothing bounds the retries of a minute without a success");
        return;
    };
    let _ = write!(
        text,
        "\n  in a minute without a success {each} per process × {instances} = {together} retries"
    );
    if let (Some(more), Some(fix)) = (overshoot, fix) {
        let _ = write!(text, ", {more} more than written: {fix}");
    }
    text.push('\n');
}

fn sequence(text: &mut String, course: &Course, ink: Ink) {
    let _ = writeln!(text, "\nbudget over the sequence  {}", ink.line(&course.levels, 60));
    let _ = writeln!(text, "  {:<16}  {:>8}  {:>8}  {:>8}", "", "asked", "allowed", "level");
    for Part { part, asked, allowed, level, fill } in &course.parts {
        let level = level.map_or_else(|| "no limit".to_owned(), |level| format!("{level:.1}"));
        let _ = writeln!(
            text,
            "  {part:<16}  {asked:>8}  {allowed:>8}  {level:>8}  {}",
            percent(*fill)
        );
    }
}

fn percent(share: f64) -> String {
    let share = share * 100.0;
    // What is rare is not never.
    if (0.0..1.0).contains(&share) && share > 0.0 {
        return "<1 %".to_owned();
    }
    format!("{share:.0} %")
}

/// As exact as anybody reads.
pub(super) fn short(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        10.0.. => format!("{seconds:.0}s"),
        1.0.. => format!("{seconds:.1}s"),
        0.01.. => format!("{:.0}ms", seconds * 1e3),
        _ => format!("{:.1}ms", seconds * 1e3),
    }
}
