use super::*;
use crate::{
    budget::tokens,
    in_flight::Limit,
    spec::{PolicySpec, UpstreamSpec},
};

pub(super) fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

pub(super) struct World {
    pub(super) upstream: Upstream,
    pub(super) policy: Policy,
    pub(super) wake: Vec<Wake>,
}

impl World {
    pub(super) fn new(policy: PolicySpec, upstream: UpstreamSpec) -> Self {
        let policy = Policy::new(policy).unwrap();
        let upstream = Upstream::new(upstream, policy.per_try(), 1, Time::ZERO).unwrap();
        Self { upstream, policy, wake: Vec::new() }
    }

    pub(super) fn with_budget(max: u32) -> Self {
        let budget = tokens::Spec { max, ..tokens::Spec::default() }.into();
        // The breaker is not the subject here: it never has enough calls.
        let breaker =
            crate::breaker::Spec { min_calls: u32::MAX, ..crate::breaker::Spec::default() };
        let upstream = UpstreamSpec { budget, breaker, ..UpstreamSpec::library() };
        Self::new(PolicySpec::library(), upstream)
    }

    pub(super) fn call(&self, now: Time) -> Call {
        self.arriving(Arrival { since: now, ..Arrival::new() })
    }

    pub(super) fn arriving(&self, arrival: Arrival) -> Call {
        let mut call = Call::of(arrival);
        call.set_repeatable(true);
        call
    }

    pub(super) fn step(&mut self, call: &mut Call, now: Time, input: Input) -> Step {
        call.step(now, input, &self.policy, &mut self.upstream, &mut self.wake)
    }

    pub(super) fn start(&mut self, now: Time) -> (Call, Send) {
        let mut call = self.call(now);
        let send = sends(self.step(&mut call, now, Input::Start));
        call.sent(send.slot);
        (call, send)
    }

    /// Starts a call whose first attempt fails with this.
    pub(super) fn failed(&mut self, now: Time, failure: Failure) -> (Call, Step) {
        let (mut call, send) = self.start(now);
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Failed(failure) };
        let step = self.step(&mut call, now, input);
        (call, step)
    }

    pub(super) fn tokens(&mut self, now: Time) -> u32 {
        let max = 100.0;
        (self.upstream.snapshot(now).budget * max).round() as u32
    }
}

pub(super) fn sends(step: Step) -> Send {
    match step {
        Step::Send(send) => send,
        other => panic!("expected a send, got {other:?}"),
    }
}

pub(super) fn sleeps(step: Step) -> Time {
    match step {
        Step::Sleep { until } => until,
        other => panic!("expected a sleep, got {other:?}"),
    }
}

pub(super) fn finishes(step: Step) -> (Answer, Option<Reason>) {
    match step {
        Step::Finish(finish) => (finish.answer, finish.reason),
        other => panic!("expected the end, got {other:?}"),
    }
}

pub(super) const BROKEN: Failure = Failure::of(Fault::Server).with_code(500);
const FAILED: Outcome = Outcome::Failed(BROKEN);
const LATER: Outcome = Outcome::Defer { after: Duration::from_secs(1) };

/// What the upstream says to one caller stops that one; what it says of time holds for all.
#[test]
fn an_upstream_that_says_not_to_retry_is_obeyed_and_its_hint_still_holds_back_the_others() {
    let mut world = World::new(PolicySpec::library(), UpstreamSpec::library());
    let hint = Duration::from_secs(5);
    let (_, step) = world.failed(Time::ZERO, BROKEN.with_hint(hint).forbidden());
    assert_eq!(finishes(step), (Answer::This, Some(Reason::ToldNotTo)));
    assert_eq!(world.tokens(Time::ZERO), 100);
    let (_, step) = world.failed(Time::ZERO, BROKEN);
    assert!(sleeps(step) >= Time::ZERO + hint);
}

#[test]
fn attempts_count_the_first_try() {
    let mut world = World::with_budget(100);
    let (mut call, mut step) = world.failed(at(0), BROKEN);
    for attempt in 2..=3 {
        let until = sleeps(step);
        let send = sends(world.step(&mut call, until, Input::Woke));
        assert_eq!(send.attempt, attempt);
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Failed(BROKEN) };
        step = world.step(&mut call, until, input);
    }
    assert_eq!(finishes(step), (Answer::This, Some(Reason::AttemptsSpent)));
    assert_eq!(call.attempts(), 3);
}

