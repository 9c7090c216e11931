//! The storm of 10,000 requests per second, in its three kinds, and what the usual cures do to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_sim::{
    Run, Scenario, run,
    scenario::{Callers, OutageKind},
    verdict::Verdict,
};

fn storm(kind: OutageKind, change: impl Fn(Scenario) -> Scenario) -> Run {
    run(&change(Scenario::storm(kind)), 1).unwrap()
}

fn is_down(run: &Run) -> bool {
    let verdict = run.summary.verdict;
    matches!(verdict, Verdict::Metastable { .. } | Verdict::Draining { .. })
        && run.summary.goodput_after < 0.5
}

#[test]
fn naive_retries_never_let_the_service_recover() {
    for kind in OutageKind::ALL {
        let run = storm(kind, |scenario| scenario);
        assert!(is_down(&run), "{}: {}", kind.as_str(), run.summary);
        assert!(run.summary.amplification > 3.5, "{}: {}", kind.as_str(), run.summary);
    }
}

#[test]
fn quell_in_front_recovers_within_a_second_and_does_not_amplify() {
    for kind in OutageKind::ALL {
        let run = storm(kind, Scenario::with_gateway);
        assert!(run.summary.verdict.within(1), "{}: {}", kind.as_str(), run.summary);
        assert!(run.summary.amplification <= 1.1, "{}: {}", kind.as_str(), run.summary);
        assert!(run.summary.refused_before < 0.005, "{}: {}", kind.as_str(), run.summary);
    }
}

#[test]
fn without_retries_a_stalled_queue_still_serves_the_departed() {
    assert!(is_down(&storm(OutageKind::Stall, |s| s.with_callers(Callers::NO_RETRIES))));
    let failed = storm(OutageKind::Fail, |s| s.with_callers(Callers::NO_RETRIES));
    assert!(failed.summary.verdict.within(0), "{}", failed.summary);
}

#[test]
fn backoff_and_jitter_alone_defer_the_load_and_do_not_heal() {
    for kind in [OutageKind::Hole, OutageKind::Stall] {
        assert!(is_down(&storm(kind, |s| s.with_callers(Callers::backoff()))), "{}", kind.as_str());
    }
}

#[test]
fn quell_inside_the_callers_heals_a_stalled_service_in_seconds_and_not_in_one() {
    let patience = Duration::from_secs(1);
    for kind in OutageKind::ALL {
        let run = storm(kind, |s| s.with_callers(Callers::quell(patience)));
        assert!(run.summary.verdict.within(10), "{}: {}", kind.as_str(), run.summary);
        assert!(run.summary.amplification <= 1.1, "{}: {}", kind.as_str(), run.summary);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let scenario = Scenario { load: 300.0, ..Scenario::storm(OutageKind::Stall).with_gateway() };
    let (a, b) = (run(&scenario, 7).unwrap(), run(&scenario, 7).unwrap());
    assert_eq!(a, b);
    assert_ne!(a.hash, run(&scenario, 8).unwrap().hash);
    // Pinned: another machine, or a change that was not meant to change behaviour, must give the same.
    assert_eq!(format!("{:016x}", a.hash), "120bd02e6bde98d9");
}
