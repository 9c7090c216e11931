//! Purse: budgets inside an upstream's budget.
//!
//! **Why.** One route or tenant that only fails would spend what all others earned. So each may have a budget of its own,
//! inside the one that protects the upstream: it never has more than what its own calls earned, and all together never
//! more than the upstream can bear.
//!
//! **How.** A retry takes from its child and from the parent, or from neither. A child earns by its own successes, the
//! parent by all. Children come into being when they are first named and are bounded in number; who comes later
//! shares the last one. Every verb answers what changed, so that it can be told once and not for every retry.
//!
//! ```
//! use quell_core::{Fault, Rng, Time, budget::{Purse, purse::Change, tokens}};
//!
//! let (now, mut rng) = (Time::ZERO, Rng::new(1));
//! let small = tokens::Spec { max: 1, ..tokens::Spec::default() };
//! let mut purse = Purse::new(tokens::Spec::default(), Some(small.into()), now)?;
//! let (one, other) = (purse.child(now, 1), purse.child(now, 2));
//! assert!(purse.take(now, one, Fault::Server, &mut rng).0.is_ok());
//! let (refused, changes) = purse.take(now, one, Fault::Server, &mut rng);
//! assert!(refused.is_err());
//! assert_eq!((changes.parent, changes.child), (None, Some(Change::Exhausted)));
//! assert!(purse.take(now, other, Fault::Server, &mut rng).0.is_ok());
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use std::collections::BTreeMap;

use super::{Budget, Invalid, Paid, Snapshot, Spec};
use crate::{Fault, Reason, Rng, Time, lease::Planner};

/// Children with a budget of their own; all later ones share one more.
pub const MOST: usize = 1_024;

/// Whose call it is, inside the upstream: a route's or a tenant's, or nobody's in particular.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Child(u16);

impl Child {
    /// Nobody's in particular.
    pub const NONE: Self = Self(0);
}

/// What became of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It refused a retry and can pay for none; said once until it recovers.
    Exhausted,
    /// It can pay again.
    Recovered,
}

/// What a verb changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// In the upstream's own budget.
    pub parent: Option<Change>,
    /// In the child's.
    pub child: Option<Change>,
}

/// Proof that one retry was paid for, by child and parent.
#[must_use = "a retry that was paid for and is not sent must be refunded"]
#[derive(Debug, PartialEq, Eq)]
pub struct Receipt {
    parent: Option<Paid>,
    child: Option<(Child, Paid)>,
}

impl Receipt {
    /// For a retry that nobody paid for: there is nothing to give back, and nothing to win.
    pub(crate) const UNPAID: Self = Self { parent: None, child: None };

    /// Whose budget paid beside the upstream's.
    pub(crate) fn child(&self) -> Child {
        self.child.as_ref().map_or(Child::NONE, |(child, _)| *child)
    }
}

/// A budget that knows whether it was said to be empty.
#[derive(Debug)]
struct Watched {
    budget: Budget,
    exhausted: bool,
    /// Whose it is, if it is one child's alone.
    key: Option<u64>,
}

