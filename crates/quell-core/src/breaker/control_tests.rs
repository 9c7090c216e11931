//! Positive controls: the properties below hold for the breaker and catch the bugs that they are there for.

use std::collections::VecDeque;

use super::*;

const WINDOW: u64 = 10_000;
const LEAST: usize = 20;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Anything that opens on outcomes.
trait Opens {
    /// Whether this outcome opened it.
    fn record(&mut self, ms: u64, good: bool) -> bool;
}

struct Ours(Breaker, Rng);

impl Ours {
    fn new(over: Over) -> Self {
        let spec = Spec { over, ..Spec::default() };
        Self(Breaker::new(spec, Time::ZERO).unwrap(), Rng::new(1))
    }
}

impl Opens for Ours {
    fn record(&mut self, ms: u64, good: bool) -> bool {
        let pass = self.0.take(at(ms));
        self.0.judge(at(ms), &pass, Some(good), &mut self.1) == Some(State::Open)
    }
}

/// Wrong: counts from the beginning of time.
#[derive(Default)]
struct Cumulative(usize, usize);

impl Opens for Cumulative {
    fn record(&mut self, _: u64, good: bool) -> bool {
        (self.0, self.1) = (self.0 + usize::from(!good), self.1 + 1);
        self.1 >= LEAST && 2 * self.0 >= self.1
    }
}

/// Wrong: forgets everything at once whenever a window is over.
#[derive(Default)]
struct Tumbling(Cumulative, u64);

impl Opens for Tumbling {
    fn record(&mut self, ms: u64, good: bool) -> bool {
        if ms / WINDOW != self.1 {
            *self = Self(Cumulative::default(), ms / WINDOW);
        }
        self.0.record(ms, good)
    }
}

/// Slow and exact: keeps all.
#[derive(Default)]
struct Naive(VecDeque<(u64, bool)>);

impl Opens for Naive {
    fn record(&mut self, ms: u64, good: bool) -> bool {
        self.0.push_back((ms, good));
        self.0.retain(|&(then, _)| then + WINDOW > ms);
        let bad = self.0.iter().filter(|(_, good)| !good).count();
        self.0.len() >= LEAST && 2 * bad >= self.0.len()
    }
}

/// C1: how long it was healthy before does not change how many failures open it.
fn warm_up_does_not_matter<T: Opens>(new: impl Fn() -> T) -> bool {
    let failures = |healthy: u64| {
        let mut breaker = new();
        for i in 0..healthy {
            breaker.record(i * 10, true);
        }
        (0..5_000).position(|_| breaker.record(healthy * 10, false))
    };
    let usual = failures(2_000);
    [2_100, 5_000, 100_000].into_iter().all(|healthy| failures(healthy) == usual)
}

/// C8, and G10 of windows: enough failures within a quarter of the window open it, wherever they begin.
fn no_burst_hides<T: Opens>(new: impl Fn() -> T) -> bool {
    (0..2 * WINDOW).step_by(97).all(|from| {
        let mut breaker = new();
        let step = WINDOW / 4 / LEAST as u64;
        (0..LEAST as u64).any(|i| breaker.record(from + i * step, false))
    })
}

/// C1.
#[test]
fn a_window_that_never_forgets_is_caught() {
    assert!(warm_up_does_not_matter(|| Ours::new(Over::Time)));
    assert!(warm_up_does_not_matter(|| Ours::new(Over::Calls(100))));
    assert!(warm_up_does_not_matter(Naive::default));
    assert!(!warm_up_does_not_matter(Cumulative::default));
}

#[test]
fn a_window_that_is_reset_at_its_boundary_is_caught() {
    for over in [Over::Time, Over::Calls(100), Over::Either(100)] {
        assert!(no_burst_hides(|| Ours::new(over)));
    }
    assert!(no_burst_hides(Naive::default));
    assert!(!no_burst_hides(Tumbling::default));
}

/// C6: probes that are cancelled one after the other never use up half-open.
fn cancelled_probes_come_back(free: impl Fn(&mut Breaker, Time, &Pass)) -> bool {
    let Ours(mut breaker, mut rng) = Ours::new(Over::Time);
    for _ in 0..LEAST {
        let pass = breaker.take(at(0));
        breaker.judge(at(0), &pass, Some(false), &mut rng);
    }
    (0..100).all(|_| {
        let may = breaker.check(at(500), true, &mut rng).is_ok();
        let pass = breaker.take(at(500));
        free(&mut breaker, at(500), &pass);
        may && breaker.state(at(500)) == State::HalfOpen
    })
}

/// C6.
#[test]
fn a_leaked_half_open_permit_is_caught() {
    assert!(cancelled_probes_come_back(|breaker, now, pass| breaker.free(now, pass)));
    let ignored = |breaker: &mut Breaker, now, pass: &Pass| {
        breaker.judge(now, pass, None, &mut Rng::new(1));
    };
    assert!(cancelled_probes_come_back(ignored));
    assert!(!cancelled_probes_come_back(|_, _, _| {}));
}
