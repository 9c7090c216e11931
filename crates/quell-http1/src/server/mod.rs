//! Server: a caller's requests, one after the other.
//!
//! **Why.** A proxy has to know that its caller has left while it waits for the upstream, and to answer a refused request
//! behind the replies that are still under way. So the conversation looks at both sides in one poll.
//!
//! **How.** [`serve`] takes each request's head off the [`Connection`], has it handled, and writes the reply. The body of the
//! request is an [`Upload`], which the handler reads or drops. A [`Supervisor`] tells when to stop.

mod connection;
mod supervisor;

pub use connection::{Connection, Upload};
pub use supervisor::{Order, Supervisor};

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body;

use crate::decoder::Framing;
use crate::encoder::{self, Date, Manner};
use crate::gate::{LATE, Phase};
use crate::parser::{self, RequestHead};
use crate::transport::Transport;
use connection::End;

/// The body of a reply, as its host makes it.
pub trait ReplyBody: Body<Data = Bytes> + Unpin {
    /// Whether the host made this body itself and not an upstream: then its length is the one that a reply to `HEAD` tells.
    fn is_own(&self) -> bool;
}

/// How a conversation ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing more is to be said.
    Closed,
    /// With a reply that switches protocols: what follows is not HTTP.
    Switched,
}

/// Answers requests until the caller leaves, is told to, or has nothing more to say.
pub async fn serve<I, S, B, F>(
    connection: &Connection<I, S>,
    date: &Date,
    handle: impl Fn(Request<Upload<I, S>>) -> F,
) -> Ended
where
    I: Transport,
    S: Supervisor,
    B: ReplyBody,
    F: Future<Output = Response<B>>,
{
    while let Some(request) = poll_fn(|cx| poll_head(connection, cx)).await {
        let asked = (request.method().clone(), request.version());
        let response = {
            let mut handling = pin!(handle(request)); // where it is made: it is large
            poll_fn(|cx| poll_answer(connection, handling.as_mut(), cx)).await
        };
        let Some(response) = response else { return Ended::Closed };
        let status = response.status();
        let mut reply = Reply::begin(connection, response, asked, date);
        if !poll_fn(|cx| reply.poll(connection, cx)).await {
            return Ended::Closed;
        }
        let keep = reply.keep;
        drop(reply);
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ended::Switched;
        }
        if !(connection.0.borrow_mut().next() && keep) {
            break;
        }
    }
    poll_fn(|cx| {
        let mut inner = connection.0.borrow_mut();
        let is_late = inner.supervisor.order(cx) == Order::Close;
        if is_late { Poll::Ready(()) } else { inner.poll_close(cx) }
    })
    .await;
    Ended::Closed
}

/// Waits for the next request; `None` if none will be answered.
fn poll_head<I: Transport, S: Supervisor>(
    connection: &Connection<I, S>,
    cx: &mut Context<'_>,
) -> Poll<Option<Request<Upload<I, S>>>> {
    let mut inner = connection.0.borrow_mut();
    loop {
        let order = inner.supervisor.order(cx);
        if order == Order::Close {
            return Poll::Ready(None);
        }
        if !inner.ready.is_empty() {
            // What the gate lets through can be read; if not, we have nothing to say to each other.
            let Ok(RequestHead { parts, framing, keep, expects }) =
                parser::request(&mut inner.ready)
            else {
                return Poll::Ready(None);
            };
            (inner.framing, inner.expects, inner.keep) = (framing, expects, keep);
            inner.is_old = parts.version == Version::HTTP_10;
            drop(inner);
            return Poll::Ready(Some(Request::from_parts(parts, connection.upload())));
        }
        match inner.end {
            End::Open if order == Order::Finish => return Poll::Ready(None),
            End::Open => ready!(inner.poll_more(cx, usize::MAX)),
            End::Left | End::Broken => return Poll::Ready(None),
            End::Refused(malformed) => {
                inner.say(&malformed);
                inner.end = End::Refusing;
                continue;
            }
            End::Refusing => return inner.poll_write(cx).map(|_| None),
        };
    }
}

