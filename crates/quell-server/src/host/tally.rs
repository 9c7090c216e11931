//! Tally: what happens between a request's start and end and is told only to observers, counted for the metrics.
//!
//! A call that succeeds at its first attempt without a wait is none of its business and costs it two looks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use quell::core::breaker::State;
use quell::core::{Event as Change, Outcome};
use quell::observe::labels::STATES;
use quell::observe::{Event, Next, Observe, Tried};

/// Names that have series of their own; all others together are `other`.
pub(crate) const MOST_NAMES: usize = 200;

/// Upper bounds of waits, in seconds.
pub(crate) const BOUNDS: [f64; 12] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// How often waits of each length were seen.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    counts: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Waits {
    fn add(&self, wait: Duration) {
        let seconds = wait.as_secs_f64();
        let place = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> [u64; BOUNDS.len() + 1] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn sum(&self) -> f64 {
        self.micros.load(Ordering::Relaxed) as f64 / 1e6
    }
}

/// What was seen of one upstream.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Waits before retries: by our backoff, and by a hint.
    pub(crate) delays: [Waits; 2],
    pub(crate) queue_wait: Waits,
    transitions: [AtomicU64; STATES.len()],
    ejections: AtomicU64,
}

impl Seen {
    fn tried(&self, tried: &Tried) {
        if let Next::Retry { at } = tried.next {
            let told = match tried.outcome {
                Outcome::Failed(failure) => failure.hint.is_some(),
                _ => true,
            };
            self.delays[usize::from(told)].add(at.since(tried.ended));
        }
        if !tried.queued.is_zero() {
            self.queue_wait.add(tried.queued);
        }
    }

    fn changed(&self, change: Change) {
        let to = match change {
            Change::BreakerOpened { .. } => State::Open,
            Change::BreakerClosed => State::Closed,
            Change::Ejected { .. } => {
                self.ejections.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => return,
        };
        if let Some(place) = STATES.iter().position(|(state, _)| *state == to) {
            self.transitions[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the breaker went to the state at this place of [`STATES`].
    pub(crate) fn transitions(&self, place: usize) -> u64 {
        self.transitions[place].load(Ordering::Relaxed)
    }

    pub(crate) fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }
}

/// What was seen of every upstream, and how reloads went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    own: ArcSwap<HashMap<Box<str>, Arc<Seen>>>,
    other: Arc<Seen>,
    reloads: [AtomicU64; 2],
}

impl Tally {
    /// The config was read again; whether it could be used.
    pub(crate) fn reloaded(&self, well: bool) {
        self.reloads[usize::from(well)].fetch_add(1, Ordering::Relaxed);
    }

    /// Reloads that failed, and that did not.
    pub(crate) fn reloads(&self) -> [u64; 2] {
        self.reloads.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// What was seen of an upstream; of all that came too late for their own, together.
    pub(crate) fn of(&self, upstream: &str) -> Arc<Seen> {
        let known = self.own.load();
        match known.get(upstream) {
            Some(seen) => Arc::clone(seen),
            None if known.len() < MOST_NAMES => self.add(upstream),
            None => Arc::clone(&self.other),
        }
    }

    #[cold]
    fn add(&self, upstream: &str) -> Arc<Seen> {
        let new = Arc::default();
        self.own.rcu(|known| {
            let mut known = HashMap::clone(known);
            if known.len() < MOST_NAMES {
                known.entry(upstream.into()).or_insert_with(|| Arc::clone(&new));
            }
            known
        });
        self.own.load().get(upstream).map_or_else(|| Arc::clone(&self.other), Arc::clone)
    }
}

impl Observe for Tally {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        match event {
            Event::Tried(tried)
                if matches!(tried.next, Next::Retry { .. }) || !tried.queued.is_zero() =>
            {
                self.of(upstream).tried(tried);
            }
            Event::Changed(change) => self.of(upstream).changed(*change),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell::core::Time;
    use quell::{Failure, Fault};

    fn tried(queued: u64, outcome: Outcome, next: Next) -> Tried {
        let queued = Duration::from_millis(queued);
        let at = Time::ZERO;
        Tried {
            attempt: 1,
            hedge: false,
            endpoint: 0,
            queued,
            started: at,
            ended: at,
            outcome,
            next,
        }
    }

    #[test]
    fn waits_are_counted_by_where_they_come_from() {
        let tally = Tally::default();
        let retry = Next::Retry { at: Time::ZERO + Duration::from_millis(200) };
        let failure = Failure::of(Fault::Server);
        let [ours, told] = [failure, failure.with_hint(Duration::ZERO)].map(Outcome::Failed);
        for tried in [
            tried(0, ours, retry),
            tried(7, told, retry),
            tried(60_000, Outcome::Success, Next::Stop(None)),
            tried(0, Outcome::Success, Next::Stop(None)),
        ] {
            tally.observe("pay", &Event::Tried(&tried));
        }
        let seen = tally.of("pay");
        assert_eq!(seen.delays.each_ref().map(|waits| waits.counts()[6]), [1, 1]);
        let queued = seen.queue_wait.counts();
        assert_eq!((queued[2], queued[BOUNDS.len()], queued.iter().sum::<u64>()), (1, 1, 2));
        assert!((seen.queue_wait.sum() - 60.007).abs() < 1e-9);
    }

    #[test]
    fn the_breaker_moves_and_endpoints_are_ejected() {
        let tally = Tally::default();
        for change in [
            Change::BreakerOpened { until: Time::ZERO },
            Change::BreakerClosed,
            Change::Ejected { endpoint: 1 },
        ] {
            tally.observe("pay", &Event::Changed(change));
        }
        let seen = tally.of("pay");
        assert_eq!([0, 1, 2].map(|place| seen.transitions(place)), [1, 1, 0]);
        assert_eq!(seen.ejections(), 1);
    }

    /// O2.
    #[test]
    fn names_beyond_the_most_share_one_tally() {
        let tally = Tally::default();
        for name in 0..MOST_NAMES + 2 {
            tally.observe(&name.to_string(), &Event::Changed(Change::BreakerClosed));
        }
        assert_eq!(tally.of("0").transitions(0), 1);
        assert_eq!(tally.of("201").transitions(0), 2);
        assert_eq!(tally.own.load().len(), MOST_NAMES);
    }
}
