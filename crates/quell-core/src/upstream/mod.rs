//! Upstream: all that is shared by everybody who calls one service, and the verbs on it.
//!
//! **Why.** A storm is not made by one call but by all of them together, so the decision about one call
//! has to see them all: how many are under way, what came back, who left, who waits.
//!
//! **How.** [`Upstream::admit`] looks at every gate first and takes only when all agree. An attempt that was
//! admitted is *judged* when its outcome is known and *released* when its slot is free; they are apart
//! because the one may come later than the other. Whoever is granted a slot or refused while queued is
//! handed to the host in a list of [`Wake`]s. Nothing here locks, waits or reads a clock.
//!
//! ```
//! use quell_core::{Admission, Ask, Outcome, Release, Time, Upstream, spec::UpstreamSpec};
//! use core::time::Duration;
//!
//! let (now, per_try) = (Time::ZERO, Duration::from_secs(5));
//! let mut upstream = Upstream::new(UpstreamSpec::gateway(), per_try, 1, now)?;
//! let Admission::Go(permit) = upstream.admit(now, &Ask::first(now)) else { panic!() };
//! upstream.judge(now, &permit, &Outcome::Success);
//! upstream.release(now, permit, Release::Done, &mut Vec::new());
//! assert_eq!(upstream.snapshot(now).in_flight, 0);
//! # Ok::<_, quell_core::spec::Invalid>(())
//! ```

mod apart;
mod ask;
mod curbs;
mod ghosts;
mod judged;
mod keys;
mod levers;
mod notes;
mod overlooked;
mod reload;
mod sent;
mod shown;
mod waiting;

use core::time::Duration;

use curbs::Curbs;

pub use ask::{Admission, Ask, AttemptId, Permit, Priority, Refusal, Release, Snapshot, Wake};
pub use levers::{Lever, Pulled, Stuck};

use crate::{
    Fault, Outcome, Reason, Rng, Time,
    breaker::{Breaker, Pass, State, Stub},
    budget::{self, Purse, Receipt, purse::Child},
    callers::Callers,
    classes::Classes,
    endpoints::Endpoints,
    event::{Event, Events},
    in_flight::{Evidence, InFlight, Load},
    keyed::Seat,
    latency::Latency,
    lease::Planner,
    mode::{Modes, WouldRefuse},
    pools::{Pool, Pools},
    queue::{Queue, Ticket},
    spec::{Invalid, UpstreamSpec},
};

/// When a refused caller may come back, plus up to as much again so that they do not come back together.
const COME_BACK: Duration = Duration::from_secs(1);
/// The longest an upstream's hint holds back everybody's retries.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// Credentials that are held back by themselves; beyond it the one whose time is over soonest is let go.
const MOST_HELD_BACK: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub struct Upstream {
    rng: Rng,
    breaker: Breaker,
    purse: Purse,
    in_flight: InFlight,
    told_limit: u32,
    told_trouble: Option<Evidence>,
    endpoints: Endpoints,
    queue: Queue<Ask>,
    queue_wait: Option<Duration>,
    /// Shed from the queue and not yet told.
    shed: Vec<Ticket>,
    /// What was written, at least.
    least_queue: usize,
    classes: Classes,
    callers: Callers,
    not_before: Time,
    held_back: Vec<(u64, Time)>,
    curbs: Option<Box<Curbs>>,
    modes: Modes,
    would_refuse: WouldRefuse,
    /// Retries that were paid for and have not come to an end.
    retrying: u32,
    levers: Vec<Pulled>,
    /// How often waiting calls were dropped by hand, and whose at which time of these.
    drops: u32,
    dropped: Vec<(Option<u64>, u32)>,
    events: Events,
}

