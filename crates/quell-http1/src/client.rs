//! Client: one connection to an upstream, with one request at a time.
//!
//! **Why.** A request that nobody waits for any longer must not go on costing its upstream. So there is no task behind a
//! connection, and nothing that would have to be told.
//!
//! **How.** It is driven by the caller's request, which waits for the reply: first for its head, then for its body, and while either is waited for
//! the rest of the request goes out. Dropping it closes it.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, request, response};
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::decoder::Framing;
use crate::encoder;
use crate::error::Broken;
use crate::inbox::{self, Long};
use crate::limits::MOST_INTERIM_REPLIES;
use crate::outbox::Outbox;
use crate::parser::{self, ReplyHead};
use crate::rules::FieldRules;
use crate::transport::Raw;

/// See the [module](self).
#[derive(Debug)]
pub struct Connection<I, B> {
    io: I,
    rules: &'static FieldRules,
    inbox: BytesMut,
    long: Long,
    out: Outbox,
    /// What is still to be sent of the request's body, and how.
    upload: Option<(B, Framing)>,
    method: Method,
    /// What is still to come of the reply.
    framing: Framing,
    /// Whether a byte of the request went out.
    sent: bool,
    /// Whether nothing more can be written.
    deaf: bool,
    keep: bool,
    interim: u32,
}

/// Why there is no reply.
#[derive(Debug)]
pub enum Lost {
    /// Not a byte of the request went out.
    Unsent(Broken),
    /// Nobody knows what became of it.
    Sent(Broken),
    /// The request's own body broke off, or was taken away.
    Body,
}

