//! Spec: policies as people write them, checked once.
//!
//! **Why.** A number that makes no sense should be refused when it is written, with the field, the value and the
//! fix, not when the outage comes. What passed the check needs no check on the hot path.
//!
//! **How.** [`PolicySpec`] says how one call behaves, [`UpstreamSpec`] what everybody who calls an upstream
//! shares. Both come as presets for a library inside the caller and for a gateway in front of a service.
//!
//! ```
//! use quell_core::{Policy, spec::PolicySpec};
//!
//! assert!(Policy::new(PolicySpec::library()).is_ok());
//! let error = Policy::new(PolicySpec { attempts: 0, ..PolicySpec::library() }).unwrap_err();
//! assert!(error.to_string().starts_with("attempts is 0"));
//! ```

use core::time::Duration;

use crate::{
    Fault,
    backoff::{self, Backoff},
    breaker,
    budget::{self, tokens},
    endpoints::{self, Ejection},
    hedge::Hedge,
    in_flight::{self, Limit},
    limiter,
    mode::Modes,
    pools,
    queue::Order,
    throttle,
    time::nanos,
};

/// How one call behaves, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicySpec {
    /// Most sends per call, the first included.
    pub attempts: u32,
    /// From the first moment to the response head, waits included.
    pub timeout: Duration,
    /// One attempt; `None` means the usual ten seconds, or an equal share of `timeout` if that is less.
    pub per_try_timeout: Option<Duration>,
    /// Waits between attempts.
    pub backoff: backoff::Spec,
    /// Where the first wait depends on what went wrong.
    pub bases: Bases,
    /// A longer wait asked for by the upstream ends the call.
    pub hint_cap: Duration,
    /// A second attempt beside one that takes unusually long.
    pub hedge: Option<Hedge>,
}

impl PolicySpec {
    /// For calls made from inside a service.
    pub fn library() -> Self {
        Self {
            attempts: 3,
            timeout: Duration::from_secs(30),
            per_try_timeout: None,
            backoff: backoff::Spec::default(),
            bases: Bases::SAME,
            hint_cap: Duration::from_secs(30),
            hedge: None,
        }
    }

    /// For calls to language models: slow, dear, and with hints that are meant.
    pub fn llm() -> Self {
        Self {
            attempts: 3,
            timeout: Duration::from_secs(600),
            per_try_timeout: Some(Duration::from_secs(60)),
            backoff: backoff::Spec {
                base: Duration::from_millis(200),
                cap: Duration::from_secs(30),
                ..backoff::Spec::default()
            },
            bases: Bases::SAME,
            hint_cap: Duration::from_secs(120),
            hedge: None,
        }
    }

    /// For work that nobody waits for.
    pub fn background() -> Self {
        Self {
            attempts: 6,
            timeout: Duration::from_secs(600),
            per_try_timeout: Some(Duration::from_secs(30)),
            backoff: backoff::Spec {
                base: Duration::from_secs(1),
                cap: Duration::from_secs(30),
                ..backoff::Spec::default()
            },
            bases: Bases::SAME,
            hint_cap: Duration::from_secs(120),
            hedge: None,
        }
    }

    /// For a proxy in front of a service. A reply may take a minute, as behind most proxies: whoever put one in front of a
    /// service that worked must not break it. An attempt may take all of that, so what is retried is what failed sooner.
    pub fn gateway() -> Self {
        Self {
            attempts: 2,
            timeout: Duration::from_secs(60),
            per_try_timeout: Some(Duration::from_secs(60)),
            backoff: backoff::Spec {
                base: Duration::from_millis(50),
                cap: Duration::from_secs(1),
                ..backoff::Spec::default()
            },
            bases: Bases::SAME,
            hint_cap: Duration::from_secs(5),
            hedge: None,
        }
    }

    /// For a proxy in front of a service whose replies are known to be quick: one that takes 5 s is tried again.
    pub fn strict() -> Self {
        Self {
            timeout: Duration::from_secs(15),
            per_try_timeout: Some(Duration::from_secs(5)),
            ..Self::gateway()
        }
    }
}

/// The first wait after each kind of failure, instead of the backoff's own: overload may want seconds where a failure to
/// connect wants milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bases {
    /// Nothing was sent.
    pub connect: Option<Duration>,
    /// No answer in time.
    pub timeout: Option<Duration>,
    /// The upstream has too much to do.
    pub overload: Option<Duration>,
    /// The upstream failed.
    pub server: Option<Duration>,
}

impl Bases {
    /// The backoff's own, whatever went wrong.
    pub const SAME: Self = Self { connect: None, timeout: None, overload: None, server: None };

    pub(crate) const fn after(&self, fault: Fault) -> Option<Duration> {
        match fault {
            Fault::Connect => self.connect,
            Fault::Timeout => self.timeout,
            Fault::Overload => self.overload,
            Fault::Server | Fault::Fatal => self.server,
        }
    }
}

