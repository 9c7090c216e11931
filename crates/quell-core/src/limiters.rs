//! Limiters: one rate limit for each tenant, address or header value.
//!
//! **Why.** A limit that all share lets one noisy neighbour use it up. A limit for each needs a bucket for each, and whoever
//! sends requests can make up as many names as it likes.
//!
//! **How.** The bucket of every key lives in a [`Keyed`] map. A bucket that is full again is as good as new, so it makes room
//! without anybody noticing; when none is, new keys share one bucket. However many keys are made up, what
//! passes is at most what `keys + 1` buckets let pass.
//!
//! ```
//! use quell_core::{Time, limiter::Spec, limiters::Limiters};
//!
//! let now = Time::ZERO;
//! let mut limiters = Limiters::new(Spec { per_second: 10.0, burst: 1 }, 1_000, now)?;
//! let (shop, other) = (0x5105, 0x07e2);                              // hashes of their names
//! assert!(limiters.take(now, shop, 1).is_ok());
//! assert!(limiters.take(now, shop, 1).is_err());
//! assert!(limiters.take(now, other, 1).is_ok());
//! # Ok::<_, quell_core::limiters::Invalid>(())
//! ```

use crate::{
    Time,
    keyed::{self, Keyed, Look},
    limiter::{self, Bucket, Refused, Rule, Spec, Status},
};

