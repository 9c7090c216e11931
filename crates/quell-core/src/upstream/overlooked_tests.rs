//! X10: report mode decides and counts, and changes nothing.

use core::time::Duration;

use proptest::prelude::*;

use crate::{
    Admission, Ask, Event, Failure, Fault, Outcome, Permit, Reason, Release, Time, Upstream,
    breaker,
    budget::{self, purse::Child},
    endpoints::Ejection,
    in_flight::Limit,
    limiter,
    mode::{Mode, Modes},
    pools::{self, Pool},
    spec::UpstreamSpec,
    throttle,
    upstream::{
        property_tests::pick,
        tests::{PER_TRY, at, end, go, server_fault},
    },
};

fn reporting(modes: Modes, spec: UpstreamSpec) -> Upstream {
    Upstream::new(UpstreamSpec { modes, ..spec }, PER_TRY, 1, at(0)).unwrap()
}

fn one_token() -> budget::Spec {
    budget::tokens::Spec { max: 1, ..Default::default() }.into()
}

/// X10, budget: and what was not paid is not refunded.
#[test]
fn a_budget_in_report_mode_sends_the_retry_unpaid_and_mints_nothing() {
    let kinds = [
        one_token(),
        budget::Spec::FailedRetry(Default::default()),
        budget::Spec::Ratio(Default::default()),
        budget::Spec::Window(Default::default()),
        budget::Spec::None,
    ];
    for budget in kinds {
        let modes = Modes { budget: Mode::Report, ..Modes::default() };
        let mut upstream = reporting(modes, UpstreamSpec { budget, ..UpstreamSpec::library() });
        let mut pay = |now| upstream.pay(now, Fault::Server, Child::NONE).unwrap();
        let receipts: Vec<_> = (0..1_000).map(|_| pay(at(0))).collect();
        let before = upstream.snapshot(at(0));
        assert!(before.would_refuse.budget >= 800, "{budget:?}: {before:?}");
        assert_eq!(before.would_refuse.budget, before.retries.denied);
        let unpaid = receipts.into_iter().rev().take(before.would_refuse.budget as usize);
        for (i, receipt) in unpaid.enumerate() {
            match i % 2 {
                0 => upstream.refund(at(0), receipt),
                _ => upstream.retried_well(at(0), receipt),
            }
        }
        assert_eq!(upstream.snapshot(at(0)).retries, before.retries, "{budget:?}");
    }
}

/// X10, budget: hedges go by its level.
#[test]
fn a_budget_in_report_mode_stops_no_hedge() {
    for (mode, degraded) in [(Mode::Enforce, true), (Mode::Report, false)] {
        let modes = Modes { budget: mode, ..Modes::default() };
        let spec = UpstreamSpec { budget: one_token(), ..UpstreamSpec::library() };
        let mut upstream = reporting(modes, spec);
        let _paid = upstream.pay(at(0), Fault::Server, Child::NONE).unwrap();
        assert_eq!(upstream.is_degraded(at(0), None, 0), degraded);
        assert_eq!(upstream.pay(at(0), Fault::Timeout, Child::NONE).is_err(), degraded);
        assert_eq!(upstream.snapshot(at(0)).would_refuse.budget, u64::from(!degraded), "once");
    }
    let budget = budget::tokens::Spec { max: 5, ..Default::default() }.into();
    let modes = Modes { budget: Mode::Report, ..Modes::default() };
    let mut upstream = reporting(modes, UpstreamSpec { budget, ..UpstreamSpec::library() });
    for _ in 0..3 {
        let _paid = upstream.pay(at(0), Fault::Server, Child::NONE).unwrap();
    }
    assert!(
        !upstream.is_degraded(at(0), None, 0)
            && upstream.pay(at(0), Fault::Timeout, Child::NONE).is_ok()
    );
    assert_eq!(upstream.snapshot(at(0)).would_refuse.budget, 1, "below half, though it can pay");
}

