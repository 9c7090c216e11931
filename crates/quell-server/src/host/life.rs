//! Life: a host serves, then drains, then stops.
//!
//! **Why.** Many are to know where a host stands: its workers, its admin side, a balancer that asks `/readyz`, the process that
//! waits for its end. And many may ask it to drain: a signal, an operator, a supervisor. One place holds the answer.
//!
//! **How.** A [`Life`] is shared by all of them; clones are the same. A phase is only ever followed by a later one, except that
//! [`Life::stop`] may come at any time. Threads wait for a phase on [`Life::phases`].

use tokio::sync::watch;

/// Where a host stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Takes work.
    Serving,
    /// Finishes what is under way.
    Draining,
    /// Ends now.
    Stopping,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Life(watch::Sender<Phase>);

impl Life {
    /// A host that serves.
    pub(crate) fn begin() -> Self {
        Self(watch::Sender::new(Phase::Serving))
    }

    /// To look at the phase and to wait for the next.
    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }

    /// Whether the host takes work.
    pub(crate) fn is_serving(&self) -> bool {
        *self.0.borrow() == Phase::Serving
    }

    /// Begins the drain, unless it has begun.
    pub(crate) fn drain(&self) {
        self.0.send_if_modified(|phase| {
            let serving = *phase == Phase::Serving;
            if serving {
                *phase = Phase::Draining;
            }
            serving
        });
    }

    /// Ends the host now.
    pub(crate) fn stop(&self) {
        self.0.send_replace(Phase::Stopping);
    }

    /// Comes when the host no longer serves.
    pub(crate) fn drains(&self) -> impl Future<Output = ()> + use<> {
        let mut phases = self.phases();
        async move {
            let _ = phases.wait_for(|phase| *phase != Phase::Serving).await; // if it is gone, it has ended
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_drain_begins_once_and_does_not_take_back_an_end() {
        let life = Life::begin();
        let drains = life.drains();
        assert!(life.is_serving());
        life.drain();
        drains.await;
        assert_eq!(*life.phases().borrow(), Phase::Draining);
        let mut phases = life.phases();
        life.drain();
        assert!(!phases.has_changed().unwrap(), "nobody is woken twice");
        life.stop();
        life.drain();
        assert_eq!(*phases.borrow_and_update(), Phase::Stopping);
    }
}
