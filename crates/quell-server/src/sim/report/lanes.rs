//! What happened inside a run: lanes over the same seconds.

use quell_charts::{Chart, Scale, chart::strip, number::short};
use quell_sim::{
    Run,
    verdict::{Count, Moment, Tally},
};

use super::Job;
use crate::sim::figures::millis;

const WIDE: f64 = 1100.0;

/// The height of charts that stand beside each other: all load, but not so much that what users get cannot be seen.
pub(super) fn most(jobs: &[Job<'_>]) -> f64 {
    let capacity = jobs.iter().map(Job::capacity).fold(f64::INFINITY, f64::min);
    let peaks = jobs.iter().filter_map(|job| job.runs.first()).map(peak);
    peaks.fold(1.0, f64::max).min(1.6 * capacity)
}

fn peak(run: &Run) -> f64 {
    let sent = (0..run.timing.end).map(|second| run.series.at(Count::Sent, second));
    sent.max().unwrap_or(0) as f64
}

/// Users served against load offered.
pub(super) fn goodput(job: &Job<'_>, size: (f64, f64), most: f64) -> String {
    let Some(run) = job.runs.first() else { return String::new() };
    let says = format!("users served and load offered per second, {}", job.who.label());
    let mut chart = frame(run, &says, size, Scale::Linear(most * 1.02), short)
        .line("c-load", "load at the service", &counts(run, Count::Sent))
        .line("c-demand", "users", &counts(run, Count::Demand))
        .area("c-good", "served", &counts(run, Count::Good));
    if job.capacity() <= most * 1.02 {
        chart = chart.level("capacity", job.capacity(), "");
    }
    if peak(run) > most {
        chart = chart.beyond("c-load", &format!("up to {}/s", short(peak(run))));
    }
    chart.seconds().finish()
}

/// All lanes of a run.
pub(super) fn all(job: &Job<'_>) -> String {
    let Some(run) = job.runs.first() else { return String::new() };
    let mut lanes =
        vec![goodput(job, (WIDE, 170.0), most(std::slice::from_ref(job))), latency(run)];
    let hosts = moments(run, |moment| moment.budget.map(|budget| budget * 100.0));
    if hosts.iter().any(Option::is_some) {
        lanes.push(slots(run));
        lanes.push(
            frame(run, "retry budget, percent full", (WIDE, 80.0), Scale::Linear(100.0), |share| {
                format!("{share:.0} %")
            })
            .area("c-p50", "retry budget", &hosts)
            .finish(),
        );
        lanes.push(breaker(run));
    }
    if run.layers.len() > 1 {
        lanes.extend((0..run.layers.len()).map(|i| layer(job, run, i)));
    }
    lanes.push(backlog(run));
    lanes.concat()
}

/// What reached one service of several, and what came of it.
fn layer(job: &Job<'_>, run: &Run, i: usize) -> String {
    let all = |of: fn(&Tally) -> u64| -> Vec<_> {
        run.layers[i].seconds().iter().map(|second| Some(of(second) as f64)).collect()
    };
    let (sent, wasted) = (all(|second| second.sent), all(|second| second.wasted));
    let served = all(|second| second.served - second.wasted);
    let capacity = job.capacities().get(i).copied().unwrap_or(0.0);
    let highest = sent.iter().flatten().copied().fold(1.0, f64::max);
    let most = highest.min(1.6 * capacity).max(1.0);
    let name = crate::sim::layers::name(job.plan, i);
    let says = format!("attempts at {name} per second");
    let mut chart = frame(run, &says, (WIDE, 110.0), Scale::Linear(most * 1.05), short)
        .line("c-load", &format!("attempts at {name}"), &sent)
        .area("c-good", "done for somebody", &served)
        .line("c-bad", "for nobody", &wasted);
    if capacity <= most * 1.05 {
        chart = chart.level("capacity", capacity, "");
    }
    if highest > most {
        chart = chart.beyond("c-load", &format!("up to {}/s", short(highest)));
    }
    chart.finish()
}

fn latency(run: &Run) -> String {
    let (p50, p99) =
        (|moment: &Moment| moment.p50.map(millis), |moment: &Moment| moment.p99.map(millis));
    let (p50, p99) = (moments(run, p50), moments(run, p99));
    let highest = p99.iter().flatten().copied().fold(1_000.0, f64::max);
    let unit =
        |ms: f64| if ms < 1_000.0 { format!("{ms:.0} ms") } else { format!("{:.0} s", ms / 1e3) };
    frame(run, "latency from the first send", (WIDE, 120.0), Scale::Log(10.0, highest), unit)
        .line("c-p50", "p50 from first send", &p50)
        .line("c-p99", "p99", &p99)
        .finish()
}

/// Quell's slots: limit, attempts under way, ghosts, queue.
fn slots(run: &Run) -> String {
    let under_way = moments(run, |moment| Some(moment.in_flight as f64));
    let ghosts = moments(run, |moment| Some(moment.ghosts as f64));
    let queued = moments(run, |moment| Some(moment.queued as f64));
    let limit = moments(run, |moment| moment.limit.map(|limit| limit as f64));
    let highest =
        [&under_way, &ghosts, &queued, &limit].into_iter().flat_map(|lane| lane.iter().flatten());
    let highest = highest.copied().fold(1.0, f64::max);
    frame(run, "slots of Quell", (WIDE, 130.0), Scale::Linear(highest * 1.05), short)
        .area("c-good", "in flight", &under_way)
        .line("c-ghost", "ghosts", &ghosts)
        .line("c-load", "queued", &queued)
        .line("c-limit", "limit", &limit)
        .finish()
}

fn breaker(run: &Run) -> String {
    let all = |of: fn(&Moment) -> f64| run.observed.timeline.moments().iter().map(of).collect();
    let shares =
        [("open", all(|moment| moment.open)), ("half-open", all(|moment| moment.half_open))];
    strip("breakers: open and half open", WIDE, "breaker", run.timing.end, &shares)
}

fn backlog(run: &Run) -> String {
    let waiting = moments(run, |moment| Some(moment.backlog as f64));
    let highest = waiting.iter().flatten().copied().fold(1.0, f64::max);
    frame(
        run,
        "requests waiting at the service",
        (WIDE, 100.0),
        Scale::Linear(highest * 1.05),
        short,
    )
    .area("c-bad", "waiting at the service", &waiting)
    .seconds()
    .finish()
}

fn frame(run: &Run, says: &str, size: (f64, f64), scale: Scale, unit: fn(f64) -> String) -> Chart {
    let timing = run.timing;
    Chart::new(says, size, timing.end, scale, unit)
        .shade(timing.outage_at, timing.outage_end().min(timing.end))
}

fn counts(run: &Run, what: Count) -> Vec<Option<f64>> {
    (0..run.timing.end).map(|second| Some(run.series.at(what, second) as f64)).collect()
}

fn moments(run: &Run, of: impl Fn(&Moment) -> Option<f64>) -> Vec<Option<f64>> {
    run.observed.timeline.moments().iter().map(of).collect()
}
