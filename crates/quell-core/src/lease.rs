//! Lease: one limit for a whole fleet, without a store in anybody's way.
//!
//! **Why.** A limit that many instances share needs a place where it is counted, and a request that waits for that
//! place is as slow and as fragile as it is. Dividing the limit by the number of instances needs no place, and wastes
//! what the idle ones do not use. So tokens are leased in the background, ahead of need, and while the store is away
//! every instance lives on its share: limit ÷ instances, never on nothing and never without limit.
//!
//! **How.** [`Planner`] is the instance's half: [`Planner::want`] says when to ask the store and for how much,
//! [`Planner::take`] serves requests from what is there. [`Pool`] is the store's half, run in one atomic step. Four
//! rules keep the sum right: a lease runs out, counted from when it was asked for; what an instance took from its
//! share is owed, and handed in with its next request; of a silence in which everybody lived on shares the store
//! credits little; and a request that was given up on has run out as well when it comes late. What the fleet may
//! take beyond its limit all the same is [`overshoot_bound`].
//!
//! ```
//! use quell_core::{Rng, Stamp, Time, lease::{Planner, Pool, Rules, Spec}};
//!
//! let rules = Rules::new(Spec { per_second: 100, burst: 50, instances: 4, ..Spec::default() })?;
//! let (now, stamp, mut rng) = (Time::ZERO, Stamp::from_millis(1), Rng::new(1));
//! let (mut planner, mut pool) = (Planner::new(rules), Pool::new(&rules, stamp));
//! assert!(planner.take(now, 1).is_err());                   // nothing leased yet
//! let request = planner.want(now, &mut rng).unwrap();       // the host sends it in the background
//! let grant = pool.lease(&rules, stamp, &request);
//! planner.granted(now, request.id, grant);
//! assert!(planner.take(now, 1).is_ok());
//! # Ok::<_, quell_core::lease::Invalid>(())
//! ```

use core::time::Duration;
use std::collections::VecDeque;

mod leave;

use crate::{Reason, Refusal, Rng, Stamp, Time, time::nanos};
pub use leave::Return;

/// One token, in the unit that levels are kept in.
const TOKEN: u64 = 1_000_000;
/// Leases kept apart; further ones join the newest and run out with it.
const MOST_LOTS: usize = 8;
/// The store is not asked more often than this while it has too little.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// How long one sample of the demand takes.
const SAMPLE: u64 = 100_000_000;

/// A fleet's limit as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Tokens per second, for all instances together.
    pub per_second: u32,
    /// Tokens that may be taken at once, by all instances together.
    pub burst: u32,
    /// How many instances there are at most.
    pub instances: u32,
    /// How long leased tokens can be used.
    pub valid_for: Duration,
    /// When a request to the store is given up.
    pub timeout: Duration,
    /// How long the store is left alone after a failure.
    pub probe: Duration,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            per_second: 1_000,
            burst: 1_000,
            instances: 1,
            valid_for: Duration::from_secs(2),
            timeout: Duration::from_millis(50),
            probe: Duration::from_secs(1),
        }
    }
}

/// Why a [`Spec`] is no limit. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Nobody could ever pass, or nobody is there.
    #[error("rate_limit.{0} is 0: write at least 1")]
    Zero(&'static str),
    /// Too short to be kept, or too long to be a bound.
    #[error("rate_limit.{field} is {value:?}: write a duration from \"1ms\" to \"60s\"")]
    Duration {
        /// Which.
        field: &'static str,
        /// As written.
        value: Duration,
    },
    /// Leases would run out before a lost one is noticed and replaced.
    #[error(
        "rate_limit.valid_for is {valid_for:?}: write at least rate_limit.timeout and probe together, which are {cycle:?}"
    )]
    Valid {
        /// As written.
        valid_for: Duration,
        /// As written.
        cycle: Duration,
    },
}

/// A [`Spec`] that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules(Spec);

/// What to ask the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Names it in the answer.
    pub id: u64,
    /// How much is wanted, in millionths of a token.
    pub tokens: u64,
    /// What was taken from the share since the store was last heard of, in millionths of a token.
    pub owed: u64,
    /// The store refuses it when its own clock is past this; unknown until the store was heard of.
    pub until: Option<Stamp>,
}

/// The store's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// How much is granted, in millionths of a token.
    pub tokens: u64,
    /// Whether what was owed is settled; not if the request had run out.
    pub settled: bool,
    /// For how long, counted from when the request was made.
    pub valid_for: Duration,
    /// The store's clock.
    pub stamp: Stamp,
}

