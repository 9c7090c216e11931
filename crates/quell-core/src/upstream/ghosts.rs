//! Ghosts: when they are probed, and when they end without an answer.

use core::time::Duration;

use super::{AttemptId, Place, Upstream, Wake};
use crate::Time;

impl Upstream {
    /// The ghost of this attempt has ended: its endpoint closed the connection, or proved that it never processed it
    /// (an HTTP/2 stream that was refused, or is above the last one that was). Harmless if it is no ghost any more. Whoever
    /// can go now is put into `wake`.
    pub fn ghost_ended(&mut self, now: Time, attempt: AttemptId, wake: &mut Vec<Wake>) {
        let AttemptId { endpoint, number } = attempt;
        if self.endpoints.lay(endpoint, number) && !self.queue.is_empty() {
            self.grant(now, wake);
        }
    }

    #[cold]
    pub(super) fn place_of_ghost(&self, now: Time) -> Option<Place> {
        self.endpoints.due(now, self.probe_every()).map(Place::Ghost)
    }

    /// One ghost probe per ten replies' time, within reason.
    pub(super) fn probe_every(&self) -> Duration {
        const SOONEST: f64 = 0.5;
        let every = self.in_flight.known().map_or(SOONEST, |known| 10.0 / known.rate);
        Duration::from_secs_f64(every.clamp(SOONEST, 5.0))
    }
}
