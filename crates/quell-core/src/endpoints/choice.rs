//! Choice: where to send, and who is left alone for a while.

use super::{Endpoint, Endpoints};
use crate::{Rng, Time};

/// How much of the share of failures each outcome makes up.
const FORGETS: f32 = 0.2;
/// An endpoint with a larger share of failures fails, and one with a smaller share does well.
const FAILING: f32 = 0.5;
const WELL: f32 = 0.2;

/// The endpoints that a call has tried, so that its retry goes elsewhere. Exact for up to 64 endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tried(u64);

impl Tried {
    /// Nowhere yet.
    pub const NOWHERE: Self = Self(0);

    /// The same, and this one.
    pub const fn with(self, endpoint: u16) -> Self {
        Self(self.0 | 1 << (endpoint % 64))
    }

    const fn contains(self, endpoint: usize) -> bool {
        self.0 & 1 << (endpoint % 64) != 0
    }
}

impl Endpoints {
    /// Chooses where to send: the less loaded of two drawn at random, ghosts counted as load, and one whose answers take
    /// longer than usual as that much more loaded. Neither the ejected nor
    /// those that the call has tried, unless there are no others.
    #[inline]
    pub fn choose(&self, now: Time, tried: Tried, rng: &mut Rng) -> u16 {
        if self.all.len() == 1 { 0 } else { self.choose_of_two(now, tried, rng) }
    }

    #[inline(never)]
    fn choose_of_two(&self, now: Time, tried: Tried, rng: &mut Rng) -> u16 {
        let here = |i: &usize| self.mode.is_report() || self.all[*i].ejected_until <= now;
        let fresh = |i: &usize| here(i) && !tried.contains(*i);
        let indices = 0..self.count;
        match indices.clone().filter(fresh).count() {
            0 => {
                let n = indices.clone().filter(here).count();
                self.less_loaded(indices.filter(here), n, now, rng)
            }
            n => self.less_loaded(indices.filter(fresh), n, now, rng),
        }
    }

    /// Of `n` candidates, of which there is at least one.
    fn less_loaded(
        &self,
        candidates: impl Iterator<Item = usize> + Clone,
        n: usize,
        now: Time,
        rng: &mut Rng,
    ) -> u16 {
        let first = rng.below(n as u64) as usize;
        let second = match n {
            0 | 1 => first,
            _ => (first + 1 + rng.below(n as u64 - 1) as usize) % n,
        };
        let load = |endpoint: &Endpoint| {
            let held = f64::from(endpoint.under_way) + endpoint.ghosts.len() as f64;
            (held + 1.0) * endpoint.slowness(now)
        };
        let drawn = [first, second].map(|place| candidates.clone().nth(place).unwrap_or(0));
        let [first, second] = drawn;
        (if load(&self.all[second]) < load(&self.all[first]) { second } else { first }) as u16
    }

    /// An answer took so many times as long as is usual for its kind.
    #[inline(never)]
    pub(crate) fn took(&mut self, endpoint: u16, now: Time, times: f64) {
        let endpoint = &mut self.all[usize::from(endpoint)];
        let slow = endpoint.slowness(now);
        let times = times.max(1.0);
        let weight = if times > slow { 0.5 } else { 0.1 };
        (endpoint.slow, endpoint.slow_at) = (slow + (times - slow) * weight, now);
    }

    /// What an attempt said of its endpoint. True if the endpoint was ejected for it, or would have been.
    #[inline]
    pub fn judge(&mut self, endpoint: u16, good: Option<bool>, now: Time) -> bool {
        self.count > 1 && self.judge_of_many(usize::from(endpoint), good, now)
    }

    #[inline(never)]
    fn judge_of_many(&mut self, index: usize, good: Option<bool>, now: Time) -> bool {
        let Some(good) = good else { return false };
        if let Some(endpoint) = self.all.get_mut(index) {
            endpoint.failing += (f32::from(u8::from(!good)) - endpoint.failing) * FORGETS;
        }
        let Some(ejection) = self.ejection else { return false };
        let others = |(i, e): (usize, &Endpoint)| i != index && e.ejected_until <= now;
        let (here, _gone) = self.all.split_at_mut(self.count);
        let another_is_left = here.iter().enumerate().any(others);
        let Some(endpoint) = here.get_mut(index) else { return false };
        if self.mode.is_report() && endpoint.ejected_until > now {
            return false; // it would not have been asked
        }
        if good {
            endpoint.failures = 0;
            endpoint.ejections = 0;
            return false;
        }
        endpoint.failures = endpoint.failures.saturating_add(1);
        if endpoint.failures < ejection.after || endpoint.ejected_until > now || !another_is_left {
            return false;
        }
        endpoint.failures = 0;
        endpoint.ejections = endpoint.ejections.saturating_add(1);
        let length = ejection.base.saturating_mul(endpoint.ejections).min(ejection.most);
        endpoint.ejected_until = now + length;
        if !self.mode.is_report() {
            // Nobody will ask it for a while: what stands there is of no use to know.
            let gone = endpoint.ghosts.len();
            self.end_ghosts(index, gone);
        }
        true
    }

    /// Whether this one fails and another does well: then its failures say nothing of the upstream as a whole.
    #[cold]
    pub(crate) fn fails_alone(&self, endpoint: u16) -> bool {
        let (index, here) = (usize::from(endpoint), &self.all[..self.count]);
        let does_well = |(i, other): (usize, &Endpoint)| i != index && other.failing < WELL;
        self.count > 1
            && self.all[index].failing > FAILING
            && here.iter().enumerate().any(does_well)
    }

    /// How many are left alone now; in report mode, how many would be.
    pub fn ejected(&self, now: Time) -> usize {
        self.all.iter().filter(|endpoint| endpoint.ejected_until > now).count()
    }
}
