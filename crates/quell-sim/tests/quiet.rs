//! Out of quiet use: a limit that was never pressed knows nothing, and yet neither a burst nor an outage may be its end.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::{ops::Range, time::Duration};

use quell_sim::{
    Run, Scenario, run,
    scenario::{Arrivals, Callers, Curve, Gateway, Outage, OutageKind, Service, Sharing},
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Three users per second until `step`, then 299, at a service that can do 360; the outage is from second 60 to 70.
fn storm(kind: OutageKind, loss: Option<f64>, step: f64) -> Scenario {
    let mut service = Service::constant(36, Duration::from_millis(100));
    service.sharing = loss.map(|loss| Sharing { loss });
    let shape = vec![(0.0, 0.01), (step, 0.01), (step, 1.0), (1e6, 1.0)];
    Scenario {
        load: 299.0,
        arrivals: Arrivals::Shaped(Curve(shape)),
        instances: 1,
        patience: s(1),
        callers: Callers::NAIVE,
        gateway: Some(Gateway::default()),
        service,
        outage: Outage { kind, at: s(60), length: s(10) },
        watch: s(36),
        ..Scenario::storm(kind)
    }
}

/// The share of users who are served in these seconds.
fn served(run: &Run, seconds: Range<usize>) -> f64 {
    let total = |count| run.series.sum(count, seconds.clone()) as f64;
    total(Count::Good) / total(Count::Demand)
}

/// The crowd comes half a second before the outage, with it, in the midst of it, or at its very end. Where crowds cost, everybody's
/// return may be taken for the usual until the next dip, 15 s later. A crowd that comes in the very second of the outage leaves the
/// limit nothing to learn from: one or two such runs in a hundred take longer.
#[test]
fn a_storm_that_begins_in_quiet_use_heals() {
    let mut late = Vec::new();
    for kind in OutageKind::ALL {
        for (loss, after) in [(None, 6), (Some(0.0), 6), (Some(0.5), 21)] {
            for step in [59.5, 60.0, 65.0, 69.9] {
                for seed in 1..=5 {
                    let run = run(&storm(kind, loss, step), seed).unwrap();
                    let share = served(&run, 70 + after..75 + after).min(served(&run, 91..106));
                    let name =
                        format!("{}, loss {loss:?}, from {step} s, seed {seed}", kind.as_str());
                    assert!(run.summary.amplification <= 1.1, "{name}: {}", run.summary);
                    if share <= 0.95 {
                        late.push(name);
                    }
                }
            }
        }
    }
    // Known, by name, out of 180: nothing else may be late.
    const LATE: [&str; 2] =
        ["hole, loss Some(0.5), from 60 s, seed 2", "stall, loss Some(0.5), from 60 s, seed 2"];
    assert!(late.iter().all(|name| LATE.contains(&name.as_str())), "{late:?}");
}

/// The same crowd without an outage: it is what the service is there for.
#[test]
fn a_hundred_times_as_many_users_at_once_are_all_served() {
    for loss in [None, Some(0.0), Some(0.5)] {
        let mut scenario = storm(OutageKind::Stall, loss, 60.0);
        scenario.outage.length = Duration::ZERO;
        for seed in 1..=3 {
            let run = run(&scenario, seed).unwrap();
            let share = served(&run, 60..66); // what comes in the last tenth of a second is answered later
            assert!(share > 0.97, "loss {loss:?}: {share}");
            assert_eq!(run.series.sum(Count::Refused, 60..66), 0, "loss {loss:?}");
        }
    }
}