impl Upstream {
    /// An upstream of which nothing is known yet, for calls whose attempts may take `per_try` each.
    pub fn new(
        spec: UpstreamSpec,
        per_try: Duration,
        seed: u64,
        now: Time,
    ) -> Result<Self, Invalid> {
        if spec.queue_wait == Some(Duration::ZERO) {
            return Err(Invalid::QueueWait);
        }
        let in_flight = InFlight::new(spec.in_flight, per_try)?;
        let mut endpoints = Endpoints::new(spec.endpoints, spec.ejection, now)?;
        endpoints.set_mode(spec.modes.ejection);
        endpoints.set_pools(Pools::new(spec.pools, spec.in_flight, spec.endpoints)?);
        let mut upstream = Self {
            rng: Rng::new(seed),
            breaker: Breaker::new(spec.breaker, now)?,
            purse: Purse::new(spec.budget, spec.children, now)?,
            told_limit: in_flight.limit(),
            told_trouble: None,
            in_flight,
            endpoints,
            queue: Queue::new(spec.queue, spec.order),
            queue_wait: spec.queue_wait,
            shed: Vec::new(),
            least_queue: spec.queue,
            classes: Classes::new(now),
            callers: Callers::default(),
            not_before: Time::ZERO,
            held_back: Vec::new(),
            curbs: Curbs::new(&spec, now)?,
            modes: spec.modes,
            would_refuse: WouldRefuse::default(),
            retrying: 0,
            levers: Vec::new(),
            drops: 0,
            dropped: Vec::new(),
            events: Events::default(),
        };
        upstream.in_flight.shut(upstream.is_curbed());
        Ok(upstream)
    }

    /// Whether curbs or levers have a say in every call.
    fn is_curbed(&self) -> bool {
        self.curbs.is_some() || !self.levers.is_empty()
    }

    /// May this attempt be sent? Takes a slot only if every gate agrees.
    #[inline]
    pub fn admit(&mut self, now: Time, ask: &Ask) -> Admission {
        match self.enter_calmly(now, ask) {
            Some(class) => Admission::Go(self.go(now, ask, class)),
            None => self.admit_closely(now, ask),
        }
    }

    /// The beginning of [`Upstream::admit`] when there is nothing to look at but a free slot, and so it is almost always: the
    /// class of a call that [may go](Upstream::go). `None` says no more than that a closer look is needed.
    #[inline(always)]
    pub(crate) fn enter_calmly(&mut self, now: Time, ask: &Ask) -> Option<u16> {
        if now >= self.in_flight.next_look() {
            self.look(now);
        }
        let calm = self.breaker.is_calm()
            && ask.attempt <= 1
            && ask.deadline > now
            && !ask.uploads
            && (self.endpoints.under_way() < self.in_flight.open()
                || self.in_flight.is_haunted()
                    && !self.is_curbed()
                    && self.endpoints.ghosts() == 0
                    && self.has_many_slots());
        if !calm {
            return None;
        }
        let index = self.classes.enter(ask.class, now);
        let class = self.classes.at(index);
        class.is_calm().then(|| {
            class.sends(now);
            index
        })
    }

    /// Sends a call whose class was entered calmly.
    #[inline(always)]
    pub(crate) fn go(&mut self, now: Time, ask: &Ask, class: u16) -> Permit {
        let endpoint = self.endpoints.choose(now, ask.tried, &mut self.rng);
        let number = self.endpoints.sent(endpoint);
        let pass = self.breaker.take_calmly(now);
        let permit = self.permit(now, ask, class, (endpoint, number), pass);
        Permit { uploads: 0, ..permit }
    }

    /// [`Upstream::admit`] with every gate looked at.
    #[cold]
    pub(crate) fn admit_closely(&mut self, now: Time, ask: &Ask) -> Admission {
        self.end_levers(now);
        if self.curbs.is_some() {
            return self.admit_curbed(now, ask);
        }
        let seat = Seat::NOWHERE;
        match self.gates(now, ask, seat) {
            Err(refusal) => Admission::No(refusal),
            Ok(State::HalfOpen) => self.admit_probe(now, ask, seat),
            Ok(_) if self.is_held_apart(now, ask) || self.is_to_leave_some(now, ask) => {
                self.enqueue(now, ask)
            }
            Ok(_) => match self.place(now) {
                Some(place) => Admission::Go(self.send(now, ask, place, seat)),
                None if self.is_crowded_out(ask) => {
                    Admission::Go(self.send(now, ask, Place::Free, seat))
                }
                None => self.enqueue(now, ask),
            },
        }
    }

