//! Serve: a caller's requests, one after the other.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;

use super::coded::Coded;
use super::head::{self, Date, Manner};
use super::talk::{End, Talk, Upload};
use crate::gateway::body::Body;
use crate::gateway::gate::LATE;
use crate::gateway::watch::Told;

/// How a conversation ended.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Ended {
    /// Nothing more is to be said.
    Closed,
    /// With a reply that switches protocols: what follows is not HTTP.
    Switched,
}

/// Answers requests until the caller leaves, is told to, or has nothing more to say.
pub(in crate::gateway) async fn serve<F: Future<Output = Response<Body>>>(
    talk: &Talk,
    date: &Date,
    handle: impl Fn(Request<Upload>) -> F,
) -> Ended {
    while let Some(request) = poll_fn(|cx| poll_head(talk, cx)).await {
        let asked = (request.method().clone(), request.version());
        let response = {
            let mut handling = pin!(handle(request)); // where it is made: it is large
            poll_fn(|cx| poll_answer(talk, handling.as_mut(), cx)).await
        };
        let Some(response) = response else { return Ended::Closed };
        let status = response.status();
        let mut reply = Reply::begin(talk, response, asked, date);
        if !poll_fn(|cx| reply.poll(talk, cx)).await {
            return Ended::Closed;
        }
        let keep = reply.keep;
        drop(reply);
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ended::Switched;
        }
        if !(talk.0.borrow_mut().next() && keep) {
            break;
        }
    }
    poll_fn(|cx| {
        let mut inner = talk.0.borrow_mut();
        let is_late = inner.watch.told(cx) == Told::Close;
        if is_late { Poll::Ready(()) } else { inner.poll_close(cx) }
    })
    .await;
    Ended::Closed
}

/// Waits for the next request; `None` if none will be answered.
fn poll_head(talk: &Talk, cx: &mut Context<'_>) -> Poll<Option<Request<Upload>>> {
    let mut inner = talk.0.borrow_mut();
    loop {
        let told = inner.watch.told(cx);
        if told == Told::Close {
            return Poll::Ready(None);
        }
        if !inner.ready.is_empty() {
            // What the gate lets through can be read; if not, we have nothing to say to each other.
            let Ok(head::Asked { parts, coded, keep, expects }) = head::request(&mut inner.ready)
            else {
                return Poll::Ready(None);
            };
            (inner.coded, inner.expects, inner.keep) = (coded, expects, keep);
            inner.is_old = parts.version == Version::HTTP_10;
            drop(inner);
            return Poll::Ready(Some(Request::from_parts(parts, talk.upload())));
        }
        match inner.end {
            End::Open if told == Told::Finish => return Poll::Ready(None),
            End::Open => ready!(inner.poll_more(cx, usize::MAX)),
            End::Left | End::Broken => return Poll::Ready(None),
            End::Refused(malformed) => {
                inner.out.short().extend_from_slice(&malformed.reply());
                inner.end = End::Refusing;
                continue;
            }
            End::Refusing => return inner.poll_write(cx).map(|_| None),
        };
    }
}

/// The reply to a request, unless its caller leaves before there is one.
fn poll_answer(
    talk: &Talk,
    handling: Pin<&mut impl Future<Output = Response<Body>>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Response<Body>>> {
    if let Poll::Ready(response) = handling.poll(cx) {
        return Poll::Ready(Some(response));
    }
    let mut inner = talk.0.borrow_mut();
    if inner.watch.told(cx) == Told::Close {
        if inner.watch.is_behind() {
            inner.out.short().extend_from_slice(&LATE.reply());
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
struct Reply {
    /// `None` once all of it was taken: from then on its request is over, and noted.
    body: Option<Body>,
    coded: Coded,
    keep: bool,
    is_over: bool,
    is_broken: bool,
    /// Whether more was not asked for because too much waits to be written.
    was_full: bool,
}

impl Reply {
    fn begin(
        talk: &Talk,
        response: Response<Body>,
        (method, version): (Method, Version),
        date: &Date,
    ) -> Self {
        let (mut parts, body) = response.into_parts();
        let exact = body.size_hint().exact();
        let is_bare = head::has_no_body(parts.status, &method);
        let coded = match exact {
            _ if is_bare => Coded::Over,
            Some(length) => Coded::of_length(length),
            None if version == Version::HTTP_10 => Coded::UntilEnd,
            None => Coded::CHUNKED,
        };
        if parts.status == StatusCode::NO_CONTENT {
            parts.headers.remove(CONTENT_LENGTH);
        }
        // Of a reply that has a body and does not show it only its own words tell how long it would be.
        let length = exact.filter(|_| !is_bare || (method == Method::HEAD && body.is_own()));
        let mut inner = talk.0.borrow_mut();
        inner.is_replying = true;
        // A whole reply to a part of a request: nobody will read the rest, and none can follow it.
        let is_ahead = exact.is_some() && inner.watch.is_in_body();
        let keep = inner.keep && !is_ahead && coded != Coded::UntilEnd && !is_last(&parts.headers);
        let manner = Manner { body: coded, length, keep, version, date };
        head::write_reply(inner.out.short(), &parts, manner);
        let is_over = coded == Coded::Over;
        let body = (!is_over).then_some(body);
        Self { body, coded, keep, is_over, is_broken: false, was_full: false }
    }

    /// `Ready` with whether all of it went out.
    fn poll(&mut self, talk: &Talk, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            self.fill(talk, cx);
            let mut inner = talk.0.borrow_mut();
            if inner.watch.told(cx) == Told::Close {
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
    fn fill(&mut self, talk: &Talk, cx: &mut Context<'_>) {
        while !self.is_over && !self.is_broken {
            self.was_full = !talk.0.borrow().out.has_room();
            if self.was_full {
                return;
            }
            // The body may be read from the very connection that it goes to: nothing is borrowed meanwhile.
            let Some(body) = &mut self.body else { return };
            let polled = Pin::new(body).poll_frame(cx);
            let out = &mut talk.0.borrow_mut().out;
            let is_chunked = matches!(self.coded, Coded::Chunks(_));
            match polled {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        let length = data.len() as u64;
                        self.is_broken = !is_chunked && length > self.coded.ahead();
                        if !self.is_broken {
                            self.coded.passed(if is_chunked { 0 } else { length });
                            out.push(data, is_chunked);
                            self.is_over = self.coded == Coded::Over;
                        }
                    }
                    Err(frame) => {
                        if is_chunked {
                            head::write_end(out.short(), frame.trailers_ref());
                        }
                        self.is_over = true;
                    }
                },
                Poll::Ready(Some(Err(_))) => self.is_broken = true,
                Poll::Ready(None) => {
                    if is_chunked {
                        head::write_end(out.short(), None);
                    }
                    self.is_broken = matches!(self.coded, Coded::Length(_));
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
