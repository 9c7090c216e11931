//! Shown: how an upstream looks, for people and metrics.

use core::time::Duration;

use super::{Snapshot, Upstream};
use crate::{
    Time,
    breaker::State,
    classes, endpoints,
    pools::{self, Pools},
};

impl Upstream {
    /// How it looks now: what is shown is what is applied.
    pub fn snapshot(&mut self, now: Time) -> Snapshot {
        self.end_levers(now);
        self.in_flight.know(&mut self.classes);
        let shards = self.curbs.as_mut().and_then(|curbs| curbs.shards.as_mut());
        let (breaker_keys, breaker_keys_open, keys_would_refuse) = shards
            .map_or((0, 0, 0), |shards| {
                (shards.len(), shards.count(now, State::Open), shards.would_refuse())
            });
        Snapshot {
            in_flight: self.endpoints.under_way(),
            limit: self.in_flight.limit(),
            trouble: self.in_flight.evidence(),
            ghosts: self.endpoints.ghosts(),
            pools: self.endpoints.pools().map_or([None; pools::MOST], Pools::snapshot),
            queued: self.queue.len(),
            retrying: self.retrying,
            patience: self.in_flight.patience(),
            known: self.in_flight.known(),
            budget: self.purse.parent().fill(now),
            retries: self.purse.parent().snapshot(now),
            breaker: self.breaker.state(now),
            breaker_mode: self.breaker.mode(now),
            breaker_keys,
            breaker_keys_open,
            breaker_would_refuse: self.breaker.would_refuse() + keys_would_refuse,
            modes: self.modes,
            would_refuse: self.would_refuse,
            not_before: self.not_before,
        }
    }

    /// How each endpoint looks now, in their order.
    pub fn endpoints(&self, now: Time) -> impl Iterator<Item = endpoints::Snapshot> {
        self.endpoints.snapshots(now)
    }

    /// The median time to a success, the mean over all classes by how often they are called, once known.
    pub fn p50(&self) -> Option<Duration> {
        let known =
            || self.classes.iter().filter_map(|class| Some((class.rate, class.latency.p50()?)));
        let rate: f64 = known().map(|(rate, _)| rate).sum();
        let time: f64 = known().map(|(rate, p50)| rate * p50.as_secs_f64()).sum();
        (rate > 0.0).then(|| Duration::from_secs_f64(time / rate))
    }

    /// The kinds of calls, by what was learned of each.
    pub fn classes(&mut self, now: Time) -> Vec<classes::Snapshot> {
        self.classes.snapshots(now)
    }
}

impl Snapshot {
    /// The live margin, once the pace is known: `1 − multiplier × utilisation`, with the load multiplier when all fails and
    /// utilisation = rate × p50 ÷ limit, at most 1. The rate is the best of late, and the limit today's: more than all of
    /// it is never in use.
    pub fn margin(&self, p50: Duration, multiplier: f64) -> Option<f64> {
        let utilisation = self.known?.rate * p50.as_secs_f64() / f64::from(self.limit);
        Some(1.0 - multiplier * utilisation.min(1.0))
    }
}
