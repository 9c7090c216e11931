use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    Admission, Call, Failure, Fault, Input, Outcome, Policy, Release, Step, Ticket,
    budget::tokens,
    call::{Answer, Send},
    in_flight::Limit,
    mode::{Mode as Obeyed, Modes},
    spec::{PolicySpec, UpstreamSpec},
    upstream::property_tests::{Host, act, pick},
    upstream::tests::{PER_TRY, at},
};

pub(super) const PAY: Option<u64> = Some(1);
const ASK: Option<u64> = Some(2);

fn spec() -> UpstreamSpec {
    UpstreamSpec { in_flight: Limit::Fixed(1), ..UpstreamSpec::gateway() }
}

fn upstream(spec: UpstreamSpec) -> Upstream {
    Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap()
}

/// Budget and nothing else in the way.
pub(super) fn open_handed() -> Upstream {
    let breaker = crate::breaker::Spec { min_calls: u32::MAX, ..Default::default() };
    let budget = tokens::Spec { max: 1_000, ratio: 0.0, refill: None, ..Default::default() };
    upstream(UpstreamSpec { breaker, budget: budget.into(), ..UpstreamSpec::library() })
}

pub(super) fn policy(route: Option<u64>) -> Policy {
    let policy = Policy::new(PolicySpec::library()).unwrap();
    route.map_or(policy, |route| policy.for_route(route))
}

fn queue(upstream: &mut Upstream, route: Option<u64>) -> Ticket {
    let ask = Ask { route, ..Ask::first(at(0)) };
    let Admission::Queued(ticket, _) = upstream.admit(at(0), &ask) else { panic!() };
    ticket
}

pub(super) fn step(
    call: &mut Call,
    now: Time,
    input: Input,
    policy: &Policy,
    upstream: &mut Upstream,
) -> Step {
    call.step(now, input, policy, upstream, &mut Vec::new())
}

pub(super) fn broken(send: &Send) -> Input {
    let outcome = Outcome::Failed(Failure::of(Fault::Server).with_code(500));
    Input::Ended { slot: send.slot, outcome }
}

/// A call whose first attempt failed with a reply, and what is to be done now.
fn failed(now: Time, policy: &Policy, upstream: &mut Upstream) -> (Call, Step) {
    let mut call = Call::new();
    call.set_repeatable(true);
    let Step::Send(send) = step(&mut call, now, Input::Start, policy, upstream) else { panic!() };
    call.sent(send.slot);
    let next = step(&mut call, now, broken(&send), policy, upstream);
    (call, next)
}

fn tokens(upstream: &mut Upstream, now: Time) -> f64 {
    upstream.snapshot(now).retries.level
}

pub(super) fn ended(step: &Step) -> (Answer, Option<Reason>) {
    let Step::Finish(finish) = step else { panic!("{step:?}") };
    (finish.answer, finish.reason)
}

#[test]
fn a_higher_limit_lets_in_who_waits_and_a_limit_of_nothing_is_one() {
    let now = Time::ZERO;
    let mut upstream = upstream(spec());
    assert!(matches!(upstream.admit(now, &Ask::first(now)), Admission::Go(_)));
    for _ in 0..2 {
        queue(&mut upstream, None);
    }
    let mut wake = Vec::new();
    upstream.set_limit(now, 2, &mut wake);
    assert!(matches!(wake.as_slice(), [Wake { result: Ok(_), .. }]), "{wake:?}");
    let seen = upstream.snapshot(now);
    assert_eq!((seen.limit, seen.in_flight, seen.queued), (2, 2, 1));
    upstream.set_limit(now, 0, &mut wake);
    assert_eq!((upstream.snapshot(now).limit, wake.len()), (1, 1));
    upstream.pull(now, Lever::Limit(0), None, None, &mut wake).unwrap();
    assert_eq!((upstream.snapshot(now).limit, wake.len()), (1, 1));
}

