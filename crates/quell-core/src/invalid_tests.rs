//! Every way in which a spec of this crate can be wrong: what comes out names the field, the value and the fix.

use core::time::Duration;

use crate::{
    Fault, Policy, Time, Upstream,
    backoff::{self, Backoff, Invalid as OfBackoff, Jitter, Shape, Waits},
    breaker::{
        self, Breaker, Invalid as OfBreaker,
        record::{Invalid as OfRecord, List, Record},
    },
    budget::{
        self, Bucket, Budget, Division, Invalid as OfBudget, Purse, adaptive, grpc, probabilistic,
        ratio, sampled, tokens, window,
    },
    endpoints::{Ejection, Endpoints, Invalid as OfEndpoints},
    hedge::{Hedge, Invalid as OfHedge},
    idempotency::{self, Invalid as OfKeys},
    in_flight::{InFlight, Invalid as OfInFlight, Limit},
    keyed::{Invalid as OfKeyed, Keyed},
    ladder::{self, Invalid as OfLadder, Ladder, Names},
    lease::{self, Invalid as OfLease},
    limiter::{self, Invalid as OfLimiter, Limiter},
    limiters::{Invalid as OfLimiters, Limiters},
    pools::{self, Invalid as OfPools, Pools},
    spec::{Invalid as OfSpec, PolicySpec, UpstreamSpec},
    throttle::{self, Invalid as OfThrottle},
};

const NOTHING: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

/// Checks one example of every variant: that it is what comes out, and how its message begins, what it repeats and
/// that it says what to write. Does not compile while a variant is left out.
macro_rules! every {
    ($invalid:ident: $($variant:ident, $begins:literal, $value:literal, $wrong:expr;)+) => {
        let _all = |invalid: &$invalid| match invalid {
            $($invalid::$variant { .. } => (),)+
        };
        $(
            let invalid = $wrong.expect_err(stringify!($variant));
            let message = invalid.to_string();
            assert!(matches!(invalid, $invalid::$variant { .. }), "{invalid:?}: {message}");
            assert!(message.starts_with($begins), "names no field: {message}");
            let value = message[$begins.len()..].split(": ").next().unwrap();
            assert!(value.contains($value), "does not say what was written: {message}");
            assert!(message.contains("write"), "does not say what to write: {message}");
        )+
    };
}

fn policy(change: impl Fn(&mut PolicySpec)) -> Result<Policy, OfSpec> {
    let mut spec = PolicySpec::library();
    change(&mut spec);
    Policy::new(spec)
}

fn upstream(change: impl Fn(&mut UpstreamSpec)) -> Result<Upstream, OfSpec> {
    let mut spec = UpstreamSpec::gateway();
    change(&mut spec);
    Upstream::new(spec, SECOND, 1, Time::ZERO)
}

#[test]
fn every_wrong_policy_names_the_field_the_value_and_the_fix() {
    every! { OfSpec:
        Attempts, "attempts is ", "0", policy(|p| p.attempts = 0);
        Timeout, "timeout is ", "0s", policy(|p| p.timeout = NOTHING);
        PerTry, "per_try_timeout is ", "31s", policy(|p| p.per_try_timeout = Some(31 * SECOND));
        QueueWait, "in_flight.queue_wait is ", "0s", upstream(|u| u.queue_wait = Some(NOTHING));
        Backoff, "backoff.base is ", "0s", policy(|p| p.backoff.base = NOTHING);
        Budget, "budget.max is ", "0",
            upstream(|u| u.budget = tokens::Spec { max: 0, ..Default::default() }.into());
        Breaker, "breaker.open is ", "0s", upstream(|u| u.breaker.open = NOTHING);
        Endpoints, "endpoints is ", "empty", upstream(|u| u.endpoints = 0);
        RateLimit, "rate_limit.burst is ", "0",
            upstream(|u| u.rate_limit = Some(limiter::Spec { per_second: 1.0, burst: 0 }));
        Throttle, "throttle.k is ", "1",
            upstream(|u| u.throttle = Some(throttle::Spec { k: 1.0, ..throttle::Spec::default() }));
        InFlight, "in_flight.limit is ", "0", upstream(|u| u.in_flight = Limit::Fixed(0));
        Pools, "in_flight.pools[0] is ", "0",
            upstream(|u| u.pools = pools::Spec::of(&[0]).unwrap());
    }
}