    /// An attempt's hold on its slot ends. Whoever can go now, or can wait no longer, is put into `wake`.
    #[inline]
    pub fn release(&mut self, now: Time, permit: Permit, how: Release, wake: &mut Vec<Wake>) {
        self.free(now, &permit, how, wake);
    }

    /// [`Upstream::release`] where the permit lies, for whoever is about to drop it.
    #[inline(always)]
    pub(crate) fn free(&mut self, now: Time, permit: &Permit, how: Release, wake: &mut Vec<Wake>) {
        match self.curbs {
            None => self.breaker.free(now, &permit.pass),
            Some(_) => self.release_curbed(now, permit, how),
        }
        self.callers.give(permit.caller);
        if permit.is_whole() {
            self.classes.at(permit.class).ends(permit.pass.sent_at());
            match how {
                Release::Done | Release::Unsent => self.endpoints.done(permit.endpoint),
                Release::Ghost => self.haunt(now, permit),
            }
        } else {
            self.endpoints.drop_upload(permit.pool, how);
        }
        if permit.own.is_some() {
            self.free_class(now, permit);
        }
        if !self.queue.is_empty() {
            self.grant(now, wake);
        }
    }

    /// The upstream has been handed all of this attempt's request: only now it holds a slot, and its time begins.
    pub fn given(&mut self, now: Time, permit: &mut Permit) {
        if core::mem::take(&mut permit.uploads) != 0 {
            permit.pass.begins(now);
            self.endpoints.begins(permit.endpoint);
            self.classes.at(permit.class).sends(now);
        }
    }

