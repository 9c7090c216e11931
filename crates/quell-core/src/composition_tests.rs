//! Facts that span policies, and the ends of every range, through the verbs that hosts use.

use core::time::Duration;

use crate::{
    Answer, Call, Failure, Fault, Input, Outcome, Policy, Reason, Stamp, Step, Time, Upstream,
    Wake,
    breaker::{self, State},
    budget::{self, probabilistic, ratio, tokens, window},
    endpoints::Ejection,
    idempotency::{self, Begin, Ending, Fingerprint, Owner, Record, Rules},
    in_flight::Limit,
    limiter,
    spec::{PolicySpec, UpstreamSpec},
    throttle,
};

const BROKEN: Outcome = Outcome::Failed(Failure::of(Fault::Server).with_code(500));
const PAYLOAD: Fingerprint = Fingerprint([1; 32]);
const CHANGED: Fingerprint = Fingerprint([2; 32]);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A host that looks at the key of a request and then calls, as the gateway does.
struct Front {
    upstream: Upstream,
    policy: Policy,
    rules: Rules,
    record: Option<Record>,
    wake: Vec<Wake>,
}

/// What a request came to.
#[derive(Debug, PartialEq)]
enum Came {
    Sent(Option<Reason>),
    FromStore,
    Refused(Option<Reason>),
}

impl Front {
    fn new() -> Self {
        let spec = PolicySpec { attempts: 1, ..PolicySpec::gateway() };
        let policy = Policy::new(spec).unwrap();
        let upstream =
            Upstream::new(UpstreamSpec::gateway(), policy.per_try(), 1, Time::ZERO).unwrap();
        let rules = Rules::new(idempotency::Spec::default()).unwrap();
        Self { upstream, policy, rules, record: None, wake: Vec::new() }
    }

    /// A call that ends like this, or is refused.
    fn call(&mut self, now: Time, outcome: Outcome) -> Option<Reason> {
        let mut call = Call::new();
        let mut step =
            call.step(now, Input::Start, &self.policy, &mut self.upstream, &mut self.wake);
        if let Step::Send(send) = step {
            call.sent(send.slot);
            let input = Input::Ended { slot: send.slot, outcome };
            step = call.step(now, input, &self.policy, &mut self.upstream, &mut self.wake);
        }
        let Step::Finish(finish) = step else { panic!("one attempt, no queue: {step:?}") };
        (finish.answer != Answer::This || outcome != Outcome::Success).then_some(())?;
        finish.reason
    }

    /// A request with the one key there is.
    fn keyed(&mut self, now: Time, payload: Fingerprint, outcome: Outcome) -> Came {
        let (stamp, me) = (Stamp::from_millis(now.nanos_since(Time::ZERO) / 1_000_000), Owner(1));
        let begin = idempotency::begin(self.record.as_ref(), stamp, me, payload, &self.rules);
        match begin {
            Begin::Claim(record) => {
                let reason = self.call(now, outcome);
                let ending = Ending::Stored { status: 201 };
                let (rules, fence) = (&self.rules, record.fence());
                let done = idempotency::complete(Some(&record), stamp, me, fence, ending, rules);
                self.record = Some(done.unwrap());
                Came::Sent(reason)
            }
            Begin::Replay(_) => Came::FromStore,
            Begin::InFlight { .. } | Begin::Mismatch => Came::Refused(begin.reason()),
        }
    }

    /// Everything there is to know of the upstream, to the last count.
    fn everything(&self) -> String {
        format!("{:?}", self.upstream)
    }
}

/// X11.
#[test]
fn an_idempotent_replay_touches_neither_budget_nor_breaker() {
    let mut front = Front::new();
    assert_eq!(front.keyed(at(0), PAYLOAD, Outcome::Success), Came::Sent(None));
    while front.upstream.snapshot(at(0)).breaker == State::Closed {
        front.call(at(0), BROKEN);
    }
    // Closed, open and half-open: a reply that is stored is there all the same, and nothing hears of it.
    for (now, state) in [(at(1), State::Open), (at(500), State::HalfOpen)] {
        assert_eq!(front.upstream.snapshot(now).breaker, state);
        let before = front.everything();
        for _ in 0..1_000 {
            assert_eq!(front.keyed(now, PAYLOAD, BROKEN), Came::FromStore);
            let refused = Came::Refused(Some(Reason::KeyMismatch));
            assert_eq!(front.keyed(now, CHANGED, BROKEN), refused);
        }
        assert_eq!(front.everything(), before);
    }
    // No probe was used up, and no success was earned: two real ones close it.
    let successes = front.upstream.snapshot(at(500)).retries.successes;
    assert_eq!(successes, 1);
    assert_eq!(front.call(at(500), Outcome::Success), None);
    assert_eq!(front.upstream.snapshot(at(500)).breaker, State::HalfOpen);
    assert_eq!(front.call(at(500), Outcome::Success), None);
    assert_eq!(front.upstream.snapshot(at(500)).breaker, State::Closed);
}