/// X10, in-flight limit.
#[test]
fn an_in_flight_limit_in_report_mode_queues_and_refuses_nobody() {
    let modes = Modes { in_flight: Mode::Report, ..Modes::default() };
    let mut upstream =
        reporting(modes, UpstreamSpec { in_flight: Limit::Fixed(2), ..UpstreamSpec::gateway() });
    let mut permits: Vec<_> = (0..10).map(|_| go(&mut upstream, at(0))).collect();
    for permit in permits.drain(..5) {
        upstream.release(at(0), permit, Release::Ghost, &mut Vec::new());
    }
    let _sixth = go(&mut upstream, at(1));
    let snapshot = upstream.snapshot(at(1));
    assert_eq!((snapshot.would_refuse.in_flight, snapshot.limit), (9, 2));
    assert_eq!((snapshot.in_flight, snapshot.ghosts, snapshot.queued), (6, 5, 0));
}

#[test]
fn whoever_queues_goes_once_the_limit_is_no_longer_obeyed() {
    let mut upstream = reporting(
        Modes::default(),
        UpstreamSpec { in_flight: Limit::Fixed(1), ..UpstreamSpec::gateway() },
    );
    let _held = go(&mut upstream, at(0));
    let Admission::Queued(ticket, _) = upstream.admit(at(0), &Ask::first(at(0))) else { panic!() };
    upstream.set_modes(Modes::REPORT);
    let mut wake = Vec::new();
    assert_eq!(upstream.poll(at(0), &mut wake), None);
    assert!(wake[0].ticket == ticket && wake[0].result.is_ok());
}

/// X10, rate limit: it takes nothing that is not there, and nothing comes back that was not taken.
#[test]
fn a_rate_limit_in_report_mode_lets_pass_and_owes_nothing() {
    let rate_limit = Some(limiter::Spec { per_second: 1.0, burst: 2 });
    let modes = Modes { rate_limit: Mode::Report, ..Modes::default() };
    let mut upstream = reporting(modes, UpstreamSpec { rate_limit, ..UpstreamSpec::library() });
    let mut permits: Vec<_> = (0..10).map(|_| go(&mut upstream, at(0))).collect();
    assert_eq!(upstream.snapshot(at(0)).would_refuse.rate_limit, 8);
    for permit in permits.drain(2..) {
        upstream.release(at(0), permit, Release::Unsent, &mut Vec::new());
    }
    let _more = go(&mut upstream, at(0));
    assert_eq!(upstream.snapshot(at(0)).would_refuse.rate_limit, 9);
    let _later = go(&mut upstream, at(1_000));
    assert_eq!(upstream.snapshot(at(1_000)).would_refuse.rate_limit, 9, "the token is there again");
}

/// X10, throttle: it counts each request once, and would refuse as many as it does.
#[test]
fn a_throttle_in_report_mode_spares_nobody() {
    let throttle = Some(throttle::Spec::default());
    let would_refuse = |mode| {
        let modes = Modes { throttle: mode, ..Modes::default() };
        let mut upstream = reporting(modes, UpstreamSpec { throttle, ..UpstreamSpec::library() });
        let overload = || Outcome::Failed(Failure::of(Fault::Overload).with_code(429));
        let mut refused = 0;
        for i in 0..2_000 {
            match upstream.admit(at(i), &Ask::first(at(i))) {
                Admission::Go(permit) => drop(end(&mut upstream, at(i), permit, overload())),
                _ => refused += 1,
            }
        }
        (refused, upstream.snapshot(at(2_000)).would_refuse.throttle)
    };
    let ((refused, none), (nobody, counted)) =
        (would_refuse(Mode::Enforce), would_refuse(Mode::Report));
    assert_eq!((none, nobody), (0, 0));
    assert!(refused > 1_500 && counted.abs_diff(refused) < 50, "{refused}, and {counted}");
}