/// What everybody who calls an upstream shares, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpstreamSpec {
    /// What retries may cost.
    pub budget: budget::Spec,
    /// What the retries of one route or tenant may cost within that; `None` for no more than all others.
    pub children: Option<budget::Spec>,
    /// When to stop asking.
    pub breaker: breaker::Spec,
    /// How many keys, such as shards, have a breaker of their own; `None` for one that is everybody's.
    pub breaker_keys: Option<usize>,
    /// How much may be under way.
    pub in_flight: Limit,
    /// How much of that each kind of calls may hold.
    pub pools: pools::Spec,
    /// How many may wait for a slot.
    pub queue: usize,
    /// How long; `None` for half the callers' patience less the time an answer takes.
    pub queue_wait: Option<Duration>,
    /// Who of them goes first.
    pub order: Order,
    /// How many endpoints serve it.
    pub endpoints: u16,
    /// How often it may be asked, if that is limited.
    pub rate_limit: Option<limiter::Spec>,
    /// Whether to spare it what it would turn down anyway.
    pub throttle: Option<throttle::Spec>,
    /// When one of several endpoints is left alone for a while.
    pub ejection: Option<Ejection>,
    /// Whom a hint of the upstream holds back.
    pub gate: Gate,
    /// Whose decisions are obeyed, and whose only counted.
    pub modes: Modes,
}

/// Whom the not-before gate holds back: what an upstream asked one caller to wait for is told to others too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gate {
    /// Retries and hedges; first attempts pass.
    #[default]
    Retries,
    /// Everybody: for upstreams whose hints are a quota's, so that no attempt before then can succeed.
    All,
}

impl UpstreamSpec {
    /// For calls made from inside a service: no in-flight limit unless asked for.
    pub fn library() -> Self {
        Self {
            budget: budget::Spec::default(),
            children: None,
            breaker: breaker::Spec::default(),
            breaker_keys: None,
            in_flight: Limit::Off,
            pools: pools::Spec::NONE,
            queue: 64,
            queue_wait: None,
            order: Order::AdaptiveLifo,
            endpoints: 1,
            rate_limit: None,
            throttle: None,
            ejection: Some(Ejection::default()),
            gate: Gate::Retries,
            modes: Modes::default(),
        }
    }

    /// For a proxy in front of a service: the limit finds itself.
    pub fn gateway() -> Self {
        Self { in_flight: Limit::Adaptive { ceiling: 4096 }, ..Self::library() }
    }

    /// For calls to language models: retries pause below half a budget, which refills by the second, and a hint is meant
    /// for everybody.
    pub fn llm() -> Self {
        Self { budget: tokens::Spec::llm().into(), gate: Gate::All, ..Self::gateway() }
    }

    /// For work that nobody waits for: so much of it at a time.
    pub fn background() -> Self {
        Self { in_flight: Limit::Fixed(64), ..Self::library() }
    }
}