#[test]
fn a_limit_set_by_another_lasts_until_the_next_reload_and_one_pulled_until_its_end() {
    let now = Time::ZERO;
    let mut upstream = upstream(spec());
    upstream.set_limit(now, 7, &mut Vec::new());
    upstream.pull(now, Lever::Limit(9), None, Some(at(1_000)), &mut Vec::new()).unwrap();
    assert_eq!(upstream.snapshot(now).limit, 9);
    upstream.set_limit(now, 8, &mut Vec::new());
    assert_eq!(upstream.snapshot(now).limit, 9, "the lever goes before it");
    assert_eq!(upstream.snapshot(at(1_000)).limit, 8);
    upstream.pull(at(1_000), Lever::Limit(9), None, Some(at(2_000)), &mut Vec::new()).unwrap();
    let other = UpstreamSpec { in_flight: Limit::Fixed(3), ..spec() };
    upstream.reload(at(1_500), other, PER_TRY, &mut Vec::new()).unwrap();
    assert_eq!(upstream.snapshot(at(1_999)).limit, 9);
    assert_eq!(upstream.snapshot(at(2_000)).limit, 3, "as it was written meanwhile");
}

#[test]
fn a_limit_that_was_found_is_found_again_when_the_lever_ends() {
    let mut upstream = upstream(UpstreamSpec::gateway());
    let mut wake = Vec::new();
    let mut serve = |upstream: &mut Upstream, from: u64, to: u64| {
        for ms in from..to {
            let Admission::Go(permit) = upstream.admit(at(ms), &Ask::first(at(ms))) else {
                continue;
            };
            upstream.judge(at(ms + 20), &permit, &Outcome::Success);
            upstream.release(at(ms + 20), permit, Release::Done, &mut wake);
        }
    };
    serve(&mut upstream, 0, 10_000);
    let found = upstream.snapshot(at(10_020)).limit;
    assert!(found < 1_024, "{found}");
    let until = Some(at(30_000));
    upstream.pull(at(10_020), Lever::Limit(2), None, until, &mut Vec::new()).unwrap();
    serve(&mut upstream, 10_020, 29_979);
    upstream.in_flight.press();
    assert_eq!(upstream.snapshot(at(29_999)).limit, 2);
    assert_eq!(upstream.snapshot(at(30_000)).limit, found);
}

#[test]
fn whoever_waits_behind_a_lever_is_looked_at_when_it_ends() {
    let mut upstream = upstream(UpstreamSpec { in_flight: Limit::Fixed(2), ..spec() });
    let mut wake = Vec::new();
    upstream.pull(at(0), Lever::Limit(1), None, Some(at(30)), &mut wake).unwrap();
    let Admission::Go(_held) = upstream.admit(at(0), &Ask::first(at(0))) else { panic!() };
    let Admission::Queued(ticket, until) = upstream.admit(at(0), &Ask::first(at(0))) else {
        panic!()
    };
    assert_eq!(until, at(30));
    assert_eq!(upstream.poll(at(29), &mut wake), Some(at(30)));
    assert!(wake.is_empty());
    upstream.poll(at(30), &mut wake);
    assert!(matches!(&wake[..], [Wake { ticket: who, result: Ok(_) }] if *who == ticket));
}

#[test]
fn a_limit_pulled_by_hand_is_obeyed_where_the_written_one_only_reports() {
    let modes = Modes { in_flight: Obeyed::Report, ..Modes::default() };
    let mut upstream = upstream(UpstreamSpec { modes, queue: 0, ..spec() });
    let go = |upstream: &mut Upstream| {
        matches!(upstream.admit(at(0), &Ask::first(at(0))), Admission::Go(_))
    };
    assert!(go(&mut upstream) && go(&mut upstream));
    upstream.pull(at(0), Lever::Limit(2), None, None, &mut Vec::new()).unwrap();
    assert!(!go(&mut upstream));
    assert!(upstream.undo(at(0), Lever::Limit(0), None, &mut Vec::new()));
    assert!(go(&mut upstream));
}