impl Watched {
    fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        Ok(Self { budget: Budget::new(spec, now)?, exhausted: false, key: None })
    }

    fn take(
        &mut self,
        now: Time,
        fault: Fault,
        rng: &mut Rng,
    ) -> (Result<Paid, Reason>, Option<Change>) {
        let recovered = self.look(now);
        let result = self.budget.take(now, fault, rng);
        // One that chance refused, or that is switched off, is not empty.
        let empty = result == Err(Reason::BudgetEmpty) && !self.budget.peek(now);
        let news = empty && !self.exhausted;
        self.exhausted |= news;
        (result, if news { Some(Change::Exhausted) } else { recovered })
    }

    #[cold]
    fn look(&mut self, now: Time) -> Option<Change> {
        let news = self.exhausted && self.budget.peek(now);
        self.exhausted &= !news;
        news.then_some(Change::Recovered)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Purse {
    parent: Watched,
    /// What a new child gets.
    spec: Option<Spec>,
    slots: BTreeMap<u64, u16>,
    children: Vec<Watched>,
}

impl Purse {
    /// A parent at its start; children get a budget of their own if `children` says which.
    pub fn new(
        parent: impl Into<Spec>,
        children: Option<Spec>,
        now: Time,
    ) -> Result<Self, Invalid> {
        if let Some(spec) = children {
            // So that none can fail later.
            Budget::new(spec, now).map_err(|invalid| Invalid::Children(Box::new(invalid)))?;
        }
        Ok(Self {
            parent: Watched::new(parent.into(), now)?,
            spec: children,
            slots: BTreeMap::new(),
            children: Vec::new(),
        })
    }

    /// The child of that name, made if need be. It stays the same, so it is enough to look once.
    pub fn child(&mut self, now: Time, key: u64) -> Child {
        let Some(spec) = self.spec else { return Child::NONE };
        if let Some(&slot) = self.slots.get(&key) {
            return Child(slot);
        }
        if self.children.len() <= MOST {
            let Ok(fresh) = Watched::new(spec, now) else { return Child::NONE };
            let key = (self.children.len() < MOST).then_some(key);
            self.children.push(Watched { key, ..fresh });
        }
        let slot = self.children.len() as u16; // at most MOST + 1
        if usize::from(slot) <= MOST {
            self.slots.insert(key, slot);
        }
        Child(slot)
    }

    /// Whose it is; `None` if it is shared, or nobody's.
    pub fn key_of(&self, child: Child) -> Option<u64> {
        self.children.get(self.slot(child)?)?.key
    }

    /// Pays for one retry from child and parent, or from neither and says why not.
    pub fn take(
        &mut self,
        now: Time,
        child: Child,
        fault: Fault,
        rng: &mut Rng,
    ) -> (Result<Receipt, Reason>, Changes) {
        let mut changes = Changes::default();
        let mut from_child = None;
        if let Some(own) = self.of(child) {
            let (result, change) = own.take(now, fault, rng);
            changes.child = change;
            match result {
                Ok(paid) => from_child = Some((child, paid)),
                Err(reason) => return (Err(reason), changes),
            }
        }
        let (result, change) = self.parent.take(now, fault, rng);
        changes.parent = change;
        match result {
            Ok(parent) => (Ok(Receipt { parent: Some(parent), child: from_child }), changes),
            Err(reason) => {
                if let (Some(own), Some((_, paid))) = (self.of(child), from_child) {
                    own.budget.refund(now, paid);
                }
                (Err(reason), changes)
            }
        }
    }

    /// Takes back exactly what was paid for a retry that was never sent.
    pub fn refund(&mut self, now: Time, receipt: Receipt) -> Changes {
        self.give(now, receipt, Budget::refund)
    }

    /// A paid retry was sent and succeeded; its success is told with [`Purse::earn`] as every other.
    pub fn retried_well(&mut self, now: Time, receipt: Receipt) -> Changes {
        self.give(now, receipt, Budget::retried_well)
    }

    /// An attempt succeeded, whichever. If it was a child's, that has to hear of it too.
    #[inline]
    pub fn earn(&mut self, now: Time) -> Changes {
        self.parent.budget.earn(now);
        if !self.parent.exhausted {
            return Changes::default();
        }
        Changes { parent: self.parent.look(now), child: None }
    }

    /// An attempt of this child succeeded.
    pub fn earn_child(&mut self, now: Time, child: Child) -> Changes {
        let own = self.of(child).and_then(|own| {
            own.budget.earn(now);
            own.look(now)
        });
        Changes { parent: None, child: own }
    }

    /// An attempt failed in a way that a retry could help, whether or not there will be one. If it was a child's, that
    /// has to hear of it too.
    pub fn failed(&mut self, now: Time) {
        self.parent.budget.failed(now);
    }

    /// An attempt of this child failed in such a way.
    pub fn failed_child(&mut self, now: Time, child: Child) {
        if let Some(own) = self.of(child) {
            own.budget.failed(now);
        }
    }

    /// Whether some retry could be paid for now; spends nothing.
    pub fn peek(&self, now: Time, child: Child) -> bool {
        let own = self.slot(child).and_then(|slot| self.children.get(slot));
        self.parent.budget.peek(now) && own.is_none_or(|own| own.budget.peek(now))
    }

    /// Starts afresh, children included.
    pub fn reset(&mut self, now: Time) -> Changes {
        let children = self.children.iter_mut();
        for each in children.chain([&mut self.parent]) {
            each.budget.reset(now);
        }
        Changes { parent: self.parent.look(now), child: None }
    }

    /// Takes on the specs of one just made and keeps all levels, see [`Budget::adopt`]. A child stays who it is. Where
    /// children have no budget of their own any more, theirs are set aside and taken up again as they were.
    pub fn adopt(&mut self, fresh: Self, now: Time) -> Changes {
        self.parent.budget.adopt(fresh.parent.budget, now);
        self.spec = fresh.spec;
        for each in &mut self.children {
            if let Some(Ok(fresh)) = fresh.spec.map(|spec| Budget::new(spec, now)) {
                each.budget.adopt(fresh, now);
            }
        }
        Changes { parent: self.parent.look(now), child: None }
    }

    /// The upstream's own budget.
    pub fn parent(&self) -> &Budget {
        &self.parent.budget
    }

    /// See [`Budget::lease_from`]: of the upstream's own budget, not of children.
    pub fn lease_from(&mut self, planner: Planner) {
        self.parent.budget.lease_from(planner);
    }

    /// See [`Budget::lease`].
    pub fn lease(&mut self) -> Option<&mut Planner> {
        self.parent.budget.lease()
    }

    /// The budgets of those that were named so far, and of all later ones together under `None`; not those set aside.
    pub fn children(&self, now: Time) -> impl Iterator<Item = (Option<u64>, Snapshot)> {
        let named = self.slots.iter().map(|(&key, &slot)| (Some(key), usize::from(slot) - 1));
        let rest = (self.children.len() > MOST).then_some((None, MOST));
        named
            .chain(rest)
            .filter(|_| self.spec.is_some())
            .map(move |(key, slot)| (key, self.children[slot].budget.snapshot(now)))
    }

    fn of(&mut self, child: Child) -> Option<&mut Watched> {
        let slot = self.slot(child)?;
        self.children.get_mut(slot)
    }

    /// Where its budget is, if children have one.
    fn slot(&self, child: Child) -> Option<usize> {
        self.spec.and(usize::from(child.0).checked_sub(1))
    }

    fn give(
        &mut self,
        now: Time,
        receipt: Receipt,
        verb: impl Fn(&mut Budget, Time, Paid),
    ) -> Changes {
        if let Some(paid) = receipt.parent {
            verb(&mut self.parent.budget, now, paid);
        }
        let own = receipt.child.and_then(|(child, paid)| {
            let own = self.of(child)?;
            verb(&mut own.budget, now, paid);
            own.look(now)
        });
        Changes { parent: self.parent.look(now), child: own }
    }
}