/// G5: the budget is asked at the decision, not after the sleep.
#[test]
fn of_a_thousand_simultaneous_failures_only_the_budget_retries() {
    let mut world = World::with_budget(200);
    let steps: Vec<_> = (0..1_000).map(|_| world.failed(at(0), BROKEN)).collect();
    let retries = steps.iter().filter(|(_, step)| matches!(step, Step::Sleep { .. })).count();
    assert_eq!(retries, 200);
    for (_, step) in steps.into_iter().skip(200) {
        assert_eq!(finishes(step), (Answer::This, Some(Reason::BudgetEmpty)));
    }
}

/// G6, first half: dropped in its sleep, it was never sent.
#[test]
fn a_retry_that_was_paid_for_and_never_sent_is_refunded() {
    let mut world = World::with_budget(100);
    let (mut call, step) = world.failed(at(0), BROKEN);
    sleeps(step);
    assert_eq!(world.tokens(at(0)), 99);
    call.abandon(at(1), &mut world.upstream, &mut world.wake);
    assert_eq!(world.tokens(at(1)), 100);
    call.abandon(at(2), &mut world.upstream, &mut world.wake);
    assert_eq!(world.tokens(at(2)), 100, "once");
}

/// G6: admitted but dropped before the first byte went out.
#[test]
fn a_retry_dropped_before_its_first_byte_is_refunded_and_leaves_no_ghost() {
    let mut world = World::with_budget(100);
    let (mut call, step) = world.failed(at(0), BROKEN);
    let until = sleeps(step);
    sends(world.step(&mut call, until, Input::Woke));
    call.abandon(until, &mut world.upstream, &mut world.wake);
    assert_eq!(world.tokens(until), 100);
    let snapshot = world.upstream.snapshot(until);
    assert_eq!((snapshot.in_flight, snapshot.ghosts), (0, 0));
}

/// G6, second half.
#[test]
fn a_retry_that_was_sent_and_then_dropped_stays_paid_and_leaves_one_ghost() {
    let mut world = World::with_budget(100);
    let (mut call, step) = world.failed(at(0), BROKEN);
    let until = sleeps(step);
    let send = sends(world.step(&mut call, until, Input::Woke));
    call.sent(send.slot);
    call.abandon(until, &mut world.upstream, &mut world.wake);
    assert_eq!(world.tokens(until), 99);
    let snapshot = world.upstream.snapshot(until);
    assert_eq!((snapshot.in_flight, snapshot.ghosts), (0, 1));
}

/// X2.
#[test]
fn a_backoff_sleep_holds_no_slot_and_no_budget_beyond_its_own_token() {
    let spec = UpstreamSpec { in_flight: Limit::Fixed(1), queue: 0, ..UpstreamSpec::gateway() };
    let mut world = World::new(PolicySpec::library(), spec);
    let (_asleep, step) = world.failed(at(0), BROKEN);
    sleeps(step);
    assert_eq!(world.upstream.snapshot(at(0)).in_flight, 0);
    assert_eq!(world.tokens(at(0)), 99);
    let (mut other, send) = world.start(at(0));
    let input = Input::Ended { slot: send.slot, outcome: Outcome::Success };
    assert_eq!(finishes(world.step(&mut other, at(0), input)), (Answer::This, None));
}

/// X7.
#[test]
fn a_retry_refused_at_admit_returns_the_earlier_reply_and_its_token() {
    let spec = UpstreamSpec { in_flight: Limit::Fixed(1), queue: 0, ..UpstreamSpec::gateway() };
    let mut world = World::new(PolicySpec::library(), spec);
    let (mut call, step) = world.failed(at(0), BROKEN);
    let until = sleeps(step);
    let (_holder, _) = world.start(until);
    let step = world.step(&mut call, until, Input::Woke);
    assert_eq!(finishes(step), (Answer::Kept, Some(Reason::InFlightFull)));
    assert_eq!(world.tokens(until), 100);
}

#[test]
fn a_later_attempt_without_a_reply_returns_the_kept_one() {
    let mut world = World::with_budget(100);
    let (mut call, step) = world.failed(at(0), BROKEN);
    let until = sleeps(step);
    let send = sends(world.step(&mut call, until, Input::Woke));
    call.set_repeatable(false);
    let broken_pipe = Failure::of(Fault::Server);
    let input = Input::Ended { slot: send.slot, outcome: Outcome::Failed(broken_pipe) };
    let step = world.step(&mut call, until, input);
    assert_eq!(finishes(step), (Answer::Kept, Some(Reason::NotSafe)));
}

