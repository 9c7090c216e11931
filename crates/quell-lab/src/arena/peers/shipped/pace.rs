//! Pace: how fast an upstream answers, and how quickly, at its best of late.
//!
//! **Why.** How long callers are worth waiting for, how often a ghost is probed and how much can be under way at most: all of
//! that follows from what the upstream has shown it can do. Averages would follow an outage down.
//!
//! **How.** Served replies fill buckets that close at half a second *and* twenty replies (fewer make the estimate far too high
//! at low traffic); over the last ten seconds of buckets, `rate` is the highest bucket's replies per second and `base` the
//! lowest bucket's mean time to the response head. Time in which nothing is served does not pass: what decays during an
//! outage would delay the recovery by minutes.

use core::time::Duration;

use quell_core::Time;

use super::{Plus, nanos};

const BUCKET: u64 = 500_000_000;
const BUCKET_REPLIES: u32 = 20;
/// How much served time the estimates look back on.
const MEMORY: u64 = 10_000_000_000;
/// A silence counts as no longer than this.
const LONGEST_GAP: u64 = 1_000_000_000;
const CLOSED: usize = 21;

/// What was learned of an upstream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    /// Replies per second in the best recent half second.
    pub(super) rate: f64,
    /// Mean time to the response head in the quickest recent half second.
    pub(super) base: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    elapsed: u64,
    replies: u32,
    took: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pace {
    open: Bucket,
    /// When the open bucket may close; a silence that is longer than it counts puts it off. Zero before the first reply.
    closes_at: Time,
    /// The last reply; never before the first.
    last: Time,
    /// A ring of closed buckets; as each lasts half a second or more, it covers ten seconds.
    closed: [Bucket; CLOSED],
    next: usize,
    known: Option<Known>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            open: Bucket::default(),
            closes_at: Time::ZERO,
            last: Time::MAX,
            closed: [Bucket::default(); CLOSED],
            next: 0,
            known: None,
        }
    }
}

impl Pace {
    /// What was learned, once enough was served.
    #[inline]
    pub(super) fn known(&self) -> Option<Known> {
        self.known
    }

    /// Whether anything was served after this instant.
    pub(super) fn has_served_after(&self, since: Time) -> bool {
        self.last > since && self.last < Time::MAX
    }

    /// The upstream did its work: `took` passed until its response head. True if that moved the estimates.
    #[inline]
    pub(super) fn served(&mut self, now: Time, took: Duration) -> bool {
        // When the clock steps back this wraps, and is looked at as well.
        if now.as_nanos().wrapping_sub(self.last.as_nanos()) > LONGEST_GAP {
            self.skip_silence(now);
        }
        self.last = now;
        self.open.replies += 1;
        // Wraps only after centuries of waiting within one bucket.
        self.open.took = self.open.took.wrapping_add(nanos(took));
        now >= self.closes_at && self.is_over(now)
    }

    /// Closes the open bucket if it has lasted and holds enough.
    #[cold]
    fn is_over(&mut self, now: Time) -> bool {
        if self.closes_at == Time::ZERO {
            self.closes_at = now.plus(BUCKET);
        }
        if now < self.closes_at || self.open.replies < BUCKET_REPLIES {
            return false;
        }
        self.open.elapsed = now.nanos_since(self.closes_at) + BUCKET;
        self.closes_at = now.plus(BUCKET);
        self.close();
        true
    }

    #[cold]
    fn skip_silence(&mut self, now: Time) {
        let silence = now.nanos_since(self.last);
        self.closes_at = self.closes_at.plus(silence.saturating_sub(LONGEST_GAP));
    }

    #[cold]
    fn close(&mut self) {
        self.closed[self.next] = core::mem::take(&mut self.open);
        self.next = (self.next + 1) % CLOSED;
        let (mut known, mut looked_back) = (Known { rate: 0.0, base: Duration::MAX }, 0);
        for back in 1..=CLOSED {
            let bucket = self.closed[(self.next + CLOSED - back) % CLOSED];
            if bucket.replies == 0 || looked_back >= MEMORY {
                break;
            }
            looked_back += bucket.elapsed;
            known.rate = known.rate.max(f64::from(bucket.replies) * 1e9 / bucket.elapsed as f64);
            let mean = bucket.took / u64::from(bucket.replies);
            known.base = known.base.min(Duration::from_nanos(mean));
        }
        self.known = Some(known);
    }
}
