//! Theirs: what others offer for the same, each as its documentation uses it.
//!
//! All of them can be shared between threads and read their own clock where they need one. All are set so that a
//! successful call passes, with the gateway's numbers where they have such a number.

use std::{hint::black_box, num::NonZeroU32, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use failsafe::{CircuitBreaker, Config};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use quell_bench::{
    does::does,
    services::{IN_FLIGHT, RATE},
    work::Work,
};
use recloser::{Error, Recloser};
use tokio::sync::Semaphore;
use tower::retry::budget::{Budget, TpsBudget};
use tower_resilience_retry::{ExponentialRandomBackoff, IntervalFunction};

use crate::policies::FOR_LONG;

/// How far back a budget looks.
const TTL: Duration = Duration::from_secs(10);

/// What a careful team puts together: a rate limit, a bulkhead, a breaker and a retry budget.
pub(crate) fn by_hand() -> Result<impl Work + Clone + Send> {
    let (limiter, slots) = (Arc::new(direct()?), Arc::new(Semaphore::new(IN_FLIGHT as usize)));
    let (breaker, budget) = (Arc::new(Recloser::default()), Arc::new(TpsBudget::default()));
    Ok(does(move || {
        if limiter.check().is_err() {
            return false;
        }
        let Ok(_slot) = slots.try_acquire() else { return false };
        let answer = breaker.call(|| black_box(Ok::<(), ()>(())));
        budget.deposit();
        answer.is_ok()
    }))
}

/// governor: one cell.
pub(crate) fn governor() -> Result<impl Work> {
    let limiter = direct()?;
    Ok(does(move || limiter.check().is_ok()))
}

/// tower's budget: a deposit pays for the next withdrawal.
pub(crate) fn tps_budget() -> Result<impl Work> {
    let budget = TpsBudget::new(TTL, 1000, 1.0);
    Ok(does(move || {
        budget.deposit();
        budget.withdraw()
    }))
}

/// recloser, closed.
pub(crate) fn recloser() -> Result<impl Work> {
    let breaker = Recloser::default();
    Ok(does(move || breaker.call(|| black_box(Ok::<(), ()>(()))).is_ok()))
}

/// recloser, open.
pub(crate) fn recloser_open() -> Result<impl Work> {
    let breaker = Recloser::custom().closed_len(20).open_wait(FOR_LONG).build();
    for _ in 0..=20 {
        let _ = breaker.call(|| Err::<(), ()>(()));
    }
    let refused = matches!(breaker.call(|| Ok::<(), ()>(())), Err(Error::Rejected));
    ensure!(refused, "recloser did not open");
    Ok(does(move || {
        let answer = breaker.call(|| black_box(Ok::<(), ()>(())));
        matches!(answer, Err(Error::Rejected))
    }))
}

/// failsafe with its default rules, closed.
pub(crate) fn failsafe() -> Result<impl Work> {
    let breaker = Config::new().build();
    Ok(does(move || breaker.call(|| black_box(Ok::<(), ()>(()))).is_ok()))
}

/// tokio's semaphore: a permit is taken and dropped.
pub(crate) fn semaphore() -> Result<impl Work> {
    let slots = Semaphore::new(IN_FLIGHT as usize);
    Ok(does(move || black_box(slots.try_acquire()).is_ok()))
}

/// tower-resilience's backoff, from nothing to twice the interval.
pub(crate) fn random_backoff() -> Result<impl Work> {
    let backoff = ExponentialRandomBackoff::new(Duration::from_millis(50), 1.0)?
        .max_interval(Duration::from_secs(1));
    Ok(does(move || backoff.next_interval(black_box(1)) <= FOR_LONG))
}

fn direct() -> Result<DefaultDirectRateLimiter> {
    let rate = NonZeroU32::new(RATE).context("a rate of nothing")?;
    Ok(RateLimiter::direct(Quota::per_second(rate)))
}