#[test]
fn what_may_have_been_acted_on_is_repeated_only_if_that_is_safe() {
    let mut world = World::with_budget(100);
    for (failure, expected) in
        [(BROKEN, Some(Reason::NotSafe)), (Failure::of(Fault::Connect), None)]
    {
        let (mut call, send) = world.start(at(0));
        call.set_repeatable(false);
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Failed(failure) };
        let step = world.step(&mut call, at(0), input);
        match expected {
            Some(reason) => assert_eq!(finishes(step).1, Some(reason)),
            None => drop(sleeps(step)),
        }
    }
}

/// H10 is the sender's to say: a body of which nothing was taken is replayable. One that is gone is gone, sent or not.
#[test]
fn a_body_that_cannot_be_replayed_stops_every_retry() {
    let mut world = World::with_budget(100);
    for failure in [BROKEN, Failure::of(Fault::Connect)] {
        let (mut call, send) = world.start(at(0));
        call.set_replayable(false);
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Failed(failure) };
        let step = world.step(&mut call, at(0), input);
        assert_eq!(finishes(step).1, Some(Reason::NotReplayable));
    }
}

/// T3.
#[test]
fn the_time_that_remains_is_computed_after_the_sleep() {
    let policy = PolicySpec {
        timeout: Duration::from_secs(4),
        per_try_timeout: Some(Duration::from_secs(3)),
        ..PolicySpec::library()
    };
    let mut world = World::new(policy, UpstreamSpec::library());
    let (mut call, step) = world.failed(at(0), BROKEN);
    sleeps(step);
    let overslept = at(2_500);
    let send = sends(world.step(&mut call, overslept, Input::Woke));
    assert_eq!(send.timeout_at, at(4_000), "what is left of the call, not a whole attempt");
}

#[test]
fn a_retry_that_cannot_finish_in_time_is_not_made() {
    let mut world = World::with_budget(100);
    for i in 0..64 {
        let (mut call, send) = world.start(at(i * 1_000));
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Success };
        let _ = world.step(&mut call, at(i * 1_000 + 500), input);
    }
    let start = at(100_000);
    let deadline = start + Duration::from_millis(400);
    let mut call = world.arriving(Arrival { since: start, deadline, ..Arrival::new() });
    let send = sends(world.step(&mut call, start, Input::Start));
    call.sent(send.slot);
    let input = Input::Ended { slot: send.slot, outcome: Outcome::Failed(BROKEN) };
    let step = world.step(&mut call, start, input);
    assert_eq!(finishes(step), (Answer::This, Some(Reason::Deadline)));
    assert_eq!(world.tokens(start), 100, "nothing was paid");
}

#[test]
fn no_retry_fires_before_the_hint_and_one_beyond_the_cap_ends_the_call() {
    let mut world = World::with_budget(100);
    let hint = |seconds| BROKEN.with_hint(Duration::from_secs(seconds));
    let (_call, step) = world.failed(at(0), hint(2));
    assert!(sleeps(step) > at(2_000));
    for too_long in [31, u64::MAX] {
        let (_call, step) = world.failed(at(0), hint(too_long));
        assert_eq!(finishes(step), (Answer::This, Some(Reason::HintTooLong)));
    }
}

#[test]
fn an_open_breaker_stops_retries_at_once() {
    let mut world = World::new(PolicySpec::library(), UpstreamSpec::library());
    let steps: Vec<_> = (0..20).map(|_| world.failed(at(0), BROKEN).1).collect();
    let last = steps.into_iter().next_back().unwrap();
    assert_eq!(finishes(last), (Answer::This, Some(Reason::BreakerOpen)));
}

#[test]
fn a_timeout_leaves_a_ghost_and_counts_against_the_upstream() {
    let mut world = World::with_budget(100);
    let (mut call, send) = world.start(at(0));
    let step = world.step(&mut call, send.timeout_at, Input::TimedOut { slot: send.slot });
    sleeps(step);
    assert_eq!(world.upstream.snapshot(send.timeout_at).ghosts, 1);
}

#[test]
fn a_defer_comes_back_when_asked_and_burns_no_attempt() {
    let mut world = World::with_budget(100);
    let (mut call, send) = world.start(at(0));
    let step = world.step(&mut call, at(0), Input::Ended { slot: send.slot, outcome: LATER });
    let until = sleeps(step);
    assert!(until >= at(1_000));
    let send = sends(world.step(&mut call, until, Input::Woke));
    assert_eq!(send.attempt, 2, "the second send");
    // The policy's three are all still to come, this one included.
    let mut step = world.step(&mut call, until, Input::Ended { slot: send.slot, outcome: FAILED });
    for attempt in [3, 4] {
        let until = sleeps(step);
        let send = sends(world.step(&mut call, until, Input::Woke));
        assert_eq!(send.attempt, attempt);
        step = world.step(&mut call, until, Input::Ended { slot: send.slot, outcome: FAILED });
    }
    let Step::Finish(finish) = step else { panic!("{step:?}") };
    assert_eq!((finish.reason, finish.attempts), (Some(Reason::AttemptsSpent), 4));
}

