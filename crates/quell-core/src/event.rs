//! Event: what changed, for those who watch.
//!
//! **Why.** Policies neither log nor count for others; they leave a note. Hosts collect the notes after they
//! have let go of the upstream's lock and hand them to metrics, logs and pages.
//!
//! ```
//! use quell_core::event::{Event, Events};
//!
//! let mut events = Events::default();
//! events.push(Event::BudgetExhausted);
//! assert_eq!(events.pop(), Some(Event::BudgetExhausted));
//! assert_eq!(events.pop(), None);
//! ```

use std::collections::VecDeque;

use crate::{Time, in_flight::Evidence};

/// Notes kept for a host that does not look; beyond it the oldest are dropped and counted.
const MOST: usize = 64;

/// One change of an upstream's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The breaker opened; it will probe at this instant.
    BreakerOpened {
        /// When it will probe.
        until: Time,
    },
    /// Enough probes succeeded.
    BreakerClosed,
    /// A key's own breaker opened.
    KeyOpened {
        /// Whose; `None` is the one that all share who came too late for their own.
        key: Option<u64>,
        /// When it will probe.
        until: Time,
    },
    /// A key's own breaker closed again.
    KeyClosed {
        /// Whose; `None` is the one that all share who came too late for their own.
        key: Option<u64>,
    },
    /// The breaker of a class opened, which fails while others do well.
    ClassOpened {
        /// Whose.
        class: u64,
        /// When it will probe.
        until: Time,
    },
    /// The breaker of a class closed again.
    ClassClosed {
        /// Whose.
        class: u64,
    },
    /// Something speaks for trouble, and the adaptive in-flight limit is tight from now on.
    Trouble {
        /// What.
        evidence: Evidence,
    },
    /// Health is confirmed, and the adaptive in-flight limit is loose again.
    Calm,
    /// A retry was refused because the budget was empty; said once until it recovers.
    BudgetExhausted,
    /// The budget can pay again.
    BudgetRecovered,
    /// A retry was refused because its route's or tenant's own budget was empty; said once until that recovers.
    ChildBudgetExhausted {
        /// Whose; `None` is the one that all share who came too late for their own.
        key: Option<u64>,
    },
    /// A route's or tenant's own budget can pay again: said when it is next asked or paid into.
    ChildBudgetRecovered {
        /// Whose; `None` is the one that all share who came too late for their own.
        key: Option<u64>,
    },
    /// The adaptive in-flight limit moved by more than a tenth.
    LimitMoved {
        /// The limit as last told.
        from: u32,
        /// The limit now.
        to: u32,
    },
    /// A probe went out to an endpoint whose ghosts stand.
    GhostProbe {
        /// Which endpoint.
        endpoint: u16,
    },
    /// An endpoint failed too often in a row and is left alone for a while.
    Ejected {
        /// Which endpoint.
        endpoint: u16,
    },
    /// The upstream asked everybody to hold back their retries until then.
    HeldBack {
        /// Until when.
        until: Time,
    },
}

/// A bounded list of notes, oldest first.
#[derive(Debug, Default)]
pub struct Events {
    notes: VecDeque<Event>,
    dropped: u64,
}

impl Events {
    /// Leaves a note.
    #[cold]
    pub fn push(&mut self, event: Event) {
        if self.notes.len() == MOST {
            self.notes.pop_front();
            self.dropped += 1;
        }
        self.notes.push_back(event);
    }

    /// Whether no note is there to be taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Takes the oldest note.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.notes.pop_front()
    }

    /// How many notes nobody took in time.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_bounded_and_losses_counted() {
        let mut events = Events::default();
        for _ in 0..MOST + 3 {
            events.push(Event::BreakerClosed);
        }
        assert_eq!(core::iter::from_fn(|| events.pop()).count(), MOST);
        assert_eq!(events.dropped(), 3);
    }
}