/// How far all instances together may exceed `per_second × window + burst` in any window, in tokens: what is leased
/// when the window begins (one `valid_for` of the limit), and what was taken from shares and not handed in when it ends
/// (two, see [`Rules::most_owed`]). It holds however often the store goes away; an instance that restarts meanwhile
/// forgets what it owes, and one that is cut off alone for longer than that adds its share for as long. So does one
/// that missed the store because it came back for less than two probes.
pub fn overshoot_bound(spec: &Spec, instances: u32) -> u64 {
    let times = 3 * u128::from(nanos(spec.valid_for));
    let tokens = (u128::from(spec.per_second) * times).div_ceil(1_000_000_000);
    u64::try_from(tokens).unwrap_or(u64::MAX).saturating_add(u64::from(instances))
}

impl Rules {
    /// Checks what was written.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        let counts =
            [("per_second", spec.per_second), ("burst", spec.burst), ("instances", spec.instances)];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(Invalid::Zero(field));
        }
        let durations =
            [("valid_for", spec.valid_for), ("timeout", spec.timeout), ("probe", spec.probe)];
        let fits = Duration::from_millis(1)..=Duration::from_secs(60);
        if let Some((field, value)) = durations.into_iter().find(|(_, value)| !fits.contains(value))
        {
            return Err(Invalid::Duration { field, value });
        }
        let cycle = spec.timeout + spec.probe;
        if spec.valid_for < cycle {
            return Err(Invalid::Valid { valid_for: spec.valid_for, cycle });
        }
        Ok(Self(spec))
    }

    /// What an instance's share brings in so many nanoseconds.
    fn share_in(&self, nanos: u64) -> u128 {
        u128::from(self.0.per_second) * u128::from(nanos) / (1_000 * u128::from(self.0.instances))
    }

    /// How much silence the store credits: a fleet that can reach it asks more often than that.
    fn gap(&self) -> Duration {
        self.0.valid_for * 2
    }

    /// The most that one instance can owe, in millionths of a token: what its share brings in two `valid_for`, for the
    /// store counts no more than that of a time in which nobody reached it.
    pub fn most_owed(&self) -> u64 {
        (self.share_in(nanos(self.gap())) as u64).max(TOKEN)
    }

    /// What an instance can save of its share.
    fn share_cap(&self) -> u64 {
        let part = u64::from(self.0.burst) * TOKEN / u64::from(self.0.instances);
        part.min(self.most_owed()).max(TOKEN)
    }
}

/// The store's half: one bucket, on the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Below zero while more was owed than was there.
    level: i64,
    at: Stamp,
    /// The highest levels before `turned` and since, over one `valid_for` at least.
    peaks: [i64; 2],
    turned: Stamp,
}

impl Pool {
    /// A full bucket.
    pub fn new(rules: &Rules, now: Stamp) -> Self {
        let level = (u64::from(rules.0.burst) * TOKEN) as i64;
        Self { level, at: now, peaks: [level; 2], turned: now }
    }

    /// Answers a request. A refusal keeps what time has brought, and a clock that stepped back brings nothing.
    pub fn lease(&mut self, rules: &Rules, now: Stamp, request: &Request) -> Grant {
        let now = self.advance(rules, now);
        let mut grant =
            Grant { tokens: 0, settled: false, valid_for: rules.0.valid_for, stamp: now };
        if request.until.is_some_and(|until| until < now) {
            return grant;
        }
        self.charge(rules, request.owed);
        grant.tokens = request.tokens.min(self.level.max(0) as u64);
        grant.settled = true;
        self.level -= grant.tokens as i64;
        grant
    }

    /// Adds what time has brought, and says what time it is here.
    fn advance(&mut self, rules: &Rules, now: Stamp) -> Stamp {
        let full = (u64::from(rules.0.burst) * TOKEN) as i64;
        let now = now.max(self.at);
        // Of a long silence only the gap counts: meanwhile everybody lived on a share.
        let millis = now.since(self.at).min(rules.gap()).as_millis() as i64;
        // A token per second is a thousand millionths per millisecond: nothing is rounded.
        let brought = millis.saturating_mul(i64::from(rules.0.per_second) * 1_000);
        self.level = self.level.saturating_add(brought).min(full);
        self.at = now;
        if now.since(self.turned) < rules.0.valid_for {
            self.peaks[1] = self.peaks[1].max(self.level);
        } else {
            (self.peaks, self.turned) = ([self.peaks[1], self.level], now);
        }
        now
    }

