use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{
    Failure, Rng,
    budget::{self, tokens},
    ladder,
};

const FAILED: Outcome = Outcome::Failed(Failure::of(Fault::Server));
const FATAL: Outcome = Outcome::Failed(Failure::of(Fault::Fatal));

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn stamp(ms: u64) -> Stamp {
    Stamp::from_millis(ms)
}

/// An intake, its records, and the chance it needs.
struct Consumer {
    intake: Intake,
    backlog: Backlog<u32>,
    ladder: Ladder,
    rng: Rng,
    closed: bool,
}

impl Consumer {
    /// With so many retries to spend, and tiers of 1 s and 10 s.
    fn new(tokens: u32) -> Self {
        let spec = tokens::Spec { max: 10, start: Some(tokens), ..tokens::Spec::default() };
        Self::with(spec)
    }

    fn with(spec: impl Into<budget::Spec>) -> Self {
        let tiers = ladder::Spec::Tiers([1, 10].map(Duration::from_secs).to_vec());
        Self {
            intake: Intake::new(Budget::new(spec, at(0)).unwrap()),
            backlog: Backlog::new(),
            ladder: Ladder::new(&tiers).unwrap(),
            rng: Rng::new(1),
            closed: true,
        }
    }

    /// With cohorts, and on guard against more than three dead letters.
    fn careful(mut self) -> Self {
        let cohorts = Cohorts::new(cohorts::Spec::default()).unwrap();
        let spec = flood::Spec { max: 3, ..flood::Spec::default() };
        let guard = FloodGuard::new(spec, at(0)).unwrap();
        self.intake = self.intake.with_cohorts(cohorts).with_flood_guard(guard);
        self
    }

    fn arrive(&mut self, whats: impl IntoIterator<Item = u32>) {
        whats.into_iter().for_each(|what| self.backlog.arrives(Record::new(what)));
    }

    /// Records that failed before and are due.
    fn due(&mut self, whats: impl IntoIterator<Item = u32>) {
        whats.into_iter().for_each(|what| self.backlog.waits(Record::new(what)));
        while self.backlog.ripen(Stamp::ZERO).is_some() {}
    }

    fn take(&mut self, ms: u64) -> Take<u32> {
        self.intake.take(at(ms), &mut self.backlog, || self.closed, &mut self.rng)
    }

    fn taken(&mut self, ms: u64) -> Option<Taken<u32>> {
        match self.take(ms) {
            Take::Record(taken) => Some(taken),
            _ => None,
        }
    }

    /// What is taken, one after the other, until there is nothing more.
    fn drain(&mut self, ms: u64) -> Vec<u32> {
        let mut whats = Vec::new();
        while let Some(taken) = self.taken(ms) {
            whats.push(taken.record().what);
        }
        whats
    }

    fn settle(&mut self, ms: u64, taken: Taken<u32>, outcome: &Outcome) -> Settled<u32> {
        self.intake.settle(at(ms), stamp(ms), taken, outcome, &self.ladder)
    }

    fn tokens(&self, ms: u64) -> f64 {
        self.intake.budget().level(at(ms))
    }
}

#[test]
fn due_records_go_first_and_pay_and_new_ones_never_do() {
    let mut consumer = Consumer::new(10);
    consumer.arrive([1, 2]);
    consumer.due([3, 4]);
    assert_eq!(consumer.drain(0), [3, 4, 1, 2]);
    assert_eq!(consumer.tokens(0), 8.0);
}

#[test]
fn while_the_budget_is_empty_due_records_wait_and_new_ones_go_on() {
    let mut consumer = Consumer::new(1);
    consumer.arrive([1, 2]);
    consumer.due([3, 4]);
    assert_eq!(consumer.drain(0), [3, 1, 2]);
    assert_eq!(consumer.backlog.due(), 1);
    let snapshot = consumer.intake.budget().snapshot(at(0));
    assert_eq!(snapshot.denied, 0, "a budget that is empty is looked at and not asked");
}

#[test]
fn probes_are_new_records_as_long_as_there_are_any() {
    let mut consumer = Consumer { closed: false, ..Consumer::new(10) };
    consumer.arrive([1, 2]);
    consumer.due([3]);
    assert_eq!(consumer.drain(0), [1, 2, 3]);
}

#[test]
fn the_breaker_is_asked_only_where_it_matters() {
    let ask = || panic!("asked");
    let mut consumer = Consumer::new(10);
    consumer.arrive([1]);
    let taken = consumer.intake.take(at(0), &mut consumer.backlog, ask, &mut consumer.rng);
    assert!(matches!(taken, Take::Record(_)), "there is nothing due");
    consumer.due([2]);
    let taken = consumer.intake.take(at(0), &mut consumer.backlog, ask, &mut consumer.rng);
    assert!(matches!(taken, Take::Record(_)), "there is nothing new");
}

