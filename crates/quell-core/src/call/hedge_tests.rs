use super::{
    tests::{BROKEN, World, at, finishes, sends},
    *,
};
use crate::{
    in_flight::Limit,
    spec::{PolicySpec, UpstreamSpec},
};

/// A world in which an attempt usually takes 100 ms and is hedged after the 90th percentile.
fn hedging() -> (World, Time) {
    hedging_at(UpstreamSpec { in_flight: Limit::Fixed(2), queue: 4, ..UpstreamSpec::gateway() })
}

fn hedging_at(spec: UpstreamSpec) -> (World, Time) {
    let hedge = Some(crate::hedge::Hedge::new(0.9, Duration::ZERO).unwrap());
    let mut world = World::new(PolicySpec { hedge, ..PolicySpec::library() }, spec);
    for i in 0..64 {
        let (mut call, send) = world.start(at(i * 200));
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Success };
        let _ = world.step(&mut call, at(i * 200 + 100), input);
    }
    (world, at(20_000))
}

/// Starts a call and its hedge; answers with both attempts and the time.
fn hedged(world: &mut World, now: Time) -> (Call, Send, Send, Time) {
    let (mut call, first) = world.start(now);
    let due = first.hedge_at.unwrap();
    let delay = due.since(now).as_millis();
    assert!((88..=113).contains(&delay), "after the 90th percentile: {delay} ms");
    let second = sends(world.step(&mut call, due, Input::HedgeDue));
    call.sent(second.slot);
    assert_eq!((second.attempt, second.hedge_at), (2, None));
    (call, first, second, due)
}

/// X5: hedges draw on the budget of retries.
#[test]
fn a_hedge_is_paid_from_the_budget_of_retries() {
    let (mut world, now) = hedging();
    let _open = hedged(&mut world, now);
    assert_eq!(world.tokens(now), 99);
}

/// X4: the loser frees once, leaves a ghost and is no failure.
#[test]
fn the_first_success_wins_and_the_loser_becomes_a_ghost_that_judges_nothing() {
    let (mut world, now) = hedging();
    for round in 0..50 {
        let now = now + Duration::from_secs(round);
        let (mut call, _first, second, due) = hedged(&mut world, now);
        let input = Input::Ended { slot: second.slot, outcome: Outcome::Success };
        assert_eq!(finishes(world.step(&mut call, due, input)), (Answer::This, None));
        let snapshot = world.upstream.snapshot(due);
        assert_eq!(snapshot.in_flight, 0);
        assert_eq!(snapshot.breaker, crate::breaker::State::Closed);
        // The loser was sent first, so the winner's answer has swept it away already or will at the next.
        assert!(snapshot.ghosts <= 1);
        call.abandon(due, &mut world.upstream, &mut world.wake);
        assert_eq!(world.upstream.snapshot(due).in_flight, 0);
        for _ in 0..10 {
            let (mut call, send) = world.start(due);
            let input = Input::Ended { slot: send.slot, outcome: Outcome::Success };
            let _ = world.step(&mut call, due + Duration::from_millis(100), input);
        }
    }
}

/// X4: under rules by which one lost hedge would open it, or their share of all calls, and with nothing else to look at.
#[test]
fn no_number_of_lost_hedges_opens_the_breaker() {
    use crate::breaker::{Spec, State};
    for breaker in [Spec::default(), Spec { consecutive: 1, ..Spec::default() }] {
        let (mut world, now) = hedging_at(UpstreamSpec { breaker, ..UpstreamSpec::library() });
        let start = now + breaker.window; // what was served before has fallen off
        for round in 0..25 {
            let now = start + Duration::from_millis(300) * round;
            let (mut call, _loser, winner, due) = hedged(&mut world, now);
            let input = Input::Ended { slot: winner.slot, outcome: Outcome::Success };
            let over = due + Duration::from_millis(100);
            assert_eq!(finishes(world.step(&mut call, over, input)), (Answer::This, None));
            assert_eq!(world.upstream.snapshot(over).breaker, State::Closed, "round {round}");
        }
        assert_eq!(world.upstream.next_event(), None);
    }
}

/// P3.
#[test]
fn a_quick_failure_does_not_beat_the_attempt_that_still_runs() {
    let (mut world, now) = hedging();
    let (mut call, first, second, due) = hedged(&mut world, now);
    let failed = Input::Ended { slot: second.slot, outcome: Outcome::Failed(BROKEN) };
    assert!(matches!(world.step(&mut call, due, failed), Step::Await));
    let input = Input::Ended { slot: first.slot, outcome: Outcome::Success };
    assert_eq!(finishes(world.step(&mut call, due, input)), (Answer::This, None));
}

#[test]
fn a_degraded_upstream_or_an_unsafe_request_is_not_hedged() {
    let (mut world, now) = hedging();
    let (mut call, first) = world.start(now);
    call.set_repeatable(false);
    assert!(matches!(world.step(&mut call, first.hedge_at.unwrap(), Input::HedgeDue), Step::Await));
    call.set_repeatable(true);
    let (mut held, second) = world.start(now); // the last slot
    assert!(matches!(world.step(&mut call, first.hedge_at.unwrap(), Input::HedgeDue), Step::Await));
    assert_eq!(world.upstream.snapshot(now).queued, 0, "a hedge waits in no queue");
    assert_eq!(world.tokens(now), 100, "and gets its token back");
    let over = Input::Ended { slot: second.slot, outcome: Outcome::Success };
    let _ = world.step(&mut held, now, over);
    while world.upstream.pay(now, Fault::Server, Child::NONE).is_ok() {}
    assert!(matches!(world.step(&mut call, first.hedge_at.unwrap(), Input::HedgeDue), Step::Await));
}
