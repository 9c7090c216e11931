//! Bursts out of quiet use, behind the gateway's defaults, at a service that works on any number at once.

use std::collections::VecDeque;

use super::{
    tests::{PER_TRY, at, end, go, server_fault},
    *,
};
use crate::in_flight::{Evidence, Limit};

/// How long each call takes, in milliseconds.
const TAKES: u64 = 300;

struct Parallel {
    upstream: Upstream,
    /// In the order they were sent, and so in that of their ends.
    inside: VecDeque<(u64, Permit)>,
    served: usize,
    refused: Vec<Reason>,
}

impl Parallel {
    fn new() -> Self {
        let spec = UpstreamSpec::gateway();
        let upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
        Self { upstream, inside: VecDeque::new(), served: 0, refused: Vec::new() }
    }

    fn woken(&mut self, ms: u64, wake: Vec<Wake>) {
        for Wake { result, .. } in wake {
            match result {
                Ok(permit) => self.inside.push_back((ms, permit)),
                Err(refusal) => self.refused.push(refusal.reason),
            }
        }
    }

    /// From one instant to another: so many come at once at the first, and all that is done until the second ends.
    fn come(&mut self, (from, to): (u64, u64), calls: usize) {
        for _ in 0..calls {
            match self.upstream.admit(at(from), &Ask::first(at(from))) {
                Admission::Go(permit) => self.inside.push_back((from, permit)),
                Admission::Queued(..) => {}
                Admission::No(refusal) => self.refused.push(refusal.reason),
            }
        }
        for ms in from..to {
            let mut wake = Vec::new();
            self.upstream.poll(at(ms), &mut wake);
            while self.inside.front().is_some_and(|(sent, _)| sent + TAKES <= ms) {
                let (_, permit) = self.inside.pop_front().unwrap();
                self.upstream.judge(at(ms), &permit, &Outcome::Success);
                self.upstream.release(at(ms), permit, Release::Done, &mut wake);
                self.served += 1;
            }
            self.woken(ms, wake);
        }
    }

    /// One call per second, for so many seconds.
    fn quiet(&mut self, (from, seconds): (u64, u64)) {
        (0..seconds).for_each(|i| self.come((from + i * 1_000, from + i * 1_000 + 1_000), 1));
    }

    /// How many of those who come at once are served.
    fn burst(&mut self, from: u64, calls: usize) -> usize {
        let before = self.served;
        self.come((from, from + 3_000), calls);
        self.served - before
    }

    fn margin(&mut self, ms: u64) -> f64 {
        let p50 = self.upstream.p50().unwrap();
        self.upstream.snapshot(at(ms)).margin(p50, 1.1).unwrap()
    }
}

#[test]
fn a_burst_after_quiet_use_is_served_by_a_service_that_can() {
    for minutes in [1, 5, 20] {
        let mut service = Parallel::new();
        service.quiet((1_000, minutes * 60));
        let now = 1_000 + minutes * 60_000;
        assert_eq!(service.burst(now, 150), 150, "{minutes}: {:?}", service.refused);
        // And another one, of twice as many, whenever it comes.
        service.quiet((now + 3_000, minutes * 60));
        let now = now + 3_000 + minutes * 60_000;
        assert_eq!(service.burst(now, 300), 300, "{minutes}: {:?}", service.refused);
    }
}

#[test]
fn a_burst_after_ten_calls_is_served_by_a_service_that_can() {
    for idle in [0, 1_000, 3_600_000] {
        let mut service = Parallel::new();
        (0..10).for_each(|i| service.come((1_000 + i * 310, 1_310 + i * 310), 1));
        assert_eq!(service.burst(4_200 + idle, 150), 150, "{idle} ms: {:?}", service.refused);
    }
}

/// Somebody always leaves.
#[test]
fn a_caller_who_left_long_ago_does_not_make_the_next_burst_small() {
    let mut service = Parallel::new();
    service.quiet((1_000, 60));
    let permit = go(&mut service.upstream, at(61_000));
    service.upstream.release(at(61_005), permit, Release::Ghost, &mut Vec::new());
    assert_eq!(service.upstream.snapshot(at(62_000)).trouble, None, "its answer was not due");
    assert_eq!(service.burst(3_661_000, 150), 150, "{:?}", service.refused);
}

/// Nothing comes back: what is sent meanwhile is no more than comes in the time an answer takes.
#[test]
fn a_burst_into_a_service_that_stands_still_is_stopped_when_answers_are_overdue() {
    let mut service = Parallel::new();
    service.quiet((1_000, 60));
    let mut sent = Vec::new();
    for ms in (61_000..63_000).step_by(4) {
        if let Admission::Go(permit) = service.upstream.admit(at(ms), &Ask::first(at(ms))) {
            sent.push(permit);
        }
    }
    assert!(
        (120..=256).contains(&sent.len()),
        "250/s until twenty are overdue, got {}",
        sent.len()
    );
    assert_eq!(service.upstream.snapshot(at(63_000)).trouble, Some(Evidence::Silence));
    let limit = service.upstream.snapshot(at(63_000)).limit;
    assert!(limit < 40, "little was under way in health, got {limit}");
}

/// Whoever comes back to a service that has just failed comes in a crowd.
#[test]
fn failures_make_the_limit_tight_until_health_is_confirmed() {
    let mut service = Parallel::new();
    service.quiet((1_000, 60));
    assert!(service.upstream.snapshot(at(61_000)).limit >= 256);
    for ms in (61_000..61_400).step_by(10) {
        if let Admission::Go(permit) = service.upstream.admit(at(ms), &Ask::first(at(ms))) {
            end(&mut service.upstream, at(ms), permit, server_fault());
        }
    }
    assert_eq!(service.upstream.snapshot(at(61_400)).trouble, Some(Evidence::Errors));
    assert!(service.upstream.snapshot(at(61_400)).limit < 10);
    for ms in (62_000..70_000).step_by(100) {
        service.come((ms, ms + 100), 1);
    }
    assert_eq!(service.upstream.snapshot(at(70_000)).trouble, None);
}

#[test]
fn a_ceiling_holds_for_bursts_too() {
    let mut service = Parallel::new();
    let in_flight = Limit::Adaptive { ceiling: 100 };
    let spec = UpstreamSpec { in_flight, ..UpstreamSpec::gateway() };
    service.upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    service.quiet((1_000, 60));
    assert_eq!(service.upstream.snapshot(at(61_000)).limit, 100);
    service.come((61_000, 61_001), 150);
    assert_eq!(service.upstream.snapshot(at(61_001)).in_flight, 100);
}

/// It is there to warn of outages that would keep themselves alive, and nobody heeds one that warns in quiet use.
#[test]
fn the_margin_is_close_to_one_in_quiet_use_and_never_absurd_after_a_burst() {
    let mut service = Parallel::new();
    service.quiet((1_000, 60));
    assert!(service.margin(61_000) > 0.99, "{}", service.margin(61_000));
    service.burst(61_000, 150);
    for second in 64..200 {
        service.quiet((second * 1_000, 1));
        let margin = service.margin(second * 1_000 + 999);
        assert!((0.3..=1.0).contains(&margin), "{margin} at {second} s");
    }
    assert!(service.margin(200_000) > 0.99, "{}", service.margin(200_000));
}