/// X10, ejection.
#[test]
fn an_endpoint_that_would_be_ejected_is_asked_like_the_others() {
    let modes = Modes { ejection: Mode::Report, ..Modes::default() };
    let mut spec = UpstreamSpec { endpoints: 2, ..UpstreamSpec::library() };
    spec.breaker.mode = breaker::Mode::Disabled;
    let mut upstream = reporting(modes, spec);
    let mut asked = [0; 2];
    for i in 0..1_000 {
        let permit = go(&mut upstream, at(i));
        let dead = permit.endpoint() == 0;
        asked[usize::from(permit.endpoint())] += 1;
        end(&mut upstream, at(i), permit, if dead { server_fault() } else { Outcome::Success });
    }
    assert!(asked[0] > 400, "{asked:?}");
    assert_eq!(upstream.snapshot(at(1_000)).would_refuse.ejection, 1, "once for its ten seconds");
    let ejected = core::iter::from_fn(|| upstream.next_event());
    assert_eq!(ejected.filter(|event| *event == Event::Ejected { endpoint: 0 }).count(), 1);
}

/// One random thing that happens to an upstream.
#[derive(Debug, Clone)]
enum Act {
    Admit { retry: bool, told: Option<u64>, cost: u32 },
    End(usize, u16),
    Let(usize, Release),
    Pay,
    Refund,
    RetriedWell,
}

fn act() -> impl Strategy<Value = Act> {
    let how = prop_oneof![Just(Release::Unsent), Just(Release::Ghost)];
    prop_oneof![
        8 => (any::<bool>(), prop::option::of(0..2_000u64), 0..4u32)
            .prop_map(|(retry, told, cost)| Act::Admit { retry, told, cost }),
        6 => (any::<usize>(), prop::sample::select(vec![200u16, 404, 429, 500, 503]))
            .prop_map(|(i, code)| Act::End(i, code)),
        2 => (any::<usize>(), how).prop_map(|(i, how)| Act::Let(i, how)),
        2 => Just(Act::Pay),
        1 => Just(Act::Refund),
        1 => Just(Act::RetriedWell),
    ]
}

fn outcome(code: u16) -> Outcome {
    let failed = |fault| Outcome::Failed(Failure::of(fault).with_code(code));
    match code {
        200 => Outcome::Success,
        404 => failed(Fault::Fatal),
        429 => failed(Fault::Overload),
        500 => failed(Fault::Server),
        _ => {
            let failure = Failure::of(Fault::Overload).with_code(code);
            Outcome::Failed(failure.with_hint(Duration::from_millis(300)))
        }
    }
}

/// An upstream and all that is out.
struct World {
    upstream: Upstream,
    permits: Vec<Permit>,
    receipts: Vec<budget::Receipt>,
}

/// What an act came to: sent, refused for a reason, or queued.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Done,
    Refused(Reason),
    Queued,
}

impl World {
    fn new(spec: UpstreamSpec, seed: u64) -> Self {
        let upstream = Upstream::new(spec, PER_TRY, seed, Time::ZERO).unwrap();
        Self { upstream, permits: Vec::new(), receipts: Vec::new() }
    }

    fn act(&mut self, now: Time, act: &Act) -> Seen {
        let mut wake = Vec::new();
        match *act {
            Act::Admit { retry, told, cost } => {
                let deadline = told.map_or(Time::MAX, |told| now + Duration::from_millis(told));
                let attempt = 1 + u32::from(retry);
                let told = told.is_some();
                let pool = Pool::of(u8::from(cost == 0));
                let ask = Ask { attempt, deadline, told, cost, pool, ..Ask::first(now) };
                match self.upstream.admit(now, &ask) {
                    Admission::Go(permit) => self.permits.push(permit),
                    Admission::Queued(..) => return Seen::Queued,
                    Admission::No(refusal) => return Seen::Refused(refusal.reason),
                }
            }
            Act::End(i, code) => {
                if let Some(permit) = pick(&mut self.permits, i) {
                    self.upstream.judge(now, &permit, &outcome(code));
                    self.upstream.release(now, permit, Release::Done, &mut wake);
                }
            }
            Act::Let(i, how) => {
                if let Some(permit) = pick(&mut self.permits, i) {
                    self.upstream.release(now, permit, how, &mut wake);
                }
            }
            Act::Pay => match self.upstream.pay(now, Fault::Server, Child::NONE) {
                Ok(receipt) => self.receipts.push(receipt),
                Err(reason) => return Seen::Refused(reason),
            },
            Act::Refund => {
                if let Some(receipt) = self.receipts.pop() {
                    self.upstream.refund(now, receipt);
                }
            }
            Act::RetriedWell => {
                if let Some(receipt) = self.receipts.pop() {
                    self.upstream.retried_well(now, receipt);
                }
            }
        }
        assert!(wake.is_empty(), "nobody queues");
        Seen::Done
    }