#[test]
fn with_retries_off_first_attempts_pass_and_nothing_is_paid() {
    let (all, pay) = (policy(None), policy(PAY));
    for (route, stopped) in [(None, [true, true]), (PAY, [false, true]), (ASK, [false, false])] {
        let mut upstream = open_handed();
        let until = Some(at(1_000));
        upstream.pull(at(0), Lever::RetriesOff, route, until, &mut Vec::new()).unwrap();
        for (policy, stopped) in [&all, &pay].into_iter().zip(stopped) {
            let before = tokens(&mut upstream, at(0));
            let (_, next) = failed(at(0), policy, &mut upstream);
            if stopped {
                assert_eq!(ended(&next), (Answer::This, Some(Reason::RetriesOff)));
                assert_eq!(tokens(&mut upstream, at(0)), before);
            }
            assert_eq!(matches!(next, Step::Finish(_)), stopped, "{route:?}");
        }
        for policy in [&all, &pay] {
            let (_, next) = failed(at(1_000), policy, &mut upstream);
            assert!(matches!(next, Step::Sleep { .. }), "it has ended");
        }
    }
}

#[test]
fn a_retry_that_sleeps_when_retries_are_switched_off_ends_with_its_kept_reply_and_its_token() {
    let (policy, mut upstream) = (policy(PAY), open_handed());
    let (mut call, next) = failed(at(0), &policy, &mut upstream);
    let Step::Sleep { until } = next else { panic!("{next:?}") };
    assert_eq!(tokens(&mut upstream, at(0)), 999.0);
    upstream.pull(at(0), Lever::RetriesOff, PAY, None, &mut Vec::new()).unwrap();
    let next = step(&mut call, until, Input::Woke, &policy, &mut upstream);
    assert_eq!(ended(&next), (Answer::Kept, Some(Reason::RetriesOff)));
    assert_eq!(tokens(&mut upstream, until), 1_000.0);
}

#[test]
fn attempts_are_as_many_as_the_lever_says_and_what_is_said_of_a_route_goes_first() {
    let sends = |levers: &[(Option<u64>, u32)]| {
        let (policy, mut upstream) = (policy(PAY), open_handed());
        for &(route, attempts) in levers {
            upstream.pull(at(0), Lever::Attempts(attempts), route, None, &mut Vec::new()).unwrap();
        }
        let (mut call, mut next) = failed(at(0), &policy, &mut upstream);
        while let Step::Sleep { until } = next {
            let Step::Send(send) = step(&mut call, until, Input::Woke, &policy, &mut upstream)
            else {
                panic!()
            };
            call.sent(send.slot);
            next = step(&mut call, until, broken(&send), &policy, &mut upstream);
        }
        assert_eq!(ended(&next), (Answer::This, Some(Reason::AttemptsSpent)));
        call.attempts()
    };
    assert_eq!(sends(&[]), 3);
    assert_eq!(sends(&[(None, 1)]), 1);
    assert_eq!(sends(&[(None, 0)]), 1);
    assert_eq!(sends(&[(None, 4)]), 4);
    assert_eq!(sends(&[(PAY, 4), (None, 1)]), 4);
    assert_eq!(sends(&[(ASK, 1)]), 3);
}

#[test]
fn what_is_dropped_is_shed_from_the_queue_and_ends_when_it_wakes() {
    let mut upstream = upstream(spec());
    let _held = upstream.admit(at(0), &Ask::first(at(0)));
    let [pay, ask, none] = [PAY, ASK, None].map(|route| queue(&mut upstream, route));
    let mut wake = Vec::new();
    assert_eq!(upstream.drop_waiting(at(0), PAY, &mut wake), 1);
    assert_eq!(upstream.drop_waiting(at(0), PAY, &mut wake), 0);
    assert_eq!(upstream.drop_waiting(at(0), None, &mut wake), 2);
    for (wake, ticket) in wake.iter().zip([pay, ask, none]) {
        assert_eq!(wake.ticket, ticket);
        assert_eq!(wake.result.as_ref().unwrap_err().reason, Reason::Shed);
    }
    assert_eq!(upstream.snapshot(at(0)).queued, 0);

    let mut upstream = open_handed();
    for (dropped, reason) in [(None, Some(Reason::Shed)), (PAY, Some(Reason::Shed)), (ASK, None)] {
        let policy = policy(PAY);
        let before = tokens(&mut upstream, at(0));
        let (mut call, next) = failed(at(0), &policy, &mut upstream);
        let Step::Sleep { until } = next else { panic!("{next:?}") };
        upstream.drop_waiting(at(0), dropped, &mut Vec::new());
        let (mut later, next) = failed(at(0), &policy, &mut upstream);
        let Step::Sleep { until: later_until } = next else { panic!("{next:?}") };
        let next = step(&mut call, until, Input::Woke, &policy, &mut upstream);
        match reason {
            Some(_) => assert_eq!(ended(&next), (Answer::Kept, reason)),
            None => assert!(matches!(next, Step::Send(_)), "{next:?}"),
        }
        let next = step(&mut later, later_until, Input::Woke, &policy, &mut upstream);
        assert!(matches!(next, Step::Send(_)), "it went to sleep afterwards");
        let paid = if reason.is_some() { 1.0 } else { 2.0 };
        assert_eq!(tokens(&mut upstream, at(0)), before - paid);
    }
}

