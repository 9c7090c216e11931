//! Forward: makes one attempt over a connection to the upstream, up to the response head.
//!
//! A kept connection may have been closed by the upstream a moment ago. Where not one byte of the request could be
//! sent on it, it goes out within the same attempt on a fresh connection, and is counted
//! (`quell_stale_connections_total`). The upstream sees one request, so this is no second attempt. A connection
//! that dies *after* the write proves nothing (the upstream may have acted), and only the policies may repeat that;
//! but an HTTP/2 endpoint that refuses a stream says that it did not act on it.

mod keep;
mod reply;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::response;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use quell::Clock;
use quell::core::credit::{Retries, Sends};
use quell::core::{Delivery, Failure, Fault, Outcome, Time};
use quell::http::headers::{self as contract, Told};
use quell::http::keyed::Held;
use quell::http::{Pool, Replay, ReplayBody, ReplyBody};
use quell::observe::Tried;
use quell::run::{Given, Sender, Try};

use super::access::Line;
use super::body::{FromCaller, FromUpstream, Minder};
use super::counters::{Came, Counters};
use super::dialect::{self, Dialect};
use super::headers::{self, Onward};
use super::idempotency::Payload;
use super::lane::{Lane, Spoken, Taken};
use super::per_core::{Core, LocalRoute};
use super::watch::Busy;
use super::wire::{Conn, Lost, Talk, Terms};

pub(super) use reply::{Reply, Switched};

/// What goes out with an attempt.
pub(super) type RequestBody = ReplayBody<FromCaller>;

/// Why an attempt gave no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// There was no connection to send it on.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// The endpoint said that it did not act on it.
    #[error("refused unread: {0}")]
    Unread(Box<dyn Error + Send + Sync>),
    /// The connection broke after it was sent, or what came back was no reply.
    #[error("no reply: {0}")]
    Broken(Box<dyn Error + Send + Sync>),
    /// The caller's body broke off.
    #[error("the caller's body broke off")]
    Caller,
}

/// One call's request, sent as often as the policies say.
pub(super) struct Outgoing<'a> {
    core: &'a Core,
    route: &'a LocalRoute,
    busy: &'a Busy,
    is_stream: bool,
    talk: Option<&'a Talk>,
    dialect: Dialect,
    /// Whether the caller asks to switch protocols.
    upgrades: bool,
    /// As they go out, but for what is added.
    parts: Parts,
    /// Fields that are added: so many for all attempts, and then those of the latest.
    added: RefCell<Vec<(HeaderName, HeaderValue)>>,
    always: usize,
    /// Whether some of them may stand in place of the caller's.
    may_replace: bool,
    pub(super) body: Replay<FromCaller>,
    pub(super) repeatable: bool,
    /// Since when all of the caller's body is here.
    given_at: Cell<Option<Time>>,
    /// How much of it was taken when somebody last looked.
    taken: Cell<usize>,
    /// Which attempts have sent their first byte, by their numbers.
    sent: Cell<u64>,
    /// The request's key, if it has one that counts.
    pub(super) held: Option<&'a Held>,
    /// Where attempts are noted, if they are.
    pub(super) line: Option<&'a Line>,
}

/// What is known of a call's attempts once it is over.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Whether an attempt was sent of which nobody knows what it came to.
    pub(super) in_doubt: bool,
}

/// Where a request came from, and what it speaks.
#[derive(Debug, Clone, Copy)]
pub(super) struct From<'a> {
    pub(super) busy: &'a Busy,
    /// Whether it is one of many on its connection.
    pub(super) is_stream: bool,
    /// Whom to tell what comes before a reply, if it can be told.
    pub(super) talk: Option<&'a Talk>,
    /// Which protocol it speaks.
    pub(super) dialect: Dialect,
}

/// Sends an [`Outgoing`] request.
pub(super) struct Forward<'a> {
    outgoing: &'a Outgoing<'a>,
    sent: &'a mut Sent,
}

/// An attempt under way.
pub(super) struct Attempt<'a> {
    number: u32,
    outgoing: &'a Outgoing<'a>,
    exchange: Pin<Box<dyn Future<Output = Result<Reply, Failed>> + 'a>>,
}