#[test]
fn what_was_deferred_is_sent_again_even_if_it_may_not_be_repeated_but_not_without_its_body() {
    let mut world = World::with_budget(100);
    for (replayable, expected) in [(true, None), (false, Some(Reason::NotReplayable))] {
        let (mut call, send) = world.start(at(0));
        call.set_repeatable(false);
        call.set_replayable(replayable);
        let input = Input::Ended { slot: send.slot, outcome: LATER };
        let step = world.step(&mut call, at(0), input);
        let Some(reason) = expected else {
            let until = sleeps(step);
            let send = sends(world.step(&mut call, until, Input::Woke));
            call.sent(send.slot);
            let input = Input::Ended { slot: send.slot, outcome: FAILED };
            let step = world.step(&mut call, until, input);
            assert_eq!(finishes(step).1, Some(Reason::NotSafe), "that one may have been acted on");
            continue;
        };
        let Step::Finish(finish) = step else { panic!("{step:?}") };
        assert_eq!((finish.reason, finish.attempts), (Some(reason), 1), "it was sent once");
    }
}

#[test]
fn what_follows_a_deferred_attempt_is_no_first_attempt_to_any_gate() {
    let mut world = World::with_budget(100);
    let (mut call, send) = world.start(at(0));
    let step = world.step(&mut call, at(0), Input::Ended { slot: send.slot, outcome: LATER });
    let until = sleeps(step);
    assert_eq!(world.tokens(at(0)), 99, "paid for");
    let (_, _held_back) = world.failed(until, BROKEN.with_hint(Duration::from_secs(60)));
    let step = world.step(&mut call, until, Input::Woke);
    let Step::Finish(finish) = step else { panic!("{step:?}") };
    assert_eq!((finish.reason, finish.attempts), (Some(Reason::NotBefore), 1));
    assert_eq!(world.tokens(at(0)), 100, "never sent");
}

