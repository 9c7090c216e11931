//! Forward: makes one attempt over a connection to the upstream, up to the response head.
//!
//! A connection from the pool may have been closed by the upstream a moment ago. If hyper hands the request back, not
//! one byte of it was sent: it goes out again within the same attempt, on a fresh connection, and is counted
//! (`quell_stale_connections_total`). The upstream sees one request, so this is no second attempt. A connection
//! that dies *after* the write proves nothing (the upstream may have acted), and only the policies may repeat that.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use quell::core::{Delivery, Failure, Fault, Outcome, Time};
use quell::http::headers::{self as contract, stamp};
use quell::observe::Tried;
use quell::run::{Sender, Try};

use super::body::{NotKept, ReplyBody, Whole};
use super::counters::Came;
use super::headers;
use super::per_core::{Core, Gateway};
use super::pool::Conn;
use super::replay::{RequestBody, Source};
use super::watch::Watch;

/// A reply whose body is still on its way.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: ReplyBody,
}

/// Why an attempt gave no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// There was no connection to send it on.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// The connection broke after it was sent, or what came back was no reply.
    #[error("no reply: {0}")]
    Broken(Box<dyn Error + Send + Sync>),
    /// The caller's body broke off.
    #[error("the caller's body broke off")]
    Caller,
}

/// What is kept of a failed attempt while the call sleeps.
#[derive(Debug)]
pub(super) enum Kept {
    Whole(Whole),
    Failed(Failed),
}

/// One call's request, sent as often as the policies say.
pub(super) struct Outgoing<'a> {
    core: &'a Rc<Core>,
    watch: &'a Rc<Watch>,
    parts: RefCell<Option<Parts>>,
    source: Source,
    repeatable: bool,
    /// Whether the attempt under way has sent its first byte.
    sent: Cell<bool>,
}

/// Sends an [`Outgoing`] request.
pub(super) struct Forward<'a> {
    outgoing: &'a Outgoing<'a>,
    /// The attempt under way: abandoned if nobody says what came of it.
    open: Option<u32>,
}

impl<'a> Outgoing<'a> {
    /// `parts` are as they go out, but for what differs between attempts.
    pub(super) fn new(
        core: &'a Rc<Core>,
        watch: &'a Rc<Watch>,
        mut parts: Parts,
        body: Incoming,
    ) -> Self {
        let unsafe_methods = core.gateway.config.unsafe_methods;
        let repeatable = unsafe_methods.repeats(&parts.method, &parts.headers);
        let source = Source::new(body, repeatable, &core.gateway.memory, watch);
        parts.version = Version::HTTP_11;
        parts.extensions.clear();
        let (parts, sent) = (RefCell::new(Some(parts)), Cell::new(false));
        Self { core, watch, parts, source, repeatable, sent }
    }

    /// One exchange on a connection of the pool, or on a new one.
    async fn exchange(&self, attempt: Try) -> Result<Reply, Failed> {
        let mut kept = self.core.pool.take();
        loop {
            let is_kept = kept.is_some();
            let conn = match kept.take() {
                Some(conn) => conn,
                // Boxed because it is rare and large, and would make every request's future so.
                None => Box::pin(self.connect(attempt)).await?,
            };
            match self.over(conn, attempt).await {
                Err(Failed::Connect(_)) if is_kept => self.core.counters.stale.add(),
                other => return other,
            }
        }
    }

    async fn connect(&self, attempt: Try) -> Result<Conn, Failed> {
        self.core.counters.connects.add();
        let gateway = &self.core.gateway;
        let conn = Conn::open(&gateway.config.to, gateway.tls.as_ref(), self.left(attempt));
        conn.await.map_err(Failed::Connect)
    }

