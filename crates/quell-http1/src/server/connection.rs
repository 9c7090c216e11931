//! A caller's connection. The conversation writes to it and looks whether the caller is still there; the body of the
//! request under way is read from it by the code that forwards it, on the same task or on another.
//!
//! Everything that is read passes the gate first. After a refusal nothing more is read: what is under way is finished, and
//! then the refusal is said.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::supervisor::Supervisor;
use crate::decoder::{Framing, Piece};
use crate::encoder;
use crate::error::Broken;
use crate::gate::{Gate, Malformed, Phase, Refused};
use crate::inbox::{self, Long};
use crate::outbox::Outbox;
use crate::rules::FieldRules;
use crate::transport::{Raw, Transport};

/// How much is read of what nobody has asked for yet.
const AHEAD: usize = 16 * 1024;
/// How often a connection is looked at of which no more is read.
const LOOK: Duration = Duration::from_millis(50);
/// How much of what a caller still sends is read before the connection is closed.
const MOST_UNREAD: usize = 1024 * 1024;
/// Interim replies that wait to be written, in bytes; more are left out.
const MOST_INTERIM: usize = 16 * 1024;

/// One connection of a caller, with its requests one after another.
#[derive(Debug)]
pub struct Connection<I, S>(pub(super) Rc<RefCell<Inner<I, S>>>);

impl<I, S> Clone for Connection<I, S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

#[derive(Debug)]
pub(super) struct Inner<I, S> {
    io: I,
    pub(super) supervisor: S,
    pub(super) rules: &'static FieldRules,
    pub(super) gate: Gate,
    /// What has passed the gate.
    pub(super) ready: BytesMut,
    /// A part of a head, which has not.
    held: BytesMut,
    pub(super) end: End,
    pub(super) out: Outbox,
    long: Long,
    /// What is still to come of the body of the request under way.
    pub(super) framing: Framing,
    /// Which request that is.
    pub(super) turn: u64,
    /// Whether its caller waits for our word before it sends the body.
    pub(super) expects: bool,
    /// Whether another may follow it.
    pub(super) keep: bool,
    /// Whether its reply has begun, before which interim ones may be sent.
    pub(super) is_replying: bool,
    /// Whether it knows of interim replies.
    pub(super) is_old: bool,
    /// The task that waits for the body, and the conversation itself.
    reader: Option<Waker>,
    owner: Option<Waker>,
    /// How much more is read though nobody wants it.
    unread: usize,
    /// When to look whether the caller has closed the connection.
    look: Option<Pin<Box<Sleep>>>,
}

/// Why nothing more is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// It still is.
    Open,
    /// The caller has left.
    Left,
    /// A body is not what it should be.
    Broken,
    /// A request is refused as soon as those before it are answered.
    Refused(Malformed),
    /// The refusal is being said.
    Refusing,
}

impl<I: Transport, S: Supervisor> Connection<I, S> {
    /// A connection that was just accepted, and those who mind it. `rules` are the host's.
    pub fn new(io: I, supervisor: S, rules: &'static FieldRules) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            io,
            supervisor,
            rules,
            gate: Gate::new(),
            ready: BytesMut::new(),
            held: BytesMut::new(),
            end: End::Open,
            out: Outbox::default(),
            long: Long::default(),
            framing: Framing::Over,
            turn: 0,
            expects: false,
            keep: true,
            is_replying: false,
            is_old: false,
            reader: None,
            owner: None,
            unread: MOST_UNREAD,
            look: None,
        })))
    }

    /// Passes on what an upstream says before its reply. What nobody reads is left out sooner or later.
    pub fn interim(&self, status: StatusCode, headers: &HeaderMap) {
        let inner = &mut *self.0.borrow_mut();
        if !inner.is_replying && !inner.is_old && inner.out.left() < MOST_INTERIM {
            encoder::write_interim(inner.out.short(), status, headers, inner.rules);
            inner.wake_owner();
        }
    }

    /// The connection without HTTP.
    pub fn take_raw(&self) -> Raw<I> {
        let mut inner = self.0.borrow_mut();
        let mut ahead = std::mem::take(&mut inner.ready);
        ahead.extend_from_slice(&inner.held);
        Raw { io: std::mem::replace(&mut inner.io, I::closed()), ahead: ahead.freeze() }
    }

    /// The body of the request under way.
    pub(super) fn upload(&self) -> Upload<I, S> {
        let inner = self.0.borrow();
        let length = match inner.framing {
            Framing::Over => return Upload(None),
            Framing::Length(length) => Some(length),
            _ => None,
        };
        Upload(Some(Uploading { connection: self.clone(), turn: inner.turn, length }))
    }
}

