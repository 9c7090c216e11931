//! Policies: each of ours by itself, as a peer comes.
//!
//! **Why.** Our policies take the time as an argument and belong to one owner; a peer reads its own clock and may be
//! shared. To compare like with like, each of ours has a lock of its own here, and reads the clock wherever it needs one. In
//! the product one lock and one reading serve all of them, so these figures are the worst case for us.

use std::{hint::black_box, time::Duration};

use anyhow::{Result, bail, ensure};
use parking_lot::Mutex;
use quell::Clock;
use quell::core::{
    Admission, Ask, Failure, Fault, Outcome, Reason, Release, Rng, Time, Upstream,
    backoff::Backoff,
    breaker::{self, Breaker},
    budget::{Budget, tokens},
    in_flight::Limit,
    limiter::{Limiter, Spec},
    spec::{PolicySpec, UpstreamSpec},
};

use quell_bench::{
    does::does,
    services::{IN_FLIGHT, RATE},
    work::{SEED, Work, policy},
};

/// Longer than any benchmark.
pub(crate) const FOR_LONG: Duration = Duration::from_secs(3600);

/// A rate limit that lets pass.
pub(crate) fn limiter() -> Result<impl Work> {
    let clock = Clock::system();
    let spec = Spec { per_second: f64::from(RATE), burst: RATE };
    let limiter = Mutex::new(Limiter::new(spec, clock.now())?);
    Ok(does(move || limiter.lock().take(clock.now(), black_box(1)).is_ok()))
}

/// A success earns what the next retry costs.
pub(crate) fn budget() -> Result<impl Work> {
    let clock = Clock::system();
    let spec = tokens::Spec { ratio: 1.0, ..tokens::Spec::default() };
    let budget = Mutex::new((Budget::new(spec, clock.now())?, Rng::new(SEED)));
    Ok(does(move || {
        budget.lock().0.earn(clock.now());
        let (budget, rng) = &mut *budget.lock();
        budget.take(clock.now(), black_box(Fault::Server), rng).is_ok()
    }))
}

/// A closed breaker that is asked and told of a success.
pub(crate) fn breaker() -> Result<impl Work> {
    let clock = Clock::system();
    let spec = UpstreamSpec::gateway().breaker;
    let breaker = Mutex::new((Breaker::new(spec, clock.now())?, Rng::new(SEED)));
    Ok(does(move || {
        let pass = {
            let ((breaker, rng), now) = (&mut *breaker.lock(), clock.now());
            breaker.check(now, true, rng).is_ok().then(|| breaker.take(now))
        };
        let Some(pass) = black_box(pass) else { return false };
        let ((breaker, rng), now) = (&mut *breaker.lock(), clock.now());
        breaker.judge(now, &pass, black_box(Some(true)), rng).is_none()
    }))
}

/// The adaptive limit: a slot is taken and given back, and the limit learns. It cannot be had without the rest of an upstream, whose
/// classes it learns from, so this is all of it.
pub(crate) fn in_flight() -> Result<impl Work> {
    let clock = Clock::system();
    let limit = Limit::Adaptive { ceiling: IN_FLIGHT };
    let spec = UpstreamSpec { in_flight: limit, ..UpstreamSpec::gateway() };
    let upstream = Mutex::new(Upstream::new(spec, policy()?.per_try(), SEED, clock.now())?);
    let mut wake = Vec::new();
    Ok(does(move || {
        let admission = {
            let (upstream, now) = (&mut *upstream.lock(), clock.now());
            upstream.admit(now, black_box(&Ask::first(now)))
        };
        let Admission::Go(permit) = black_box(admission) else { return false };
        let (upstream, now) = (&mut *upstream.lock(), clock.now());
        upstream.judge(now, &permit, &Outcome::Success);
        upstream.release(now, permit, Release::Done, &mut wake);
        true
    }))
}

/// The wait before a second retry.
pub(crate) fn backoff() -> Result<impl Work> {
    let backoff = Backoff::new(PolicySpec::gateway().backoff)?;
    let rng = Mutex::new(Rng::new(SEED));
    Ok(does(move || backoff.delay(black_box(2), Duration::ZERO, &mut rng.lock()) <= FOR_LONG))
}

/// The whole upstream while its breaker is open.
pub(crate) fn refusal() -> Result<impl Work> {
    let clock = Clock::system();
    let now = clock.now();
    let open = FOR_LONG;
    let breaker = breaker::Spec { open, open_max: open, ..UpstreamSpec::gateway().breaker };
    let spec = UpstreamSpec { breaker, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, policy()?.per_try(), SEED, now)?;
    for _ in 0..breaker.min_calls {
        fail(&mut upstream, now)?;
    }
    ensure!(upstream.snapshot(now).breaker == breaker::State::Open, "the breaker did not open");
    let upstream = Mutex::new(upstream);
    Ok(does(move || {
        let mut upstream = upstream.lock();
        let now = clock.now();
        let answer = upstream.admit(now, black_box(&Ask::first(now)));
        matches!(answer, Admission::No(refusal) if refusal.reason == Reason::BreakerOpen)
    }))
}

fn fail(upstream: &mut Upstream, now: Time) -> Result<()> {
    let Admission::Go(permit) = upstream.admit(now, &Ask::first(now)) else {
        bail!("a closed breaker refused");
    };
    upstream.judge(now, &permit, &Outcome::Failed(Failure::of(Fault::Server)));
    upstream.release(now, permit, Release::Done, &mut Vec::new());
    Ok(())
}
