//! Shown: what an endpoint looks like, for people.

use super::Endpoints;
use crate::Time;

/// What one endpoint looks like at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Attempts under way there.
    pub in_flight: u32,
    /// Slots held for attempts that nobody waits for any more.
    pub ghosts: usize,
    /// Failures in a row.
    pub failures: u32,
    /// Until when it is left alone, if it is; in report mode, would be.
    pub ejected_until: Option<Time>,
}

impl Endpoints {
    /// How each looks now, in their order; those that a reload took away are not among them.
    pub fn snapshots(&self, now: Time) -> impl Iterator<Item = Snapshot> {
        self.all[..self.count].iter().map(move |endpoint| Snapshot {
            in_flight: if self.all.len() > 1 { endpoint.under_way } else { self.under_way },
            ghosts: endpoint.ghosts.len(),
            failures: endpoint.failures,
            ejected_until: (endpoint.ejected_until > now).then_some(endpoint.ejected_until),
        })
    }
}
