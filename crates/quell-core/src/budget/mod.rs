//! Budgets: what retries may cost.
//!
//! **Why.** A retry spends capacity that a failing upstream does not have. Whoever wants to send one has to pay, and
//! what there is to pay with comes from what succeeded: so retries die down by themselves when nothing does. How a
//! budget earns and what it charges is a matter of taste and of what a service is used to; that it can be asked,
//! refunded and looked at in the same words is not.
//!
//! **How.** Each kind is a file of its own. A [`Spec`] names a kind and its numbers and becomes a [`Budget`] in one
//! step that can fail. `take` pays for one retry, `refund` takes back what was paid for one that was never sent,
//! `earn` hears of a success, `failed` of a failure that could be retried, `retried_well` of a paid retry that
//! succeeded. Budgets inside budgets are in [`purse`], what a fleet allows together is in [`divided`]. The kinds
//! are an enum, not trait objects: a success costs a compare and an addition.
//!
//! A fleet may share one budget through a store: [`Budget::lease_from`]. What an instance earned itself pays first, and where
//! that is empty, what it has leased of the common one. While the store is away that is its share of it, never nothing
//! and never without limit; how far all may exceed it together is [`overshoot_bound`](crate::lease::overshoot_bound).
//!
//! ```
//! use quell_core::{Fault, Reason, Rng, Time, budget::{Budget, Spec, tokens}};
//!
//! let (now, mut rng) = (Time::ZERO, Rng::new(1));
//! let mut budget = Budget::new(tokens::Spec { max: 1, ..tokens::Spec::default() }, now)?;
//! let paid = budget.take(now, Fault::Server, &mut rng).unwrap();
//! assert_eq!(budget.take(now, Fault::Server, &mut rng).unwrap_err(), Reason::BudgetEmpty);
//! budget.refund(now, paid); // it was never sent
//! assert!(budget.peek(now));
//! assert_eq!(budget.snapshot(now).denied, 1);
//! assert!(Budget::new(Spec::Unlimited, now)?.peek(now));
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

pub mod adaptive;
mod bucket;
pub mod divided;
pub mod failed_retry;
pub mod grpc;
mod invalid;
pub mod probabilistic;
pub mod purse;
pub mod ratio;
mod reload;
mod ring;
pub mod sampled;
mod spec;
pub mod tokens;
pub mod window;

pub use bucket::Bucket;
pub use divided::{Division, fleet_allows};
pub use invalid::Invalid;
pub use purse::{Purse, Receipt};
pub use spec::Spec;

use crate::{Fault, Reason, Rng, Time, lease::Planner};
use adaptive::Adaptive;
use probabilistic::Probabilistic;
use ratio::Ratio;
use sampled::Sampled;
use tokens::Tokens;
use window::Window;

/// One token, in the unit that levels are kept in.
pub(crate) const TOKEN: u64 = 1_000_000;
/// The same as a price.
pub(crate) const PRICE: u32 = 1_000_000;

/// Proof that one retry was paid for: spend it by sending, or hand it back with [`Budget::refund`]. If the retry
/// was sent and succeeded, [`Budget::retried_well`] wants it.
#[must_use = "a retry that was paid for and is not sent must be refunded"]
#[derive(Debug, PartialEq, Eq)]
pub struct Paid {
    /// Millionths of a token.
    amount: u32,
    /// The part of the window it was paid in, for kinds that have one.
    at: u32,
}

impl Paid {
    const NOTHING: Self = Self { amount: 0, at: 0 };
    /// By the fleet. It is not given back, for the lease may have run out by then: rather a token too few.
    const LEASED: Self = Self { amount: 0, at: u32::MAX };

    const fn of(amount: u32) -> Self {
        Self { amount, at: 0 }
    }
}

/// What a budget holds and could hold, in millionths of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gauge {
    level: u64,
    max: u64,
}

impl Gauge {
    const ENDLESS: Self = Self { level: u64::MAX, max: u64::MAX };
    const NOTHING: Self = Self { level: 0, max: 0 };

    fn fill(self) -> f64 {
        if self.max == 0 { 0.0 } else { self.level as f64 / self.max as f64 }
    }

    fn tokens(millionths: u64) -> f64 {
        if millionths == u64::MAX { f64::INFINITY } else { millionths as f64 / TOKEN as f64 }
    }
}

/// What a budget looks like at one moment. The totals since the start are for show; no decision reads them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Snapshot {
    /// Attempts that succeeded.
    pub successes: u64,
    /// Failures that another attempt could have helped.
    pub failures: u64,
    /// Retries asked for.
    pub asked: u64,
    /// Retries paid for.
    pub allowed: u64,
    /// Retries refused.
    pub denied: u64,
    /// Retries paid for and never sent.
    pub refunded: u64,
    /// Tokens there are; infinite if there is no limit.
    pub level: f64,
    /// Tokens there could be.
    pub max: f64,
    /// The share of `max` that is spent: `(max - level) / max`.
    pub utilisation: f64,
}

