//! Room: what a burst may have beyond the limit, where next to nothing was under way.
//!
//! **Why.** A limit that held nobody back has learned nothing of what the service can do: it is small because little was asked
//! for. To refuse the first burst by it is to refuse healthy traffic for having been quiet. And where it is quiet there is
//! little to lose: a burst that proves too much spoils nobody's answers but its own.
//!
//! **How.** While nothing is known, 1,024 may be under way. What was used divides that: with up to four, 256 may be; with
//! eight, 128; from 32 on, no more than the limit says, as it is then close to what was seen to work, and others would suffer. A
//! burst may have that at once, as long as nothing speaks against it:
//!
//! - In the last minute no latency was high because the limit was full, no silence ended in which callers left, and the breaker
//!   did not change its mind.
//! - Nobody has left since the last answer.
//! - Answers come. Once the limit is passed, one has to be back within the time that answers take (or a fifth of a second), and
//!   so on from each answer. A service that stands still is sent what comes in that time, and no more.

use quell_core::Time;

use super::{LEAST, Plus, UNKNOWN};

/// For how long a bad sign counts, in nanoseconds.
const CLOSED: u64 = 60_000_000_000;
/// An answer is waited for at least this long, in nanoseconds: the finder does not look at every one of them.
const SOON: f64 = 0.2e9;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Room {
    /// How many were under way lately.
    used: f64,
    closed_until: Time,
    left_at: Time,
    /// When the limit was first passed since an answer came.
    asked_at: Time,
}

impl Room {
    /// How many may be under way while it is open.
    pub(super) fn size(&self) -> u32 {
        (f64::from(UNKNOWN) / self.used.max(LEAST)) as u32
    }

    /// So many were under way.
    pub(super) fn used(&mut self, used: f64) {
        self.used = used;
    }

    /// Too much for the service.
    pub(super) fn close(&mut self, now: Time) {
        self.closed_until = now.plus(CLOSED);
    }

    /// A caller left.
    pub(super) fn left(&mut self, now: Time) {
        self.left_at = now;
    }

    /// Somebody is about to pass the limit; the last answer came at that time.
    pub(super) fn ask(&mut self, now: Time, answered: Time) {
        if !self.is_asked(now, answered) {
            self.asked_at = now;
        }
    }

    /// Whether nothing speaks against it, where answers take `usual` nanoseconds and the last one came at that time.
    pub(super) fn is_open(&self, now: Time, answered: Time, usual: f64) -> bool {
        let left = self.left_at > answered && now < self.left_at.plus(CLOSED);
        let waited = now.nanos_since(self.asked_at) as f64;
        let overdue = self.is_asked(now, answered) && waited > usual.max(SOON);
        now >= self.closed_until && !left && !overdue
    }

    /// Whether the limit was passed and nothing has come back since; in another burst than one of long ago.
    fn is_asked(&self, now: Time, answered: Time) -> bool {
        self.asked_at > answered && now < self.asked_at.plus(CLOSED)
    }
}