#[test]
fn a_record_that_was_refused_is_the_next_again_costs_nothing_and_pauses_the_intake() {
    let mut consumer = Consumer::new(1);
    consumer.due([1, 2]);
    let taken = consumer.taken(0).unwrap();
    assert_eq!(consumer.tokens(0), 0.0);
    let until = consumer.intake.refused(at(0), taken, &mut consumer.backlog, at(500));
    assert_eq!((until, consumer.tokens(0)), (Some(at(500)), 1.0));
    assert!(
        matches!(consumer.take(499), Take::Paused { until, why: Pause::Upstream } if until == at(500))
    );
    assert_eq!(consumer.drain(500), [1]);
}

#[test]
fn a_shorter_pause_does_not_end_a_longer_one_and_none_is_nothing() {
    let mut consumer = Consumer::new(1);
    consumer.arrive([1, 2, 3]);
    let [one, two, three] = [(); 3].map(|()| consumer.taken(0).unwrap());
    let mut refused = |taken, now, until| {
        consumer.intake.refused(at(now), taken, &mut consumer.backlog, at(until))
    };
    assert_eq!(refused(three, 10, 0), Some(at(11)), "asking again at once helps nobody");
    assert_eq!(refused(two, 10, 500), Some(at(500)));
    assert_eq!(refused(one, 10, 400), None);
    assert!(consumer.intake.is_paused(at(499)) && !consumer.intake.is_paused(at(500)));
    assert_eq!(consumer.drain(500), [1, 2, 3], "in the order they came");
}

#[test]
fn a_success_earns_a_failure_climbs_the_ladder_and_a_fatal_one_dies() {
    let mut consumer = Consumer::new(0);
    consumer.arrive([1, 2, 3]);
    let [one, two, three] = [(); 3].map(|()| consumer.taken(0).unwrap());
    assert_eq!(consumer.settle(5, one, &Outcome::Success).next, Next::Ack);
    assert_eq!(consumer.tokens(5), 0.1);
    let Settled { record, next, .. } = consumer.settle(5, two, &FAILED);
    assert_eq!(next, Next::Retry { tier: 0, due: stamp(1_005) });
    assert_eq!((record.what, record.state.attempt(), record.state.due), (2, 2, stamp(1_005)));
    assert!(matches!(consumer.settle(5, three, &FATAL).next, Next::Dead { .. }));
    let snapshot = consumer.intake.budget().snapshot(at(5));
    assert_eq!((snapshot.successes, snapshot.failures, snapshot.asked), (1, 1, 0));
}

#[test]
fn where_only_failed_retries_cost_a_due_record_that_succeeds_gets_its_price_back() {
    let bucket = budget::Bucket::full(1, 0.0);
    let mut consumer = Consumer::with(budget::failed_retry::Spec { bucket });
    consumer.due([1, 2]);
    let taken = consumer.taken(0).unwrap();
    assert!(consumer.taken(0).is_none());
    let _ = consumer.settle(0, taken, &Outcome::Success);
    let taken = consumer.taken(0).unwrap();
    let _ = consumer.settle(0, taken, &FAILED);
    assert_eq!(consumer.tokens(0), 0.0);
}

#[test]
fn records_that_wait_come_in_the_order_they_are_due_and_none_is_early() {
    let mut backlog = Backlog::new();
    for (what, due) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
        backlog.waits(Record::new(what).due(stamp(due)));
    }
    let mut ripe = |now| -> Vec<u32> {
        core::iter::from_fn(|| backlog.ripen(stamp(now)).map(|record| record.what)).collect()
    };
    assert_eq!(ripe(9), []);
    assert_eq!(ripe(20), [2, 4, 3]);
    assert_eq!(ripe(29), []);
    assert_eq!(backlog.next_due(), Some(stamp(30)));
}

