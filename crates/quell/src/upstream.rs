//! Upstream: the lock around what all callers of a service share, and the guard that never leaks.
//!
//! **Why.** Futures are dropped at any await, closures panic, callers leave. Whatever a call holds at that
//! moment (a slot, a place in the queue, a grant that it has not even seen yet, a paid retry) has to go back
//! exactly once. That is easy to get wrong and impossible to get right in many places, so the lock, the
//! guard, the seats and the wakers live in this file and nowhere else.
//!
//! **How.** [`Upstream::begin`] gives a [`Guard`] around one [`quell_core::Call`]. [`Guard::step`] takes the
//! lock, reads the clock once, lets the core decide, and lets go; only then are others woken and observers
//! told. A caller who has to queue waits in a *seat* inside the lock. A grant is put into the seat, never into
//! a channel: granting and leaving meet under the same lock, so a grant whose caller has gone is found by
//! the guard's `Drop` and handed on. There is no background task: every waiting caller sleeps until the instant
//! the core asked to be looked at again, and is woken early when that instant moves forward.
//!
//! ```
//! use quell::{Clock, Upstream, upstream::Host};
//! use quell::core::{Input, Outcome, Policy, Step, spec::{PolicySpec, UpstreamSpec}};
//!
//! let policy = Policy::new(PolicySpec::library())?;
//! let host = Host { clock: Clock::manual(), ..Host::default() };
//! let upstream = Upstream::new("payments", UpstreamSpec::library(), policy.per_try(), host)?;
//!
//! let mut guard = upstream.begin(&policy);
//! let Step::Send(send) = guard.step(Input::Start) else { panic!() };
//! guard.call().sent(send.slot);
//! assert_eq!(upstream.snapshot().in_flight, 1);
//! drop(guard); // the caller left: the slot becomes a ghost, as the upstream may still be at work
//! assert_eq!((upstream.snapshot().in_flight, upstream.snapshot().ghosts), (0, 1));
//! # Ok::<_, quell::core::spec::Invalid>(())
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quell_core::{
    Arrival, Call, Input, Outcome, Permit, Policy, Refusal, Release, Snapshot, Step, Ticket, Time,
    Wake,
    budget::purse::Child,
    spec::{Invalid, UpstreamSpec},
};

// Named through `super` because the shuttle test compiles this very file a second time, under another lock.
use super::sync::{Mutex, MutexGuard};
pub use crate::host::Host;
use crate::{
    Clock,
    classes::Names,
    clock::Timer,
    observe::{Event, Finished, Observe},
};

/// See the [module](self). Clones share everything.
#[derive(Clone)]
pub struct Upstream(Arc<Shared>);

struct Shared {
    name: Box<str>,
    clock: Clock,
    observer: Option<Arc<dyn Observe>>,
    names: Names,
    state: Mutex<State>,
}

struct State {
    core: quell_core::Upstream,
    seats: BTreeMap<Ticket, Seat>,
    /// Empty between turns; kept so that a turn allocates nothing.
    wakes: Vec<Wake>,
    /// When the core wants to be polled, as everybody in a seat was told.
    poll_at: Time,
}

/// Where one queued caller waits.
#[derive(Default)]
struct Seat {
    waker: Option<Waker>,
    result: Option<Result<Permit, Refusal>>,
}

