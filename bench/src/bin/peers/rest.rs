//! Rest: the policies that have no peer here, for what each decision costs. Pure: without lock and clock.

use std::{hint::black_box, time::Duration};

use anyhow::Result;
use quell::core::{
    Failure, Fault, Outcome, Rng, Stamp, Time,
    credit::{Credit, Retries, Role, Sends},
    endpoints::{Ejection, Endpoints, Tried},
    hedge::Hedge,
    idempotency::{self, Begin, Ending, Fingerprint, Owner},
    ladder::{self, Ladder, Next},
    latency::Latency,
    lease::{self, Planner, Pool},
    limiter,
    limiters::Limiters,
    queue::{Entry, Order, Queue},
    throttle::{self, Throttle},
};
use quell_bench::{
    does::does,
    work::{SEED, Work},
};

const EVERY: Duration = Duration::from_micros(100);

/// A caller joins a queue of sixteen and the next one goes.
pub(crate) fn queue() -> impl Work {
    let mut queue = Queue::new(64, Order::AdaptiveLifo);
    let entry = |item: u64| Entry {
        item,
        rank: 3,
        caller: 0,
        wait_until: Time::MAX,
        useful_until: Time::MAX,
    };
    let mut now = Time::ZERO;
    for item in 0..16 {
        let _ = queue.push(now, entry(item));
    }
    does(move || {
        now = now + EVERY;
        let _ = queue.push(now, entry(black_box(1)));
        queue.expired(now).is_none() && queue.pop(now).is_some()
    })
}

/// Asked, and told of an answer.
pub(crate) fn throttle() -> Result<impl Work> {
    let (mut now, mut rng) = (Time::ZERO, Rng::new(SEED));
    let mut throttle = Throttle::new(throttle::Spec::default(), now)?;
    Ok(does(move || {
        now = now + EVERY;
        let passes = throttle.check(now, &mut rng).is_ok();
        throttle.accepted(now);
        passes
    }))
}

/// The less loaded of two of eight, and its answer.
pub(crate) fn endpoints() -> Result<impl Work> {
    let (mut now, mut rng) = (Time::ZERO, Rng::new(SEED));
    let mut endpoints = Endpoints::new(8, Some(Ejection::default()), now)?;
    Ok(does(move || {
        now = now + EVERY;
        let chosen = endpoints.choose(now, black_box(Tried::NOWHERE), &mut rng);
        endpoints.sent(chosen);
        endpoints.judge(chosen, Some(true), now);
        endpoints.done(chosen);
        chosen < 8
    }))
}

/// An attempt takes its loan and its reply brings it back.
pub(crate) fn credit() -> impl Work {
    does(move || {
        let mut credit = Credit::new(Role::Edge, black_box(3), None);
        let loan = credit.lend(false);
        credit.settle(loan, black_box(Sends::new(1)), Retries::new(2));
        credit.left() == 2
    })
}

/// One of a thousand keys.
pub(crate) fn limiters() -> Result<impl Work> {
    let spec = limiter::Spec { per_second: 1_000_000.0, burst: 1_000_000 };
    let (mut now, mut rng) = (Time::ZERO, Rng::new(SEED));
    let mut limiters = Limiters::new(spec, 1_000, now)?;
    Ok(does(move || {
        now = now + EVERY;
        limiters.take(now, rng.below(1_000), black_box(1)).is_ok()
    }))
}

/// When a hedge would go out, with the quantile that it takes.
pub(crate) fn hedge() -> Result<impl Work> {
    let (hedge, mut latency) = (Hedge::new(0.95, Duration::ZERO)?, Latency::new(Time::ZERO));
    for i in 0..1_000 {
        latency.record(Time::ZERO, Duration::from_micros(100 + i * 7));
    }
    Ok(does(move || black_box(&hedge).delay(black_box(&latency)).is_some()))
}

/// A key is claimed and its call completed.
pub(crate) fn idempotency() -> Result<impl Work> {
    let rules = idempotency::Rules::new(idempotency::Spec::default())?;
    let (now, payload, me) = (Stamp::ZERO, Fingerprint([7; 32]), Owner(1));
    Ok(does(move || {
        let begun = idempotency::begin(None, now, me, black_box(payload), &rules);
        let Begin::Claim(record) = begun else { return false };
        let Some(ending) = Ending::of(201, false, Some(512)) else { return false };
        idempotency::complete(Some(&record), now, me, record.fence(), ending, &rules).is_ok()
    }))
}

/// A failure finds its tier.
pub(crate) fn ladder() -> Result<impl Work> {
    let ladder = Ladder::new(&ladder::Spec::default())?;
    let failed = Outcome::Failed(Failure::of(Fault::Server));
    Ok(does(move || {
        let mut state = ladder::CallState::default();
        matches!(ladder.step(&mut state, Stamp::ZERO, black_box(&failed)), Next::Retry { .. })
    }))
}

/// A token out of what was leased; one call in many asks for more.
pub(crate) fn lease() -> Result<impl Work> {
    let spec = lease::Spec { per_second: 100_000, burst: 100_000, ..lease::Spec::default() };
    let rules = lease::Rules::new(spec)?;
    let (mut now, mut millis, mut rng) = (Time::ZERO, 1, Rng::new(SEED));
    let (mut planner, mut pool) = (Planner::new(rules), Pool::new(&rules, Stamp::from_millis(1)));
    let mut calls = 0u64;
    Ok(does(move || {
        now = now + EVERY;
        calls += 1;
        if calls % 100 == 1 {
            millis += 10;
            if let Some(request) = planner.want(now, &mut rng) {
                planner.granted(
                    now,
                    request.id,
                    pool.lease(&rules, Stamp::from_millis(millis), &request),
                );
            }
        }
        planner.take(now, black_box(1)).is_ok() || calls < 30_000
    }))
}
