//! Backlog: the records that a consumer has at hand, in the order in which they are taken.
//!
//! **Why.** Records that come back from a wait must neither overtake their due time nor be forgotten behind new ones, and
//! a record that was put back must be the next one again. A consumer that keeps this in several places loses a record
//! when they disagree.
//!
//! **How.** New records wait in the order they came. Records that wait for their due time lie in the order of it, however
//! they were added; those that are due stand in line as they became due. A record is in one of the three or
//! in somebody's hand, never in two.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Stamp, intake::{Backlog, Record}};
//!
//! let (now, mut backlog) = (Stamp::ZERO, Backlog::new());
//! let soon = now + Duration::from_secs(1);
//! backlog.waits(Record::new("later").due(now + Duration::from_secs(9)));
//! backlog.waits(Record::new("soon").due(soon));
//! assert_eq!(backlog.next_due(), Some(soon));
//! assert!(backlog.ripen(now).is_none());
//! assert_eq!(backlog.ripen(soon).map(|record| record.what), Some("soon"));
//! assert_eq!((backlog.due(), backlog.waiting()), (1, 1));
//! ```

use std::collections::{BTreeMap, VecDeque};

use crate::{Stamp, ladder::CallState};

/// One record: what is known of its past, and whatever else the consumer keeps of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record<T> {
    /// What travels with it.
    pub state: CallState,
    /// The consumer's own.
    pub what: T,
}

impl<T> Record<T> {
    /// One that was never tried.
    pub fn new(what: T) -> Self {
        Self { state: CallState::default(), what }
    }

    /// The same record, not to be tried before then.
    pub fn due(self, due: Stamp) -> Self {
        Self { state: CallState { due, ..self.state }, ..self }
    }
}

/// The records that a consumer has at hand, in the order in which they are taken. It has no bound of its own: what is
/// fetched is bounded by a [`window`](super::window).
#[derive(Debug)]
pub struct Backlog<T> {
    new: VecDeque<Record<T>>,
    due: VecDeque<Record<T>>,
    /// By when they are due; those due at the same time as they came.
    waiting: BTreeMap<(Stamp, u64), Record<T>>,
    waited: u64,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Backlog<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { new: VecDeque::new(), due: VecDeque::new(), waiting: BTreeMap::new(), waited: 0 }
    }

    /// A record that was never tried has arrived.
    pub fn arrives(&mut self, record: Record<T>) {
        self.new.push_back(record);
    }

    /// A record has to wait until it is due.
    pub fn waits(&mut self, record: Record<T>) {
        self.waited += 1;
        self.waiting.insert((record.state.due, self.waited), record);
    }

    /// Moves one record that is due by now to the line of those, and shows it; `None` if no further one is. Call it until
    /// then. `now` is the clock's reading rounded down to milliseconds, so that nothing is early.
    pub fn ripen(&mut self, now: Stamp) -> Option<&Record<T>> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        self.due.push_back(first.remove());
        self.due.back()
    }

    /// Drops all but those to be kept: the others lie in a partition that went to another consumer.
    pub fn retain(&mut self, mut keep: impl FnMut(&Record<T>) -> bool) {
        self.new.retain(&mut keep);
        self.due.retain(&mut keep);
        self.waiting.retain(|_, record| keep(record));
    }

    /// When the next of those that wait is due.
    pub fn next_due(&self) -> Option<Stamp> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// How many were never tried.
    pub fn new_ones(&self) -> usize {
        self.new.len()
    }

    /// How many are due.
    pub fn due(&self) -> usize {
        self.due.len()
    }

    /// How many wait for their due time.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn line(&mut self, which: Line) -> &mut VecDeque<Record<T>> {
        match which {
            Line::New => &mut self.new,
            Line::Due => &mut self.due,
        }
    }
}

/// From which line a record is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    New,
    Due,
}
