//! Work: one successful call, through ever more of the product.
//!
//! **Why.** Almost every call of almost every day is a first attempt that succeeds. What such a call pays for being
//! guarded is the price of the product, so it is what is measured, with every policy awake: an adaptive limit that has
//! learned, a budget that earns, a breaker that counts, a latency sketch that records.

use std::{hint::black_box, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use quell::core::{
    Admission, Ask, Call, Input, Outcome, Policy, Release, Snapshot, Step, Time, Upstream, Wake,
    spec::{PolicySpec, UpstreamSpec},
};
use quell::upstream::Host;

/// Calls before anything is measured: three seconds of the time below, which is enough for every policy to learn.
pub const WARM_UP: u64 = 30_000;
/// From one call to the next: ten thousand calls per second.
const EVERY: Duration = Duration::from_micros(100);
/// From sending to the response head. Longer than [`EVERY`], as if fifty were under way.
const TOOK: Duration = Duration::from_millis(5);
/// For everything that draws.
pub const SEED: u64 = 1;

/// Something that can be done again and again.
pub trait Work {
    /// Does it once.
    fn once(&mut self);

    /// Fails if what was measured is not what was meant.
    fn check(&mut self) -> Result<()>;
}

/// The pure decision: admit, judge, release.
pub struct Decide {
    upstream: Upstream,
    wake: Vec<Wake>,
    now: Time,
    refused: u64,
}

impl Decide {
    /// Not yet warm.
    pub fn new() -> Result<Self> {
        let (upstream, now) = (upstream()?, Time::ZERO);
        Ok(Self { upstream, wake: Vec::new(), now, refused: 0 })
    }
}

impl Work for Decide {
    #[inline]
    fn once(&mut self) {
        self.now = self.now + EVERY;
        let head = self.now + TOOK;
        let ask = Ask::first(self.now);
        let Admission::Go(permit) = self.upstream.admit(self.now, black_box(&ask)) else {
            self.refused += 1;
            return;
        };
        self.upstream.judge(head, black_box(&permit), black_box(&Outcome::Success));
        self.upstream.release(head, permit, Release::Done, &mut self.wake);
    }

    fn check(&mut self) -> Result<()> {
        check(self.upstream.snapshot(self.now), self.refused)
    }
}

/// What surrounds [`Decide`] and is not the decision: the loop, the clock's steps, the question's own words.
#[derive(Debug)]
pub struct Nothing {
    now: Time,
}

impl Nothing {
    /// Nothing was done yet.
    pub const fn new() -> Self {
        Self { now: Time::ZERO }
    }
}

impl Default for Nothing {
    fn default() -> Self {
        Self::new()
    }
}

impl Work for Nothing {
    #[inline]
    fn once(&mut self) {
        self.now = self.now + EVERY;
        let ask = Ask::first(self.now);
        black_box(&ask);
        black_box(self.now + TOOK);
        black_box(&Outcome::Success);
    }

    fn check(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The same through [`Call::step`].
pub struct Stepped {
    upstream: Upstream,
    policy: Policy,
    wake: Vec<Wake>,
    now: Time,
    refused: u64,
}

impl Stepped {
    /// Not yet warm.
    pub fn new() -> Result<Self> {
        let (upstream, policy, now) = (upstream()?, policy()?, Time::ZERO);
        Ok(Self { upstream, policy, wake: Vec::new(), now, refused: 0 })
    }
}

impl Work for Stepped {
    #[inline]
    fn once(&mut self) {
        self.now = self.now + EVERY;
        let Self { upstream, wake, now, .. } = self;
        let mut call = Call::new();
        let Step::Send(send) = call.step(*now, Input::Start, &self.policy, upstream, wake) else {
            self.refused += 1;
            return;
        };
        call.sent(send.slot);
        let ended = Input::Ended { slot: send.slot, outcome: black_box(Outcome::Success) };
        let step = black_box(&mut call).step(*now + TOOK, ended, &self.policy, upstream, wake);
        self.refused += u64::from(!matches!(black_box(&step), Step::Finish(_)));
    }

    fn check(&mut self) -> Result<()> {
        check(self.upstream.snapshot(self.now), self.refused)
    }
}

/// The same as a program does it: with the lock, the guard and the system's clock. Clones share the upstream.
#[derive(Clone)]
pub struct Guarded {
    upstream: quell::Upstream,
    policy: Policy,
    refused: u64,
}

impl Guarded {
    /// Not yet warm.
    pub fn new() -> Result<Self> {
        let policy = policy()?;
        let host = Host { seed: SEED, ..Host::default() };
        let upstream =
            quell::Upstream::new("bench", UpstreamSpec::gateway(), policy.per_try(), host)?;
        Ok(Self { upstream, policy, refused: 0 })
    }
}

impl Work for Guarded {
    #[inline]
    fn once(&mut self) {
        let mut guard = self.upstream.begin(&self.policy);
        let Step::Send(send) = guard.step(Input::Start) else {
            self.refused += 1;
            return;
        };
        guard.call().sent(send.slot);
        let ended = Input::Ended { slot: send.slot, outcome: black_box(Outcome::Success) };
        let step = black_box(&mut guard).step(ended);
        self.refused += u64::from(!matches!(black_box(&step), Step::Finish(_)));
    }

    fn check(&mut self) -> Result<()> {
        let snapshot = self.upstream.snapshot();
        ensure!(self.refused == 0, "{} calls were refused: {snapshot:?}", self.refused);
        Ok(()) // how much it has learned depends on how fast the machine is
    }
}

/// The gateway's preset.
pub fn policy() -> Result<Policy> {
    Policy::new(PolicySpec::gateway()).context("the gateway's preset is no policy")
}

fn upstream() -> Result<Upstream> {
    let per_try = policy()?.per_try();
    Upstream::new(UpstreamSpec::gateway(), per_try, SEED, Time::ZERO)
        .context("the gateway's preset is no upstream")
}

fn check(snapshot: Snapshot, refused: u64) -> Result<()> {
    ensure!(refused == 0, "{refused} calls were refused: {snapshot:?}");
    if snapshot.known.is_none() || snapshot.in_flight > 0 || snapshot.ghosts > 0 {
        bail!("the upstream is not warm, or not at rest: {snapshot:?}");
    }
    Ok(())
}