#[test]
fn every_wrong_backoff_names_the_field_the_value_and_the_fix() {
    let backoff =
        |shape, base, cap, jitter| Backoff::new(backoff::Spec { shape, base, cap, jitter });
    let grows = |factor| Shape::Exponential { factor };
    every! { OfBackoff:
        Base, "backoff.base is ", "0s", backoff(Shape::Fixed, NOTHING, SECOND, Jitter::Full);
        Factor, "backoff.factor is ", "NaN", backoff(grows(f64::NAN), SECOND, SECOND, Jitter::Full);
        Cap, "backoff.cap is ", "0ns", backoff(grows(2.0), SECOND, NOTHING, Jitter::Full);
        Count, "backoff.waits has ", "17", Waits::new(&[SECOND; 17]);
        Wait, "backoff.waits has 0s in position ", "2", Waits::new(&[SECOND, NOTHING]);
        Share, "backoff.jitter is proportional by ", "NaN",
            backoff(grows(2.0), SECOND, SECOND, Jitter::Proportional(f64::NAN));
        Decorrelated, "backoff.jitter is decorrelated", "linear",
            backoff(Shape::Linear, SECOND, SECOND, Jitter::Decorrelated);
    }
    // The word for a shape that cannot be decorrelated is the one that is written.
    for (shape, word) in [
        (Shape::None, "kind is none:"),
        (Shape::Fixed, "kind is fixed:"),
        (Shape::Linear, "kind is linear:"),
        (Shape::List(Waits::new(&[SECOND]).unwrap()), "kind is list:"),
    ] {
        let message = backoff(shape, SECOND, SECOND, Jitter::Decorrelated).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn every_wrong_budget_names_the_field_the_value_and_the_fix() {
    fn budget(spec: impl Into<budget::Spec>) -> Result<Budget, OfBudget> {
        Budget::new(spec, Time::ZERO)
    }
    let plain = tokens::Spec::default();
    let chance = probabilistic::Spec::default();
    let careful = adaptive::Spec::default();
    let cost = tokens::Cost { connect: 2_000_001, ..tokens::Cost::default() };
    every! { OfBudget:
        Max, "budget.max is ", "0", budget(grpc::Spec { bucket: Bucket::full(0, 0.1) });
        Ratio, "budget.ratio is ", "NaN", budget(window::Spec { ratio: f64::NAN, ..Default::default() });
        Refill, "budget.refill is ", "0s", budget(tokens::Spec { refill: Some(NOTHING), ..plain });
        Start, "budget.start is ", "101", budget(tokens::Spec { start: Some(101), ..plain });
        PauseBelow, "budget.pause_below is ", "NaN", budget(tokens::Spec { pause_below: f64::NAN, ..plain });
        Cost, "budget.cost is ", "2000001", budget(tokens::Spec { cost, max: 2, ..plain });
        Window, "budget.window is ", "0ns", budget(ratio::Spec { window: NOTHING, ..Default::default() });
        Floor, "budget.floor is ", "NaN", budget(ratio::Spec { floor: f64::NAN, ..Default::default() });
        Alpha, "budget.alpha is ", "NaN", budget(adaptive::Spec { alpha: f64::NAN, ..careful });
        SuccessFloor, "budget.success_floor is ", "1.5", budget(adaptive::Spec { success_floor: 1.5, ..careful });
        Target, "budget.target is ", "NaN", budget(probabilistic::Spec { target: f64::NAN, ..chance });
        Unknown, "budget.unknown is ", "NaN", budget(probabilistic::Spec { unknown: f64::NAN, ..chance });
        HalfLife, "budget.half_life is ", "0ns", budget(probabilistic::Spec { half_life: NOTHING, ..chance });
        Fraction, "budget.fraction is ", "NaN", budget(sampled::Spec { fraction: f64::NAN, ..Default::default() });
        Instances, "budget.instances is ", "0", Division { instances: 0, ephemeral: false }.of(plain);
        Children, "budget.children.max is ", "0",
            Purse::new(plain, Some(tokens::Spec { max: 0, ..plain }.into()), Time::ZERO);
    }
    let children = Some(tokens::Spec { max: 0, ..plain }.into());
    let message = upstream(|u| u.children = children).unwrap_err().to_string();
    assert!(message.starts_with("budget.children.max is 0"), "{message}");
}

#[test]
fn every_wrong_breaker_names_the_field_the_value_and_the_fix() {
    let breaker = |change: fn(&mut breaker::Spec)| {
        let mut spec = breaker::Spec::default();
        change(&mut spec);
        Breaker::new(spec, Time::ZERO)
    };
    every! { OfBreaker:
        Window, "breaker.window is ", "0ns", breaker(|b| b.window = NOTHING);
        MinCalls, "breaker.min_calls is ", "0", breaker(|b| b.min_calls = 0);
        Calls, "breaker.calls is ", "4097", breaker(|b| b.over = breaker::Over::Calls(4_097));
        FailureRate, "breaker.failure_rate is ", "NaN", breaker(|b| b.failure_rate = f64::NAN);
        Slow, "breaker.slow is ", "0s", breaker(|b| b.slow = Some(NOTHING));
        SlowRate, "breaker.slow_rate is ", "NaN",
            breaker(|b| (b.slow, b.slow_rate) = (Some(SECOND), f64::NAN));
        Over, "breaker.over is ", "\"off\"", breaker(|b| b.over = breaker::Over::Off);
        Open, "breaker.open is ", "0s", breaker(|b| b.open = NOTHING);
        Growth, "breaker.growth is ", "NaN", breaker(|b| b.growth = f64::NAN);
        OpenMax, "breaker.open_max is ", "0ns", breaker(|b| (b.growth, b.open_max) = (2.0, NOTHING));
        Probes, "breaker.probes is ", "17", breaker(|b| b.probes = 17);
        Successes, "breaker.successes is ", "0", breaker(|b| b.successes = 0);
        Failures, "breaker.failures is ", "0", breaker(|b| b.failures = 0);
        Keys, "breaker.keys is ", "0", breaker::Keyed::new(breaker::Spec::default(), 0, Time::ZERO);
        Record, "breaker.record and breaker.ignore both have the code ", "503", breaker(|b| {
            let list = List::of(&[503], &[]).unwrap();
            b.record = Record { record: list, ignore: list };
        });
    }
    let both = |codes: &[u16], faults: &[Fault]| {
        let list = List::of(codes, faults).unwrap();
        let record = Record { record: list, ignore: list };
        match Breaker::new(breaker::Spec { record, ..breaker::Spec::default() }, Time::ZERO) {
            Err(OfBreaker::Record(invalid)) => Err(invalid),
            other => Ok(other),
        }
    };
    every! { OfRecord:
        TooMany, "breaker.record or breaker.ignore has ", "17 codes", List::of(&[503; 17], &[]);
        NoCode, "breaker.record or breaker.ignore has the code ", "0", List::of(&[0], &[]);
        Code, "breaker.record and breaker.ignore both have the code ", "503", both(&[503], &[]);
        Fault, "breaker.record and breaker.ignore both have ", "Timeout faults", both(&[], &[Fault::Timeout]);
    }
}

#[test]
fn every_wrong_limit_names_the_field_the_value_and_the_fix() {
    let limit = |per_second, burst| limiter::Spec { per_second, burst };
    every! { OfLimiter:
        PerSecond, "rate_limit.per_second is ", "NaN", Limiter::new(limit(f64::NAN, 1), Time::ZERO);
        Burst, "rate_limit.burst is ", "0", Limiter::new(limit(1.0, 0), Time::ZERO);
    }
    every! { OfLimiters:
        Limit, "rate_limit.burst is ", "0", Limiters::new(limit(1.0, 0), 1, Time::ZERO);
        Keys, "rate_limit.keys is ", "0", Limiters::new(limit(1.0, 1), 0, Time::ZERO);
    }
    every! { OfKeyed: Keys, "keys is ", "0", Keyed::new(0, ()); }
    every! { OfInFlight:
        Fixed, "in_flight.limit is ", "0", InFlight::new(Limit::Fixed(0), SECOND);
        Ceiling, "in_flight.ceiling is ", "7", InFlight::new(Limit::Adaptive { ceiling: 7 }, SECOND);
    }
    let eject = |after, base| {
        let ejection = Some(Ejection { after, base, most: SECOND });
        Endpoints::new(2, ejection, Time::ZERO)
    };
    let pools = |caps: &[u32]| {
        pools::Spec::of(caps).and_then(|spec| Pools::new(spec, Limit::Fixed(200), 1))
    };
    every! { OfPools:
        TooMany, "in_flight.pools has ", "9", pools(&[1; 9]);
        Empty, "in_flight.pools[1] is ", "0", pools(&[1, 0]);
        Above, "in_flight.pools[0] is ", "201", pools(&[201]);
    }
    every! { OfEndpoints:
        None, "endpoints is ", "empty", Endpoints::new(0, None, Time::ZERO);
        After, "ejection.after is ", "0", eject(0, SECOND);
        Time, "ejection.base is ", "2s", eject(1, 2 * SECOND);
    }
    let throttle =
        |k, window, most| throttle::Throttle::new(throttle::Spec { k, window, most }, Time::ZERO);
    every! { OfThrottle:
        K, "throttle.k is ", "NaN", throttle(f64::NAN, SECOND, 0.9);
        Window, "throttle.window is ", "0ns", throttle(2.0, NOTHING, 0.9);
        Most, "throttle.most is ", "NaN", throttle(2.0, SECOND, f64::NAN);
    }
    every! { OfHedge: After, "hedge.after is ", "NaN", Hedge::new(f64::NAN, NOTHING); }
}

#[test]
fn every_wrong_ladder_lease_or_key_names_the_field_the_value_and_the_fix() {
    let formula = |factor, cap| {
        Ladder::new(&ladder::Spec::Formula { attempts: 4, base: SECOND, factor, cap })
    };
    every! { OfLadder:
        Count, "tiers has ", "0 delays", Ladder::new(&ladder::Spec::Tiers(vec![]));
        Delay, "tiers holds ", "0ns", Ladder::new(&ladder::Spec::Tiers(vec![NOTHING]));
        Factor, "tiers.factor is ", "NaN", formula(f64::NAN, SECOND);
        Cap, "tiers.cap is ", "0ns", formula(2.0, NOTHING);
        Name, "source.group is ", "\"a b\"", Names::new("topic", Some("a b"));
        Derived, "source.topic is ", "\"a-dlq\"", Names::new("a-dlq", None);
    }
    let lease = |change: fn(&mut lease::Spec)| {
        let mut spec = lease::Spec::default();
        change(&mut spec);
        lease::Rules::new(spec)
    };
    every! { OfLease:
        Zero, "rate_limit.instances is ", "0", lease(|l| l.instances = 0);
        Duration, "rate_limit.probe is ", "0ns", lease(|l| l.probe = NOTHING);
        Valid, "rate_limit.valid_for is ", "500ms", lease(|l| l.valid_for = SECOND / 2);
    }
    let keys = |lease, ttl| {
        idempotency::Rules::new(idempotency::Spec { lease, ttl, ..idempotency::Spec::default() })
    };
    every! { OfKeys:
        Lease, "idempotency.lease is ", "0ns", keys(NOTHING, SECOND);
        Ttl, "idempotency.ttl is ", "500ms", keys(SECOND, SECOND / 2);
    }
}
