//! Nothing configured: callers never say how long they wait, nobody says what the service can do.
//!
//! Services of 4, 36 and 400 workers at 10 and 100 ms, half and five sixths loaded, callers who leave after
//! 0.3, 1 and 4 s, three kinds of outage of 10 and 30 s. Every cell must recover within a second (below 50
//! requests per second the median of five seeds within three) and refuse next to nothing before the outage.
//! The cells of 20,000 requests per second and more run only in full mode (`QUELL_FULL=1`).

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_sim::{
    Scenario, run,
    scenario::{Callers, Gateway, Outage, OutageKind, Service},
    verdict::{Summary, Verdict},
};

fn scenario(service: &Service, share: f64, patience: Duration, outage: Outage) -> Scenario {
    Scenario {
        load: service.capacity() * share,
        instances: 1,
        patience,
        callers: Callers::NAIVE,
        gateway: Some(Gateway::default()),
        service: service.clone(),
        outage,
        watch: Duration::from_secs(36),
        ..Scenario::storm(outage.kind)
    }
}

fn outage(kind: OutageKind, length: u64) -> Outage {
    Outage { kind, at: Duration::from_secs(20), length: Duration::from_secs(length) }
}

fn recovery(summary: &Summary) -> Duration {
    match summary.verdict {
        Verdict::Healed { after } => after,
        _ => Duration::MAX,
    }
}

/// Runs the cells of one service; answers with how many there were.
fn cells(workers: u32, millis: u64) -> u32 {
    let service = Service::constant(workers, Duration::from_millis(millis));
    let mut count = 0;
    for share in [0.5, 0.83] {
        for patience in [300, 1_000, 4_000] {
            // Here no rule helps: the service itself is too slow for its callers.
            if (workers, millis, patience) == (4, 100, 300) && share > 0.5 {
                continue;
            }
            for kind in OutageKind::ALL {
                for length in [10, 30] {
                    let patience = Duration::from_millis(patience);
                    let cell = scenario(&service, share, patience, outage(kind, length));
                    let name = format!(
                        "{workers} × {millis} ms at {share}, callers leave at {patience:?}, {} for {length} s",
                        kind.as_str()
                    );
                    recovers(&cell, &name);
                    count += 1;
                }
            }
        }
    }
    count
}

fn recovers(cell: &Scenario, name: &str) {
    let (seeds, limit) = if cell.load < 50.0 { (5, 3) } else { (1, 1) };
    let runs: Vec<_> = (1..=seeds).map(|seed| run(cell, seed).unwrap().summary).collect();
    let mut recovered: Vec<_> = runs.iter().map(recovery).collect();
    recovered.sort_unstable();
    assert!(
        recovered[runs.len() / 2] <= Duration::from_secs(limit),
        "{name}: seeds 1 to {seeds} took {recovered:?}"
    );
    for summary in runs {
        assert!(summary.refused_before < 0.005, "{name}: refused {}", summary.refused_before);
        assert!(summary.amplification <= 1.1, "{name}: {summary}");
    }
}

#[test]
fn four_workers_of_10_ms_recover() {
    assert_eq!(cells(4, 10), 36);
}

#[test]
fn four_workers_of_100_ms_recover() {
    assert_eq!(cells(4, 100), 30);
}

#[test]
fn thirty_six_workers_of_10_ms_recover() {
    assert_eq!(cells(36, 10), 36);
}

#[test]
fn thirty_six_workers_of_100_ms_recover() {
    assert_eq!(cells(36, 100), 36);
}

#[test]
fn four_hundred_workers_recover() {
    assert_eq!(cells(400, 100), 36);
    if std::env::var_os("QUELL_FULL").is_some() {
        assert_eq!(cells(400, 10), 36);
    }
}

/// P11: nothing was ever learned, and the outage is on.
#[test]
fn a_gateway_started_during_the_outage_recovers_within_three_seconds() {
    let service = Service::constant(36, Duration::from_millis(100));
    for share in [0.5, 0.83] {
        for kind in OutageKind::ALL {
            for starts in [21, 25, 29] {
                let patience = Duration::from_secs(1);
                let mut cell = scenario(&service, share, patience, outage(kind, 10));
                cell.gateway =
                    Some(Gateway { starts: Duration::from_secs(starts), ..Gateway::default() });
                for seed in 1..=3 {
                    let summary = run(&cell, seed).unwrap().summary;
                    let name = format!("{} at {share}, started at {starts} s", kind.as_str());
                    assert!(summary.verdict.within(3), "{name}, seed {seed}: {summary}");
                }
            }
        }
    }
}