#[test]
fn what_went_to_another_consumer_is_gone_from_every_line_and_costs_nothing() {
    let mut consumer = Consumer { closed: false, ..Consumer::new(1).careful() };
    consumer.arrive([1, 2]);
    consumer.due([3, 4]);
    consumer.backlog.waits(Record::new(5).due(stamp(1)));
    consumer.backlog.waits(Record::new(6).due(stamp(1)));
    let one = consumer.taken(0).unwrap();
    assert_eq!(consumer.intake.give_up(at(0), one).what, 1);
    consumer.backlog.retain(|record| record.what % 2 == 0);
    let left = [consumer.backlog.new_ones(), consumer.backlog.due(), consumer.backlog.waiting()];
    assert_eq!(left, [1, 1, 1]);
    let [two, four] = [(); 2].map(|()| consumer.taken(0).unwrap());
    assert_eq!((two.record().what, four.record().what, consumer.tokens(0)), (2, 4, 0.0));
    let _ = consumer.intake.give_up(at(0), four);
    assert_eq!(consumer.tokens(0), 1.0);
}

#[test]
fn while_the_breaker_is_not_closed_only_canaries_are_out_and_they_are_the_oldest() {
    let mut consumer = Consumer { closed: false, ..Consumer::new(10).careful() };
    consumer.arrive(0..50);
    let [one, two] = [(); 2].map(|()| consumer.taken(0).unwrap());
    assert_eq!((one.record().what, two.record().what), (0, 1));
    assert!(matches!(consumer.take(0), Take::Nothing));
    let _ = consumer.settle(0, one, &Outcome::Success);
    assert_eq!(consumer.drain(0), [2]);
    consumer.intake.put_back(at(0), two, &mut consumer.backlog);
    assert_eq!(consumer.drain(0), [1], "as if it had never been taken");
}

#[test]
fn after_the_breaker_closed_a_cohort_is_served_before_the_next_one_begins() {
    let mut consumer = Consumer { closed: false, ..Consumer::new(10).careful() };
    consumer.arrive(0..50);
    let canaries = [(); 2].map(|()| consumer.taken(0).unwrap());
    consumer.closed = true;
    let first = [(); 4].map(|()| consumer.taken(0).unwrap());
    assert!(matches!(consumer.take(0), Take::Nothing));
    for taken in canaries.into_iter().chain(first) {
        let _ = consumer.settle(0, taken, &Outcome::Success);
    }
    let Take::Paused { until, why: Pause::Cohort } = consumer.take(0) else { panic!() };
    assert!(until >= at(500) && !consumer.intake.is_paused(at(0)));
    assert_eq!(consumer.drain(1_500).len(), 8);
}

#[test]
fn too_many_dead_letters_pause_the_intake_and_operators_are_told_once() {
    let mut consumer = Consumer::new(10).careful();
    consumer.arrive(0..50);
    let mut told = 0;
    while let Some(taken) = consumer.taken(0) {
        let settled = consumer.settle(0, taken, &FATAL);
        assert!(matches!(settled.next, Next::Dead { .. }), "it is written all the same");
        told += u32::from(settled.floods);
    }
    assert_eq!((told, consumer.backlog.new_ones()), (1, 50 - 4), "three may die, and one shows it");
    assert_eq!(consumer.intake.pause(at(0)), Some((at(60_000), Pause::DeadLetters)));
    consumer.intake.resume(at(10));
    assert!(consumer.taken(10).is_some());
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Arrive,
    Take,
    /// For so many milliseconds.
    Refuse(usize, u64),
    Drop(usize),
    /// To another consumer, and back from there as a new one.
    GiveUp(usize),
    Settle(usize, Outcome),
    Wait(u64),
    Breaker(bool),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Success),
        3 => Just(FAILED),
        1 => Just(FATAL),
        1 => (0..5u64).prop_map(|s| Outcome::Defer { after: Duration::from_secs(s) }),
        1 => Just(Outcome::Abandoned),
    ];
    let act = prop_oneof![
        4 => Just(Act::Arrive),
        6 => Just(Act::Take),
        1 => (any::<usize>(), 0..3_000u64).prop_map(|(i, ms)| Act::Refuse(i, ms)),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => any::<usize>().prop_map(Act::GiveUp),
        4 => (any::<usize>(), outcome).prop_map(|(i, outcome)| Act::Settle(i, outcome)),
        3 => (0..4_000u64).prop_map(Act::Wait),
        1 => any::<bool>().prop_map(Act::Breaker),
    ];
    prop::collection::vec(act, 1..150)
}

/// What must be true of a course of events, told from outside.
#[derive(Default)]
struct Books {
    written: u32,
    /// By when each that waits or is due was due.
    due: BTreeMap<u32, Stamp>,
    fresh: BTreeSet<u32>,
    /// In hand: whether it paid, and when it was due.
    open: Vec<(Taken<u32>, Option<Stamp>)>,
    finished: BTreeSet<u32>,
    paid: u64,
    refunded: u64,
}