/// X11, positive control: a host that asks to be admitted before it looks at the key leaves a trace.
#[test]
fn a_replay_that_was_admitted_first_would_be_noticed() {
    let mut front = Front::new();
    front.keyed(at(0), PAYLOAD, Outcome::Success);
    let before = front.everything();
    front.call(at(1), Outcome::Success);
    assert_eq!(front.keyed(at(1), PAYLOAD, BROKEN), Came::FromStore);
    assert_ne!(front.everything(), before);
}

/// Upstreams with every length of time at its end.
fn endless() -> Vec<UpstreamSpec> {
    let forever = Duration::MAX;
    let breaker = breaker::Spec {
        window: forever,
        slow: Some(forever),
        open: forever,
        growth: 10.0,
        open_max: forever,
        ramp: forever,
        min_calls: 1,
        ..breaker::Spec::default()
    };
    let budgets: [budget::Spec; 4] = [
        tokens::Spec { refill: Some(forever), ..tokens::Spec::default() }.into(),
        ratio::Spec { window: forever, floor: 1e6, ..ratio::Spec::default() }.into(),
        window::Spec { window: forever, ..window::Spec::default() }.into(),
        probabilistic::Spec { half_life: forever, ..probabilistic::Spec::default() }.into(),
    ];
    let endless = |budget| UpstreamSpec {
        budget,
        breaker,
        in_flight: Limit::Adaptive { ceiling: u32::MAX },
        queue: 1_000,
        endpoints: 2,
        rate_limit: Some(limiter::Spec { per_second: 1e-6, burst: u32::MAX }),
        throttle: Some(throttle::Spec { window: forever, ..throttle::Spec::default() }),
        ejection: Some(Ejection { after: 1, base: forever, most: forever }),
        ..UpstreamSpec::gateway()
    };
    budgets.into_iter().map(endless).collect()
}

/// T4: the longest of everything, at both ends of time.
#[test]
fn duration_max_in_every_field_breaks_nothing() {
    let forever = Duration::MAX;
    let mut spec = PolicySpec { timeout: forever, hint_cap: forever, ..PolicySpec::library() };
    (spec.attempts, spec.per_try_timeout) = (u32::MAX, Some(forever));
    (spec.backoff.base, spec.backoff.cap) = (forever, forever);
    let policy = Policy::new(spec).unwrap();
    let late = Failure::of(Fault::Overload).with_hint(forever);
    let outcomes = [
        Outcome::Success,
        BROKEN,
        Outcome::Failed(late),
        Outcome::Defer { after: forever },
        Outcome::Abandoned,
    ];
    for spec in endless() {
        let mut upstream = Upstream::new(spec, policy.per_try(), 1, Time::ZERO).unwrap();
        let mut wake = Vec::new();
        for now in [Time::ZERO, at(1), Time::MAX, at(2), Time::MAX] {
            for outcome in outcomes {
                let mut call = Call::new();
                call.set_repeatable(true);
                let mut step = call.step(now, Input::Start, &policy, &mut upstream, &mut wake);
                for _ in 0..3 {
                    step = match step {
                        Step::Send(send) => {
                            call.sent(send.slot);
                            let input = Input::Ended { slot: send.slot, outcome };
                            call.step(now, input, &policy, &mut upstream, &mut wake)
                        }
                        Step::Sleep { until } => {
                            assert!(until >= now);
                            call.step(until, Input::Woke, &policy, &mut upstream, &mut wake)
                        }
                        _ => break,
                    };
                }
                call.abandon(now, &mut upstream, &mut wake);
                upstream.gave_up(now, Time::ZERO, 0);
                upstream.poll(now, &mut wake);
            }
        }
        assert_eq!(upstream.snapshot(Time::MAX).in_flight, 0, "{}", spec.budget);
    }
}

/// T4: whoever polls when told never has to do so twice for the same instant.
#[test]
fn a_wake_up_lies_ahead_so_that_nobody_spins() {
    let spec = UpstreamSpec { in_flight: Limit::Fixed(1), queue: 8, ..UpstreamSpec::gateway() };
    let policy = Policy::new(PolicySpec::gateway()).unwrap();
    let mut upstream = Upstream::new(spec, policy.per_try(), 1, Time::ZERO).unwrap();
    let (mut wake, mut now, mut polls) = (Vec::new(), at(0), 0);
    let mut first = Call::new();
    let Step::Send(send) = first.step(now, Input::Start, &policy, &mut upstream, &mut wake) else {
        panic!("nothing is in the way");
    };
    first.sent(send.slot);
    first.abandon(now, &mut upstream, &mut wake); // a ghost that nobody answers
    for odd in 0..200u64 {
        // Fractions of a millisecond, so that no rounding hides a spin.
        now = now + Duration::from_nanos(7_919 * odd);
        let mut call = Call::new();
        let _ = call.step(now, Input::Start, &policy, &mut upstream, &mut wake);
        while let Some(next) = upstream.poll(now, &mut wake) {
            assert!(next > now, "told to come back at once");
            (now, polls) = (next, polls + 1);
        }
        for wake in wake.drain(..) {
            if let Ok(permit) = wake.result {
                upstream.release(now, permit, crate::Release::Ghost, &mut Vec::new());
            }
        }
    }
    assert!((100..2_000).contains(&polls), "{polls}");
}
