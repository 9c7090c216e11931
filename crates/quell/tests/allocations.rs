//! The success path of a call that need not queue allocates nothing between its first step and its last.
#![allow(clippy::unwrap_used)]

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use quell::{
    Clock, Limit, Quell, Upstream,
    core::{
        Input, Outcome, Policy, Step,
        spec::{PolicySpec, UpstreamSpec},
    },
    tower::QuellLayer,
    upstream::Host,
};
use tower::{Layer as _, Service as _, service_fn};

#[test]
fn a_call_that_succeeds_at_once_allocates_nothing() {
    let policy = Policy::new(PolicySpec::gateway()).unwrap();
    let host = Host { clock: Clock::manual(), observer: None, seed: 1 };
    let upstream = Upstream::new("u", UpstreamSpec::gateway(), policy.per_try(), host).unwrap();
    let call = || {
        let mut guard = upstream.begin(&policy);
        let Step::Send(send) = guard.step(Input::Start) else { panic!() };
        guard.call().sent(send.slot);
        let _ = guard.step(Input::Ended { slot: send.slot, outcome: Outcome::Success });
    };
    call();
    let control = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(control.count_total, 1, "the harness counts");
    let allocated = allocation_counter::measure(|| (0..1_000).for_each(|_| call()));
    assert_eq!(allocated.count_total, 0);
}

/// The whole layer: deadline, retries with a budget, breaker, adaptive limit and queue.
#[test]
fn a_service_that_answers_costs_no_allocation_whether_at_once_or_later() {
    let clock = Clock::tokio();
    let quell = Quell::upstream("u").clock(clock).in_flight(Limit::Adaptive { ceiling: 512 });
    let layer = QuellLayer::new(quell.idempotent().build().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let call = |service: &mut dyn FnMut(&mut Context<'_>) -> bool| {
        assert!(service(&mut Context::from_waker(Waker::noop())));
    };
    let mut at_once = layer.layer(service_fn(|n: u64| std::future::ready(Ok::<_, Infallible>(n))));
    let mut later = layer.layer(service_fn(|n: u64| Later { polled: false, n }));
    let mut once = || {
        call(&mut |cx| {
            let Poll::Ready(Ok(())) = at_once.poll_ready(cx) else { return false };
            matches!(pin!(at_once.call(7)).poll(cx), Poll::Ready(Ok(7)))
        });
        call(&mut |cx| {
            let Poll::Ready(Ok(())) = later.poll_ready(cx) else { return false };
            let mut call = pin!(later.call(7));
            call.as_mut().poll(cx).is_pending() && matches!(call.poll(cx), Poll::Ready(Ok(7)))
        });
    };
    once();
    let allocated = allocation_counter::measure(|| (0..1_000).for_each(|_| once()));
    assert_eq!(allocated.count_total, 0);
}

/// Answers when it is asked for the second time.
struct Later {
    polled: bool,
    n: u64,
}

impl Future for Later {
    type Output = Result<u64, Infallible>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if std::mem::replace(&mut self.polled, true) {
            Poll::Ready(Ok(self.n))
        } else {
            Poll::Pending
        }
    }
}
