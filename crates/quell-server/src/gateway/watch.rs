//! Timers for bodies, heads and idle connections, at no cost per request.
//!
//! **Why.** A peer that stops in the middle must not hold a connection for ever, but a timer per request and
//! direction would cost more than forwarding it. The limits are seconds, so half a second's precision will do.
//!
//! **How.** Each connection notes in a [`Watch`] what it waits for and since which tick. A sweep per core moves the
//! tick on twice a second and wakes those connections whose time is up, which then end themselves. The same way
//! they are told to finish when the process drains.
//!
//! A body that trickles is as bad as one that stands still. While somebody waits for a caller's body it has to come at
//! 1 KiB/s or faster. It may fall a pause behind that, a minute unless the file says otherwise: other proxies allow as much, and
//! so callers count on it. It does not fall behind when nobody wants it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use super::gate::Phase;

/// How long a tick is.
pub(super) const TICK: Duration = Duration::from_millis(500);

const HEAD: u32 = ticks(10);
const KEEP_ALIVE: u32 = ticks(60);
/// A reply may have nothing to say for long.
const REPLY_IDLE: u32 = ticks(300);
const LINGER: u32 = ticks(1);

/// Bytes of a caller's body that are to come in a second while somebody waits for it, and in a tick.
pub(super) const PACE: u32 = 1024;
const PER_TICK: i32 = PACE as i32 / 2;

/// Ticks in so many seconds, and one more: the first is never a whole one.
pub(super) const fn ticks(seconds: u32) -> u32 {
    seconds * 2 + 1
}

/// What a connection was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    /// Nothing: go on.
    Nothing,
    /// Go elsewhere with what comes next. Only HTTP/2 can say that without losing what is on its way; HTTP/1 says it with
    /// its next reply.
    Leave,
    /// Finish what is under way, then close.
    Finish,
    /// Close now.
    Close,
}

/// What one connection waits for. Zero means that it does not.
#[derive(Debug)]
pub(super) struct Watch {
    clock: Rc<Cell<u32>>,
    /// How many seconds the caller may pause.
    pause: u32,
    /// How many requests are under way.
    busy: Cell<u32>,
    /// Whether the bytes are no longer HTTP/1.
    tunnel: Cell<bool>,
    linger_since: Cell<u32>,
    head_since: Cell<u32>,
    idle_since: Cell<u32>,
    upload_since: Cell<u32>,
    reply_since: Cell<u32>,
    write_since: Cell<u32>,
    in_body: Cell<bool>,
    wants_body: Cell<bool>,
    /// How far the caller's body is before the slowest that is allowed.
    ahead: Cell<i32>,
    told: Cell<Told>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    /// So many bytes came in from the caller, and now it stands here.
    pub(super) fn came(&self, bytes: usize, phase: Phase) {
        since(&self.head_since, phase == Phase::Head, &self.clock);
        if phase != Phase::Body || !self.in_body.get() {
            self.ahead.set(self.grace());
        } else {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            self.ahead.set(self.ahead.get().saturating_add(bytes).min(self.grace()));
        }
        self.in_body.set(phase == Phase::Body);
    }

