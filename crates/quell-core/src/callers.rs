//! Callers: how much each caller has under way, so that nobody shuts others out.
//!
//! **Why.** One caller with ninety-nine percent of the load would have ninety-nine percent of the slots, and the queue would be
//! full of its calls. Once somebody has to wait, whose turn it is must not depend on who asks most often.
//!
//! **How.** Callers are sorted into 256 groups by a hash: bounded, whoever makes up callers. Under pressure the turn is that of
//! the caller with the least under way, and a full queue makes room for a caller with fewer in it than another. While
//! nobody waits nothing of this is looked at, and a lone caller takes all that there is.
//!
//! A caller that holds slots for long would still have them all whenever others pause for a moment, and the others would wait for
//! its calls to end. So a caller with more than half of a limit that binds leaves an eighth of it to others, as long as there are any. Where its calls were let in
//! before the limit was found, and more than fill it, the others have that eighth all the same.

use core::time::Duration;

use crate::Time;

const GROUPS: usize = 256;
/// Others are there if one of them had a turn so lately.
const LATELY: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Callers {
    held: [u32; GROUPS],
    /// Whose turn was last, and when; and when it was last another's.
    last: u8,
    last_at: Time,
    other_at: Time,
    /// Who had the most under way at the last look.
    biggest: u8,
}

impl Default for Callers {
    fn default() -> Self {
        Self { held: [0; GROUPS], last: 0, last_at: Time::ZERO, other_at: Time::ZERO, biggest: 0 }
    }
}

impl Callers {
    /// The group of a caller; that of nobody in particular is the first.
    #[inline]
    pub(crate) const fn group(caller: u64) -> u8 {
        (caller.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    /// One more is under way.
    #[inline]
    pub(crate) fn take(&mut self, group: u8, now: Time) {
        self.held[usize::from(group)] += 1;
        if group != self.last {
            (self.last, self.other_at) = (group, self.last_at);
        }
        self.last_at = now;
    }

    /// One less.
    #[inline]
    pub(crate) fn give(&mut self, group: u8) {
        self.held[usize::from(group)] -= 1;
    }

    /// Whether it is to leave the last of so many slots to others.
    pub(crate) fn is_to_leave_some(&self, group: u8, limit: u32, now: Time) -> bool {
        let others_at = if group == self.last { self.other_at } else { self.last_at };
        2 * self.held(group) > limit && others_at > Time::ZERO && now.since(others_at) < LATELY
    }

    /// Looks who has the most under way.
    pub(crate) fn look(&mut self) {
        let most = |group: &usize| self.held[*group];
        self.biggest = (0..GROUPS).max_by_key(most).unwrap_or_default() as u8;
    }

    /// Whose calls fill so many slots alone, so that the others have the eighth that is theirs in spite of them: what it holds beyond
    /// its share counts against itself only. `None` if it is not like that, or if the others have theirs.
    pub(crate) fn fills(&self, limit: u32, under_way: u32) -> Option<u8> {
        let held = self.held(self.biggest);
        let theirs = limit / 8;
        let alone = held > limit - theirs && under_way.saturating_sub(held) < theirs.max(1);
        alone.then_some(self.biggest)
    }

    /// How many are under way.
    pub(crate) fn held(&self, group: u8) -> u32 {
        self.held[usize::from(group)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_fills_all_slots_alone_leaves_the_others_their_eighth() {
        let mut callers = Callers::default();
        let (big, small) = (Callers::group(1), Callers::group(2));
        assert_ne!(big, small);
        (0..150).for_each(|_| callers.take(big, Time::ZERO));
        callers.look();
        assert_eq!(callers.fills(16, 150), Some(big));
        callers.take(small, Time::ZERO);
        assert_eq!(callers.fills(16, 151), Some(big), "one of two");
        callers.take(small, Time::ZERO);
        assert_eq!(callers.fills(16, 152), None, "they have theirs");
        assert_eq!(callers.fills(200, 152), None, "it does not fill so many");
        // A limit of next to nothing still has one slot for somebody else.
        callers.give(small);
        callers.give(small);
        assert_eq!(callers.fills(4, 150), Some(big));
    }
}
