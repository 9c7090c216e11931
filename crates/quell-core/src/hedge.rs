//! Hedge: a second attempt while the first still runs, because it runs unusually long.
//!
//! **Why.** Now and then an attempt is slow for no reason of its own: a full buffer, a collector at work, an
//! endpoint about to die. A second attempt elsewhere, sent once the first takes longer than most, cuts the tail at
//! little cost. Sent when *everything* is slow, it doubles the load at the worst moment.
//!
//! **How.** A hedge goes out once an attempt has taken longer than a percentile of the recent past. It is an attempt
//! like any other: it counts, it is paid for from the same budget as retries, it needs a request that may be
//! repeated, and it never waits in a queue. It is off while the upstream is degraded: the breaker is not
//! closed, or the budget is less than half full. The first success wins; a quick failure does not beat an attempt
//! that still runs; the loser's slot becomes a ghost and judges nothing.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::hedge::Hedge;
//!
//! assert!(Hedge::new(0.95, Duration::from_millis(10)).is_ok());
//! assert!(Hedge::new(1.5, Duration::ZERO).unwrap_err().to_string().starts_with("hedge.after is 1.5"));
//! ```

use core::time::Duration;

use crate::latency::Latency;

/// When to hedge, as written in a policy and checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    after: f64,
    at_least: Duration,
}

/// Why a hedge cannot be as written. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Below the median every other call would be doubled; above one there is nothing.
    #[error(
        "hedge.after is {0}: write the share of attempts that are quicker, from 0.5 up to 1, such as 0.95"
    )]
    After(f64),
}

impl Hedge {
    /// A hedge once an attempt took longer than this share of the recent ones, and at least this long.
    pub fn new(after: f64, at_least: Duration) -> Result<Self, Invalid> {
        if (0.5..1.0).contains(&after) {
            Ok(Self { after, at_least })
        } else {
            Err(Invalid::After(after)) // NaN ends up here too
        }
    }

    /// How long to wait for an attempt before it is hedged; `None` while too little is known.
    pub fn delay(&self, latency: &Latency) -> Option<Duration> {
        Some(latency.quantile(self.after)?.max(self.at_least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn nothing_is_hedged_before_enough_is_known_and_then_after_the_percentile() {
        let hedge = Hedge::new(0.9, Duration::from_millis(1)).unwrap();
        let mut latency = Latency::new(Time::ZERO);
        assert_eq!(hedge.delay(&latency), None);
        for i in 0..1_000 {
            latency.record(Time::ZERO, Duration::from_millis(i * 37 % 100 + 1));
        }
        let delay = hedge.delay(&latency).unwrap().as_millis();
        assert!((80..=102).contains(&delay), "{delay} ms");
        let patient = Hedge::new(0.9, Duration::from_secs(1)).unwrap();
        assert_eq!(patient.delay(&latency), Some(Duration::from_secs(1)));
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        for after in [0.49, 1.0, -1.0, f64::NAN] {
            let message = Hedge::new(after, Duration::ZERO).unwrap_err().to_string();
            assert!(message.starts_with("hedge.") && message.contains("write"), "{message}");
        }
    }
}