    /// Gives up a place in the queue. False if its [`Wake`] was already handed out.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        if let Some(place) = self.shed.iter().position(|&shed| shed == ticket) {
            self.shed.swap_remove(place);
            return true;
        }
        self.queue.leave(ticket).is_some()
    }

    /// A caller who came at `since` with a call of this kind left before the response head, wherever its call stood: once
    /// per call.
    pub fn gave_up(&mut self, now: Time, since: Time, class: u64) {
        let class = self.classes.find(class);
        self.in_flight.learn_patience(now, since, self.classes.at(class));
    }

    /// Does what is due and answers when to call again: needed only while somebody queues.
    pub fn poll(&mut self, now: Time, wake: &mut Vec<Wake>) -> Option<Time> {
        if self.queue.is_empty() && self.shed.is_empty() {
            return None;
        }
        self.grant(now, wake);
        self.next_wake()
    }

    /// Whose retries are to count together within the upstream's budget, by the name of a route or tenant: find it once,
    /// it stays the same.
    pub fn child(&mut self, now: Time, key: u64) -> Child {
        self.purse.child(now, key)
    }

    /// From now on a budget that a fleet shares pays for retries where the upstream's own is empty. See
    /// [`Budget::lease_from`](budget::Budget::lease_from).
    pub fn lease_budget(&mut self, planner: Planner) {
        self.purse.lease_from(planner);
    }

    /// What is leased of a budget that a fleet shares, for the host that asks the store for it.
    pub fn budget_lease(&mut self) -> Option<&mut Planner> {
        self.purse.lease()
    }

    /// The retry budgets of routes or tenants, by their names; all that came too late for one are under `None`.
    pub fn child_budgets(
        &self,
        now: Time,
    ) -> impl Iterator<Item = (Option<u64>, budget::Snapshot)> {
        self.purse.children(now)
    }

    /// What an attempt came to, for the route's or tenant's own budget: after [`Upstream::judge`], which is for all.
    #[cold]
    pub(crate) fn judge_child(&mut self, now: Time, child: Child, outcome: &Outcome) {
        if matches!(outcome, Outcome::Success) {
            let changes = self.purse.earn_child(now, child);
            self.note_budgets(child, changes);
        } else if outcome.is_retryable() {
            self.purse.failed_child(now, child);
        }
    }

    /// Pays for a retry after such a failure, before its wait.
    #[cold]
    pub(crate) fn pay(&mut self, now: Time, fault: Fault, child: Child) -> Result<Receipt, Reason> {
        let (paid, changes) = self.purse.take(now, child, fault, &mut self.rng);
        self.note_budgets(child, changes);
        let paid =
            paid.or_else(|reason| self.overlook_budget().then_some(Receipt::UNPAID).ok_or(reason));
        self.retrying += u32::from(paid.is_ok());
        paid
    }

    /// Takes back what was paid for a retry that was never sent.
    #[cold]
    pub(crate) fn refund(&mut self, now: Time, paid: Receipt) {
        let child = paid.child();
        let changes = self.purse.refund(now, paid);
        self.note_budgets(child, changes);
        self.retry_ended();
    }

    /// A retry that was paid for and sent came to an end.
    pub(crate) fn retry_ended(&mut self) {
        self.retrying = self.retrying.saturating_sub(1);
    }

    /// A retry that was paid for succeeded.
    #[cold]
    pub(crate) fn retried_well(&mut self, now: Time, paid: Receipt) {
        let child = paid.child();
        let changes = self.purse.retried_well(now, paid);
        self.note_budgets(child, changes);
    }

    /// Whether a hedge would make things worse: the breaker is not closed, or the budget below half.
    pub(crate) fn is_degraded(&mut self, now: Time, key: Option<u64>, class: u64) -> bool {
        self.stops_retries(now, key, class)
            || (self.purse.parent().fill(now) < 0.5 && !self.overlook_level(now))
    }

    /// How long calls of this kind take.
    pub(crate) fn latency(&self, class: u64) -> &Latency {
        &self.classes.get(self.classes.find(class)).latency
    }

    /// Whether the key's breaker, that of its class or everybody's lets no retries through at all.
    pub(crate) fn stops_retries(&mut self, now: Time, key: Option<u64>, class: u64) -> bool {
        self.applied(now, key) != State::Closed || self.class_state(now, class) != State::Closed
    }

    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Whether there is a change that nobody has been told of yet.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// The oldest change nobody has been told of yet.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The gates that take nothing: deadline, levers, not-before, breaker.
    #[inline]
    fn gates(&mut self, now: Time, ask: &Ask, seat: Seat) -> Result<State, Refusal> {
        if ask.deadline <= now {
            return Err(Refusal { reason: Reason::Deadline, retry_at: now });
        }
        let first = ask.attempt <= 1;
        if !first && !self.levers.is_empty() {
            self.retries_are_on(now, ask)?;
        }
        let not_before = self.not_before(ask.credential);
        if now < not_before && (!first || self.gates_all()) {
            return Err(Refusal { reason: Reason::NotBefore, retry_at: not_before });
        }
        self.class_allows(now, ask)?;
        if seat != Seat::NOWHERE {
            return self.check_key(now, seat, first);
        }
        let checked = self.breaker.check(now, first, &mut self.rng);
        if checked.is_err() {
            self.note_opened(now);
        }
        checked
    }

    /// How busy it is while an attempt has not given its slot back yet.
    #[inline]
    fn load(&self) -> Load {
        Load { under_way: self.endpoints.under_way(), queued: !self.queue.is_empty() }
    }

    /// Where an attempt may go now, if anywhere.
    #[inline]
    fn place(&mut self, now: Time) -> Option<Place> {
        if self.endpoints.ghosts() > 0
            && let Some(place) = self.place_of_ghost(now)
        {
            return Some(place);
        }
        let free = self.has_slot() || self.stretches(now);
        (free || self.overlook_limit()).then_some(Place::Free)
    }

    fn refuse(&mut self, now: Time, reason: Reason) -> Refusal {
        Refusal { reason, retry_at: now + COME_BACK + self.rng.up_to(COME_BACK) }
    }
}

/// Where an attempt may go.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Into a free slot.
    Free,
    /// As a probe into a ghost's slot at this endpoint.
    Ghost(u16),
}

#[cfg(test)]
mod burst_tests;
#[cfg(test)]
mod health_tests;
#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