impl Upstream {
    /// An upstream of which nothing is known yet, for calls whose attempts may take `per_try` each.
    pub fn new(
        name: impl Into<Box<str>>,
        spec: UpstreamSpec,
        per_try: Duration,
        host: Host,
    ) -> Result<Self, Invalid> {
        let Host { clock, observer, seed } = host;
        let core = quell_core::Upstream::new(spec, per_try, seed, clock.now())?;
        let state = State { core, seats: BTreeMap::new(), wakes: Vec::new(), poll_at: Time::MAX };
        let (name, names, state) = (name.into(), Names::new(), Mutex::new(state));
        Ok(Self(Arc::new(Shared { name, clock, observer, names, state })))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The clock that its decisions are made by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// A call that begins with its first step. If more is known of it, see [`begin_for`](Upstream::begin_for).
    #[inline]
    pub fn begin<'a>(&'a self, policy: &'a Policy) -> Guard<Borrowed<'a>> {
        self.begin_for(policy, Arrival::new())
    }

    /// The same for a call of which something is known.
    #[inline]
    pub fn begin_for<'a>(&'a self, policy: &'a Policy, arrival: Arrival) -> Guard<Borrowed<'a>> {
        Guard::new(Borrowed { upstream: self, policy }, arrival)
    }

    /// Goes on under another spec with all that it knows: see [`quell_core::Upstream::reload`]. Calls under way keep their
    /// policy. A spec that is not valid changes nothing.
    pub fn reload(&self, spec: UpstreamSpec, per_try: Duration) -> Result<(), Invalid> {
        self.turn(|now, state| state.core.reload(now, spec, per_try, &mut state.wakes))
    }

    /// Whose retries count together within the upstream's budget, by name. See [`quell_core::Upstream::child`].
    pub fn child(&self, name: &str) -> Child {
        self.turn(|now, state| state.core.child(now, crate::levers::route_key(name)))
    }

    /// How it looks now.
    pub fn snapshot(&self) -> Snapshot {
        self.turn(|now, state| state.core.snapshot(now))
    }

    /// What its classes are called.
    #[inline]
    pub(crate) fn names(&self) -> &Names {
        &self.0.names
    }

    /// One decision of the core, for verbs that live elsewhere.
    pub(crate) fn with_core<R>(
        &self,
        act: impl FnOnce(Time, &mut quell_core::Upstream, &mut Vec<Wake>) -> R,
    ) -> R {
        self.turn(|now, State { core, wakes, .. }| act(now, core, wakes))
    }

    /// Whether nobody sits in a seat, for tests.
    #[cfg(test)]
    #[allow(dead_code, reason = "used where this file is compiled under shuttle")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.state.lock().seats.is_empty()
    }

    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.0.observer.is_some()
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = &self.0.observer {
            observer.observe(&self.0.name, event);
        }
    }

    /// One decision: under the lock with one reading of the clock. Wakers and observers run after it.
    #[inline(always)]
    fn turn<R>(&self, act: impl FnOnce(Time, &mut State) -> R) -> R {
        let mut state = self.0.state.lock();
        let now = self.0.clock.now();
        let result = act(now, &mut state);
        if !state.seats.is_empty() || (state.core.has_news() && self.0.observer.is_some()) {
            self.follow_up(now, state);
        }
        result
    }

    /// Seats, wakes and tells whoever is to be seated, woken or told.
    #[cold]
    fn follow_up(&self, now: Time, mut state: MutexGuard<'_, State>) {
        let (mut wakers, mut news) = (Vec::new(), Vec::new());
        state.settle(now, &mut wakers);
        if self.0.observer.is_some() {
            news.extend(std::iter::from_fn(|| state.core.next_event()));
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        news.into_iter().for_each(|event| self.tell(&Event::Changed(event)));
    }
}

impl State {
    #[cold]
    fn seat(&mut self, ticket: Ticket) {
        self.seats.insert(ticket, Seat::default());
    }

    /// Seats everybody whose wait is over, and tells the others if the core wants to be polled sooner.
    fn settle(&mut self, now: Time, wakers: &mut Vec<Waker>) {
        let poll_at = self.core.poll(now, &mut self.wakes).unwrap_or(Time::MAX);
        for wake in self.wakes.drain(..) {
            let seat = self.seats.get_mut(&wake.ticket);
            debug_assert!(seat.is_some(), "a ticket and its seat come and go under one lock");
            if let Some(seat) = seat {
                seat.result = Some(wake.result);
                wakers.extend(seat.waker.take());
            }
        }
        if poll_at < self.poll_at {
            wakers.extend(self.seats.values_mut().filter_map(|seat| seat.waker.take()));
        }
        self.poll_at = poll_at;
    }
}

