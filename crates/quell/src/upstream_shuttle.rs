//! `upstream.rs` under every schedule that chance can think of.
//!
//! parking_lot's lock cannot be scheduled by shuttle, and a lock behind a trait would make the product generic for
//! the sake of a test. So this module compiles *the same file* a second time with shuttle's lock in place of
//! parking_lot's: no flags, no feature, and what is tested is the text that ships.

use std::{
    pin::pin,
    task::{Context, Waker},
};

use quell_core::{
    Input, Outcome, Policy, Step,
    in_flight::Limit,
    spec::{PolicySpec, UpstreamSpec},
};

use self::upstream::{Borrowed, Guard, Host, Upstream};
use crate::Clock;

mod sync {
    pub(super) use shuttle::sync::MutexGuard;

    /// Shuttle's lock with parking_lot's manners.
    pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[allow(dead_code, unreachable_pub, clippy::duplicate_mod)]
#[path = "upstream.rs"]
mod upstream;

const SCHEDULES: usize = 3_000;

/// One slot and a queue of eight.
fn narrow() -> (Upstream, Policy) {
    let policy = Policy::new(PolicySpec::library()).unwrap();
    let host = Host { clock: Clock::manual(), observer: None, seed: 1 };
    let spec = UpstreamSpec { in_flight: Limit::Fixed(1), queue: 8, ..UpstreamSpec::library() };
    (Upstream::new("narrow", spec, policy.per_try(), host).unwrap(), policy)
}

fn begin((upstream, policy): &(Upstream, Policy)) -> (Guard<Borrowed<'_>>, Step) {
    let mut guard = upstream.begin(policy);
    let step = guard.step(Input::Start);
    (guard, step)
}

/// Waits for its turn however long it takes, and succeeds.
fn patient(narrow: &(Upstream, Policy)) {
    let (mut guard, mut step) = begin(narrow);
    if let Step::Enqueue { .. } = step {
        step = shuttle::future::block_on(guard.queue());
    }
    let Step::Send(send) = step else { panic!("the only slot came free: {step:?}") };
    guard.call().sent(send.slot);
    shuttle::thread::yield_now();
    let ended = Input::Ended { slot: send.slot, outcome: Outcome::Success };
    assert!(matches!(guard.step(ended), Step::Finish(_)));
}

/// Looks at its seat a few times and leaves, whatever it finds.
fn leaver(narrow: &(Upstream, Policy), looks: u32) {
    let (mut guard, step) = begin(narrow);
    if let Step::Enqueue { .. } = step {
        let mut queue = pin!(guard.queue());
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..looks {
            if queue.as_mut().poll(&mut context).is_ready() {
                break;
            }
            shuttle::thread::yield_now();
        }
    }
}

fn check(threads: fn(&(Upstream, Policy)) -> Vec<shuttle::thread::JoinHandle<()>>) {
    let scene = move || {
        let narrow = narrow();
        for thread in threads(&narrow) {
            thread.join().unwrap();
        }
        let end = narrow.0.snapshot();
        assert_eq!((end.in_flight, end.ghosts, end.queued), (0, 0, 0));
        assert!(narrow.0.is_empty(), "an empty queue has empty seats");
    };
    shuttle::check_random(scene, SCHEDULES);
    shuttle::check_pct(scene, SCHEDULES, 3);
}

/// P1, the acquire race.
#[test]
fn a_grant_that_meets_a_leaving_caller_goes_to_the_next_in_line_exactly_once() {
    check(|narrow| {
        let spawn = |work: fn(&(Upstream, Policy))| {
            let narrow = narrow.clone();
            shuttle::thread::spawn(move || work(&narrow))
        };
        vec![spawn(patient), spawn(|n| leaver(n, 0)), spawn(|n| leaver(n, 2)), spawn(patient)]
    });
}

#[test]
fn no_wake_up_is_lost_however_the_threads_interleave() {
    check(|narrow| {
        let spawn = || {
            let narrow = narrow.clone();
            shuttle::thread::spawn(move || patient(&narrow))
        };
        vec![spawn(), spawn(), spawn(), spawn()]
    });
}
