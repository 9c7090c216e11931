use super::*;
use crate::{
    Failure, Fault,
    breaker::{self, Mode},
    in_flight::Limit,
    spec::Gate,
};

pub(super) const PER_TRY: Duration = Duration::from_secs(5);

pub(super) fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn upstream(in_flight: Limit, queue: usize) -> Upstream {
    let spec = UpstreamSpec { in_flight, queue, ..UpstreamSpec::gateway() };
    Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap()
}

pub(super) fn go(upstream: &mut Upstream, now: Time) -> Permit {
    match upstream.admit(now, &Ask::first(now)) {
        Admission::Go(permit) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

pub(super) fn queued(upstream: &mut Upstream, now: Time, ask: &Ask) -> (Ticket, Time) {
    match upstream.admit(now, ask) {
        Admission::Queued(ticket, until) => (ticket, until),
        other => panic!("expected a place in the queue, got {other:?}"),
    }
}

pub(super) fn refused(upstream: &mut Upstream, now: Time, ask: &Ask) -> Reason {
    match upstream.admit(now, ask) {
        Admission::No(refusal) => refusal.reason,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

pub(super) fn end(
    upstream: &mut Upstream,
    now: Time,
    permit: Permit,
    outcome: Outcome,
) -> Vec<Wake> {
    let mut wake = Vec::new();
    upstream.judge(now, &permit, &outcome);
    upstream.release(now, permit, Release::Done, &mut wake);
    wake
}

pub(super) fn server_fault() -> Outcome {
    Outcome::Failed(Failure::of(Fault::Server).with_code(500))
}

pub(super) fn open_the_breaker(upstream: &mut Upstream, now: Time) {
    for _ in 0..20 {
        let permit = go(upstream, now);
        end(upstream, now, permit, server_fault());
    }
    assert_eq!(upstream.snapshot(now).breaker, State::Open);
}

/// P0, P2: the caller left, but its slot is taken until the endpoint has got past it.
#[test]
fn a_slot_whose_caller_left_stays_taken_until_a_later_call_is_answered() {
    let mut upstream = upstream(Limit::Fixed(2), 0);
    let (left, stays) = (go(&mut upstream, at(0)), go(&mut upstream, at(0)));
    upstream.release(at(100), left, Release::Ghost, &mut Vec::new());
    assert_eq!(refused(&mut upstream, at(100), &Ask::first(at(100))), Reason::InFlightFull);
    end(&mut upstream, at(200), stays, Outcome::Success);
    assert_eq!((upstream.snapshot(at(200)).ghosts, upstream.snapshot(at(200)).in_flight), (0, 0));
}

/// P0: an attempt that timed out is no proof of a free worker either.
#[test]
fn late_refusals_by_proxies_do_not_end_a_ghost() {
    let mut upstream = upstream(Limit::Fixed(3), 0);
    let left = go(&mut upstream, at(0));
    upstream.release(at(1), left, Release::Ghost, &mut Vec::new());
    for code in [429, 502, 503, 504] {
        let permit = go(&mut upstream, at(2));
        let outcome = Outcome::Failed(Failure::of(Fault::Overload).with_code(code));
        end(&mut upstream, at(2), permit, outcome);
        assert_eq!(upstream.snapshot(at(2)).ghosts, 1, "after {code}");
    }
}

#[test]
fn while_ghosts_hold_every_slot_one_probe_per_half_second_goes_out_and_heals() {
    let mut upstream = upstream(Limit::Fixed(2), 0);
    for _ in 0..2 {
        let permit = go(&mut upstream, at(0));
        upstream.release(at(100), permit, Release::Ghost, &mut Vec::new());
    }
    assert_eq!(refused(&mut upstream, at(499), &Ask::first(at(499))), Reason::InFlightFull);
    let first = go(&mut upstream, at(500));
    assert_eq!(refused(&mut upstream, at(501), &Ask::first(at(501))), Reason::InFlightFull);
    upstream.release(at(900), first, Release::Ghost, &mut Vec::new());
    let second = go(&mut upstream, at(1_000));
    end(&mut upstream, at(1_010), second, Outcome::Success);
    assert_eq!(upstream.snapshot(at(1_010)).ghosts, 0);
}

/// P9: a probe's answer is only of use to a caller who is still there.
#[test]
fn a_ghost_probe_is_carried_by_the_newest_caller_in_the_queue() {
    let mut upstream = upstream(Limit::Fixed(1), 8);
    let permit = go(&mut upstream, at(0));
    upstream.release(at(10), permit, Release::Ghost, &mut Vec::new());
    // Too short a wait for pressure: it is the probe that takes the newest, not the order of the queue.
    let (old, _) = queued(&mut upstream, at(420), &Ask::first(at(420)));
    let (new, until) = queued(&mut upstream, at(450), &Ask::first(at(450)));
    assert_eq!(until, at(500));
    let mut wake = Vec::new();
    upstream.poll(at(500), &mut wake);
    assert_eq!(wake.len(), 1);
    assert_eq!(wake[0].ticket, new);
    assert!(wake[0].result.is_ok());
    assert!(upstream.leave(old));
}

/// X1: refusing is our doing; it neither judges the upstream nor uses up its probes.
#[test]
fn our_own_refusals_are_no_failures_and_take_no_probe() {
    let mut upstream = upstream(Limit::Fixed(100), 0);
    open_the_breaker(&mut upstream, at(0));
    for _ in 0..1_000 {
        assert_eq!(refused(&mut upstream, at(100), &Ask::first(at(100))), Reason::BreakerOpen);
    }
    let probes: Vec<_> = (0..3).map(|_| go(&mut upstream, at(500))).collect();
    assert_eq!(refused(&mut upstream, at(500), &Ask::first(at(500))), Reason::ProbeLimit);
    for probe in probes {
        upstream.release(at(501), probe, Release::Unsent, &mut Vec::new());
    }
    assert_eq!(upstream.snapshot(at(501)).breaker, State::HalfOpen);
}

/// X1, second half.
#[test]
fn a_full_limit_is_not_a_failing_upstream() {
    let mut upstream = upstream(Limit::Fixed(1), 0);
    let _held = go(&mut upstream, at(0));
    for _ in 0..1_000 {
        assert_eq!(refused(&mut upstream, at(1), &Ask::first(at(1))), Reason::InFlightFull);
    }
    assert_eq!(upstream.snapshot(at(1)).breaker, State::Closed);
}

/// X3.
#[test]
fn opening_the_breaker_flushes_the_queue_with_its_reason() {
    let mut upstream = upstream(Limit::Fixed(20), 8);
    let permits: Vec<_> = (0..20).map(|_| go(&mut upstream, at(0))).collect();
    let waiting: Vec<_> =
        (0..3).map(|_| queued(&mut upstream, at(1), &Ask::first(at(1))).0).collect();
    for permit in &permits {
        upstream.judge(at(2), permit, &server_fault());
    }
    // One ends, and its slot stays taken: nobody's turn has come, and all are told all the same.
    let mut wake = Vec::new();
    let last = permits.into_iter().next_back().unwrap();
    upstream.release(at(2), last, Release::Ghost, &mut wake);
    let told: Vec<_> =
        wake.iter().map(|wake| (wake.ticket, wake.result.as_ref().unwrap_err().reason)).collect();
    let expected: Vec<_> =
        waiting.into_iter().map(|ticket| (ticket, Reason::BreakerOpen)).collect();
    assert_eq!(told, expected);
}

/// X6.
#[test]
fn a_queued_caller_who_cannot_be_served_in_time_is_refused_before_its_turn() {
    let mut upstream = upstream(Limit::Fixed(1), 8);
    for i in 0..64 {
        let permit = go(&mut upstream, at(i * 200));
        end(&mut upstream, at(i * 200 + 100), permit, Outcome::Success);
    }
    let now = at(20_000);
    let holder = go(&mut upstream, now);
    let deadline = now + Duration::from_millis(250);
    let hasty = Ask { deadline, told: true, ..Ask::first(now) };
    let (ticket, until) = queued(&mut upstream, now, &hasty);
    let margin = deadline.since(until);
    assert!((88..=113).contains(&margin.as_millis()), "the margin is the p90: {margin:?}");
    let mut wake = Vec::new();
    upstream.poll(until, &mut wake);
    let Wake { ticket: told, result } = wake.pop().unwrap();
    assert_eq!((told, result.unwrap_err().reason), (ticket, Reason::DeadlineMargin));
    let late = until + Duration::from_millis(1);
    assert_eq!(refused(&mut upstream, late, &hasty), Reason::DeadlineMargin);
    end(&mut upstream, late, holder, Outcome::Success);
}

#[test]
fn retries_do_not_queue_under_pressure() {
    let mut upstream = upstream(Limit::Fixed(1), 8);
    let _held = go(&mut upstream, at(0));
    queued(&mut upstream, at(0), &Ask::first(at(0)));
    let retry = Ask { attempt: 2, ..Ask::first(at(0)) };
    queued(&mut upstream, at(99), &retry);
    assert_eq!(refused(&mut upstream, at(100), &retry), Reason::Shed);
}

#[test]
fn under_pressure_the_more_important_takes_the_place_of_the_less() {
    let mut upstream = upstream(Limit::Fixed(1), 2);
    let held = go(&mut upstream, at(0));
    let ask = |priority, now| Ask { priority, ..Ask::first(now) };
    let (cheap, _) = queued(&mut upstream, at(0), &ask(Priority::Sheddable, at(0)));
    let (usual, _) = queued(&mut upstream, at(0), &ask(Priority::Default, at(0)));
    let now = at(100);
    let (urgent, until) = queued(&mut upstream, now, &ask(Priority::Critical, now));
    assert_eq!(until, now, "somebody is to be told at once");
    let mut wake = Vec::new();
    upstream.poll(now, &mut wake);
    let told = wake.pop().unwrap();
    assert_eq!((told.ticket, told.result.unwrap_err().reason), (cheap, Reason::Shed));
    let wake = end(&mut upstream, now, held, Outcome::Success);
    assert_eq!(wake[0].ticket, urgent);
    assert!(upstream.leave(usual));
}

#[test]
fn the_rate_limit_refuses_with_the_very_instant_and_its_token_is_taken_at_the_grant() {
    let rate_limit = Some(crate::limiter::Spec { per_second: 10.0, burst: 2 });
    let spec = UpstreamSpec {
        in_flight: Limit::Fixed(1),
        queue: 4,
        rate_limit,
        ..UpstreamSpec::gateway()
    };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, at(0)).unwrap();
    let held = go(&mut upstream, at(0));
    let (waits, _) = queued(&mut upstream, at(0), &Ask::first(at(0)));
    let (left, _) = queued(&mut upstream, at(0), &Ask::first(at(0)));
    assert!(upstream.leave(left), "and used no token up");
    let wake = end(&mut upstream, at(10), held, Outcome::Success);
    assert_eq!(wake[0].ticket, waits);
    let Admission::No(refusal) = upstream.admit(at(10), &Ask::first(at(10))) else { panic!() };
    assert_eq!(refusal, Refusal { reason: Reason::RateLimited, retry_at: at(100) });
    assert_eq!(refused(&mut upstream, at(99), &Ask::first(at(99))), Reason::RateLimited);
    for Wake { result, .. } in wake {
        upstream.release(at(99), result.unwrap(), Release::Unsent, &mut Vec::new());
    }
    let sent = go(&mut upstream, at(99)); // what was never sent gave its token back
    end(&mut upstream, at(99), sent, Outcome::Success);
}

#[test]
fn a_throttled_upstream_is_spared_what_it_turns_down_anyway() {
    let throttle = Some(crate::throttle::Spec::default());
    let spec = UpstreamSpec { throttle, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, at(0)).unwrap();
    let (mut sent, mut spared) = (0, 0);
    for i in 0..2_000u64 {
        match upstream.admit(at(i), &Ask::first(at(i))) {
            Admission::Go(permit) => {
                sent += 1;
                let overload = Failure::of(Fault::Overload).with_code(429);
                end(&mut upstream, at(i), permit, Outcome::Failed(overload));
            }
            Admission::No(refusal) => {
                assert_eq!(refusal.reason, Reason::Shed);
                spared += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(spared > 1_500 && sent > 50, "{sent} sent, {spared} spared");
}

/// X8.
#[test]
fn a_hint_holds_back_retries_but_not_first_attempts_and_outlives_its_call() {
    let mut upstream = upstream(Limit::Fixed(8), 0);
    let permit = go(&mut upstream, at(0));
    let hint = Failure::of(Fault::Overload).with_code(503).with_hint(Duration::from_secs(2));
    end(&mut upstream, at(0), permit, Outcome::Failed(hint));
    let retry = Ask { attempt: 2, ..Ask::first(at(0)) };
    assert_eq!(refused(&mut upstream, at(1_999), &retry), Reason::NotBefore);
    let first = go(&mut upstream, at(1_999));
    end(&mut upstream, at(1_999), first, Outcome::Success);
    let Admission::Go(permit) = upstream.admit(at(2_000), &retry) else { panic!() };
    end(&mut upstream, at(2_000), permit, Outcome::Success);
}

#[test]
fn an_absurd_hint_does_not_hold_retries_back_for_ever() {
    let mut upstream = upstream(Limit::Fixed(8), 0);
    let permit = go(&mut upstream, at(0));
    let hint = Failure::of(Fault::Overload).with_code(503).with_hint(Duration::MAX);
    end(&mut upstream, at(0), permit, Outcome::Failed(hint));
    assert_eq!(upstream.snapshot(at(0)).not_before, at(0) + LONGEST_HOLD);
}

/// P12, whole: with one of three endpoints dead, the others' slots stay usable.
#[test]
fn a_dead_endpoint_costs_no_more_than_its_share() {
    let spec = UpstreamSpec {
        in_flight: Limit::Fixed(30),
        queue: 0,
        endpoints: 3,
        ..UpstreamSpec::gateway()
    };
    let mut upstream = Upstream::new(spec, PER_TRY, 3, at(0)).unwrap();
    let (mut served, mut refusals) = (0, 0);
    for i in 0..5_000u64 {
        let now = at(i * 10);
        match upstream.admit(now, &Ask::first(now)) {
            Admission::Go(permit) if permit.endpoint() == 2 => {
                let left = now + Duration::from_millis(200);
                upstream.release(left, permit, Release::Ghost, &mut Vec::new());
            }
            Admission::Go(permit) => {
                served += 1;
                end(&mut upstream, now, permit, Outcome::Success);
            }
            _ => refusals += 1,
        }
    }
    assert_eq!(refusals, 0);
    assert!(served > 4_850, "{served} of 5000: the dead one gets probes only");
}

/// X10: in report mode even an open breaker flushes no queue, stops no retry and refuses nobody.
#[test]
fn a_breaker_in_report_mode_changes_nothing_for_traffic() {
    let breaker = breaker::Spec { mode: Mode::Report, ..breaker::Spec::default() };
    let spec = UpstreamSpec { breaker, in_flight: Limit::Fixed(1), ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    open_the_breaker(&mut upstream, at(0));
    assert!(!upstream.stops_retries(at(1), None, 0));
    let held = go(&mut upstream, at(1));
    let (ticket, _) = queued(&mut upstream, at(1), &Ask::first(at(1)));
    let wake = end(&mut upstream, at(2), held, Outcome::Success);
    assert_eq!((wake.len(), wake[0].ticket, wake[0].result.is_ok()), (1, ticket, true));
    let snapshot = upstream.snapshot(at(2));
    assert_eq!((snapshot.breaker_mode, snapshot.breaker_would_refuse), (Mode::Report, 2));
}

/// C13: calls that hang open it before any of them ends, and that is told.
#[test]
fn hung_calls_open_the_breaker_while_they_run() {
    let spec = UpstreamSpec { breaker: breaker::Spec::classic(), ..UpstreamSpec::library() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let hung: Vec<_> = (0..10).map(|_| go(&mut upstream, at(0))).collect();
    assert_eq!(refused(&mut upstream, at(2_000), &Ask::first(at(2_000))), Reason::BreakerOpen);
    assert!(
        matches!(upstream.next_event(), Some(Event::BreakerOpened { until }) if until > at(17_000))
    );
    for permit in hung {
        upstream.release(at(2_001), permit, Release::Ghost, &mut Vec::new());
    }
}

#[test]
fn what_the_breaker_records_is_its_own_list() {
    let ignore = breaker::record::List::of(&[500], &[]).unwrap();
    let record = breaker::record::Record { ignore, ..Default::default() };
    let breaker = breaker::Spec { record, ..breaker::Spec::default() };
    let spec = UpstreamSpec { breaker, ..UpstreamSpec::library() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    for _ in 0..100 {
        let permit = go(&mut upstream, at(0));
        end(&mut upstream, at(0), permit, server_fault());
    }
    assert_eq!(upstream.snapshot(at(0)).breaker, State::Closed);
}

#[test]
fn forcing_the_breaker_is_told_and_ends_by_itself() {
    let mut upstream = upstream(Limit::Fixed(8), 0);
    upstream.set_breaker_mode(at(0), Mode::ForcedOpen, Some(at(60_000)));
    assert_eq!(upstream.next_event(), Some(Event::BreakerOpened { until: at(60_000) }));
    assert_eq!(refused(&mut upstream, at(59_999), &Ask::first(at(59_999))), Reason::BreakerOpen);
    assert_eq!(upstream.snapshot(at(60_000)).breaker, State::HalfOpen);
    upstream.set_breaker_mode(at(60_000), Mode::ForcedClosed, None);
    assert_eq!(upstream.next_event(), Some(Event::BreakerClosed));
    let _ = go(&mut upstream, at(60_000));
}

/// Callers who are believed to leave at 300 ms and turn out to take answers at 900 ms are believed to wait longer.
#[test]
fn late_answers_that_were_still_taken_teach_patience() {
    let mut upstream = upstream(Limit::Adaptive { ceiling: 4096 }, 8);
    for _ in 0..20 {
        upstream.gave_up(at(300), at(0), 0);
    }
    assert_eq!(upstream.snapshot(at(300)).patience, Duration::from_millis(300));
    for _ in 0..200 {
        let permit = go(&mut upstream, at(1_000));
        end(&mut upstream, at(1_900), permit, Outcome::Success);
    }
    assert_eq!(upstream.snapshot(at(2_000)).patience, Duration::from_millis(900));
}

#[test]
fn a_limit_that_moves_is_told_and_one_that_trembles_is_not() {
    let mut upstream = upstream(Limit::Adaptive { ceiling: 4096 }, 8);
    let all: Vec<_> = (0..20).map(|_| go(&mut upstream, at(0))).collect();
    for (i, permit) in all.into_iter().enumerate() {
        upstream.release(at(300), permit, Release::Ghost, &mut Vec::new());
        let told = (i == 3).then_some(Event::LimitMoved { from: 1024, to: 4 });
        assert_eq!(upstream.next_event(), told, "leaver {i}");
    }
}

/// The other ends of a ghost: proof that it was never processed, or its connection closed by the endpoint.
#[test]
fn a_ghost_that_provably_ended_frees_its_slot_once_and_whoever_waits_goes() {
    let mut upstream = upstream(Limit::Fixed(2), 8);
    let [first, second] = [at(0), at(0)].map(|now| go(&mut upstream, now));
    let (id, other) = (first.id(), second.id());
    upstream.release(at(10), first, Release::Ghost, &mut Vec::new());
    let (ticket, _) = queued(&mut upstream, at(20), &Ask::first(at(20)));
    let mut wake = Vec::new();
    upstream.ghost_ended(at(30), other, &mut wake);
    assert!(wake.is_empty(), "that one is no ghost");
    upstream.ghost_ended(at(30), id, &mut wake);
    assert_eq!((wake.len(), wake[0].ticket), (1, ticket));
    upstream.ghost_ended(at(30), id, &mut wake);
    assert_eq!((wake.len(), upstream.snapshot(at(30)).ghosts), (1, 0), "once");
    end(&mut upstream, at(40), second, Outcome::Success);
}

/// X8, where a hint is a quota's.
#[test]
fn a_gate_for_all_holds_first_attempts_back_too() {
    let spec = UpstreamSpec { gate: Gate::All, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let permit = go(&mut upstream, at(0));
    let overload = Failure::of(Fault::Overload).with_hint(Duration::from_secs(2));
    end(&mut upstream, at(10), permit, Outcome::Failed(overload));
    assert_eq!(refused(&mut upstream, at(2_009), &Ask::first(at(2_009))), Reason::NotBefore);
    let _ = go(&mut upstream, at(2_010));
    upstream.reload(at(2_010), UpstreamSpec::gateway(), PER_TRY, &mut Vec::new()).unwrap();
    let permit = go(&mut upstream, at(2_020));
    end(&mut upstream, at(2_030), permit, Outcome::Failed(overload));
    let _ = go(&mut upstream, at(2_040));
}

#[test]
fn a_wait_that_was_written_is_the_wait_in_the_queue() {
    let queue_wait = Some(Duration::from_millis(70));
    let spec = UpstreamSpec {
        in_flight: Limit::Fixed(1),
        queue: 8,
        queue_wait,
        ..UpstreamSpec::gateway()
    };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let _held = go(&mut upstream, at(0));
    let (ticket, until) = queued(&mut upstream, at(0), &Ask::first(at(0)));
    assert_eq!(until, at(70));
    let mut wake = Vec::new();
    upstream.poll(at(70), &mut wake);
    assert_eq!(wake[0].ticket, ticket);
    assert_eq!(wake[0].result.as_ref().unwrap_err().reason, Reason::QueueWait);
}