impl Future for Attempt<'_> {
    type Output = Result<Reply, Failed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.exchange.as_mut().poll(cx);
        self.outgoing.note_given(cx);
        polled
    }
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(
        core: &'a Core,
        route: &'a LocalRoute,
        from: From<'a>,
        (parts, onward): (Parts, Onward),
        payload: Payload,
    ) -> Self {
        let From { busy, is_stream, talk, dialect } = from;
        let repeatable = route.unsafe_methods.repeats(&parts.method, &parts.headers);
        let is_here = match &payload {
            Payload::Streamed(body) => body.is_here(),
            Payload::Whole(_) => true,
        };
        let body = match payload {
            Payload::Streamed(body) => Replay::new(body, Pool::global(), repeatable),
            Payload::Whole(whole) => Replay::whole(whole),
        };
        let given_at = Cell::new(is_here.then_some(Time::ZERO));
        Self {
            core,
            route,
            busy,
            is_stream,
            talk,
            dialect,
            upgrades: onward.upgrade.is_some(),
            parts,
            always: onward.added.len(),
            may_replace: onward.may_replace || dialect.stamps(),
            added: RefCell::new(onward.added),
            body,
            repeatable,
            given_at,
            taken: Cell::new(0),
            sent: Cell::new(0),
            held: None,
            line: None,
        }
    }

    fn counters(&self) -> &Counters {
        self.route.counters()
    }

    /// One exchange on a kept connection, or on a new one.
    async fn exchange(&self, attempt: Try) -> Result<Reply, Failed> {
        let Some(lane) = self.route.lanes.lane(attempt.endpoint) else {
            return Err(Failed::Connect(io::Error::other("the endpoint is no longer configured")));
        };
        let mut kept = lane.take();
        loop {
            let is_kept = kept.is_some();
            let conn = match kept.take() {
                Some(conn) => conn,
                // Boxed because it is rare and large, and would make every request's future so.
                None => Box::pin(self.connect(lane, attempt)).await?,
            };
            match self.over(lane, conn, attempt).await {
                Err(Failed::Connect(_)) if is_kept && self.body.is_replayable() => {
                    self.core.counters().stale.add();
                }
                other => return other,
            }
        }
    }

    async fn connect(&self, lane: &std::rc::Rc<Lane>, attempt: Try) -> Result<Taken, Failed> {
        self.core.counters().connects.add();
        lane.connect(self.left(attempt)).await.map_err(Failed::Connect)
    }

    async fn over(&self, lane: &Lane, mut conn: Taken, attempt: Try) -> Result<Reply, Failed> {
        let (parts, stream) = match conn.spoken() {
            Spoken::Http1(wire) => (self.by_http1(lane, wire, attempt).await?, None),
            Spoken::Http2(mut send) => {
                let request = self.request(lane, attempt);
                self.mark_sent(attempt.number, true);
                let response = match send.try_send_request(request).await {
                    Ok(response) => response,
                    Err(mut error) => {
                        let is_unsent = error.take_message().is_some();
                        self.mark_sent(attempt.number, !is_unsent);
                        return Err(match error.into_error() {
                            error if is_unsent => Failed::Connect(io::Error::other(error)),
                            _ if self.body.has_failed() => Failed::Caller,
                            error => failed(error),
                        });
                    }
                };
                let (parts, body) = response.into_parts();
                (parts, Some(Box::new(body)))
            }
        };
        self.reply(parts, stream, conn).await
    }

    async fn by_http1(
        &self,
        lane: &Lane,
        wire: &mut Conn,
        attempt: Try,
    ) -> Result<response::Parts, Failed> {
        {
            let mut added = self.added.borrow_mut();
            self.stamp(&mut added, attempt);
            let host = headers::named(&self.parts.headers, lane);
            let may_replace = self.may_replace || self.line.is_some();
            let terms = Terms { host, added: &added, may_replace };
            wire.begin(&self.parts, terms, self.body.open());
        }
        self.mark_sent(attempt.number, true);
        let reply =
            poll_fn(|cx| wire.poll_reply(cx, |status, headers| self.interim(status, headers)));
        reply.await.map_err(|lost| match lost {
            Lost::Unsent(broken) => {
                self.mark_sent(attempt.number, false);
                Failed::Connect(io::Error::other(broken))
            }
            _ if self.body.has_failed() => Failed::Caller,
            Lost::Sent(broken) => Failed::Broken(broken.into()),
            Lost::Body => Failed::Broken("another attempt took its body".into()),
        })
    }

    fn interim(&self, status: StatusCode, headers: &HeaderMap) {
        if let Some(talk) = self.talk {
            talk.interim(status, headers);
        }
    }

    fn mark_sent(&self, number: u32, sent: bool) {
        if let Some(held) = self.held.filter(|_| sent) {
            held.elsewhere();
        }
        let bit = 1 << (number % 64);
        let others = self.sent.get() & !bit;
        self.sent.set(if sent { others | bit } else { others });
    }

    /// Notes when the last of the caller's body came.
    fn note_given(&self, cx: &Context<'_>) {
        if self.given_at.get().is_none() && self.body.poll_over(cx).is_ready() {
            self.given_at.set(Some(self.clock().now()));
        }
    }

    fn is_marked(&self, number: u32) -> bool {
        self.sent.get() & (1 << (number % 64)) != 0
    }

    fn request(&self, lane: &Lane, attempt: Try) -> Request<RequestBody> {
        let mut added = self.added.borrow_mut();
        self.stamp(&mut added, attempt);
        let mut parts = self.parts.clone();
        for (name, value) in added.iter() {
            parts.headers.insert(name, value.clone());
        }
        let mut request = Request::from_parts(parts, self.body.open());
        headers::fit(&mut request, lane);
        request
    }

    /// Adds what differs from attempt to attempt, in place of what the one before added.
    fn stamp(&self, added: &mut Vec<(HeaderName, HeaderValue)>, attempt: Try) {
        added.truncate(self.always);
        let left = Some(self.left(attempt));
        let told = contract::Outgoing { attempt: attempt.number, left, credit: attempt.credit };
        for field in told.fields(&self.parts.headers) {
            added.extend(field);
        }
        if !self.dialect.stamps() && self.line.is_none() {
            return;
        }
        let mut more = HeaderMap::new();
        if self.dialect.stamps() {
            self.dialect.stamp(&mut more, attempt.number, self.clock().now());
        }
        if let Some(line) = self.line {
            line.send(attempt.number, &mut more);
        }
        added.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    fn left(&self, attempt: Try) -> Duration {
        attempt.timeout_at.since(self.clock().now())
    }

    fn clock(&self) -> &Clock {
        self.route.backend.upstream.clock()
    }

    async fn reply(
        &self,
        mut parts: response::Parts,
        stream: Option<Box<Incoming>>,
        conn: Taken,
    ) -> Result<Reply, Failed> {
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            if !self.upgrades {
                return Err(Failed::Broken("it switched protocols and nobody asked it to".into()));
            }
            return Ok(Reply::switching(Response::from_parts(parts, ReplyBody::own("")), conn));
        }
        headers::back(&mut parts.headers);
        if stream.is_some() && !headers::has_one_length(&mut parts.headers) {
            return Err(Failed::Broken("it claims several lengths".into()));
        }
        let minder = Minder::of(self.busy, self.is_stream);
        let open = self.route.lanes.stream();
        let body = FromUpstream::new(stream, conn, open, minder);
        self.dialect.look(Response::from_parts(parts, body), self.clock()).await
    }
}

