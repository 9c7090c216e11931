//! How late the machine was: what a thread has to wait for that is ready to go on.
//!
//! **Why.** On a machine with too much to do, latencies are the machine's. Whoever judges them has to know.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// What timers are late by themselves.
const USUAL: Duration = Duration::from_millis(2);

/// See the [module](self).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Late {
    /// At worst.
    pub(crate) worst: Duration,
    /// One look in a hundred was later than this, beyond what timers are late by themselves.
    pub(crate) busy: Duration,
}

impl Late {
    fn of(mut looks: Vec<Duration>) -> Self {
        looks.sort_unstable();
        let rank = (looks.len() * 99).div_ceil(100).max(1) - 1;
        let p99 = looks.get(rank).copied().unwrap_or_default();
        Self { worst: looks.last().copied().unwrap_or_default(), busy: p99.saturating_sub(USUAL) }
    }

    /// The worse of each.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { worst: self.worst.max(other.worst), busy: self.busy.max(other.busy) }
    }
}

/// Looks until then.
pub(crate) async fn watch(until: Instant) -> Late {
    let mut looks = Vec::new();
    let mut due = Instant::now() + LOOK;
    while due < until {
        sleep_until(due).await;
        looks.push(due.elapsed());
        due = Instant::now() + LOOK;
    }
    Late::of(looks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_stop_is_the_worst_and_no_sign_of_a_busy_machine() {
        let ms = Duration::from_millis;
        let mut looks = vec![ms(1); 199];
        looks.push(ms(300));
        assert_eq!(Late::of(looks), Late { worst: ms(300), busy: ms(0) });
        assert_eq!(Late::of(vec![ms(12); 100]), Late { worst: ms(12), busy: ms(10) });
        assert_eq!(Late::of(Vec::new()), Late::default());
    }
}