/// Why there can be no such limiters. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// See [`limiter::Invalid`].
    #[error(transparent)]
    Limit(#[from] limiter::Invalid),
    /// See [`keyed::Invalid`].
    #[error("rate_limit.{0}")]
    Keys(#[from] keyed::Invalid),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Limiters {
    rule: Rule,
    buckets: Keyed<Bucket>,
}

impl Limiters {
    /// The same limit for every key, and a bucket of their own for so many.
    pub fn new(spec: Spec, keys: usize, now: Time) -> Result<Self, Invalid> {
        let rule = Rule::new(spec)?;
        Ok(Self { rule, buckets: Keyed::new(keys, Bucket::full(&rule, now))? })
    }

    /// Whether a request of this cost would pass; takes nothing.
    pub fn check(&self, now: Time, key: u64, cost: u32) -> Result<(), Refused> {
        self.on_bucket(now, key, |bucket| bucket.check(&self.rule, now, cost))
    }

    /// Lets a request of this cost pass and takes its tokens, or says why not and takes none.
    pub fn take(&mut self, now: Time, key: u64, cost: u32) -> Result<(), Refused> {
        let rule = &self.rule;
        let is_idle = |bucket: &Bucket, now| bucket.is_full(rule, now);
        let fresh = || Bucket::full(rule, now);
        self.buckets.enter(key, now, is_idle, fresh).state.take(rule, now, cost)
    }

    /// Hands back what was taken for a request that was never sent. What was taken from the shared bucket, or from one that
    /// has filled up since and made room, is not handed back: too little passes rather than too much.
    pub fn give_back(&mut self, key: u64, cost: u32) {
        if let Some(bucket) = self.buckets.get_mut(key) {
            bucket.give_back(&self.rule, cost);
        }
    }

    /// What there is to show for this key now.
    pub fn status(&self, now: Time, key: u64) -> Status {
        self.on_bucket(now, key, |bucket| bucket.status(&self.rule, now))
    }

    /// Takes on the numbers of one just made; every key keeps the tokens it has, as far as they fit, and its bucket.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        let (was, is) = (&self.rule, &fresh.rule);
        self.buckets.adopt(fresh.buckets.capacity(), |bucket| bucket.adopt(was, is, now));
        self.rule = fresh.rule;
    }

    /// How many keys have a bucket of their own, and how often one had to do without.
    pub fn keys(&self) -> (usize, u64) {
        (self.buckets.len(), self.buckets.overflowed())
    }

    /// Asks the bucket that [`Limiters::take`] would take from.
    fn on_bucket<R>(&self, now: Time, key: u64, ask: impl FnOnce(&Bucket) -> R) -> R {
        match self.buckets.look(key, now, |bucket, now| bucket.is_full(&self.rule, now)) {
            Look::Own(bucket) | Look::Overflow(bucket) => ask(bucket),
            Look::Fresh => ask(&Bucket::full(&self.rule, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const SPEC: Spec = Spec { per_second: 10.0, burst: 5 };

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn limiters(keys: usize) -> Limiters {
        Limiters::new(SPEC, keys, Time::ZERO).unwrap()
    }

    fn drain(limiters: &mut Limiters, now: Time, key: u64) -> usize {
        (0..1_000).take_while(|_| limiters.take(now, key, 1).is_ok()).count()
    }

    #[test]
    fn a_noisy_neighbour_uses_up_its_own_bucket_only() {
        let mut limiters = limiters(10);
        assert_eq!(drain(&mut limiters, at(0), 1), 5);
        assert_eq!(drain(&mut limiters, at(0), 2), 5);
        assert_eq!(limiters.status(at(200), 1).tokens, 2);
        assert_eq!(limiters.status(at(0), 3).tokens, 5);
    }

    /// T5, and nobody gets a new burst by making others forget it.
    #[test]
    fn made_up_keys_pass_no_more_than_the_buckets_there_are() {
        let mut limiters = limiters(10);
        let passed = (0..100_000).filter(|key| limiters.take(at(0), *key, 1).is_ok()).count();
        assert_eq!(passed, 10 + 5, "one for each bucket, and all of the shared one");
        assert_eq!(limiters.keys(), (10, 99_990));
        assert_eq!(drain(&mut limiters, at(0), 0), 4);
        assert!(limiters.take(at(100), 200_000, 1).is_ok(), "a bucket that is full makes room");
        assert_eq!(limiters.keys().0, 10);
    }

    #[test]
    fn what_is_given_back_goes_to_the_key_it_came_from() {
        let mut limiters = limiters(1);
        assert_eq!((drain(&mut limiters, at(0), 1), drain(&mut limiters, at(0), 2)), (5, 5));
        limiters.give_back(1, 2);
        limiters.give_back(2, 2);
        assert_eq!((drain(&mut limiters, at(0), 1), drain(&mut limiters, at(0), 2)), (2, 0));
    }

    /// X9.
    #[test]
    fn a_reload_keeps_the_tokens_and_the_bucket_of_every_key() {
        let mut limiters = limiters(2);
        for key in [1, 2, 3] {
            assert_eq!(drain(&mut limiters, at(0), key), 5);
        }
        let larger = Spec { per_second: 1_000.0, burst: 100 };
        limiters.adopt(Limiters::new(larger, 1, at(200)).unwrap(), at(200));
        for key in [1, 2, 3] {
            assert_eq!(drain(&mut limiters, at(200), key), 2, "{key}: at the old rate until then");
        }
        assert_eq!(limiters.keys().0, 2);
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let no_burst = Limiters::new(Spec { burst: 0, ..SPEC }, 1, at(0));
        let no_keys = Limiters::new(SPEC, 0, at(0));
        for error in [no_burst.unwrap_err(), no_keys.unwrap_err()] {
            let message = error.to_string();
            assert!(message.starts_with("rate_limit.") && message.contains("write"), "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

        /// Against a limiter for every key, with no bound: who has a bucket of its own notices no difference.
        #[test]
        fn making_room_is_never_noticed(
            keys in 1..6_usize,
            asks in prop::collection::vec((0..400_u64, 0..12_u64, 0..6_u32), 1..120),
        ) {
            let mut limiters = limiters(keys);
            let mut all: Vec<_> =
                (0..12).map(|_| limiter::Limiter::new(SPEC, at(0)).unwrap()).collect();
            let mut now = at(0);
            for (step, key, cost) in asks {
                now = now + Duration::from_millis(step);
                let looked = limiters.check(now, key, cost);
                let shared = limiters.keys().1;
                let taken = limiters.take(now, key, cost);
                prop_assert_eq!(taken, looked);
                if limiters.keys().1 == shared {
                    prop_assert_eq!(taken, all[key as usize].take(now, cost));
                }
            }
        }
    }
}