/// Whether the endpoint says that it never acted on a request: it refused the stream, or went away before it.
fn failed(error: hyper::Error) -> Failed {
    let first: &(dyn Error + 'static) = &error;
    let unread = std::iter::successors(Some(first), |&cause| cause.source())
        .filter_map(|cause| cause.downcast_ref::<h2::Error>())
        .any(|h2| {
            h2.is_remote() && (h2.is_go_away() || h2.reason() == Some(h2::Reason::REFUSED_STREAM))
        });
    if unread { Failed::Unread(error.into()) } else { Failed::Broken(error.into()) }
}

impl<'a> Forward<'a> {
    /// Nothing is sent yet.
    pub(super) fn new(outgoing: &'a Outgoing<'a>, sent: &'a mut Sent) -> Self {
        Self { outgoing, sent }
    }
}

impl<'a> Sender for Forward<'a> {
    type Reply = Result<Reply, Failed>;
    type Kept = Self::Reply;
    type Attempt = Attempt<'a>;
    type Keeping = Pin<Box<dyn Future<Output = Result<Self::Reply, Self::Reply>> + 'a>>;

    fn send(&mut self, attempt: &Try) -> Attempt<'a> {
        self.outgoing.mark_sent(attempt.number, false);
        let exchange = Box::pin(self.outgoing.exchange(*attempt));
        Attempt { number: attempt.number, outgoing: self.outgoing, exchange }
    }

    fn is_sent(&self, attempt: &Attempt<'a>) -> bool {
        self.outgoing.is_marked(attempt.number)
    }

    /// A stream has no end that anybody waits for. An upstream that takes none of what the caller gives is late itself.
    fn given(&self, _: &Attempt<'a>) -> Given {
        let Outgoing { body, taken, given_at, dialect, .. } = self.outgoing;
        let goes_on = taken.replace(body.taken()) != body.taken();
        match given_at.get() {
            None if dialect.streams() => Given::All(Time::ZERO),
            None if goes_on => Given::Flowing,
            None if body.is_awaited() => Given::Stalled,
            given_at => Given::All(given_at.unwrap_or(Time::ZERO)),
        }
    }

    /// A stream is at work from its first message on.
    fn is_given(&self) -> bool {
        let Outgoing { body, given_at, dialect, .. } = self.outgoing;
        dialect.streams() || (given_at.get().is_some() && !body.has_failed())
    }

    fn classify(&mut self, reply: &Self::Reply) -> Outcome {
        match reply {
            Ok(reply) => Dialect::judge(reply, self.outgoing.route),
            Err(Failed::Connect(_)) => Outcome::Failed(Failure::of(Fault::Connect)),
            Err(Failed::Unread(_)) => {
                let delivery = Delivery::NeverSent;
                Outcome::Failed(Failure { delivery, ..Failure::of(Fault::Server) })
            }
            Err(Failed::Broken(_)) => {
                let delivery = Delivery::Unknown;
                Outcome::Failed(Failure { delivery, ..Failure::of(Fault::Server) })
            }
            Err(Failed::Caller) => Outcome::Abandoned,
        }
    }

    fn is_repeatable(&self) -> bool {
        self.outgoing.repeatable
    }

    fn is_replayable(&self) -> bool {
        self.outgoing.body.is_replayable()
    }

    fn is_whole(&self) -> bool {
        self.outgoing.body.is_whole()
    }

    fn told(&self, reply: &Self::Reply) -> Option<(Sends, Retries)> {
        let headers = reply.as_ref().ok()?.headers();
        // A look at every name costs less than a search.
        headers.keys().any(|name| *name == contract::ATTEMPTS).then(|| {
            let told = Told::read(headers);
            (told.sends, told.returned)
        })
    }

    fn keep(&mut self, reply: Self::Reply, _: &Outcome, by: Time) -> Self::Keeping {
        Box::pin(self.outgoing.keep(reply, by))
    }

    fn tried(&mut self, tried: &Tried, reply: Option<&Self::Reply>) {
        if let Some(Err(failed)) = reply {
            self.outgoing.core.gateway.log.failed(failed);
        }
        if let Some(line) = self.outgoing.line {
            let code = reply.and_then(|reply| reply.as_ref().ok()).map(dialect::status);
            line.tried(self.outgoing.route, tried, code);
        }
        let is_known = matches!(reply, Some(Ok(_) | Err(Failed::Connect(_) | Failed::Unread(_))));
        if !is_known && self.outgoing.is_marked(tried.attempt) {
            self.sent.in_doubt = true;
        }
        self.outgoing.counters().attempt(tried.attempt, tried.hedge, Came::of(&tried.outcome));
    }
}