impl<I: Transport, S: Supervisor> Inner<I, S> {
    /// Reads once. `false` if nothing more comes, for whatever reason.
    pub(super) fn poll_more(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<bool> {
        if !matches!(self.end, End::Open) {
            return Poll::Ready(false);
        }
        if self.supervisor.is_tunnel() && self.gate.phase() != Phase::Open {
            self.gate.open();
            self.ready.extend_from_slice(&std::mem::take(&mut self.held));
        }
        let Self { io, gate, ready, held, .. } = self;
        let read =
            inbox::poll_read(io, cx, most, |came| (came.len(), sift(gate, ready, held, came)));
        let Ok((count @ 1.., refused)) = ready!(read) else {
            self.left();
            return Poll::Ready(false);
        };
        self.supervisor.came(count, self.gate.phase());
        self.end = match refused {
            None => return Poll::Ready(true),
            Some(Refused::Body(_)) => End::Broken,
            Some(Refused::Request(malformed)) => {
                self.supervisor.refused(&malformed);
                End::Refused(malformed)
            }
        };
        Poll::Ready(true)
    }

    fn left(&mut self) {
        self.end = End::Left;
        self.wake_owner();
        self.wake_reader();
    }

    /// The next of the body of this request.
    fn poll_body(
        &mut self,
        turn: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if turn != self.turn {
            return Poll::Ready(Some(Err(Broken::Over)));
        }
        if std::mem::take(&mut self.expects) && !self.is_replying {
            self.out.short().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.wake_owner();
        }
        let polled = self.poll_frame(cx);
        if polled.is_pending() && !self.reader.as_ref().is_some_and(|r| r.will_wake(cx.waker())) {
            self.reader = Some(cx.waker().clone());
        }
        polled
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            if let Some(frame) = self.framing.frame(&mut self.ready, self.rules) {
                return Poll::Ready(frame);
            }
            let ahead = self.framing.ahead();
            if Long::is_worth(ahead) && matches!(self.end, End::Open) {
                match ready!(self.long.poll_read(&mut self.io, cx, ahead)) {
                    Ok(data) if !data.is_empty() => {
                        self.gate.look(&data);
                        self.supervisor.came(data.len(), self.gate.phase());
                        self.framing.passed(data.len() as u64);
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    _ => self.left(),
                }
            }
            if !ready!(self.poll_more(cx, usize::MAX)) {
                return Poll::Ready(Some(Err(Broken::Ended)));
            }
        }
    }

    /// While something else is waited for: reads a little ahead, to see what comes next and whether the caller is still
    /// there. Ready when it is not.
    pub(super) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.remember(cx);
        loop {
            match self.end {
                End::Left => return Poll::Ready(()),
                End::Open if self.ready.len() + self.held.len() >= AHEAD => {
                    return self.poll_closed(cx);
                }
                End::Open => {
                    ready!(self.poll_more(cx, AHEAD));
                    self.wake_reader();
                }
                End::Broken | End::Refused(_) | End::Refusing => {
                    ready!(self.poll_throw_away(cx));
                    return if self.unread > 0 { Poll::Ready(()) } else { Poll::Pending };
                }
            }
        }
    }

