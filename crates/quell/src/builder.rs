//! Builder: an upstream and the policy of its calls, in one sentence.
//!
//! Everything has a default that is safe to keep; what is written here is checked once, by [`Builder::build`],
//! whose error names the field, the value and the fix.
//!
//! ```
//! use std::time::Duration;
//! use quell::{Limit, Quell};
//!
//! let payments = Quell::upstream("payments")
//!     .attempts(3)
//!     .timeout(Duration::from_secs(4))
//!     .in_flight(Limit::Adaptive { ceiling: 512 })
//!     .build()?;
//! assert_eq!(payments.name(), "payments");
//!
//! let error = Quell::upstream("payments").attempts(0).build().unwrap_err();
//! assert!(error.to_string().starts_with("attempts is 0"));
//! # Ok::<_, quell::Invalid>(())
//! ```

use std::{sync::Arc, time::Duration};

use quell_core::{
    Policy, backoff, breaker, budget,
    hedge::Hedge,
    in_flight::Limit,
    limiter,
    mode::{Mode, Modes},
    spec::{Invalid, PolicySpec, UpstreamSpec},
    throttle,
};

use crate::{
    Clock, Quell, Rules, Upstream,
    http::{Statuses, UnsafeMethods},
    observe::Observe,
    upstream::Host,
};

/// See the [module](self).
#[derive(Debug, Clone)]
#[must_use = "nothing is made before `build`"]
pub struct Builder {
    name: String,
    policy: PolicySpec,
    spec: UpstreamSpec,
    host: Host,
    idempotent: bool,
    statuses: Statuses,
    unsafe_methods: UnsafeMethods,
    make_keys: bool,
}