/// Whose call it is, and by which policy: borrowed from whoever outlives the call, or owned by it.
pub trait Terms {
    /// What is called.
    fn upstream(&self) -> &Upstream;
    /// How.
    fn policy(&self) -> &Policy;
    /// The call is over, well or not.
    fn over(&self, call: &Call) {
        let _ = call;
    }
}

/// [`Terms`] of a call that ends before its upstream and policy do.
#[derive(Debug, Clone, Copy)]
pub struct Borrowed<'a> {
    /// What is called.
    pub upstream: &'a Upstream,
    /// How.
    pub policy: &'a Policy,
}

impl Terms for Borrowed<'_> {
    #[inline]
    fn upstream(&self) -> &Upstream {
        self.upstream
    }

    #[inline]
    fn policy(&self) -> &Policy {
        self.policy
    }
}

/// One call under way. Dropping it, at any moment, gives back all that the call holds, and tells observers of its end.
pub struct Guard<T: Terms> {
    terms: T,
    call: Call,
    now: Time,
}

/// What a look at the seat shows.
enum Look {
    Over,
    PollAt(Time),
}

impl<T: Terms> Guard<T> {
    /// A call on these terms, which begins with its first step.
    #[inline(always)]
    pub fn new(terms: T, arrival: Arrival) -> Self {
        Self { terms, call: Call::of(arrival), now: Time::ZERO }
    }

    /// Tells what happened and answers what to do next.
    #[inline]
    pub fn step(&mut self, input: Input) -> Step {
        // Almost every call is the first two and nothing else, so they have a way of their own.
        match input {
            Input::Start => self.start(),
            Input::Ended { slot, outcome: Outcome::Success } => self.succeed(slot),
            other => self.decide(|_| other),
        }
    }

    /// The upstream has been handed all of the request of the attempt in this slot: see [`Call::given`].
    #[cold]
    pub fn given(&mut self, slot: u8) {
        let Self { terms, call, .. } = self;
        let policy = terms.policy();
        terms.upstream().turn(|at, state| call.given(at, slot, policy, &mut state.core));
    }

    /// How the call behaves, and when it is over whatever happens.
    pub(crate) fn policy(&self) -> &Policy {
        self.terms.policy()
    }

    pub(crate) fn called(&self) -> &Call {
        &self.call
    }

    /// After [`Step::Enqueue`]: waits for a slot or a refusal, and answers what to do next.
    ///
    /// The grant goes from the seat into the call without ever being in the caller's hands, so this may be
    /// dropped at any moment, and called again.
    pub async fn queue(&mut self) -> Step {
        let mut timer = pin!(Timer::default());
        poll_fn(|cx| self.poll_queue(cx, timer.as_mut())).await
    }

    /// [`Guard::queue`] for whoever polls.
    pub(crate) fn poll_queue(
        &mut self,
        cx: &mut Context<'_>,
        mut timer: Pin<&mut Timer>,
    ) -> Poll<Step> {
        let mut poll_at = Time::MAX;
        loop {
            match self.look(poll_at, cx.waker()) {
                Poll::Ready(Look::Over) => return Poll::Ready(self.take_seat()),
                Poll::Ready(Look::PollAt(at)) => poll_at = at,
                Poll::Pending => {
                    let clock = self.upstream().clock();
                    std::task::ready!(timer.as_mut().poll_until(cx, clock, poll_at));
                    self.upstream().turn(|_, _| ());
                }
            }
        }
    }

    /// [`Guard::queue`] for a thread.
    pub fn queue_blocking(&mut self) -> Step {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut poll_at = Time::MAX;
        loop {
            match self.look(poll_at, &waker) {
                Poll::Ready(Look::Over) => return self.take_seat(),
                Poll::Ready(Look::PollAt(at)) => poll_at = at,
                Poll::Pending if self.upstream().clock().now() >= poll_at => {
                    self.upstream().turn(|_, _| ());
                }
                Poll::Pending => self.upstream().clock().park_until(poll_at),
            }
        }
    }