/// B6: nobody is put off for ever, however the handler answers and however many attempts it may have.
#[test]
fn a_call_is_deferred_until_its_deadline_and_no_longer() {
    let spec = UpstreamSpec { budget: crate::budget::Spec::Unlimited, ..UpstreamSpec::library() };
    let mut world = World::new(PolicySpec { attempts: 1, ..PolicySpec::library() }, spec);
    let (mut call, mut send) = world.start(at(0));
    let mut now = at(0);
    let reason = loop {
        let input = Input::Ended { slot: send.slot, outcome: LATER };
        match world.step(&mut call, now, input) {
            Step::Sleep { until } => {
                now = until;
                send = sends(world.step(&mut call, now, Input::Woke));
                call.sent(send.slot);
            }
            Step::Finish(finish) => break finish.reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(reason, Some(Reason::HintTooLong | Reason::Deadline)), "{reason:?}");
    assert!(now < call.deadline());
    assert!((20..=31).contains(&call.attempts()), "{} in 30 s", call.attempts());
    (call.attempts, call.deferred) = (u32::MAX, u32::MAX);
    let failure = Failure::of(Fault::Overload);
    let step = call.after(at(0), failure, true, &world.policy, &mut world.upstream);
    assert_eq!(finishes(step).1, Some(Reason::AttemptsSpent), "there is no number left");
}

/// B5: decorrelated jitter can only grow if the call remembers the wait before.
#[test]
fn every_wait_of_a_call_is_drawn_from_the_one_before() {
    let mut world = World::with_budget(100_000);
    let jitter = crate::backoff::Jitter::Decorrelated;
    let backoff = crate::backoff::Spec { jitter, ..crate::backoff::Spec::default() };
    let timeout = Duration::from_secs(3_600);
    let spec = PolicySpec { attempts: 5, timeout, backoff, ..PolicySpec::library() };
    world.policy = Policy::new(spec).unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..200 {
        let (mut now, mut before) = (Time::ZERO, backoff.base);
        let (mut call, mut step) = world.failed(now, Failure::of(Fault::Server));
        for _ in 2..spec.attempts {
            let until = sleeps(step);
            let wait = until.since(now);
            assert!((backoff.base..=3 * before).contains(&wait), "{wait:?} after {before:?}");
            (now, before, longest) = (until, wait, longest.max(wait));
            let send = sends(world.step(&mut call, now, Input::Woke));
            call.sent(send.slot);
            let outcome = Outcome::Failed(Failure::of(Fault::Server));
            step = world.step(&mut call, now, Input::Ended { slot: send.slot, outcome });
        }
        call.abandon(now, &mut world.upstream, &mut world.wake);
    }
    assert!(longest > 9 * backoff.base, "{longest:?}");
}

#[test]
fn chain_credit_stops_retries_before_the_budget_is_asked() {
    use crate::credit::{Credit, Received, Retries, Role, Sends};
    let mut world = World::with_budget(100);
    let none_left = Some(Received::stranger(Retries::new(0)));
    for (received, below, reason) in [
        (none_left, 1, Reason::Interior),
        (None, 3, Reason::CreditSpent), // both retries were made further down
    ] {
        let credit = Some(Credit::new(Role::Auto, 3, received));
        let mut call = world.arriving(Arrival { since: at(0), credit, ..Arrival::new() });
        let send = sends(world.step(&mut call, at(0), Input::Start));
        call.sent(send.slot);
        call.debit(send.slot, Sends::new(below), Retries::new(0));
        let outcome = Outcome::Failed(BROKEN);
        let step = world.step(&mut call, at(0), Input::Ended { slot: send.slot, outcome });
        assert_eq!(finishes(step), (Answer::This, Some(reason)));
        assert_eq!(world.tokens(at(0)), 100, "nothing was paid");
    }
}

/// B6: the counters of a call and of its waits hold to the last number there is.
#[test]
fn two_to_the_thirty_second_attempts_overflow_nothing() {
    let policy = PolicySpec { attempts: u32::MAX, ..PolicySpec::library() };
    let spec = UpstreamSpec { budget: crate::budget::Spec::Unlimited, ..UpstreamSpec::library() };
    let mut world = World::new(policy, spec);
    let mut call = world.call(at(0));
    call.attempts = u32::MAX - 2;
    let mut step = world.step(&mut call, at(0), Input::Start);
    for attempt in [u32::MAX - 1, u32::MAX] {
        let send = sends(step);
        assert_eq!(send.attempt, attempt);
        call.sent(send.slot);
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Failed(BROKEN) };
        step = world.step(&mut call, at(0), input);
        if attempt < u32::MAX {
            let until = sleeps(step);
            step = world.step(&mut call, until, Input::Woke);
        }
    }
    assert_eq!(finishes(step), (Answer::This, Some(Reason::AttemptsSpent)));
    assert_eq!(call.attempts(), u32::MAX);
}

#[test]
fn a_call_says_when_it_is_over() {
    let mut world = World::with_budget(100);
    assert_eq!(world.call(at(7)).deadline(), Time::MAX, "it has not begun");
    let (call, _) = world.start(at(7));
    assert_eq!(call.deadline(), at(7) + world.policy.timeout());
}

#[test]
fn the_first_wait_may_depend_on_what_went_wrong() {
    let bases = crate::spec::Bases {
        overload: Some(Duration::from_secs(3)),
        connect: Some(Duration::from_millis(1)),
        ..Default::default()
    };
    let none = crate::backoff::Jitter::None;
    let backoff = crate::backoff::Spec { jitter: none, ..Default::default() };
    let policy = PolicySpec { bases, backoff, ..PolicySpec::library() };
    let mut world = World::new(policy, UpstreamSpec::library());
    for (fault, wait) in
        [(Fault::Overload, 3_000), (Fault::Connect, 1), (Fault::Server, 100), (Fault::Timeout, 100)]
    {
        let (_, step) = world.failed(at(0), Failure::of(fault));
        assert_eq!(sleeps(step), at(wait), "{fault:?}");
    }
    let nothing = crate::spec::Bases { server: Some(Duration::ZERO), ..Default::default() };
    let message = Policy::new(PolicySpec { bases: nothing, ..policy }).unwrap_err().to_string();
    assert!(message.starts_with("backoff.base is 0s"), "{message}");
}

#[test]
fn what_an_attempt_hands_on_is_the_chains_and_nothing_without_one() {
    let mut world = World::with_budget(100);
    let (call, send) = world.start(at(0));
    assert_eq!(call.handed_on(send.slot), None);
    let mut arrival = Arrival { since: at(0), ..Arrival::new() };
    arrival.joins_chain(crate::credit::Role::Edge, 3, None);
    let mut call = world.arriving(arrival);
    let send = sends(world.step(&mut call, at(0), Input::Start));
    assert_eq!(call.handed_on(send.slot), Some(Retries::new(2)));
}
