//! Naive callers: the users and clients that turn an outage into a storm.
//!
//! **Why.** A storm needs no malice, only a client as many are written: wait a second, close the
//! connection, try again a second later, three times, whatever the server says. Users arrive whether or
//! not the service is well (an open loop): that is what a service faces, and what a load generator that
//! waits for answers hides.
//!
//! **How.** Arrivals are a Poisson process at absolute instants, so a slow moment is caught up with and
//! the rate never drifts. Each user is one task. A connection belongs to the attempt that uses it: giving up drops
//! it, and so does dropping the run, so nothing is left behind. `received` counts attempts as they start,
//! connecting included; an attempt refused with `quell-stop` also counts as refused.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use quell_server::demo::{callers::Callers, tally::Tally};
//! # async fn storm(target: std::net::SocketAddr, uniform: impl FnMut() -> f64) {
//! let tally = Arc::new(Tally::new());
//! let callers = Callers { rate: 300.0, ..Callers::naive(target) };
//! callers.run(Duration::from_secs(60), Arc::clone(&tally), uniform).await;
//! # }
//! ```

mod link;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use quell_sim::verdict::Count;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::link::Pool;
use super::tally::Tally;

/// Users and the client that sends for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Callers {
    /// Where requests go.
    pub target: SocketAddr,
    /// What they ask for: a path, with a query if need be.
    pub path: String,
    /// The first part of every `x-request-id`; a number follows. One id is one user's request, resends included.
    pub name: String,
    /// Users who arrive per second.
    pub rate: f64,
    /// How long an attempt may take until its reply is complete, connecting included.
    pub patience: Duration,
    /// Attempts after the first.
    pub retries: u32,
    /// From a failure to the next attempt.
    pub pause: Duration,
}

impl Callers {
    /// 100 users per second with a second's patience and three retries, one second apart.
    pub fn naive(target: SocketAddr) -> Self {
        Self {
            target,
            path: "/".into(),
            name: "user".into(),
            rate: 100.0,
            patience: Duration::from_secs(1),
            retries: 3,
            pause: Duration::from_secs(1),
        }
    }

    /// Lets users arrive for `length`, and returns once the last of them was answered or gave up.
    ///
    /// `uniform` yields the randomness: numbers from 0 up to but not including 1. Dropping the future ends
    /// every user and closes every connection; a timeout around it ends the run sharply.
    pub async fn run(&self, length: Duration, tally: Arc<Tally>, mut uniform: impl FnMut() -> f64) {
        let pool = Arc::new(Pool::new(self.target, &self.path, Arc::clone(&tally)));
        let begin = Instant::now();
        let mut users = JoinSet::new();
        let mut at = Duration::ZERO;
        for number in 0u64.. {
            at = at.saturating_add(gap(self.rate, uniform()));
            if at >= length {
                break;
            }
            sleep_until(begin + at).await;
            let user = User {
                id: format!("{}-{number}", self.name),
                patience: self.patience,
                retries: self.retries,
                pause: self.pause,
            };
            users.spawn(user.ask(Arc::clone(&pool), Arc::clone(&tally)));
            while users.try_join_next().is_some() {}
        }
        while users.join_next().await.is_some() {}
    }
}

/// The time to the next arrival of a Poisson process.
fn gap(rate: f64, uniform: f64) -> Duration {
    let seconds = -(1.0 - uniform).ln() / rate;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX) // a rate of 0: never
}

struct User {
    id: String,
    patience: Duration,
    retries: u32,
    pause: Duration,
}

impl User {
    async fn ask(self, pool: Arc<Pool>, tally: Arc<Tally>) {
        tally.count(Count::Demand);
        let came = Instant::now();
        for attempt in 0..=self.retries {
            if attempt > 0 {
                sleep(self.pause).await;
            }
            tally.count(Count::Received);
            let status = match timeout(self.patience, pool.get(&self.id)).await {
                Ok(Ok(answer)) => {
                    if answer.refused {
                        tally.count(Count::Refused);
                    }
                    answer.status
                }
                Ok(Err(_)) | Err(_) => continue,
            };
            if status == StatusCode::OK {
                tally.answered(came);
            }
            if !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_average_to_the_rate_and_nonsense_means_nobody_comes() {
        let gaps = (0..1_000).map(|i| gap(50.0, (f64::from(i) + 0.5) / 1_000.0));
        let mean = gaps.sum::<Duration>() / 1_000;
        assert!(mean.abs_diff(Duration::from_millis(20)) < Duration::from_micros(20), "{mean:?}");
        for (rate, uniform) in [(0.0, 0.5), (-1.0, 0.5), (f64::NAN, 0.5), (1.0, 1.0)] {
            assert_eq!(gap(rate, uniform), Duration::MAX);
        }
    }
}
