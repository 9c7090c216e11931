//! Timers for bodies, heads and idle connections, at no cost per request.
//!
//! **Why.** A peer that stops in the middle must not hold a connection for ever, but a timer per request and
//! direction would cost more than forwarding it. The limits are seconds, so half a second's precision will do.
//!
//! **How.** Each connection notes in a [`Watch`] what it waits for and since which tick. A sweep per core moves the
//! tick on twice a second and wakes those connections whose time is up, which then end themselves. The same way
//! they are told to finish when the process drains.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// How long a tick is.
pub(super) const TICK: Duration = Duration::from_millis(500);

const HEAD: u32 = ticks(10);
const KEEP_ALIVE: u32 = ticks(60);
const READ_IDLE: u32 = ticks(30);
const WRITE_STALL: u32 = ticks(15);

/// Ticks in so many seconds, and one more: the first is never a whole one.
pub(super) const fn ticks(seconds: u32) -> u32 {
    seconds * 2 + 1
}

/// What a connection was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    /// Nothing: go on.
    Nothing,
    /// Finish what is under way, then close.
    Finish,
    /// Close now.
    Close,
}

/// What one connection waits for. Zero means that it does not.
#[derive(Debug)]
pub(super) struct Watch {
    clock: Rc<Cell<u32>>,
    /// Requests under way.
    busy: Cell<u32>,
    head_since: Cell<u32>,
    idle_since: Cell<u32>,
    read_since: Cell<u32>,
    write_since: Cell<u32>,
    told: Cell<Told>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    /// Bytes came in from the caller: between requests, they begin the next head.
    pub(super) fn bytes_came(&self) {
        if self.busy.get() == 0 && self.head_since.get() == 0 {
            self.head_since.set(self.clock.get());
        }
    }

    /// A request was read; nothing else begins until its reply's body is done, which drops the [`Busy`].
    pub(super) fn begin(self: &Rc<Self>) -> Busy {
        self.busy.set(self.busy.get() + 1);
        self.head_since.set(0);
        Busy(Rc::clone(self))
    }

    /// A body, of either way, has nothing to read (or has again).
    pub(super) fn reading(&self, waits: bool) {
        since(&self.read_since, waits, &self.clock);
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
        self.told.get()
    }

    fn tell(&self, told: Told) {
        if told > self.told.get() {
            self.told.set(told);
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    fn is_late(&self, now: u32) -> bool {
        let late = |since: &Cell<u32>, limit| since.get() != 0 && now - since.get() >= limit;
        late(&self.read_since, READ_IDLE)
            || late(&self.write_since, WRITE_STALL)
            || late(&self.head_since, HEAD)
            || (self.busy.get() == 0 && late(&self.idle_since, KEEP_ALIVE))
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
        self.0.busy.set(self.0.busy.get() - 1);
        self.0.read_since.set(0);
        self.0.idle_since.set(self.0.clock.get());
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
    /// A new connection; [`Watches::leave`] ends it.
    pub(super) fn enter(&self) -> (u64, Rc<Watch>) {
        let id = self.next.replace(self.next.get() + 1);
        let watch = Rc::new(Watch {
            clock: Rc::clone(&self.clock),
            busy: Cell::new(0),
            head_since: Cell::new(0),
            idle_since: Cell::new(self.now()),
            read_since: Cell::new(0),
            write_since: Cell::new(0),
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

    /// The present tick.
    pub(super) fn now(&self) -> u32 {
        self.clock.get()
    }

    /// The same for whoever asks often.
    pub(super) fn clock(&self) -> Rc<Cell<u32>> {
        Rc::clone(&self.clock)
    }

    /// The next tick: whose time is up is closed.
    pub(super) fn tick(&self) {
        let now = self.clock.get() + 1;
        self.clock.set(now);
        for watch in self.all.borrow().values().filter(|watch| watch.is_late(now)) {
            watch.tell(Told::Close);
        }
    }

    /// Tells every connection.
    pub(super) fn tell(&self, told: Told) {
        self.all.borrow().values().for_each(|watch| watch.tell(told));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u32, prepare: impl FnOnce(&Rc<Watch>) -> Option<Busy>) -> Told {
        let watches = Watches::default();
        let (_, watch) = watches.enter();
        let _busy = prepare(&watch);
        (0..seconds * 2 + 1).for_each(|_| watches.tick());
        watch.told.get()
    }

    #[test]
    fn an_idle_connection_is_kept_for_a_minute_and_a_head_for_ten_seconds() {
        assert_eq!(after(59, |_| None), Told::Nothing);
        assert_eq!(after(60, |_| None), Told::Close);
        let head = |watch: &Rc<Watch>| {
            watch.bytes_came();
            None
        };
        assert_eq!(after(9, head), Told::Nothing);
        assert_eq!(after(10, head), Told::Close);
    }

    #[test]
    fn a_busy_connection_is_closed_only_when_a_body_stands_still() {
        assert_eq!(after(3_600, |watch| Some(watch.begin())), Told::Nothing);
        let reading = |watch: &Rc<Watch>| {
            watch.reading(true);
            Some(watch.begin())
        };
        assert_eq!(after(29, reading), Told::Nothing);
        assert_eq!(after(30, reading), Told::Close);
        let stalled = |watch: &Rc<Watch>| {
            watch.writing(true);
            Some(watch.begin())
        };
        assert_eq!(after(15, stalled), Told::Close);
        let again = |watch: &Rc<Watch>| {
            watch.writing(true);
            watch.writing(false);
            Some(watch.begin())
        };
        assert_eq!(after(15, again), Told::Nothing);
    }

    #[test]
    fn close_is_the_last_word() {
        let watches = Watches::default();
        let (id, watch) = watches.enter();
        watches.tell(Told::Close);
        watches.tell(Told::Finish);
        assert_eq!(watch.told.get(), Told::Close);
        watches.leave(id);
        assert_eq!(watches.len(), 0);
    }
}
