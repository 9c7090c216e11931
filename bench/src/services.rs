//! Services: what comes as layers around a tower service, ours and the peers'.
//!
//! **Why.** A layer is what a team adopts, so it is measured as one: `poll_ready`, `call`, and the future polled to its
//! end. What is timed is the layers, for the service inside does next to nothing: it answers at once, or at the second
//! look, as every real one does that has to wait for somebody.
//!
//! **How.** Services are called without being cloned first, which a shared one would have to be. Timeouts need a runtime
//! around them; whoever measures one enters it first.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use anyhow::Result;
use tower::{
    Service, ServiceBuilder,
    limit::ConcurrencyLimitLayer,
    retry::{
        Policy, RetryLayer,
        budget::{Budget, TpsBudget},
    },
    service_fn,
    timeout::TimeoutLayer,
};
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_ratelimiter::RateLimiterLayer;
use tower_resilience_retry::RetryLayer as ResilientRetryLayer;
use tower_resilience_timelimiter::{TimeLimiterError, TimeLimiterLayer};

use crate::{does::does, work::Work};

/// Far more per second than can be asked: all pass.
pub const RATE: u32 = 1_000_000_000;
/// As the gateway's preset has it.
pub const IN_FLIGHT: u32 = 4096;
/// One attempt, as the library's preset has it.
const PER_TRY: Duration = Duration::from_secs(10);
const FIRST_WAIT: Duration = Duration::from_millis(50);

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

fn slots() -> ConcurrencyLimitLayer {
    ConcurrencyLimitLayer::new(IN_FLIGHT as usize)
}

fn retries() -> RetryLayer<Budgeted> {
    RetryLayer::new(Budgeted(Arc::new(TpsBudget::default())))
}

/// tower: a concurrency limit around retries with a budget. It has no breaker, and its rate limit cannot be shared.
pub fn tower() -> impl Work {
    calls(ServiceBuilder::new().layer(slots()).layer(retries()).service(service_fn(answer)))
}

/// The same, and each attempt may take so long.
pub fn tower_timed<A: Answers>() -> impl Work {
    let layers = ServiceBuilder::new().layer(slots()).layer(retries());
    calls(layers.layer(TimeoutLayer::new(PER_TRY)).service(service_fn(A::answer)))
}

/// tower's concurrency limit alone.
pub fn concurrency_limit() -> impl Work {
    calls(ServiceBuilder::new().layer(slots()).service(service_fn(answer)))
}

/// tower-resilience: a rate limit, a bulkhead and a breaker around retries. The bulkhead may wait without end, as one that
/// does not would start a timer for every call.
pub fn tower_resilience() -> Result<impl Work> {
    let retry = ResilientRetryLayer::<u64, u64, Infallible>::builder().max_attempts(2);
    let service = ServiceBuilder::new()
        .layer(RateLimiterLayer::burst(RATE as usize, RATE as usize).build()?)
        .layer(BulkheadLayer::builder().max_concurrent_calls(IN_FLIGHT as usize).build()?)
        .layer(CircuitBreakerLayer::standard().build()?)
        .layer(retry.exponential_backoff(FIRST_WAIT).build())
        .service(service_fn(answer));
    Ok(calls(service))
}

/// The same, and each attempt may take so long.
pub fn tower_resilience_timed<A: Answers>() -> Result<impl Work> {
    type Timed = TimeLimiterError<Infallible>;
    let retry = ResilientRetryLayer::<u64, u64, Timed>::builder().max_attempts(2);
    let service = ServiceBuilder::new()
        .layer(RateLimiterLayer::burst(RATE as usize, RATE as usize).build()?)
        .layer(BulkheadLayer::builder().max_concurrent_calls(IN_FLIGHT as usize).build()?)
        .layer(CircuitBreakerLayer::standard().build()?)
        .layer(retry.exponential_backoff(FIRST_WAIT).build())
        .layer(TimeLimiterLayer::builder().timeout_duration(PER_TRY).build())
        .service(service_fn(A::answer));
    Ok(calls(service))
}

/// How the service inside answers.
pub trait Answers: 'static {
    /// An answer on its way.
    type Answer: Future<Output = Result<u64, Infallible>> + Send + 'static;

    /// Answers.
    fn answer(request: u64) -> Self::Answer;
}

/// At the first look.
#[derive(Debug)]
pub struct AtOnce;

impl Answers for AtOnce {
    type Answer = Ready<Result<u64, Infallible>>;

    fn answer(request: u64) -> Self::Answer {
        answer(request)
    }
}

/// At the second look, as every real service does.
#[derive(Debug)]
pub struct Later {
    request: u64,
    looked: bool,
}

impl Answers for Later {
    type Answer = Self;

    fn answer(request: u64) -> Self {
        Self { request, looked: false }
    }
}

impl Future for Later {
    type Output = Result<u64, Infallible>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if std::mem::replace(&mut self.looked, true) {
            Poll::Ready(Ok(black_box(self.request)))
        } else {
            Poll::Pending
        }
    }
}

fn answer(request: u64) -> Ready<Result<u64, Infallible>> {
    ready(Ok(black_box(request)))
}

/// One call after the other.
pub fn calls<S: Service<u64>>(mut service: S) -> impl Work {
    does(move || {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else { return false };
        comes_true(service.call(black_box(1)))
    })
}

/// Whether a future has its value at the first or the second look.
#[inline]
pub fn comes_true<T, E>(future: impl Future<Output = Result<T, E>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(future);
    match future.as_mut().poll(&mut context) {
        Poll::Ready(result) => result.is_ok(),
        Poll::Pending => matches!(future.poll(&mut context), Poll::Ready(Ok(_))),
    }
}
