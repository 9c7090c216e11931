//! QuellLayer and QuellService: the engine around a service.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use quell_core::{Arrival, credit::Role};

use super::{
    calls::Calls,
    fallback::Fallback,
    future::ResponseFuture,
    plain::Plain,
    protocol::{About, Inbound, Outbound, Refused},
};
use crate::{Owned, Quell, error::CallError, quell::Latest, run::Drive};

/// Puts the engine around a service: see the [module](super).
#[derive(Debug, Clone)]
pub struct QuellLayer<P = Plain> {
    quell: Quell,
    protocol: P,
}

impl QuellLayer {
    /// For requests that can be cloned.
    pub fn new(quell: Quell) -> Self {
        Self::with(quell, Plain::default())
    }
}

impl<P> QuellLayer<P> {
    /// For requests of this protocol.
    pub fn with(quell: Quell, protocol: P) -> Self {
        Self { quell, protocol }
    }

    /// A reply that stands in if the upstream is in trouble or has too much to do: instead of an error, and instead of a
    /// last reply that counts as a failure. Which reasons that are says
    /// [`Reason::allows_fallback`](quell_core::Reason::allows_fallback). Budget, breaker and observers see the failure.
    ///
    /// ```
    /// use quell::{Clock, Quell, tower::QuellLayer};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// let prices = Quell::upstream("prices").idempotent().clock(Clock::tokio()).build()?;
    /// let down = service_fn(|_: &str| async { Err::<u32, _>(std::io::Error::other("reset")) });
    /// let service = QuellLayer::new(prices).fallback(|refused| refused.attempts).layer(down);
    /// assert_eq!(service.oneshot("pens").await?, 3); // a yesterday's price, in earnest
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn fallback<F, A>(self, stand_in: F) -> QuellLayer<Fallback<P, F>>
    where
        F: Fn(&Refused) -> A + Clone,
    {
        QuellLayer { quell: self.quell, protocol: Fallback::new(self.protocol, stand_in) }
    }
}

impl<S, P: Clone> tower_layer::Layer<S> for QuellLayer<P> {
    type Service = QuellService<S, P>;

    fn layer(&self, service: S) -> Self::Service {
        let (quell, protocol) = (self.quell.clone(), self.protocol.clone());
        QuellService { service, terms: Latest::of(&quell), quell, protocol }
    }
}

/// A service with the engine around it. Clones share the upstream's budget, breaker and limit.
///
/// Readiness is the inner service's own. The call is admitted, queued or refused in `call`; the inner service's `call`
/// runs when the future is first polled, and for every retry on a clone that was asked for readiness first. If it has no
/// room when a retry is due, the attempt waits for it and its timeout runs.
#[derive(Debug, Clone)]
pub struct QuellService<S, P = Plain> {
    service: S,
    quell: Quell,
    terms: Latest,
    protocol: P,
}

impl<S, P> QuellService<S, P> {
    /// The service inside.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// What is shared with all clones.
    pub fn quell(&self) -> &Quell {
        &self.quell
    }
}

impl<S, P, Req> tower_service::Service<Req> for QuellService<S, P>
where
    P: Outbound<Req> + Inbound<S::Response, S::Error>,
    S: tower_service::Service<P::Outgoing> + Clone,
{
    type Response = P::Answer;
    type Error = CallError<(), S::Error>;
    type Future = ResponseFuture<S, P, Req>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx).map_err(|error| CallError::not_ready(self.quell.name(), error))
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        let terms = self.terms.terms();
        let both = Arc::clone(terms.both());
        let is_chained = self.protocol.is_chained();
        let About { class, credential } = self.protocol.about(&request, &both.upstream);
        let arrive = |terms: &Owned| {
            let mut arrival = Arrival { class, credential, ..terms.arrival() };
            if is_chained && arrival.credit.is_none() {
                // No caller handed us a credit, so the chain begins here.
                arrival.joins_chain(Role::Auto, terms.rules().policy.attempts(), None);
            }
            arrival
        };
        ResponseFuture::new(Drive::begun(terms, arrive, |admitted| {
            // The one that said it was ready goes with the call, as its clone may not be. Who has to queue does without, or
            // those who have a slot might wait for what is kept ready for those who have none.
            let clone = self.service.clone();
            let ready = std::mem::replace(&mut self.service, clone);
            let service = if admitted { ready } else { ready.clone() };
            Calls::new(service, admitted, both, self.protocol.clone(), request)
        }))
    }
}
