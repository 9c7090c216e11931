//! Levers: what people change by hand in an incident, while calls are under way.

use super::{Upstream, Wake};
use crate::{
    Time,
    breaker::{Breaker, Mode, State},
};

impl Upstream {
    /// Changes what the breaker's decisions mean, those of all keys included, until an instant or for good: for incidents.
    pub fn set_breaker_mode(&mut self, now: Time, mode: Mode, until: Option<Time>) {
        self.change_breaker(now, |breaker| breaker.set_mode(now, mode, until));
        if let Some(shards) = self.curbs.as_mut().and_then(|curbs| curbs.shards.as_mut()) {
            shards.set_mode(now, mode, until);
        }
    }

    /// Lets so many be under way at once from now on, at least 1, until the next reload: for incidents, and for whoever decides
    /// elsewhere.
    pub fn set_limit(&mut self, now: Time, limit: u32, wake: &mut Vec<Wake>) {
        self.in_flight.set(limit);
        self.note_limit();
        if !self.queue.is_empty() {
            self.grant(now, wake);
        }
    }

    /// Changes the breaker by hand, and tells if that changed its state.
    pub(super) fn change_breaker(&mut self, now: Time, change: impl FnOnce(&mut Breaker)) {
        let was = self.breaker.state(now);
        self.note_opened(now);
        change(&mut self.breaker);
        let is = self.breaker.state(now);
        self.breaker.opened_by_itself();
        if is != was && is != State::HalfOpen {
            self.note_breaker(now, is);
        }
    }

    /// Fills the retry budget as at the start, and those within it.
    pub fn reset_budget(&mut self, now: Time) {
        let changes = self.purse.reset(now);
        self.note_budget(changes);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{Admission, Ask, in_flight::Limit, spec::UpstreamSpec};

    const PER_TRY: Duration = Duration::from_secs(5);

    fn spec() -> UpstreamSpec {
        UpstreamSpec { in_flight: Limit::Fixed(1), ..UpstreamSpec::gateway() }
    }

    #[test]
    fn a_higher_limit_lets_in_who_waits_and_a_limit_of_nothing_is_one() {
        let now = Time::ZERO;
        let mut upstream = Upstream::new(spec(), PER_TRY, 1, now).unwrap();
        assert!(matches!(upstream.admit(now, &Ask::first(now)), Admission::Go(_)));
        for _ in 0..2 {
            assert!(matches!(upstream.admit(now, &Ask::first(now)), Admission::Queued(..)));
        }
        let mut wake = Vec::new();
        upstream.set_limit(now, 2, &mut wake);
        assert!(matches!(wake.as_slice(), [Wake { result: Ok(_), .. }]), "{wake:?}");
        let seen = upstream.snapshot(now);
        assert_eq!((seen.limit, seen.in_flight, seen.queued), (2, 2, 1));
        upstream.set_limit(now, 0, &mut wake);
        assert_eq!((upstream.snapshot(now).limit, wake.len()), (1, 1));
    }

    #[test]
    fn a_limit_set_by_hand_lasts_until_the_next_reload() {
        let now = Time::ZERO;
        let mut upstream = Upstream::new(spec(), PER_TRY, 1, now).unwrap();
        upstream.set_limit(now, 7, &mut Vec::new());
        assert_eq!(upstream.snapshot(now).limit, 7);
        upstream.reload(now, spec(), PER_TRY, &mut Vec::new()).unwrap();
        assert_eq!(upstream.snapshot(now).limit, 1);
    }
}