impl Books {
    fn takes(&mut self, now: u64, taken: Taken<u32>) {
        let what = taken.record().what;
        let due = self.due.remove(&what);
        if taken.is_retry() {
            self.paid += 1;
            assert!(due.unwrap() <= stamp(now), "{what} is early");
        } else {
            assert!(self.fresh.remove(&what), "{what} is not new, and did not pay");
        }
        self.open.push((taken, due));
    }

    fn goes_back(&mut self, taken: &Taken<u32>, due: Option<Stamp>) {
        let what = taken.record().what;
        match due {
            Some(due) => {
                self.refunded += 1;
                assert!(self.due.insert(what, due).is_none());
            }
            None => assert!(self.fresh.insert(what)),
        }
    }

    fn open(&mut self, i: usize) -> Option<(Taken<u32>, Option<Stamp>)> {
        (!self.open.is_empty()).then(|| self.open.swap_remove(i % self.open.len()))
    }
}

fn run(consumer: &mut Consumer, acts: &[Act]) {
    let is_careful = consumer.intake.cohorts.is_some();
    let (mut books, mut now, mut paused_until) = (Books::default(), 0, 0);
    for act in acts {
        match *act {
            Act::Arrive => {
                consumer.arrive([books.written]);
                books.fresh.insert(books.written);
                books.written += 1;
            }
            Act::Take => {
                while consumer.backlog.ripen(stamp(now)).is_some() {}
                let level = consumer.tokens(now);
                match consumer.take(now) {
                    Take::Record(taken) => {
                        assert!(now >= paused_until, "handed out in a pause");
                        books.takes(now, taken);
                    }
                    Take::Paused { until, why: Pause::Upstream } => {
                        assert_eq!((until, now < paused_until), (at(paused_until), true));
                    }
                    Take::Paused { until, .. } => assert!(is_careful && until > at(now)),
                    Take::Nothing => {
                        let poor = consumer.backlog.due() == 0 || level < 1.0;
                        assert!(is_careful || books.fresh.is_empty() && poor);
                    }
                }
            }
            Act::Refuse(i, ms) => {
                let Some((taken, due)) = books.open(i) else { continue };
                books.goes_back(&taken, due);
                let until =
                    consumer.intake.refused(at(now), taken, &mut consumer.backlog, at(now + ms));
                let longer = now + ms.max(1);
                assert_eq!(until, (longer > paused_until).then(|| at(longer)));
                paused_until = paused_until.max(longer);
            }
            Act::Drop(i) => {
                let Some((taken, due)) = books.open(i) else { continue };
                books.goes_back(&taken, due);
                consumer.intake.put_back(at(now), taken, &mut consumer.backlog);
            }
            Act::GiveUp(i) => {
                let Some((taken, due)) = books.open(i) else { continue };
                books.refunded += u64::from(due.is_some());
                let record = consumer.intake.give_up(at(now), taken);
                assert!(books.fresh.insert(record.what));
                consumer.arrive([record.what]);
            }
            Act::Settle(i, outcome) => {
                let Some((taken, _)) = books.open(i) else { continue };
                let what = taken.record().what;
                let Settled { record, next, .. } = consumer.settle(now, taken, &outcome);
                assert_eq!(record.what, what);
                match next {
                    Next::Ack | Next::Dead { .. } => assert!(books.finished.insert(what)),
                    Next::Retry { due, .. } | Next::Defer { due } => {
                        books.due.insert(what, due);
                        consumer.backlog.waits(record);
                    }
                }
            }
            Act::Wait(ms) => now += ms,
            Act::Breaker(closed) => consumer.closed = closed,
        }
        let backlog = &consumer.backlog;
        assert_eq!(backlog.new_ones(), books.fresh.len());
        assert_eq!(backlog.due() + backlog.waiting(), books.due.len());
        let all = books.fresh.len() + books.due.len() + books.open.len() + books.finished.len();
        assert_eq!(all, books.written as usize, "every record is in one place");
        let budget::Snapshot { allowed, refunded, .. } = consumer.intake.budget().snapshot(at(now));
        assert_eq!((allowed, refunded), (books.paid, books.refunded));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// Nothing is lost or taken twice. A due record is paid for once each time it is taken, and refunded if it is put back; a
    /// new one never pays. Nothing is early, and nothing is handed out in a pause.
    #[test]
    fn no_record_is_lost_early_or_paid_for_twice_whatever_happens(acts in acts(), tokens in 0..=10u32) {
        run(&mut Consumer::new(tokens), &acts);
        run(&mut Consumer::new(tokens).careful(), &acts);
    }
}
