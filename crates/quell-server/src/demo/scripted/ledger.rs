//! The ledger: what the upstream did, exactly.

use std::collections::HashMap;
use std::sync::Arc;

use quell_sim::verdict::Work;

/// Ids that are kept apart; requests under further ids are counted without them.
const MOST_IDS: usize = 1_000_000;

/// What the upstream did so far. Once nothing is under way, `received` is `served` + `failed` +
/// `swallowed` plus the requests whose body broke off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Connections accepted.
    pub connections: u64,
    /// Requests whose head arrived, in good times and bad.
    pub received: u64,
    /// Bytes of request bodies.
    pub body_bytes: u64,
    /// Services completed, whether or not anybody waited.
    pub served: u64,
    /// Those among them whose caller had gone by then.
    pub wasted: u64,
    /// Those among them whose reply was lost in a hole.
    pub lost: u64,
    /// Requests answered with 500.
    pub failed: u64,
    /// Requests that vanished in a hole.
    pub swallowed: u64,
    /// Requests whose caller went away before a reply, wherever they stood.
    pub abandoned: u64,
    /// Requests waiting for a worker now, departed or not.
    pub in_queue: u64,
    /// Requests that have a worker now, departed or not.
    pub in_service: u64,
    /// Requests that came under an id when the room for ids was used up.
    pub unlisted: u64,
}

impl Ledger {
    /// The part of it that a verdict wants.
    pub fn work(&self) -> Work {
        Work { served: self.served, wasted: self.wasted }
    }
}

/// How often requests under one `x-request-id` came and were served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visits {
    /// Heads that arrived.
    pub arrived: u32,
    /// Services completed, whether or not anybody waited.
    pub served: u32,
}

/// Visits by id, bounded.
#[derive(Debug, Default)]
pub(super) struct Book(HashMap<Arc<str>, Visits>);

impl Book {
    /// Notes an arrival; `None` if the book is full.
    pub(super) fn arrived(&mut self, id: &str) -> Option<Arc<str>> {
        let key = match self.0.get_key_value(id) {
            Some((key, _)) => Arc::clone(key),
            None if self.0.len() < MOST_IDS => Arc::from(id),
            None => return None,
        };
        self.0.entry(Arc::clone(&key)).or_default().arrived += 1;
        Some(key)
    }

    pub(super) fn served(&mut self, id: &Arc<str>) {
        self.0.entry(Arc::clone(id)).or_default().served += 1;
    }

    pub(super) fn visits(&self, id: &str) -> Visits {
        self.0.get(id).copied().unwrap_or_default()
    }

    pub(super) fn all(&self) -> HashMap<String, Visits> {
        self.0.iter().map(|(id, visits)| (id.to_string(), *visits)).collect()
    }
}
