//! Leave: what an instance hands in when it ends.
//!
//! **Why.** An instance that ends holds tokens that it will not use and may owe what it took from its share. Without a word
//! from it the tokens are lost until they run out, and the debt is lost for good.
//!
//! **How.** [`Planner::leave`] says what to hand in, and [`Pool::give_back`] books it. While tokens were out, the pool had
//! room that they would have filled, and time may have filled that room again. So the pool takes back no more than it
//! would have now if the tokens had never been leased: what is below its highest level of late. With that rule, tokens
//! that come back do not raise [`overshoot_bound`](super::overshoot_bound).

use super::{Planner, Pool, Rules, TOKEN};
use crate::{Stamp, Time};

/// What an instance hands in when it ends. Send it once: a second copy would be booked as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return {
    /// Leased tokens that were not used, in millionths of a token.
    pub tokens: u64,
    /// What was taken from the share and not handed in yet, in millionths of a token.
    pub owed: u64,
    /// The store refuses it when its own clock is past this; unknown if the store was never heard of.
    pub until: Option<Stamp>,
}

impl Planner {
    /// Ends: what to hand in, if there is anything. Afterwards nothing can be taken, as if the instance had just started.
    pub fn leave(&mut self, now: Time) -> Option<Return> {
        // What might run out on its way is not worth the doubt.
        let arrives = now + self.rules.0.timeout;
        let lasting = self.lots.iter().filter(|lot| arrives < lot.until);
        let tokens = lasting.map(|lot| lot.tokens).sum();
        let back = Return { tokens, owed: self.owed, until: self.until(now) };
        *self = Self { next_id: self.next_id, ..Self::new(self.rules) };
        (back.tokens > 0 || back.owed > 0).then_some(back)
    }
}

impl Pool {
    /// Books what an instance hands in when it ends.
    pub fn give_back(&mut self, rules: &Rules, now: Stamp, back: &Return) {
        let now = self.advance(rules, now);
        if back.until.is_some_and(|until| until < now) {
            return;
        }
        self.charge(rules, back.owed);
        let full = (u64::from(rules.0.burst) * TOKEN) as i64;
        let room = full.saturating_sub(self.peaks[0].max(self.peaks[1])).max(0);
        self.level += room.min(i64::try_from(back.tokens).unwrap_or(i64::MAX));
        self.peaks[1] = self.peaks[1].max(self.level);
    }
}