#[test]
fn a_forced_breaker_is_listed_and_undone_to_what_was_written() {
    let mut upstream = upstream(spec());
    let mut wake = Vec::new();
    let forced = Pulled { lever: Lever::BreakerOpen, route: None, until: Some(at(500)) };
    upstream.pull(at(0), Lever::BreakerClosed, None, None, &mut wake).unwrap();
    upstream.pull(at(0), Lever::BreakerOpen, None, Some(at(500)), &mut wake).unwrap();
    assert_eq!(upstream.levers(at(499)), [forced], "one lever with two ends");
    assert_eq!(upstream.snapshot(at(499)).breaker_mode, Mode::ForcedOpen);
    assert!(upstream.levers(at(500)).is_empty());
    assert_eq!(upstream.snapshot(at(500)).breaker_mode, Mode::Enforce);
    upstream.pull(at(500), Lever::BreakerOpen, None, None, &mut wake).unwrap();
    assert!(upstream.undo(at(501), Lever::BreakerClosed, None, &mut wake));
    assert_eq!(upstream.snapshot(at(501)).breaker_mode, Mode::Enforce);
    assert!(!upstream.undo(at(501), Lever::BreakerClosed, None, &mut wake));
}

#[test]
fn forcing_the_breaker_open_refuses_whoever_waits() {
    let mut upstream = upstream(spec());
    let _held = upstream.admit(at(0), &Ask::first(at(0)));
    let ticket = queue(&mut upstream, None);
    let mut wake = Vec::new();
    upstream.pull(at(0), Lever::BreakerOpen, None, None, &mut wake).unwrap();
    assert_eq!((wake.len(), wake[0].ticket), (1, ticket));
    assert_eq!(wake[0].result.as_ref().unwrap_err().reason, Reason::BreakerOpen);
}

#[test]
fn levers_are_bounded_and_what_all_share_is_no_routes() {
    let mut upstream = upstream(spec());
    let mut pull = |lever, route| upstream.pull(at(0), lever, Some(route), None, &mut Vec::new());
    for lever in [Lever::Limit(1), Lever::BreakerOpen, Lever::BreakerClosed] {
        assert_eq!(pull(lever, 1), Err(Stuck::OfAll));
    }
    for route in 0..MOST as u64 {
        assert_eq!(pull(Lever::RetriesOff, route), Ok(()));
    }
    assert_eq!(pull(Lever::Attempts(1), 1), Err(Stuck::TooMany));
    assert_eq!(pull(Lever::RetriesOff, 1), Ok(()), "in its own place");
    for route in 0..2 * MOST as u64 {
        upstream.drop_waiting(at(0), Some(route), &mut Vec::new());
    }
    assert_eq!(upstream.dropped.len(), MOST);
}

/// A lever to pull or undo, for whom, and for how many milliseconds.
#[derive(Debug, Clone)]
enum Hand {
    Pull(Lever, Option<u64>, Option<u64>),
    Undo(Lever, Option<u64>),
    Drop(Option<u64>),
}

fn hand() -> impl Strategy<Value = Hand> {
    let lever = prop_oneof![
        Just(Lever::RetriesOff),
        (0..4u32).prop_map(Lever::Attempts),
        (0..9u32).prop_map(Lever::Limit),
        Just(Lever::BreakerOpen),
        Just(Lever::BreakerClosed),
    ];
    let route = || prop::option::of(1..3u64);
    prop_oneof![
        3 => (lever.clone(), route(), prop::option::of(0..2_000u64)).prop_map(|(l, r, t)| Hand::Pull(l, r, t)),
        1 => (lever, route()).prop_map(|(l, r)| Hand::Undo(l, r)),
        1 => route().prop_map(Hand::Drop),
    ]
}