/// Why a spec is not a policy. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Not even the first send.
    #[error(
        "attempts is 0, so nothing would ever be sent: write at least 1, which means no retries"
    )]
    Attempts,
    /// Every call would be late at once.
    #[error("timeout is 0s, so every call would be late at once: write a duration such as \"4s\"")]
    Timeout,
    /// Every attempt would be late at once, or later than the call.
    #[error(
        "per_try_timeout is {per_try:?}: write more than 0s and at most timeout, which is {total:?}"
    )]
    PerTry {
        /// As written.
        per_try: Duration,
        /// The call's timeout.
        total: Duration,
    },
    /// Everybody in the queue would be refused at once.
    #[error(
        "in_flight.queue_wait is 0s, so nobody could wait: write a duration such as \"600ms\", or queue = 0"
    )]
    QueueWait,
    /// See [`backoff::Invalid`].
    #[error(transparent)]
    Backoff(#[from] backoff::Invalid),
    /// See [`budget::Invalid`].
    #[error(transparent)]
    Budget(#[from] budget::Invalid),
    /// See [`breaker::Invalid`].
    #[error(transparent)]
    Breaker(#[from] breaker::Invalid),
    /// See [`endpoints::Invalid`].
    #[error(transparent)]
    Endpoints(#[from] endpoints::Invalid),
    /// See [`limiter::Invalid`].
    #[error(transparent)]
    RateLimit(#[from] limiter::Invalid),
    /// See [`throttle::Invalid`].
    #[error(transparent)]
    Throttle(#[from] throttle::Invalid),
    /// See [`in_flight::Invalid`].
    #[error(transparent)]
    InFlight(#[from] in_flight::Invalid),
    /// See [`pools::Invalid`].
    #[error(transparent)]
    Pools(#[from] pools::Invalid),
}

/// How one call behaves, valid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    pub(crate) attempts: u32,
    /// Nanoseconds, as every call adds them to an instant.
    pub(crate) timeout: u64,
    pub(crate) per_try: u64,
    pub(crate) backoff: Backoff,
    pub(crate) bases: Bases,
    pub(crate) hint_cap: Duration,
    pub(crate) hedge: Option<Hedge>,
    pub(crate) route: Option<u64>,
}

/// An attempt's timeout where none is written.
const PER_TRY: Duration = Duration::from_secs(10);

impl Policy {
    /// Checks a spec.
    pub fn new(spec: PolicySpec) -> Result<Self, Invalid> {
        if spec.attempts == 0 {
            return Err(Invalid::Attempts);
        }
        let total = spec.timeout;
        if total.is_zero() {
            return Err(Invalid::Timeout);
        }
        let per_try = spec.per_try_timeout.unwrap_or_else(|| PER_TRY.min(total / spec.attempts));
        if per_try.is_zero() || per_try > total {
            return Err(Invalid::PerTry { per_try, total });
        }
        let backoff = Backoff::new(spec.backoff)?;
        let Bases { connect, timeout, overload, server } = spec.bases;
        for base in [connect, timeout, overload, server].into_iter().flatten() {
            Backoff::new(backoff::Spec { base, ..spec.backoff })?;
        }
        Ok(Self {
            attempts: spec.attempts,
            timeout: nanos(total),
            per_try: nanos(per_try),
            backoff,
            bases: spec.bases,
            hint_cap: spec.hint_cap,
            hedge: spec.hedge,
            route: None,
        })
    }

    /// The same for the calls of this route, so that [levers](crate::Lever) can be pulled for them alone; the number is a hash
    /// of the route's name, say.
    pub const fn for_route(self, route: u64) -> Self {
        Self { route: Some(route), ..self }
    }

    /// Which route its calls are of, if that was told.
    pub const fn route(&self) -> Option<u64> {
        self.route
    }

    /// Most sends per call, the first included.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// From the first moment to the response head, waits included.
    pub const fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout)
    }

    /// One attempt.
    pub const fn per_try(&self) -> Duration {
        Duration::from_nanos(self.per_try)
    }

    /// The waits after a failure of this kind.
    pub fn backoff_after(&self, fault: Fault) -> Backoff {
        match self.bases.after(fault) {
            Some(base) => self.backoff.based(base),
            None => self.backoff,
        }
    }

    /// Waits between attempts.
    pub const fn backoff(&self) -> &Backoff {
        &self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Time, Upstream};

    /// The table of defaults in the documentation.
    #[test]
    fn presets_are_valid_and_those_of_the_table() {
        let ms = Duration::from_millis;
        let policies = [
            (PolicySpec::library(), 3, [100, 20_000, 30_000, 10_000, 30_000]),
            (PolicySpec::gateway(), 2, [50, 1_000, 60_000, 60_000, 5_000]),
            (PolicySpec::strict(), 2, [50, 1_000, 15_000, 5_000, 5_000]),
            (PolicySpec::llm(), 3, [200, 30_000, 600_000, 60_000, 120_000]),
            (PolicySpec::background(), 6, [1_000, 30_000, 600_000, 30_000, 120_000]),
        ];
        for (spec, attempts, [base, cap, total, per_try, hint]) in policies {
            let policy = Policy::new(spec).unwrap();
            assert_eq!(spec.attempts, attempts);
            assert_eq!((spec.backoff.base, spec.backoff.cap), (ms(base), ms(cap)));
            assert_eq!((policy.timeout(), policy.per_try()), (ms(total), ms(per_try)));
            assert_eq!(spec.hint_cap, ms(hint));
            assert_eq!(spec.backoff.jitter, backoff::Jitter::Full);
            assert_eq!(spec.backoff.shape, backoff::Shape::Exponential { factor: 2.0 });
        }
        let budget = tokens::Spec { max: 100, ratio: 0.1, ..tokens::Spec::default() };
        let llm = tokens::Spec { refill: Some(ms(1_000)), pause_below: 0.5, ..budget };
        let adaptive = Limit::Adaptive { ceiling: 4096 };
        let upstreams = [
            (UpstreamSpec::library(), budget, Limit::Off),
            (UpstreamSpec::gateway(), budget, adaptive),
            (UpstreamSpec::llm(), llm, adaptive),
            (UpstreamSpec::background(), budget, Limit::Fixed(64)),
        ];
        for (spec, budget, in_flight) in upstreams {
            assert_eq!(spec.budget, budget.into());
            assert_eq!((spec.in_flight, spec.queue), (in_flight, 64));
            assert_eq!(spec.breaker, breaker::Spec::default());
            Upstream::new(spec, ms(10_000), 1, Time::ZERO).unwrap();
        }
    }

    #[test]
    fn per_try_is_an_equal_share_where_it_is_not_written() {
        let spec =
            PolicySpec { timeout: Duration::from_secs(4), attempts: 4, ..PolicySpec::library() };
        assert_eq!(Policy::new(spec).unwrap().per_try(), Duration::from_secs(1));
        let endless = PolicySpec { timeout: Duration::MAX, ..PolicySpec::library() };
        assert_eq!(Policy::new(endless).unwrap().per_try(), PER_TRY);
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let spec = PolicySpec::library();
        let nonsense = [
            PolicySpec { attempts: 0, ..spec },
            PolicySpec { timeout: Duration::ZERO, ..spec },
            PolicySpec { per_try_timeout: Some(Duration::ZERO), ..spec },
            PolicySpec { per_try_timeout: Some(Duration::from_secs(31)), ..spec },
        ];
        for spec in nonsense {
            let message = Policy::new(spec).unwrap_err().to_string();
            assert!(message.contains("write"), "{message}");
        }
    }
}
