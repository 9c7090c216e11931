//! Calls: a service as a [`Sender`].

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use quell_core::{
    Failure, Fault, Outcome, Time,
    credit::{Retries, Sends},
};
use tower_service::Service;

use super::protocol::{Inbound, Outbound};
use crate::{
    Clock,
    quell::Both,
    run::{Sender, Try},
};

/// One call's request, and the service that it goes to.
pub(super) struct Calls<S, P: Outbound<Req>, Req> {
    service: S,
    /// Whether the service has said that it is ready, and was not called since.
    ready: bool,
    pub(super) protocol: P,
    source: P::Source,
    terms: Arc<Both>,
}

impl<S, P: Outbound<Req>, Req> Calls<S, P, Req> {
    #[inline(always)]
    pub(super) fn new(
        service: S,
        ready: bool,
        terms: Arc<Both>,
        protocol: P,
        request: Req,
    ) -> Self {
        let source = protocol.source(request, &terms.rules);
        Self { service, ready, source, protocol, terms }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.terms.upstream.clock()
    }
}

pin_project! {
    /// One attempt: the service gets ready, and then it is called.
    #[project = Making]
    pub(super) enum Attempt<S, Out, Fut> {
        Readying { service: S, request: Option<Out> },
        Calling { #[pin] future: Fut },
        /// There was nothing left to send.
        Nothing,
    }
}

/// What an attempt gives.
pub(super) enum Reply<A, E> {
    Came(Result<A, E>),
    /// The service could not get ready, so nothing was sent.
    Unready(E),
    /// There was nothing left to send.
    Nothing,
}

impl<S, Out> Future for Attempt<S, Out, S::Future>
where
    S: Service<Out>,
{
    type Output = Reply<S::Response, S::Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let future = match self.as_mut().project() {
                Making::Calling { future } => return future.poll(cx).map(Reply::Came),
                Making::Nothing => return Poll::Ready(Reply::Nothing),
                Making::Readying { service, request } => {
                    if let Err(error) = ready!(service.poll_ready(cx)) {
                        return Poll::Ready(Reply::Unready(error));
                    }
                    match request.take() {
                        Some(request) => service.call(request),
                        None => return Poll::Ready(Reply::Nothing), // cannot be: it is taken only here
                    }
                }
            };
            self.set(Self::Calling { future });
        }
    }
}

pin_project! {
    /// An attempt whose reply becomes an answer.
    pub(super) struct Answering<S, P, Out>
    where
        S: Service<Out>,
    {
        protocol: P,
        #[pin]
        attempt: Attempt<S, Out, S::Future>,
    }
}

impl<S, P, Out> Future for Answering<S, P, Out>
where
    S: Service<Out>,
    P: Inbound<S::Response, S::Error>,
{
    type Output = Reply<P::Answer, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.attempt.poll(cx)) {
            Reply::Came(result) => Reply::Came(result.map(|reply| this.protocol.answer(reply))),
            Reply::Unready(error) => Reply::Unready(error),
            Reply::Nothing => Reply::Nothing,
        })
    }
}

pin_project! {
    pub(super) struct Keeping<K, A, E> {
        #[pin]
        keeping: Option<K>,
        // What needs no keeping.
        as_it_is: Option<Reply<A, E>>,
    }
}

impl<K, A, E> Future for Keeping<K, A, E>
where
    K: Future<Output = Result<Result<A, E>, Result<A, E>>>,
{
    type Output = Result<Reply<A, E>, Reply<A, E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.keeping.as_pin_mut() {
            Some(keeping) => {
                keeping.poll(cx).map(|kept| kept.map(Reply::Came).map_err(Reply::Came))
            }
            None => Poll::Ready(Ok(this.as_it_is.take().unwrap_or(Reply::Nothing))),
        }
    }
}

impl<S, P, Req> Sender for Calls<S, P, Req>
where
    P: Outbound<Req> + Inbound<S::Response, S::Error>,
    S: Service<P::Outgoing> + Clone,
{
    type Reply = Reply<P::Answer, S::Error>;
    type Kept = Self::Reply;
    type Attempt = Answering<S, P, P::Outgoing>;
    type Keeping = Keeping<P::Keeping, P::Answer, S::Error>;

    #[inline]
    fn send(&mut self, attempt: &Try) -> Self::Attempt {
        let protocol = self.protocol.clone();
        let attempt = match self.protocol.next(&mut self.source, attempt) {
            None => Attempt::Nothing,
            Some(request) if std::mem::take(&mut self.ready) => {
                Attempt::Calling { future: self.service.call(request) }
            }
            Some(request) => {
                Attempt::Readying { service: self.service.clone(), request: Some(request) }
            }
        };
        Answering { protocol, attempt }
    }

    fn is_sent(&self, attempt: &Self::Attempt) -> bool {
        matches!(attempt.attempt, Attempt::Calling { .. })
    }

    #[inline]
    fn classify(&mut self, reply: &Self::Reply) -> Outcome {
        match reply {
            Reply::Came(Err(_)) if self.protocol.is_broken(&self.source) => Outcome::Abandoned,
            Reply::Came(result) => self.protocol.classify(result, self.clock(), &self.terms.rules),
            Reply::Unready(_) => Outcome::Failed(Failure::of(Fault::Connect)),
            Reply::Nothing => Outcome::Failed(Failure::of(Fault::Fatal)),
        }
    }

    fn is_repeatable(&self) -> bool {
        self.terms.rules.idempotent || self.protocol.is_repeatable(&self.source)
    }

    fn is_replayable(&self) -> bool {
        self.protocol.is_replayable(&self.source)
    }

    fn is_whole(&self) -> bool {
        self.protocol.is_whole(&self.source)
    }

    #[inline]
    fn told(&self, reply: &Self::Reply) -> Option<(Sends, Retries)> {
        match reply {
            Reply::Came(Ok(answer)) => self.protocol.told(answer),
            _ => None,
        }
    }

    fn keep(&mut self, reply: Self::Reply, _: &Outcome, by: Time) -> Self::Keeping {
        match reply {
            Reply::Came(result) => {
                let keeping = Some(self.protocol.keep(result, self.clock(), by));
                Keeping { keeping, as_it_is: None }
            }
            other => Keeping { keeping: None, as_it_is: Some(other) },
        }
    }
}