impl Builder {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            policy: PolicySpec::library(),
            spec: UpstreamSpec::library(),
            host: Host::default(),
            idempotent: false,
            statuses: Statuses::default(),
            unsafe_methods: UnsafeMethods::default(),
            make_keys: false,
        }
    }

    /// Most attempts per call, the first included; 3 unless said.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.policy.attempts = attempts;
        self
    }

    /// The whole call, waits included; 30 s unless said.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = timeout;
        self
    }

    /// One attempt; 10 s or an equal share of the timeout, whichever is less, unless said.
    pub fn per_try_timeout(mut self, per_try: Duration) -> Self {
        self.policy.per_try_timeout = Some(per_try);
        self
    }

    /// The waits between attempts; up to 100 ms, doubling to at most 20 s, unless said.
    pub fn backoff(mut self, backoff: backoff::Spec) -> Self {
        self.policy.backoff = backoff;
        self
    }

    /// An upstream that asks for a longer wait ends the call; 30 s unless said.
    pub fn hint_cap(mut self, cap: Duration) -> Self {
        self.policy.hint_cap = cap;
        self
    }

    /// What retries may cost; 100 tokens, a tenth earned per success, unless said.
    ///
    /// ```
    /// use quell::{Quell, core::budget::tokens};
    ///
    /// let busy = Quell::upstream("busy").budget(tokens::Spec { max: 1_000, ..tokens::Spec::default() }).build()?;
    /// assert_eq!(busy.snapshot().retries.level, 1_000.0);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn budget(mut self, budget: impl Into<budget::Spec>) -> Self {
        self.spec.budget = budget.into();
        self
    }

    /// What the retries of one [tenant](crate::context::Context::tenant) may cost within that; no less than all others unless said.
    pub fn tenant_budget(mut self, budget: impl Into<budget::Spec>) -> Self {
        self.spec.children = Some(budget.into());
        self
    }

    /// When to stop asking; at half the calls of 10 s failed, unless said.
    pub fn breaker(mut self, breaker: breaker::Spec) -> Self {
        self.spec.breaker = breaker;
        self
    }

    /// How much may be under way; no limit unless said.
    pub fn in_flight(mut self, limit: Limit) -> Self {
        self.spec.in_flight = limit;
        self
    }

    /// How many may wait for a slot; 64 unless said.
    pub fn queue(mut self, most: usize) -> Self {
        self.spec.queue = most;
        self
    }

    /// A second attempt beside one that takes unusually long; none unless said. It needs a call that may be repeated, is
    /// paid for like a retry and stays away while the upstream is in trouble: see [`hedge`](quell_core::hedge).
    ///
    /// ```
    /// use std::time::Duration;
    /// use quell::{Quell, core::hedge::Hedge};
    ///
    /// let slower_than_most = Hedge::new(0.95, Duration::from_millis(10))?;
    /// let prices = Quell::upstream("prices").idempotent().hedge(slower_than_most).build()?;
    /// # let _ = prices;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn hedge(mut self, hedge: Hedge) -> Self {
        self.policy.hedge = Some(hedge);
        self
    }

    /// How often the upstream may be asked; as often as you like unless said.
    pub fn rate_limit(mut self, limit: limiter::Spec) -> Self {
        self.spec.rate_limit = Some(limit);
        self
    }

    /// Whether to spare the upstream what it would turn down anyway; no unless said.
    pub fn throttle(mut self, throttle: throttle::Spec) -> Self {
        self.spec.throttle = Some(throttle);
        self
    }

    /// Every control decides and counts, and changes nothing: to see for a day what it would have refused. See
    /// [`Snapshot::would_refuse`](quell_core::Snapshot::would_refuse).
    ///
    /// ```
    /// use quell::{Clock, Limit, Quell};
    ///
    /// let stock = Quell::upstream("stock").in_flight(Limit::Fixed(1)).report_only().clock(Clock::manual()).build()?;
    /// let count = || stock.call_blocking(|_| Ok::<_, String>(7)).wait();
    /// let nested = stock.call_blocking(|_| Ok::<_, String>(count().unwrap())).wait();
    /// assert_eq!(nested.unwrap(), 7); // two at once: one too many, and let through all the same
    /// assert_eq!(stock.snapshot().would_refuse.in_flight, 1);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn report_only(mut self) -> Self {
        self.spec.modes = Modes::REPORT;
        self.spec.breaker.mode = Mode::Report.into();
        self
    }

    /// All that one call does, for what has no word of its own here.
    pub fn policy(mut self, policy: PolicySpec) -> Self {
        self.policy = policy;
        self
    }

    /// All that callers share, for what has no word of its own here.
    pub fn spec(mut self, spec: UpstreamSpec) -> Self {
        self.spec = spec;
        self
    }

    /// Every call may reach the upstream twice without harm.
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Which HTTP statuses are worth another attempt; 408, 425, 429, 500, 502, 503 and 504 unless said.
    pub fn retry_on(mut self, statuses: Statuses) -> Self {
        self.statuses = statuses;
        self
    }

    /// What is done about POST and the like; repeated with an `Idempotency-Key` unless said.
    pub fn unsafe_methods(mut self, unsafe_methods: UnsafeMethods) -> Self {
        self.unsafe_methods = unsafe_methods;
        self
    }

    /// HTTP requests that could be repeated if they had an `Idempotency-Key` are given one: only for upstreams that
    /// honour it.
    pub fn make_keys(mut self) -> Self {
        self.make_keys = true;
        self
    }

    /// Somebody who is told what happens.
    pub fn observe(mut self, observer: impl Observe + 'static) -> Self {
        self.host.observer = Some(Arc::new(observer));
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.host.clock = clock;
        self
    }

    /// Where chance starts, for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.host.seed = seed;
        self
    }

    /// Checks what was written.
    pub fn build(self) -> Result<Quell, Invalid> {
        let policy = Policy::new(self.policy)?;
        let upstream = Upstream::new(self.name, self.spec, policy.per_try(), self.host)?;
        let Self { idempotent, statuses, unsafe_methods, make_keys, .. } = self;
        let rules = Rules { policy, idempotent, statuses, unsafe_methods, make_keys };
        Ok(Quell::new(upstream, rules))
    }
}