    /// With more waiting than is read ahead: looks now and then whether the caller has closed the connection, which nobody
    /// wakes us for. One whose last bytes have not even come cannot be seen to have.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.io.is_closed() {
            let look = self.look.get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK)));
            ready!(look.as_mut().poll(cx));
            self.look = None;
        }
        self.left();
        Poll::Ready(())
    }

    /// Reads on and forgets it. Ready when the caller has closed its half, or when enough was thrown away.
    fn poll_throw_away(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.unread > 0 {
            match ready!(inbox::poll_read(&mut self.io, cx, usize::MAX, <[u8]>::len)) {
                Ok(0) | Err(_) => break,
                Ok(count) => self.unread = self.unread.saturating_sub(count),
            }
        }
        Poll::Ready(())
    }

    /// Writes all that is to be written.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.out.poll_write(&mut self.io, cx);
        self.supervisor.writing(written.is_pending());
        written
    }

    /// Puts a refusal to what is to be written.
    pub(super) fn say(&mut self, malformed: &Malformed) {
        malformed.write(self.supervisor.fields_of_refusal(), self.out.short());
    }

    /// Closes our half. Where the caller may still be sending, what comes is read for a moment: a connection that is closed
    /// with something unread is reset, and the caller might never see the reply.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = ready!(Pin::new(&mut self.io).poll_shutdown(cx)); // it may be gone already
        if matches!(self.end, End::Open) && self.gate.phase() != Phase::Body {
            return Poll::Ready(());
        }
        self.supervisor.lingering();
        self.poll_throw_away(cx)
    }

    /// Goes on to the next request, if nothing stands in the way of it.
    pub(super) fn next(&mut self) -> bool {
        self.turn += 1;
        self.long = Long::default();
        (self.expects, self.is_replying) = (false, false);
        loop {
            match self.framing.next(&mut self.ready, self.rules) {
                Ok(Piece::Over) => return true,
                Ok(Piece::Data(_) | Piece::Trailers(_)) => {}
                Ok(Piece::Starved) | Err(_) => return false,
            }
        }
    }

    /// Remembers whom to wake when the caller leaves, or something is to be written.
    fn remember(&mut self, cx: &Context<'_>) {
        if !self.owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            self.owner = Some(cx.waker().clone());
        }
    }
}

impl<I, S> Inner<I, S> {
    fn wake_owner(&self) {
        if let Some(owner) = &self.owner {
            owner.wake_by_ref();
        }
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// Puts what passes of the bytes that came to the rest of what has, and keeps a part of a head back.
fn sift(
    gate: &mut Gate,
    ready: &mut BytesMut,
    held: &mut BytesMut,
    came: &[u8],
) -> Option<Refused> {
    if !held.is_empty() {
        held.extend_from_slice(came);
        let look = gate.look(held);
        ready.extend_from_slice(&held[..look.pass]);
        held.advance(look.pass);
        if held.is_empty() {
            *held = BytesMut::new(); // a connection that rests holds no memory
        }
        return look.refused;
    }
    let look = gate.look(came);
    ready.extend_from_slice(&came[..look.pass]);
    if look.refused.is_none() {
        held.extend_from_slice(&came[look.pass..]);
    }
    look.refused
}

/// The body of a caller's request; `None` is an empty one.
#[derive(Debug)]
pub struct Upload<I, S>(Option<Uploading<I, S>>);

#[derive(Debug)]
struct Uploading<I, S> {
    connection: Connection<I, S>,
    turn: u64,
    /// What is left of it, if that is known.
    length: Option<u64>,
}

impl<I, S> Upload<I, S> {
    /// Whether all of it has come, as far as that can be seen.
    pub fn is_here(&self) -> bool {
        let ready = |body: &Uploading<I, S>| body.connection.0.borrow().ready.len() as u64;
        self.0.as_ref().is_none_or(|body| body.length.is_some_and(|left| left <= ready(body)))
    }
}

impl<I: Transport, S: Supervisor> Body for Upload<I, S> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(Uploading { connection, turn, length }) = &mut self.get_mut().0 else {
            return Poll::Ready(None);
        };
        let polled = connection.0.borrow_mut().poll_body(*turn, cx);
        if let (Some(left), Poll::Ready(Some(Ok(frame)))) = (length, &polled) {
            *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|body| body.length == Some(0))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            None => SizeHint::with_exact(0),
            Some(body) => body.length.map_or_else(SizeHint::new, SizeHint::with_exact),
        }
    }
}

impl<I, S> Drop for Uploading<I, S> {
    /// The socket may be set to wake the task that read this: the conversation has to look again itself.
    fn drop(&mut self) {
        if let Ok(inner) = self.connection.0.try_borrow() {
            inner.wake_owner();
        }
    }
}