#[derive(Debug, Default)]
struct Totals {
    successes: u64,
    failures: u64,
    asked: u64,
    denied: u64,
    refunded: u64,
}

#[derive(Debug)]
enum Kind {
    Tokens(Tokens),
    Ratio(Box<Ratio>),
    Window(Box<Window>),
    Adaptive(Adaptive),
    Probabilistic(Probabilistic),
    Sampled(Box<Sampled>),
    Unlimited,
    None,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Budget {
    kind: Kind,
    totals: Totals,
    /// What is leased of a budget that a fleet shares.
    lease: Option<Box<Planner>>,
}

impl Budget {
    /// A budget at its start.
    pub fn new(spec: impl Into<Spec>, now: Time) -> Result<Self, Invalid> {
        let kind = match spec.into() {
            Spec::Tokens(spec) => Kind::Tokens(Tokens::new(spec, now)?),
            Spec::Grpc(spec) => Kind::Tokens(Tokens::grpc(spec, now)?),
            Spec::FailedRetry(spec) => Kind::Tokens(Tokens::failed_retry(spec, now)?),
            Spec::Ratio(spec) => Kind::Ratio(Box::new(Ratio::new(spec, now)?)),
            Spec::Window(spec) => Kind::Window(Box::new(Window::new(spec, now)?)),
            Spec::Adaptive(spec) => Kind::Adaptive(Adaptive::new(spec, now)?),
            Spec::Probabilistic(spec) => Kind::Probabilistic(Probabilistic::new(spec, now)?),
            Spec::Sampled(spec) => Kind::Sampled(Box::new(Sampled::new(spec, now)?)),
            Spec::Unlimited => Kind::Unlimited,
            Spec::None => Kind::None,
        };
        Ok(Self { kind, totals: Totals::default(), lease: None })
    }

    /// From now on a fleet's budget pays where its own is empty. The host asks the store for it in the background: see
    /// [`Planner::want`].
    ///
    /// ```
    /// use quell_core::{Fault, Rng, Stamp, Time, budget::{Budget, tokens}, lease::{Planner, Pool, Rules, Spec}};
    ///
    /// let (now, stamp, mut rng) = (Time::ZERO, Stamp::from_millis(1), Rng::new(1));
    /// let rules = Rules::new(Spec { per_second: 17, burst: 1_000, instances: 10, ..Spec::default() })?;
    /// let mut budget = Budget::new(tokens::Spec { start: Some(0), ..tokens::Spec::default() }, now).unwrap();
    /// budget.lease_from(Planner::new(rules));
    /// assert!(budget.take(now, Fault::Server, &mut rng).is_err()); // nothing earned, nothing leased
    ///
    /// let mut store = Pool::new(&rules, stamp);
    /// let planner = budget.lease().unwrap();
    /// let request = planner.want(now, &mut rng).unwrap();
    /// planner.granted(now, request.id, store.lease(&rules, stamp, &request));
    /// assert!(budget.take(now, Fault::Server, &mut rng).is_ok());
    /// # Ok::<_, quell_core::lease::Invalid>(())
    /// ```
    pub fn lease_from(&mut self, planner: Planner) {
        self.lease = Some(Box::new(planner));
    }

    /// What is leased of a budget that a fleet shares, if it does.
    pub fn lease(&mut self) -> Option<&mut Planner> {
        self.lease.as_deref_mut()
    }

    /// Pays for one retry after such a failure, or says why not. Asked last, right before the wait: whoever fails
    /// first pays first. The failure itself was told with [`Budget::failed`] before.
    pub fn take(&mut self, now: Time, fault: Fault, rng: &mut Rng) -> Result<Paid, Reason> {
        let paid = match &mut self.kind {
            Kind::Tokens(kind) => kind.take(now, fault),
            Kind::Ratio(kind) => kind.take(now),
            Kind::Window(kind) => kind.take(now),
            Kind::Adaptive(kind) => kind.take(now, fault),
            Kind::Probabilistic(kind) => kind.take(now, rng),
            Kind::Sampled(kind) => kind.take(now, fault, rng),
            Kind::Unlimited => Ok(Paid::NOTHING),
            Kind::None => Err(Reason::RetriesOff),
        };
        let paid = match (paid, &mut self.lease) {
            (Err(Reason::BudgetEmpty), Some(lease)) => {
                lease.take(now, 1).map(|()| Paid::LEASED).map_err(|_| Reason::BudgetEmpty)
            }
            (paid, _) => paid,
        };
        self.totals.asked += 1;
        self.totals.denied += u64::from(paid.is_err());
        paid
    }