    /// Books what was taken from a share.
    fn charge(&mut self, rules: &Rules, owed: u64) {
        let floor =
            -((rules.most_owed().saturating_mul(u64::from(rules.0.instances))).min(1 << 62) as i64);
        let level = self.level.saturating_sub(owed.min(rules.most_owed()) as i64);
        self.level = level.max(floor);
        if level < floor {
            // Not all of it was booked, so nothing is taken back for a while.
            self.peaks[1] = i64::MAX;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Lot {
    tokens: u64,
    until: Time,
}

#[derive(Debug, Clone, Copy)]
struct Out {
    id: u64,
    sent_at: Time,
    tokens: u64,
    owed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// Never heard of, neither good nor ill: there is no share yet, or every restart would be a gift.
    Unknown,
    Up,
    Away {
        since: Time,
        probe_at: Time,
    },
}

/// The instance's half; see the [module](self).
#[derive(Debug)]
pub struct Planner {
    rules: Rules,
    store: Store,
    lots: VecDeque<Lot>,
    out: Option<Out>,
    next_id: u64,
    /// Not before then, after the store had too little.
    ask_at: Time,
    round_trip: u64,
    /// The store's clock, and when it was heard.
    heard: Option<(Stamp, Time)>,
    share: u64,
    /// What the share has brought since the store went away.
    shared: u128,
    owed: u64,
    demand: Demand,
}

impl Planner {
    /// An instance that has just started and holds nothing: ask before serving.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            store: Store::Unknown,
            lots: VecDeque::with_capacity(MOST_LOTS),
            out: None,
            next_id: 0,
            ask_at: Time::ZERO,
            round_trip: 0,
            heard: None,
            share: 0,
            shared: 0,
            owed: 0,
            demand: Demand::default(),
        }
    }

    /// Whether the store answered last time; if not, the instance lives on its share.
    pub fn is_store_up(&self) -> bool {
        self.store == Store::Up
    }

    /// Leased tokens at hand, in millionths.
    pub fn balance(&mut self, now: Time) -> u64 {
        self.expire(now);
        self.lots.iter().map(|lot| lot.tokens).sum()
    }

    /// What could be taken now, leased or from the share, in millionths of a token; changes nothing.
    pub fn holds(&self, now: Time) -> u64 {
        let leased: u64 =
            self.lots.iter().filter(|lot| now < lot.until).map(|lot| lot.tokens).sum();
        let share = self.share.saturating_add(self.accrued(now)).min(self.rules.share_cap());
        share.saturating_add(leased)
    }

    /// What was taken from the share and is not paid back yet, in millionths of a token.
    pub fn owed(&self) -> u64 {
        self.owed
    }

    /// What to ask the store for now, if anything. Called in the background, many times per `valid_for`. One
    /// request is out at a time, so an outage costs one timeout per probe, not one per caller.
    pub fn want(&mut self, now: Time, rng: &mut Rng) -> Option<Request> {
        if let Some(out) = self.out {
            if now.since(out.sent_at) < self.rules.0.timeout {
                return None;
            }
            self.failed(now, out.id, rng);
        }
        let wait = match self.store {
            Store::Away { probe_at, .. } => probe_at,
            Store::Unknown | Store::Up => self.ask_at,
        };
        let (balance, (low, high)) = (self.balance(now), self.waters(now));
        let content = self.store == Store::Up && balance >= low && self.owed == 0;
        if now < wait || content {
            return None;
        }
        self.next_id += 1;
        let (id, owed, tokens) = (self.next_id, self.owed, high.saturating_sub(balance));
        self.out = Some(Out { id, sent_at: now, tokens, owed });
        Some(Request { id, tokens, owed, until: self.until(now) })
    }

    /// When the store's clock will show that what is sent now was given up.
    fn until(&self, now: Time) -> Option<Stamp> {
        let (stamp, at) = self.heard?;
        // Reckoned from when the answer was here, so rather too early than too late.
        let since = now.since(at).saturating_add(self.rules.0.timeout).as_millis() as u64;
        Some(Stamp::from_millis(stamp.as_millis().saturating_add(since)))
    }

    /// The store answered. An answer to a request that was given up comes too late and changes nothing.
    pub fn granted(&mut self, now: Time, id: u64, grant: Grant) {
        let Some(out) = self.out.take_if(|out| out.id == id) else { return };
        let took = now.nanos_since(out.sent_at);
        self.round_trip = self.round_trip - self.round_trip / 8 + took / 8;
        self.heard = Some((grant.stamp, now));
        (self.store, self.share) = (Store::Up, 0);
        if grant.settled {
            self.owed = self.owed.saturating_sub(out.owed);
        }
        let tokens = grant.tokens.min(out.tokens);
        if tokens < out.tokens {
            // When our part of what comes in will have brought the rest, but not so often that asking is a load.
            let longest = self.rules.0.valid_for / 16;
            self.ask_at =
                now + self.share_brings(out.tokens - tokens).min(longest).max(SHORTEST_PAUSE);
        }
        // From when it was asked for: the store counted it no earlier.
        let until = out.sent_at + grant.valid_for.min(self.rules.0.valid_for);
        let full = self.lots.len() >= MOST_LOTS;
        match self.lots.back_mut() {
            Some(newest) if full => newest.tokens = newest.tokens.saturating_add(tokens),
            _ if tokens > 0 => self.lots.push_back(Lot { tokens, until }),
            _ => {}
        }
    }

    /// The store did not answer, or not in time.
    pub fn failed(&mut self, now: Time, id: u64, rng: &mut Rng) {
        if self.out.take_if(|out| out.id == id).is_none() {
            return;
        }
        let half = self.rules.0.probe / 2;
        let probe_at = now + half + rng.up_to(half);
        let since = match self.store {
            Store::Away { since, .. } => since,
            Store::Unknown | Store::Up => {
                (self.share, self.shared) = (0, 0);
                now
            }
        };
        self.store = Store::Away { since, probe_at };
    }

    /// Takes tokens for a request: all of them or none, from what is here. It never waits for the store.
    pub fn take(&mut self, now: Time, cost: u32) -> Result<(), Refusal> {
        let cost = u64::from(cost) * TOKEN;
        self.demand.add(now, cost);
        self.accrue(now);
        let leased = self.balance(now);
        if leased.saturating_add(self.share) < cost {
            let missing = cost - leased - self.share;
            let retry_at = match self.store {
                Store::Away { .. } => now + self.share_brings(missing),
                _ => {
                    self.ask_at.max(now)
                        + Duration::from_nanos(self.round_trip).max(Duration::from_millis(10))
                }
            };
            return Err(Refusal { reason: Reason::RateLimited, retry_at });
        }
        let mut rest = cost;
        while let Some(lot) = self.lots.front_mut().filter(|_| rest > 0) {
            let part = rest.min(lot.tokens);
            lot.tokens -= part;
            rest -= part;
            if lot.tokens == 0 {
                self.lots.pop_front();
            }
        }
        self.share -= rest;
        self.owed = self.owed.saturating_add(rest).min(self.rules.most_owed());
        Ok(())
    }

    /// Forgets leases that have run out.
    pub fn expire(&mut self, now: Time) {
        self.lots.retain(|lot| now < lot.until);
    }

    /// Adds what the share has brought, in one step however long nobody looked, and keeps the remainder.
    fn accrue(&mut self, now: Time) {
        let more = self.accrued(now);
        self.shared += u128::from(more);
        self.share = self.share.saturating_add(more).min(self.rules.share_cap());
    }

    /// What the share has brought since that was last added, while the store is away.
    fn accrued(&self, now: Time) -> u64 {
        let Store::Away { since, .. } = self.store else { return 0 };
        let brought = self.rules.share_in(now.nanos_since(since));
        u64::try_from(brought.saturating_sub(self.shared)).unwrap_or(u64::MAX)
    }

    fn share_brings(&self, tokens: u64) -> Duration {
        let nanos = u128::from(tokens) * 1_000 * u128::from(self.rules.0.instances)
            / u128::from(self.rules.0.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Below the first more is asked for, up to the second. The first lasts for two round trips and a sample, the
    /// second for half a lease, and there is always a token or the largest cost for whoever comes after a lull.
    fn waters(&mut self, now: Time) -> (u64, u64) {
        let (rate, largest) = self.demand.look(now);
        let lasts = |nanos: u64| (u128::from(rate) * u128::from(nanos) / u128::from(SAMPLE)) as u64;
        let low = lasts(self.round_trip.saturating_mul(2).saturating_add(SAMPLE)).max(largest);
        let high = lasts(nanos(self.rules.0.valid_for) / 2).max(low);
        let all = u64::from(self.rules.0.burst) * TOKEN;
        (low.min(all), high.min(all))
    }
}

/// How much is asked for: a moving average that rises at once.
#[derive(Debug, Default)]
struct Demand {
    since: Time,
    now: u64,
    average: u64,
    largest: u64,
}

impl Demand {
    fn add(&mut self, now: Time, cost: u64) {
        self.roll(now);
        self.now = self.now.saturating_add(cost);
        self.largest = self.largest.max(cost);
    }

    /// What one sample sees, and the largest cost of late.
    fn look(&mut self, now: Time) -> (u64, u64) {
        self.roll(now);
        (self.average.max(self.now), self.largest.max(TOKEN))
    }

    fn roll(&mut self, now: Time) {
        let samples = now.nanos_since(self.since) / SAMPLE;
        if samples == 0 {
            return;
        }
        self.since = Time::from_nanos(self.since.as_nanos() + samples * SAMPLE);
        self.average = self.now.max(self.average - self.average / 4);
        for _ in 1..samples.min(64) {
            self.average -= self.average.div_ceil(4);
        }
        self.largest = if samples > 64 { 0 } else { self.largest - self.largest / 64 };
        self.now = 0;
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