/// The reply to a request, unless its caller leaves before there is one.
fn poll_answer<I: Transport, S: Supervisor, B>(
    connection: &Connection<I, S>,
    handling: Pin<&mut impl Future<Output = Response<B>>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Response<B>>> {
    if let Poll::Ready(response) = handling.poll(cx) {
        return Poll::Ready(Some(response));
    }
    let mut inner = connection.0.borrow_mut();
    if inner.supervisor.order(cx) == Order::Close {
        if inner.supervisor.is_behind() {
            inner.say(&LATE);
            let _ = inner.poll_write(cx); // all of it, or nobody reads
        }
        return Poll::Ready(None);
    }
    // What is to be said before the reply.
    if !inner.out.is_empty()
        && let Poll::Ready(Err(_)) = inner.poll_write(cx)
    {
        return Poll::Ready(None);
    }
    inner.poll_left(cx).map(|()| None)
}

/// A reply on its way out.
struct Reply<B> {
    /// `None` once all of it was taken: from then on its request is over, and noted.
    body: Option<B>,
    framing: Framing,
    keep: bool,
    is_over: bool,
    is_broken: bool,
    /// Whether more was not asked for because too much waits to be written.
    was_full: bool,
}

impl<B: ReplyBody> Reply<B> {
    fn begin<I: Transport, S: Supervisor>(
        connection: &Connection<I, S>,
        response: Response<B>,
        (method, version): (Method, Version),
        date: &Date,
    ) -> Self {
        let (mut parts, body) = response.into_parts();
        let exact = body.size_hint().exact();
        let is_bare = parser::has_no_body(parts.status, &method);
        let framing = match exact {
            _ if is_bare => Framing::Over,
            Some(length) => Framing::of_length(length),
            None if version == Version::HTTP_10 => Framing::UntilEnd,
            None => Framing::CHUNKED,
        };
        if parts.status == StatusCode::NO_CONTENT {
            parts.headers.remove(CONTENT_LENGTH);
        }
        // Of a reply that has a body and does not show it only its own words tell how long it would be.
        let length = exact.filter(|_| !is_bare || (method == Method::HEAD && body.is_own()));
        let mut inner = connection.0.borrow_mut();
        inner.is_replying = true;
        // A whole reply to a part of a request: nobody will read the rest, and none can follow it.
        let is_ahead = exact.is_some() && inner.gate.phase() == Phase::Body;
        let keep =
            inner.keep && !is_ahead && framing != Framing::UntilEnd && !is_last(&parts.headers);
        let manner = Manner { body: framing, length, keep, version, date };
        encoder::write_reply(inner.out.short(), &parts, manner);
        let is_over = framing == Framing::Over;
        let body = (!is_over).then_some(body);
        Self { body, framing, keep, is_over, is_broken: false, was_full: false }
    }

    /// `Ready` with whether all of it went out.
    fn poll<I: Transport, S: Supervisor>(
        &mut self,
        connection: &Connection<I, S>,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        loop {
            self.fill(connection, cx);
            let mut inner = connection.0.borrow_mut();
            if inner.supervisor.order(cx) == Order::Close {
                return Poll::Ready(false);
            }
            match inner.poll_write(cx) {
                Poll::Ready(Ok(())) if self.is_broken => return Poll::Ready(false),
                Poll::Ready(Ok(())) if self.is_over => return Poll::Ready(true),
                // What is read next may be there already, now that there is room for it.
                Poll::Ready(Ok(())) if std::mem::take(&mut self.was_full) => continue,
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                _ => return inner.poll_left(cx).map(|()| false),
            }
        }
    }

    /// Takes what has come of the body, as far as there is room.
    fn fill<I: Transport, S: Supervisor>(
        &mut self,
        connection: &Connection<I, S>,
        cx: &mut Context<'_>,
    ) {
        while !self.is_over && !self.is_broken {
            self.was_full = !connection.0.borrow().out.has_room();
            if self.was_full {
                return;
            }
            // The body may be read from the very connection that it goes to: nothing is borrowed meanwhile.
            let Some(body) = &mut self.body else { return };
            let polled = Pin::new(body).poll_frame(cx);
            let inner = &mut *connection.0.borrow_mut();
            let (out, rules) = (&mut inner.out, inner.rules);
            let is_chunked = matches!(self.framing, Framing::Chunks(_));
            match polled {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        let length = data.len() as u64;
                        self.is_broken = !is_chunked && length > self.framing.ahead();
                        if !self.is_broken {
                            self.framing.passed(if is_chunked { 0 } else { length });
                            out.push(data, is_chunked);
                            self.is_over = self.framing == Framing::Over;
                        }
                    }
                    Err(frame) => {
                        if is_chunked {
                            encoder::write_end(out.short(), frame.trailers_ref(), rules);
                        }
                        self.is_over = true;
                    }
                },
                Poll::Ready(Some(Err(_))) => self.is_broken = true,
                Poll::Ready(None) => {
                    if is_chunked {
                        encoder::write_end(out.short(), None, rules);
                    }
                    self.is_broken = matches!(self.framing, Framing::Length(_));
                    self.is_over = true;
                }
            }
            if self.is_over {
                self.body = None;
            }
        }
    }
}

/// Whether the reply says that none follows it.
fn is_last(headers: &HeaderMap) -> bool {
    headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}