    /// How long the caller may pause.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_secs(self.pause.into())
    }

    /// How many bytes the caller's body may be behind its pace.
    fn grace(&self) -> i32 {
        i32::try_from(self.pause * PACE).unwrap_or(i32::MAX)
    }

    /// Whether more of the caller's body is to come.
    pub(super) fn is_in_body(&self) -> bool {
        self.in_body.get()
    }

    /// Whether the caller's body comes too slowly.
    pub(super) fn is_behind(&self) -> bool {
        self.ahead.get() < 0
    }

    /// A request was read; it is under way until its reply's body is done, which drops the [`Busy`].
    pub(super) fn begin(self: &Rc<Self>) -> Busy {
        self.busy.set(self.busy.get() + 1);
        Busy(Rc::clone(self))
    }

    /// What comes from now on is not HTTP/1: a 101 is about to go out.
    pub(super) fn tunnel(&self) {
        self.tunnel.set(true);
    }

    pub(super) fn is_tunnel(&self) -> bool {
        self.tunnel.get()
    }

    /// Our half is closed, and the caller is given a moment to close its own.
    pub(super) fn lingering(&self) {
        since(&self.linger_since, true, &self.clock);
    }

    /// Somebody waits for more of the caller's body (or got some).
    pub(super) fn uploading(&self, waits: bool) {
        self.wants_body.set(waits);
        since(&self.upload_since, waits, &self.clock);
    }

    /// Nobody wants the rest of the caller's body.
    pub(super) fn body_dropped(&self) {
        self.uploading(false);
    }

    /// A reply's body has nothing to read (or has again).
    pub(super) fn reading(&self, waits: bool) {
        since(&self.reply_since, waits, &self.clock);
    }

    /// The caller takes no more bytes (or does again).
    pub(super) fn writing(&self, waits: bool) {
        since(&self.write_since, waits, &self.clock);
    }

    /// What to do now. Remembers whom to wake when that changes.
    pub(super) fn told(&self, cx: &Context<'_>) -> Told {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        match self.told.get() {
            Told::Finish if self.head_since.get() != 0 => Told::Nothing, // a request is on its way
            told => told,
        }
    }

    fn tell(&self, told: Told) {
        if told > self.told.get() {
            self.told.set(told);
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// A tick has passed in which somebody may have waited for the caller's body.
    fn fall_behind(&self) {
        if self.in_body.get() && self.wants_body.get() {
            self.ahead.set(self.ahead.get() - PER_TICK);
        }
    }

    fn is_late(&self, now: u32) -> bool {
        let idle = self.busy.get() == 0;
        let late = |since: &Cell<u32>, limit| since.get() != 0 && now - since.get() >= limit;
        let pause = ticks(self.pause);
        late(&self.upload_since, pause)
            || late(&self.reply_since, REPLY_IDLE)
            || late(&self.write_since, pause)
            || late(&self.linger_since, LINGER)
            || self.is_behind()
            || (idle && late(&self.head_since, HEAD))
            || (idle && late(&self.idle_since, KEEP_ALIVE))
    }
}

fn since(mark: &Cell<u32>, waits: bool, clock: &Cell<u32>) {
    match (waits, mark.get()) {
        (true, 0) => mark.set(clock.get()),
        (true, _) => {}
        (false, _) => mark.set(0),
    }
}

/// A request is under way on this connection until this is dropped.
#[derive(Debug)]
pub(super) struct Busy(Rc<Watch>);

impl Busy {
    pub(super) fn watch(&self) -> &Rc<Watch> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let watch = &self.0;
        watch.busy.set(watch.busy.get() - 1);
        if watch.busy.get() == 0 {
            let now = watch.clock.get();
            watch.upload_since.set(0);
            watch.reply_since.set(0);
            watch.idle_since.set(now);
            if watch.head_since.get() != 0 {
                watch.head_since.set(now); // the next head was begun before its turn
            }
        }
    }
}

/// All connections of one core.
#[derive(Debug)]
pub(super) struct Watches {
    clock: Rc<Cell<u32>>,
    all: RefCell<HashMap<u64, Rc<Watch>>>,
    next: Cell<u64>,
}

impl Default for Watches {
    fn default() -> Self {
        Self { clock: Rc::new(Cell::new(1)), all: RefCell::default(), next: Cell::new(0) }
    }
}

impl Watches {
    /// A new connection, whose caller may pause for so long; [`Watches::leave`] ends it.
    pub(super) fn enter(&self, pause: Duration) -> (u64, Rc<Watch>) {
        let id = self.next.replace(self.next.get() + 1);
        let pause = u32::try_from(pause.as_secs()).unwrap_or(u32::MAX);
        let watch = Rc::new(Watch {
            clock: Rc::clone(&self.clock),
            pause,
            busy: Cell::new(0),
            tunnel: Cell::new(false),
            linger_since: Cell::new(0),
            head_since: Cell::new(0),
            idle_since: Cell::new(self.clock.get()),
            upload_since: Cell::new(0),
            reply_since: Cell::new(0),
            write_since: Cell::new(0),
            in_body: Cell::new(false),
            wants_body: Cell::new(false),
            ahead: Cell::new(0),
            told: Cell::new(Told::Nothing),
            waker: RefCell::new(None),
        });
        self.all.borrow_mut().insert(id, Rc::clone(&watch));
        (id, watch)
    }

    pub(super) fn leave(&self, id: u64) {
        self.all.borrow_mut().remove(&id);
    }

    pub(super) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    /// The present tick, for whoever asks often.
    pub(super) fn clock(&self) -> Rc<Cell<u32>> {
        Rc::clone(&self.clock)
    }

    /// The next tick: whose time is up is closed.
    pub(super) fn tick(&self) {
        let now = self.clock.get() + 1;
        self.clock.set(now);
        for watch in self.all.borrow().values() {
            watch.fall_behind();
            if watch.is_late(now) {
                watch.tell(Told::Close);
            }
        }
    }

    /// Tells every connection.
    pub(super) fn tell(&self, told: Told) {
        self.all.borrow().values().for_each(|watch| watch.tell(told));
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