    /// What the control behind this has counted.
    fn would_refuse(&mut self, now: Time, seen: &Seen) -> u64 {
        let snapshot = self.upstream.snapshot(now);
        match seen {
            Seen::Queued => snapshot.would_refuse.in_flight,
            Seen::Refused(Reason::InFlightFull | Reason::DeadlineMargin) => {
                snapshot.would_refuse.in_flight
            }
            Seen::Refused(Reason::RateLimited) => snapshot.would_refuse.rate_limit,
            Seen::Refused(Reason::Shed) => snapshot.would_refuse.throttle,
            Seen::Refused(Reason::BudgetEmpty) => snapshot.would_refuse.budget,
            Seen::Refused(Reason::BreakerOpen | Reason::ProbeLimit) => {
                snapshot.breaker_would_refuse
            }
            other => panic!("no control says {other:?}"),
        }
    }
}

/// Every control, and tight.
fn tight() -> UpstreamSpec {
    UpstreamSpec {
        budget: budget::tokens::Spec { max: 3, ..Default::default() }.into(),
        in_flight: Limit::Fixed(4),
        pools: pools::Spec::of(&[2]).unwrap(),
        queue: 2,
        endpoints: 2,
        rate_limit: Some(limiter::Spec { per_second: 20.0, burst: 6 }),
        throttle: Some(throttle::Spec::default()),
        ejection: Some(Ejection { after: 2, ..Ejection::default() }),
        breaker: breaker::Spec { min_calls: 4, ..breaker::Spec::default() },
        ..UpstreamSpec::gateway()
    }
}

fn with_modes(spec: UpstreamSpec, mode: Mode) -> UpstreamSpec {
    let modes = if mode == Mode::Report { Modes::REPORT } else { Modes::default() };
    let breaker = breaker::Spec { mode: mode.into(), ..spec.breaker };
    UpstreamSpec { breaker, modes, ..spec }
}

/// No control at all.
fn off() -> UpstreamSpec {
    UpstreamSpec {
        budget: budget::Spec::Unlimited,
        in_flight: Limit::Off,
        endpoints: 2,
        ejection: None,
        breaker: breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() },
        ..UpstreamSpec::library()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// X10: with every control in report mode everything is admitted that is admitted with none, whatever happens; and the
    /// first that a control would refuse, it has counted.
    #[test]
    fn report_mode_admits_what_is_admitted_with_no_control_at_all(
        acts in prop::collection::vec((act(), 0..60u64), 1..150),
        seed in any::<u64>(),
    ) {
        let mut report = World::new(with_modes(tight(), Mode::Report), seed);
        let mut free = World::new(off(), seed);
        let mut enforce = Some(World::new(with_modes(tight(), Mode::Enforce), seed));
        let mut now = at(1_000);
        for (act, step) in acts {
            now = now + Duration::from_millis(step);
            let seen = report.act(now, &act);
            prop_assert_eq!(&seen, &free.act(now, &act));
            // In step until something is decided against; after that the two have seen different traffic.
            let Some(world) = &mut enforce else { continue };
            let obeyed = world.act(now, &act);
            if seen == Seen::Done && obeyed != seen {
                prop_assert_eq!(report.would_refuse(now, &obeyed), 1);
                enforce = None;
            } else if obeyed != seen || report.upstream.snapshot(now).would_refuse.ejection > 0 {
                enforce = None;
            }
        }
    }
}
