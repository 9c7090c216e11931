//! Reload: an upstream goes on under another spec, with all that it knows.
//!
//! **Why.** Policies are changed when something is wrong, so a reload that started afresh would throw away what was learned at
//! the one moment it is needed: it would fill the budget, close the breaker, forget patience and ghosts, and
//! so be a storm at the push of a button.
//!
//! **How.** The new spec becomes an upstream of its own first. If it cannot, nothing has changed. If it can, each policy adopts
//! its counterpart by the rule in its own file: it takes on the numbers and keeps the state. What has no spec (the
//! random generator, latencies, the not-before gate, levers, notes not yet read) is not touched. Calls under way keep their permits and
//! places; a lower limit drains. Whoever can go under the new numbers goes at once.

use core::time::Duration;

use super::{Curbs, Upstream, Wake};
use crate::{
    Time,
    spec::{Invalid, UpstreamSpec},
};

impl Upstream {
    /// Goes on under another spec, for calls whose attempts may take `per_try` each. Whoever can go now, or can wait no
    /// longer, is put into `wake`. A spec that is not valid changes nothing.
    ///
    /// ```
    /// use core::time::Duration;
    /// use quell_core::{Admission, Ask, Release, Time, Upstream, in_flight::Limit, spec::UpstreamSpec};
    ///
    /// let (now, per_try, mut wake) = (Time::ZERO, Duration::from_secs(5), Vec::new());
    /// let spec = UpstreamSpec { in_flight: Limit::Fixed(1), ..UpstreamSpec::gateway() };
    /// let mut upstream = Upstream::new(spec, per_try, 1, now)?;
    /// let Admission::Go(first) = upstream.admit(now, &Ask::first(now)) else { panic!() };
    /// let Admission::Queued(ticket, _) = upstream.admit(now, &Ask::first(now)) else { panic!() };
    /// upstream.reload(now, UpstreamSpec { in_flight: Limit::Fixed(2), ..spec }, per_try, &mut wake)?;
    /// assert_eq!(wake.len(), 1);
    /// assert_eq!((wake[0].ticket, upstream.snapshot(now).in_flight), (ticket, 2));
    /// # Ok::<_, quell_core::spec::Invalid>(())
    /// ```
    pub fn reload(
        &mut self,
        now: Time,
        spec: UpstreamSpec,
        per_try: Duration,
        wake: &mut Vec<Wake>,
    ) -> Result<(), Invalid> {
        // Named one by one, so that whoever adds one has to say what a reload keeps of it.
        let Self {
            breaker,
            purse,
            in_flight,
            endpoints,
            queue,
            queue_wait,
            curbs,
            modes,
            would_refuse: _,
            retrying: _,
            levers: _,
            drops: _,
            dropped: _,
            rng: _,
            told_limit: _,
            told_trouble: _,
            shed: _,
            classes: _,
            callers: _,
            least_queue,
            not_before: _,
            held_back: _,
            events: _,
        } = Self::new(spec, per_try, 0, now)?;
        self.change_breaker(now, |own| own.adopt(breaker, now));
        let changes = self.purse.adopt(purse, now);
        self.note_budget(changes);
        self.in_flight.adopt(&in_flight);
        self.note_limit();
        self.endpoints.adopt(endpoints, now);
        self.set_modes(modes);
        self.queue.adopt(&queue);
        self.queue_wait = queue_wait;
        self.least_queue = least_queue;
        self.curbs = Curbs::adopt(self.curbs.take(), curbs, self.endpoints.last_sent(), now);
        self.in_flight.shut(self.is_curbed());
        self.poll(now, wake);
        Ok(())
    }
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
