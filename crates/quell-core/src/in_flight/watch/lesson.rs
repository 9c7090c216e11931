//! Lesson: what a look at all classes comes to, and what answers may teach.

use super::*;

/// The last pause: how long it was, what was under way at its end and was sent since, from when on it is believed that answers keep
/// pace, and until when it is seen whether they do.
#[derive(Debug, Default)]
pub(super) struct Pause {
    pub(super) lasted: f64,
    pub(super) live: f64,
    pub(super) sent: f64,
    pub(super) proven: Time,
    pub(super) until: Time,
}

impl Pause {
    /// It is over, and so many are under way.
    pub(super) fn ends(&mut self, now: Time, live: f64) {
        self.until = now.plus(self.lasted.min(LONGEST_TRIAL) as u64);
        self.proven = now + EVERY * 2;
        (self.live, self.sent) = (live, 0.0);
    }

    /// So many were sent since the last look. Whether as much comes back as goes out.
    pub(super) fn keeps_pace(&mut self, now: Time, live: f64, sent: f64) -> bool {
        self.sent += sent;
        if live > self.live + 2.0 * self.sent.sqrt() + 2.0 {
            self.until = now;
        }
        now < self.until
    }
}

/// What answers may teach of what is usual.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lesson {
    /// Nothing: there is trouble, or may be.
    Nothing,
    /// What they do in health; less where more is under way than what was sent explains.
    Usual,
    /// The same in a tight limit that does not bind.
    AtRest,
    /// Much: after a pause as much comes back as goes out, if later. The service has become another one.
    Anew,
}

impl Lesson {
    pub(super) fn weight(self, high: bool) -> f64 {
        match (self, high) {
            (Self::Nothing, _) | (Self::AtRest, true) => 0.0,
            (Self::Usual, true) => 0.125,
            (Self::Usual | Self::AtRest, false) => 1.0,
            (Self::Anew, _) => KEEN,
        }
    }
}

/// Whether more is under way than what was sent explains, if only a little.
pub(super) fn is_more(live: u32, expected: f64) -> bool {
    f64::from(live) > 1.1 * expected + 1.5 * expected.sqrt() + 2.0
}

/// Whether much more is under way than what was sent explains.
pub(super) fn is_much(live: u32, expected: f64, least: f64) -> bool {
    f64::from(live) > 1.2 * expected + 2.0 * expected.sqrt() + least
}

/// What all classes come to.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) expected: f64,
    pub(super) rate: f64,
    /// Rates times mean times.
    pub(super) time: f64,
    pub(super) overdue: u32,
    /// Calls that are long: others that were sent later have been answered in time.
    pub(super) long: u32,
    pub(super) crowded_rate: f64,
    /// Whether what is known of any of them rests on enough answers.
    pub(super) grown: bool,
}