    /// The call itself, to say what is known of the request.
    pub fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    /// Whose call this is.
    pub fn upstream(&self) -> &Upstream {
        self.terms.upstream()
    }

    /// On what terms.
    pub fn terms(&self) -> &T {
        &self.terms
    }

    /// When the caller came.
    pub fn since(&self) -> Time {
        self.call.since()
    }

    /// The instant of the last step.
    pub fn now(&self) -> Time {
        self.now
    }

    fn look(&self, poll_at: Time, waker: &Waker) -> Poll<Look> {
        let mut state = self.upstream().0.state.lock();
        let told = state.poll_at;
        match self.call.ticket().and_then(|ticket| state.seats.get_mut(&ticket)) {
            None | Some(Seat { result: Some(_), .. }) => Poll::Ready(Look::Over),
            Some(_) if told != poll_at => Poll::Ready(Look::PollAt(told)),
            Some(seat) => {
                seat.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Gets up from the seat with what was put into it.
    fn take_seat(&mut self) -> Step {
        let Some(ticket) = self.call.ticket() else { return Step::Await }; // it never sat down
        self.decide(|state| match state.seats.remove(&ticket).and_then(|seat| seat.result) {
            Some(Ok(permit)) => Input::Granted(permit),
            Some(Err(refusal)) => Input::Refused(refusal),
            None => Input::Woke, // cannot be: only a look at a filled seat leads here
        })
    }

    #[inline(never)]
    fn start(&mut self) -> Step {
        self.turn(|call, now, policy, state| call.start(now, policy, &mut state.core))
    }

    #[inline(never)]
    fn succeed(&mut self, slot: u8) -> Step {
        self.turn(|call, now, policy, State { core, wakes, .. }| {
            call.succeed(now, slot, policy, core, wakes)
        })
    }

    #[cold]
    fn decide(&mut self, input: impl FnOnce(&mut State) -> Input) -> Step {
        self.turn(|call, now, policy, state| {
            let input = input(state);
            call.step(now, input, policy, &mut state.core, &mut state.wakes)
        })
    }

    #[inline(always)]
    fn turn(&mut self, act: impl FnOnce(&mut Call, Time, &Policy, &mut State) -> Step) -> Step {
        let Self { terms, call, now } = self;
        terms.upstream().turn(|at, state| {
            *now = at;
            let step = act(call, at, terms.policy(), state);
            if let Step::Enqueue { ticket, .. } = &step {
                state.seat(*ticket);
            }
            step
        })
    }

    /// Gives back whatever an unfinished call holds.
    #[cold]
    pub(crate) fn abandon(&mut self) {
        let Self { terms, call, now } = self;
        terms.upstream().turn(|at, state| {
            *now = at;
            let State { core, seats, wakes, .. } = state;
            let seat = call.ticket().and_then(|ticket| seats.remove(&ticket));
            if let Some(Seat { result: Some(Ok(unread)), .. }) = seat {
                core.release(at, unread, Release::Unsent, wakes);
            }
            call.abandon(at, core, wakes);
        });
    }

    #[cold]
    fn tell_end(&self) {
        let (attempts, reason) = (self.call.attempts(), self.call.reason());
        let elapsed = self.now.since(self.since());
        self.upstream().tell(&Event::Finished(&Finished { attempts, reason, elapsed }));
    }
}

impl<T: Terms> Drop for Guard<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.call.is_over() {
            self.abandon();
        }
        self.terms.over(&self.call);
        if self.upstream().is_observed() {
            self.tell_end();
        }
    }
}

/// Whatever panics, a user's closure or observer, does so while no lock is held.
impl std::panic::UnwindSafe for Upstream {}
impl std::panic::RefUnwindSafe for Upstream {}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl<T: Terms> fmt::Debug for Guard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upstream = self.upstream();
        f.debug_struct("Guard").field("upstream", upstream).field("call", &self.call).finish()
    }
}