impl Hand {
    fn does(self, now: Time, upstream: &mut Upstream, wake: &mut Vec<Wake>) {
        match self {
            Self::Pull(lever, route, length) => {
                let until = length.map(|length| now + Duration::from_millis(length));
                let _ = upstream.pull(now, lever, route, until, wake);
            }
            Self::Undo(lever, route) => drop(upstream.undo(now, lever, route, wake)),
            Self::Drop(route) => drop(upstream.drop_waiting(now, route, wake)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// P1: whatever is pulled and undone while calls come and go, nothing is lost or doubled, and in the end all is as it was
    /// written.
    #[test]
    fn no_lever_leaks_a_slot_and_its_end_restores_exactly(
        acts in prop::collection::vec((act(), prop::option::of(hand()), 0..400u64), 1..200),
        limit in 1..6u32,
        seed in any::<u64>(),
    ) {
        let spec = UpstreamSpec { in_flight: Limit::Fixed(limit), queue: 4, ..UpstreamSpec::gateway() };
        let mut host = Host::new(spec, seed);
        for (act, hand, step) in acts {
            host.clock += step;
            host.act(act);
            prop_assert!(host.is_whole());
            if let Some(hand) = hand {
                hand.does(at(host.clock), &mut host.upstream, &mut host.wake);
                prop_assert!(host.is_whole());
            }
        }
        let pulled = host.upstream.levers(at(host.clock)).to_vec();
        for Pulled { lever, route, .. } in pulled {
            prop_assert!(host.upstream.undo(at(host.clock), lever, route, &mut host.wake));
        }
        prop_assert!(host.is_whole());
        let snapshot = host.come_to_rest();
        prop_assert_eq!((snapshot.in_flight, snapshot.ghosts, snapshot.queued), (0, 0, 0));
        prop_assert_eq!((snapshot.limit, snapshot.breaker_mode), (limit, Mode::Enforce));
    }

    /// G6: what was paid is what was sent, whatever is pulled meanwhile.
    #[test]
    fn no_lever_leaks_a_token(
        acts in prop::collection::vec((any::<bool>(), any::<usize>(), prop::option::of(hand()), 0..100u64), 1..200),
    ) {
        let policies = [policy(None), policy(PAY), policy(ASK)];
        let (mut upstream, mut now, mut sent) = (open_handed(), at(0), 0.0);
        let mut asleep: Vec<(Call, Policy, Time)> = Vec::new();
        for (wakes, which, hand, ms) in acts {
            now = now + Duration::from_millis(ms);
            if let Some(hand) = hand {
                hand.does(now, &mut upstream, &mut Vec::new());
            }
            let woken = if wakes { pick(&mut asleep, which) } else { None };
            let (mut call, policy, next) = match woken {
                Some((mut call, policy, until)) => {
                    now = now.max(until);
                    let next = step(&mut call, now, Input::Woke, &policy, &mut upstream);
                    (call, policy, next)
                }
                None => {
                    let policy = policies[which % policies.len()];
                    let mut call = Call::new();
                    call.set_repeatable(true);
                    let next = step(&mut call, now, Input::Start, &policy, &mut upstream);
                    (call, policy, next)
                }
            };
            prop_assert!(upstream.snapshot(now).retrying as usize >= asleep.len());
            if let Step::Send(send) = &next {
                call.sent(send.slot);
                sent += f64::from(u8::from(send.attempt > 1));
                let input = broken(send);
                if let Step::Sleep { until } = step(&mut call, now, input, &policy, &mut upstream) {
                    asleep.push((call, policy, until));
                }
            }
        }
        for (mut call, ..) in asleep {
            call.abandon(now, &mut upstream, &mut Vec::new());
        }
        prop_assert_eq!(tokens(&mut upstream, now), 1_000.0 - sent);
        prop_assert_eq!(upstream.snapshot(now).retrying, 0);
    }
}