    /// Takes back exactly what was paid for a retry that was never sent; what was leased for it is lost.
    pub fn refund(&mut self, now: Time, paid: Paid) {
        self.totals.refunded += 1;
        match &mut self.kind {
            _ if paid == Paid::LEASED => {}
            Kind::Tokens(kind) => kind.refund(paid),
            Kind::Ratio(kind) => kind.refund(now, paid),
            Kind::Window(kind) => kind.refund(now, paid),
            Kind::Adaptive(kind) => kind.refund(paid),
            Kind::Sampled(kind) => kind.refund(now, paid),
            // Nothing was paid: chance decided, or nobody asked.
            Kind::Probabilistic(_) | Kind::Unlimited | Kind::None => {}
        }
    }

    /// A paid retry was sent and succeeded; its success is told with [`Budget::earn`] as every other.
    pub fn retried_well(&mut self, now: Time, paid: Paid) {
        match &mut self.kind {
            _ if paid == Paid::LEASED => {}
            Kind::Tokens(kind) => kind.retried_well(paid),
            Kind::Sampled(kind) => kind.retried_well(now, paid),
            _ => {} // sent is spent
        }
    }

    /// An attempt succeeded, whichever.
    #[inline]
    pub fn earn(&mut self, now: Time) {
        self.totals.successes += 1;
        match &mut self.kind {
            Kind::Tokens(kind) => kind.earn(),
            _ => self.earn_otherwise(now),
        }
    }

    /// An attempt failed in a way that a retry could help, whether or not there will be one.
    pub fn failed(&mut self, now: Time) {
        self.totals.failures += 1;
        match &mut self.kind {
            Kind::Tokens(kind) => kind.failed(),
            Kind::Adaptive(kind) => kind.failed(),
            Kind::Probabilistic(kind) => kind.failed(now),
            Kind::Sampled(kind) => kind.failed(now),
            _ => {}
        }
    }

    /// Whether some retry could be paid for now; spends nothing.
    pub fn peek(&self, now: Time) -> bool {
        self.peek_own(now) || self.leased(now) >= TOKEN
    }

    /// What is leased, in millionths of a token.
    fn leased(&self, now: Time) -> u64 {
        self.lease.as_ref().map_or(0, |lease| lease.holds(now))
    }

    fn peek_own(&self, now: Time) -> bool {
        match &self.kind {
            Kind::Tokens(kind) => kind.peek(now),
            Kind::Ratio(kind) => kind.peek(now),
            Kind::Window(kind) => kind.peek(now),
            Kind::Adaptive(kind) => kind.peek(now),
            Kind::Sampled(kind) => kind.peek(now),
            Kind::Probabilistic(_) | Kind::Unlimited => true,
            Kind::None => false,
        }
    }

    /// Tokens there are now; infinite if there is no limit.
    pub fn level(&self, now: Time) -> f64 {
        Gauge::tokens(self.gauge(now).level)
    }

    /// How full the budget is now, from 0 to 1: what is shown is what is applied.
    pub fn fill(&self, now: Time) -> f64 {
        self.gauge(now).fill()
    }

    /// Starts afresh, as after [`Budget::new`]; the totals stay.
    pub fn reset(&mut self, now: Time) {
        match &mut self.kind {
            Kind::Tokens(kind) => kind.reset(now),
            Kind::Ratio(kind) => kind.reset(now),
            Kind::Window(kind) => kind.reset(),
            Kind::Adaptive(kind) => kind.reset(now),
            Kind::Probabilistic(kind) => kind.reset(),
            Kind::Sampled(kind) => kind.reset(now),
            Kind::Unlimited | Kind::None => {}
        }
    }

    /// How it looks now.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let Totals { successes, failures, asked, denied, refunded } = self.totals;
        let gauge = self.gauge(now);
        Snapshot {
            successes,
            failures,
            asked,
            allowed: asked - denied,
            denied,
            refunded,
            level: Gauge::tokens(gauge.level),
            max: Gauge::tokens(gauge.max),
            utilisation: if gauge.max == 0 { 0.0 } else { 1.0 - gauge.fill() },
        }
    }

    fn gauge(&self, now: Time) -> Gauge {
        match &self.kind {
            Kind::Tokens(kind) => kind.gauge(now),
            Kind::Ratio(kind) => kind.gauge(now),
            Kind::Window(kind) => kind.gauge(now),
            Kind::Adaptive(kind) => kind.gauge(now),
            Kind::Probabilistic(kind) => kind.gauge(now),
            Kind::Sampled(kind) => kind.gauge(now),
            Kind::Unlimited => Gauge::ENDLESS,
            Kind::None => Gauge::NOTHING,
        }
    }

    #[cold]
    fn earn_otherwise(&mut self, now: Time) {
        match &mut self.kind {
            Kind::Tokens(kind) => kind.earn(),
            Kind::Ratio(kind) => kind.earn(now),
            Kind::Window(kind) => kind.earn(now),
            Kind::Adaptive(kind) => kind.earn(),
            Kind::Probabilistic(kind) => kind.earn(now),
            Kind::Sampled(kind) => kind.earn(now),
            Kind::Unlimited | Kind::None => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
