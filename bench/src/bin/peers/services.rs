//! Services: peers that come as layers around a tower service.
//!
//! The service inside is ready at once and answers at once, so one look at its future is the whole call, and what is
//! timed is the layers. It is called without being cloned first, which a shared one would have to be.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use anyhow::Result;
use quell_bench::work::Work;
use tower::{
    Service, ServiceBuilder,
    limit::ConcurrencyLimitLayer,
    retry::{
        Policy, RetryLayer,
        budget::{Budget, TpsBudget},
    },
    service_fn,
};
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_ratelimiter::RateLimiterLayer;

use crate::{
    does::does,
    policies::{IN_FLIGHT, RATE},
};

/// A policy as tower's documentation writes it.
#[derive(Clone)]
struct Budgeted(Arc<TpsBudget>);

impl<E> Policy<u64, u64, E> for Budgeted {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut u64, result: &mut Result<u64, E>) -> Option<Self::Future> {
        match result {
            Ok(_) => {
                self.0.deposit();
                None
            }
            Err(_) => self.0.withdraw().then(|| ready(())),
        }
    }

    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}

/// tower: a concurrency limit around retries with a budget. It has no breaker, and its rate limit cannot be shared.
pub(crate) fn tower() -> Result<impl Work> {
    let service = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::new(IN_FLIGHT as usize))
        .layer(RetryLayer::new(Budgeted(Arc::new(TpsBudget::default()))))
        .service(service_fn(answer));
    Ok(calls(service))
}

/// tower's concurrency limit alone.
pub(crate) fn concurrency_limit() -> Result<impl Work> {
    let layer = ConcurrencyLimitLayer::new(IN_FLIGHT as usize);
    Ok(calls(ServiceBuilder::new().layer(layer).service(service_fn(answer))))
}

/// tower-resilience: a rate limit, a bulkhead and a breaker around retries. The bulkhead may wait without end, as one that
/// does not would start a timer for every call.
pub(crate) fn tower_resilience() -> Result<impl Work> {
    let rate = RateLimiterLayer::burst(RATE as usize, RATE as usize).build()?;
    let slots = BulkheadLayer::builder().max_concurrent_calls(IN_FLIGHT as usize);
    let retry = tower_resilience_retry::RetryLayer::<u64, u64, Infallible>::builder()
        .max_attempts(2)
        .exponential_backoff(Duration::from_millis(50));
    let service = ServiceBuilder::new()
        .layer(rate)
        .layer(slots.build()?)
        .layer(CircuitBreakerLayer::standard().build()?)
        .layer(retry.build())
        .service(service_fn(answer));
    Ok(calls(service))
}

fn answer(request: u64) -> Ready<Result<u64, Infallible>> {
    ready(Ok(black_box(request)))
}

fn calls<S: Service<u64>>(mut service: S) -> impl Work {
    does(move || {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else { return false };
        let future = pin!(service.call(black_box(1)));
        matches!(future.poll(&mut context), Poll::Ready(Ok(_)))
    })
}