    async fn over(&self, mut conn: Conn, attempt: Try) -> Result<Reply, Failed> {
        let Some(request) = self.request(attempt) else {
            return Err(Failed::Caller); // sent before and not to be repeated: no policy asks for this
        };
        self.sent.set(true);
        match conn.send.try_send_request(request).await {
            Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Err(Failed::Broken("it switched protocols and nobody asked it to".into()))
            }
            Ok(response) => Ok(self.reply(response, conn)),
            Err(mut error) => match error.take_message() {
                None if self.source.has_failed() => Err(Failed::Caller),
                None => Err(Failed::Broken(error.into_error().into())),
                Some(unsent) => {
                    self.sent.set(false);
                    self.parts.replace(Some(unsent.into_parts().0));
                    Err(Failed::Connect(io::Error::other(error.into_error())))
                }
            },
        }
    }

    /// A copy only where another attempt may follow: what was never sent comes back.
    fn request(&self, attempt: Try) -> Option<Request<RequestBody>> {
        let again = self.repeatable && attempt.number < self.core.gateway.policy.attempts();
        let mut parts = self.parts.borrow_mut();
        let mut parts = if again { parts.clone() } else { parts.take() }?;
        let left = Some(self.left(attempt));
        stamp(
            &mut parts.headers,
            contract::Outgoing { attempt: attempt.number, left, credit: None },
        );
        Some(Request::from_parts(parts, self.source.open()))
    }

    fn left(&self, attempt: Try) -> Duration {
        attempt.timeout_at.since(self.core.gateway.upstream.clock().now())
    }

    fn reply(&self, response: Response<Incoming>, conn: Conn) -> Reply {
        let (mut parts, body) = response.into_parts();
        headers::back(&mut parts.headers);
        let body = ReplyBody::new(body, conn, Rc::clone(self.core), Rc::clone(self.watch));
        Reply { status: parts.status, headers: parts.headers, body }
    }

    async fn keep(
        &self,
        reply: Result<Reply, Failed>,
        by: Time,
    ) -> Result<Kept, Result<Reply, Failed>> {
        let Reply { status, headers, body } = match reply {
            Ok(reply) => reply,
            Err(failed) => return Ok(Kept::Failed(failed)),
        };
        let gateway = &self.core.gateway;
        let by = gateway.upstream.clock().sleep_until(by);
        match body.keep(&gateway.memory, by).await {
            Ok((bytes, reserved)) => {
                Ok(Kept::Whole(Whole { status, headers, bytes, _reserved: reserved }))
            }
            Err(NotKept::Long(body)) => Err(Ok(Reply { status, headers, body })),
            Err(NotKept::Broken(error)) => Ok(Kept::Failed(Failed::Broken(error.into()))),
        }
    }
}

impl<'a> Forward<'a> {
    /// Nothing is sent yet.
    pub(super) fn new(outgoing: &'a Outgoing<'a>) -> Self {
        Self { outgoing, open: None }
    }
}

impl<'a> Sender for Forward<'a> {
    type Reply = Result<Reply, Failed>;
    type Kept = Kept;
    type Attempt = Pin<Box<dyn Future<Output = Self::Reply> + 'a>>;
    type Keeping = Pin<Box<dyn Future<Output = Result<Kept, Self::Reply>> + 'a>>;

    fn send(&mut self, attempt: &Try) -> Self::Attempt {
        self.open = Some(attempt.number);
        self.outgoing.sent.set(false);
        Box::pin(self.outgoing.exchange(*attempt))
    }

    fn is_sent(&self, _: &Self::Attempt) -> bool {
        self.outgoing.sent.get()
    }

    fn classify(&mut self, reply: &Self::Reply) -> Outcome {
        match reply {
            Ok(reply) if reply.status.is_success() => Outcome::Success, // needs no date
            Ok(reply) => {
                let Gateway { upstream, config, .. } = &*self.outgoing.core.gateway;
                let unix_now = upstream.clock().unix_now();
                config.statuses.classify(reply.status, &reply.headers, unix_now)
            }
            Err(Failed::Connect(_)) => Outcome::Failed(Failure::of(Fault::Connect)),
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
        self.outgoing.source.is_replayable()
    }

    fn keep(&mut self, reply: Self::Reply, _: &Outcome, by: Time) -> Self::Keeping {
        Box::pin(self.outgoing.keep(reply, by))
    }

    fn tried(&mut self, tried: &Tried, reply: Option<&Self::Reply>) {
        self.open = None;
        let Core { gateway, counters, .. } = &**self.outgoing.core;
        if let Some(Err(failed)) = reply {
            gateway.log.failed(failed);
        }
        counters.attempt(tried.attempt, Came::of(&tried.outcome));
    }
}

impl Drop for Forward<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.open {
            self.outgoing.core.counters.attempt(number, Came::Abandoned);
        }
    }
}