/// What a request says that is its connection's business.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The host to name in place of the one that the caller named.
    pub host: Option<&'a HeaderValue>,
    /// Fields that are added.
    pub added: &'a [(HeaderName, HeaderValue)],
    /// Whether some of those may stand in place of fields of the same names.
    pub may_replace: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin, B: Body<Data = Bytes> + Unpin> Connection<I, B> {
    /// A connection that was just made. `rules` are the host's.
    pub fn new(io: I, rules: &'static FieldRules) -> Self {
        Self {
            io,
            rules,
            inbox: BytesMut::new(),
            long: Long::default(),
            out: Outbox::default(),
            upload: None,
            method: Method::GET,
            framing: Framing::Over,
            sent: false,
            deaf: false,
            keep: true,
            interim: 0,
        }
    }

    /// Whether a connection that rests was closed, or says what nobody asked for. Takes no system call unless something
    /// has come.
    pub fn is_stale(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        inbox::poll_read(&mut self.io, &mut cx, 1, |_| ()).is_ready()
    }

    /// Begins a request. Nothing is sent before its reply is waited for.
    pub fn begin(&mut self, parts: &request::Parts, terms: Terms<'_>, body: B) {
        let framing = match body.size_hint().exact() {
            _ if body.is_end_stream() => Framing::Over,
            Some(length) => Framing::of_length(length),
            None => Framing::CHUNKED,
        };
        debug_assert!(self.out.is_empty(), "nothing is left of the request before");
        encoder::write_request(self.out.short(), parts, terms, framing);
        self.method.clone_from(&parts.method);
        self.upload = (framing != Framing::Over).then_some((body, framing));
        (self.sent, self.deaf, self.interim) = (false, false, 0);
    }

    /// The head of the reply. Whatever comes before it, but a mere "go on", is shown.
    pub fn poll_reply(
        &mut self,
        cx: &mut Context<'_>,
        mut interim: impl FnMut(StatusCode, &HeaderMap),
    ) -> Poll<Result<response::Parts, Lost>> {
        if let Err(lost) = self.poll_send(cx) {
            return Poll::Ready(Err(lost));
        }
        loop {
            while let Some(ReplyHead { parts, framing, keep }) = self.head()? {
                if parts.status.is_informational()
                    && parts.status != StatusCode::SWITCHING_PROTOCOLS
                {
                    self.interim += 1;
                    if self.interim > MOST_INTERIM_REPLIES {
                        return self.lost(Broken::Garbled("no end of interim replies"));
                    }
                    if parts.status != StatusCode::CONTINUE {
                        interim(parts.status, &parts.headers);
                    }
                    continue;
                }
                (self.framing, self.keep) = (framing, keep);
                return Poll::Ready(Ok(parts));
            }
            let Self { io, inbox, .. } = self;
            let read = inbox::poll_read(io, cx, usize::MAX, |came| {
                inbox.extend_from_slice(came);
                came.len()
            });
            match ready!(read) {
                Ok(0) => return self.lost(Broken::Ended),
                Ok(_) => {}
                Err(error) => return self.lost(error.into()),
            }
        }
    }

    fn head(&mut self) -> Result<Option<ReplyHead>, Lost> {
        if self.inbox.is_empty() {
            return Ok(None);
        }
        parser::reply(&mut self.inbox, &self.method, self.rules).map_err(Lost::Sent)
    }

    fn lost<T>(&self, broken: Broken) -> Poll<Result<T, Lost>> {
        Poll::Ready(Err(if self.sent { Lost::Sent(broken) } else { Lost::Unsent(broken) }))
    }

    /// Sends what can be sent. An upstream that does not listen any more may still have said something.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), Lost> {
        while !self.deaf {
            self.fill(cx)?;
            if self.out.is_empty() {
                return Ok(());
            }
            let before = self.out.left();
            let written = self.out.poll_write(&mut self.io, cx);
            self.sent |= self.out.left() < before;
            match written {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) if !self.sent => return Err(Lost::Unsent(error.into())),
                Poll::Ready(Err(_)) => self.deaf = true,
            }
        }
        self.upload = None;
        Ok(())
    }

    /// Takes what has come of the request's body.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<(), Lost> {
        while self.out.has_room() {
            let Some((body, framing)) = &mut self.upload else { return Ok(()) };
            let is_chunked = matches!(framing, Framing::Chunks(_));
            match Pin::new(body).poll_frame(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        if !is_chunked && data.len() as u64 > framing.ahead() {
                            return Err(Lost::Body);
                        }
                        framing.passed(if is_chunked { 0 } else { data.len() as u64 });
                        self.out.push(data, is_chunked);
                    }
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        if is_chunked {
                            encoder::write_end(self.out.short(), Some(&trailers), self.rules);
                        }
                        self.upload = None;
                        return Ok(());
                    }
                },
                Poll::Ready(Some(Err(_))) => return Err(Lost::Body),
                Poll::Ready(None) => {
                    if is_chunked {
                        encoder::write_end(self.out.short(), None, self.rules);
                    } else if *framing != Framing::Over {
                        return Err(Lost::Body);
                    }
                    self.upload = None;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The next of the reply's body.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.is_sending() && self.poll_send(cx).is_err() {
            (self.upload, self.keep, self.deaf) = (None, false, true); // its reply may be whole all the same
        }
        loop {
            if let Some(frame) = self.framing.frame(&mut self.inbox, self.rules) {
                return Poll::Ready(frame);
            }
            let Self { io, inbox, long, framing, .. } = self;
            let ahead = framing.ahead();
            let came = if Long::is_worth(ahead) {
                let data = match ready!(long.poll_read(io, cx, ahead)) {
                    Ok(data) => data,
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                };
                if !data.is_empty() {
                    framing.passed(data.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                0
            } else {
                let read = inbox::poll_read(io, cx, usize::MAX, |came| {
                    inbox.extend_from_slice(came);
                    came.len()
                });
                match ready!(read) {
                    Ok(came) => came,
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                }
            };
            match came {
                0 if *framing == Framing::UntilEnd => *framing = Framing::Over,
                0 => return Poll::Ready(Some(Err(Broken::Ended))),
                _ => {}
            }
        }
    }

    fn is_sending(&self) -> bool {
        self.upload.is_some() || !self.out.is_empty()
    }

    /// Whether all of the reply was handed out.
    pub fn is_over(&self) -> bool {
        self.framing == Framing::Over
    }

    /// How much of the reply's body is still to come, if that is known.
    pub fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Over => Some(0),
            Framing::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Whether it can take another request: the one before is wholly over, on both sides.
    pub fn is_reusable(&mut self) -> bool {
        self.long = Long::default();
        self.keep && self.is_over() && self.inbox.is_empty() && !self.is_sending() && !self.deaf
    }

    /// The connection without HTTP.
    pub fn into_raw(self) -> Raw<I> {
        Raw { io: self.io, ahead: self.inbox.freeze() }
    }
}
