//! Quell: the handle on one upstream through which calls are made.

use std::{future::Future, ops::Deref, sync::Arc};

use arc_swap::{ArcSwap, Cache};
use quell_core::{
    Arrival, Call, Policy, Snapshot,
    credit::{Retries, Role, Sends},
    spec::{Invalid, UpstreamSpec},
};

use crate::{
    Upstream,
    attempt::Attempt,
    builder::Builder,
    classes::caller_key,
    context::Context,
    http::{Statuses, UnsafeMethods},
    prepared::Prepared,
    upstream::{Guard, Terms},
};

/// The handle on one upstream through which calls are made.
///
/// **Why.** What protects an upstream (budget, breaker, limit) only works if everybody who calls it shares it.
/// Make one handle per upstream at start-up and clone it wherever it is needed: clones share everything.
///
/// ```
/// use quell::{Clock, Quell};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let payments = Quell::upstream("payments").idempotent().clock(Clock::tokio()).build()?;
/// let receipt = payments
///     .call(async |attempt| match attempt.number() {
///         1 => Err(std::io::Error::other("connection reset")),
///         n => Ok(format!("paid at attempt {n}")),
///     })
///     .on_retry(|retry| eprintln!("attempt {} failed: {}", retry.attempt, retry.error))
///     .await?;
/// assert_eq!(receipt, "paid at attempt 2");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Quell(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    upstream: Upstream,
    /// What a call takes along, in one piece, so that it is counted once.
    terms: ArcSwap<Both>,
}

/// What the calls of a handle go by. A reload swaps all of it at once; calls under way keep what they began with.
///
/// The builder makes them; whoever reads policies from a place of their own makes them by hand:
///
/// ```
/// use std::time::Duration;
/// use quell::{Quell, Rules, Upstream, core::{Policy, spec::{PolicySpec, UpstreamSpec}}, upstream::Host};
///
/// let policy = Policy::new(PolicySpec { timeout: Duration::from_secs(4), ..PolicySpec::library() })?;
/// let shared = Upstream::new("stock", UpstreamSpec::library(), policy.per_try(), Host::default())?;
/// let stock = Quell::new(shared, Rules { idempotent: true, ..Rules::new(policy) });
/// assert!(stock.rules().idempotent && stock.rules().statuses.contains(503));
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Attempts, timeouts, waits.
    pub policy: Policy,
    /// Every call may reach the upstream twice without harm.
    pub idempotent: bool,
    /// HTTP statuses that are worth another attempt.
    pub statuses: Statuses,
    /// What is done about HTTP methods that are not idempotent.
    pub unsafe_methods: UnsafeMethods,
    /// Requests that could be repeated if they had an `Idempotency-Key` are given one.
    pub make_keys: bool,
}

impl Rules {
    /// This policy, and otherwise what is usual.
    ///
    /// ```
    /// use quell::{Rules, core::{Policy, spec::PolicySpec}};
    ///
    /// let rules = Rules::new(Policy::new(PolicySpec::library())?);
    /// assert!(!rules.idempotent && rules.statuses.contains(503));
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            idempotent: false,
            statuses: Statuses::default(),
            unsafe_methods: UnsafeMethods::default(),
            make_keys: false,
        }
    }
}

impl Quell {
    /// Begins to describe an upstream. The name stands in errors, logs and metrics.
    pub fn upstream(name: impl Into<String>) -> Builder {
        Builder::new(name.into())
    }

    /// Calls by these rules through an upstream that others may share.
    pub fn new(upstream: Upstream, rules: Rules) -> Self {
        let terms = ArcSwap::from_pointee(Both::new(&upstream, rules));
        Self(Arc::new(Handle { upstream, terms }))
    }

    /// Prepares a call; `await` makes it. The closure makes one attempt each time it is run.
    ///
    /// It counts as repeatable only if it reads [`Attempt::key`] or somebody said `idempotent()`. Otherwise only
    /// attempts that were certainly never sent are repeated.
    pub fn call<F, Fut, T, E>(&self, attempt: F) -> Prepared<'_, F, T, E>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: 'static,
        E: 'static,
    {
        Prepared::new(self, attempt)
    }

    /// Prepares a call on a thread that may block; [`Prepared::wait`] makes it.
    pub fn call_blocking<F, T, E>(&self, attempt: F) -> Prepared<'_, F, T, E>
    where
        F: FnMut(Attempt) -> Result<T, E>,
        T: 'static,
        E: 'static,
    {
        Prepared::new(self, attempt)
    }

    /// Goes on by other rules and another spec with all that is known: budget, breaker, estimates, ghosts. All clones do.
    /// Calls under way keep the rules that they began with. A spec that is not valid changes nothing.
    ///
    /// ```
    /// use quell::{Quell, Rules, core::{Policy, spec::{PolicySpec, UpstreamSpec}}};
    ///
    /// let stock = Quell::upstream("stock").build()?;
    /// let once = Policy::new(PolicySpec { attempts: 1, ..PolicySpec::library() })?;
    /// stock.clone().reload(Rules { policy: once, ..*stock.rules() }, UpstreamSpec::library())?;
    /// assert_eq!(stock.rules().policy.attempts(), 1);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn reload(&self, rules: Rules, upstream: UpstreamSpec) -> Result<(), Invalid> {
        self.0.upstream.reload(upstream, rules.policy.per_try())?;
        self.0.terms.store(Arc::new(Both::new(&self.0.upstream, rules)));
        Ok(())
    }

    /// The upstream's name.
    pub fn name(&self) -> &str {
        self.0.upstream.name()
    }

    /// How the upstream looks now.
    pub fn snapshot(&self) -> Snapshot {
        self.0.upstream.snapshot()
    }

    /// What all clones share.
    pub fn shared(&self) -> &Upstream {
        &self.0.upstream
    }

    /// What the next call goes by.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.terms.load().rules)
    }

    /// A call on these terms, for whoever makes attempts in another way than by a closure: see [`run`](crate::run).
    /// It ends by the deadline of the [context](Context) it is made in, draws on that one's credit of retries and counts
    /// among its tenant's, where tenants have a budget of their own.
    #[inline]
    pub fn begin(&self) -> Guard<Owned> {
        let (terms, arrival) = self.arrive();
        Guard::new(terms, arrival)
    }

    /// What a call goes by that comes now, and what its context tells of it.
    #[inline]
    pub(crate) fn arrive(&self) -> (Owned, Arrival) {
        let terms = Owned::of(self.0.terms.load_full());
        let arrival = terms.arrival();
        (terms, arrival)
    }
}

/// A handle's terms, looked up once for many calls: as long as nobody reloads, another look is one comparison.
#[derive(Debug, Clone)]
pub(crate) struct Latest(Cache<Followed, Arc<Both>>);

#[derive(Debug, Clone)]
struct Followed(Quell);

impl Deref for Followed {
    type Target = ArcSwap<Both>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0.0.terms
    }
}

impl Latest {
    pub(crate) fn of(quell: &Quell) -> Self {
        Self(Cache::new(Followed(quell.clone())))
    }

    /// Those of the next call.
    #[inline]
    pub(crate) fn terms(&mut self) -> Owned {
        Owned::of(Arc::clone(self.0.load()))
    }
}

/// What is called, and by which rules.
#[derive(Debug)]
pub(crate) struct Both {
    pub(crate) upstream: Upstream,
    pub(crate) rules: Arc<Rules>,
}

impl Both {
    fn new(upstream: &Upstream, rules: Rules) -> Self {
        Self { upstream: upstream.clone(), rules: Arc::new(rules) }
    }
}

/// [`Terms`] that a call owns, so that it may outlive the handle it was made through: what [`Quell::begin`] makes calls
/// with.
///
/// ```
/// use quell::{Outcome, Quell, core::{Input, Step}};
///
/// let mut guard = Quell::upstream("stock").build()?.begin(); // the handle is gone, the call goes on
/// assert_eq!(guard.terms().rules().policy.attempts(), 3);
///
/// let Step::Send(send) = guard.step(Input::Start) else { panic!() };
/// guard.call().sent(send.slot);
/// let step = guard.step(Input::Ended { slot: send.slot, outcome: Outcome::Success });
/// assert!(matches!(step, Step::Finish(_)));
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone)]
pub struct Owned {
    both: Arc<Both>,
    context: Option<Context>,
}

impl Owned {
    #[inline]
    fn of(both: Arc<Both>) -> Self {
        Self { both, context: Context::current() }
    }

    /// What the context of these terms, if there is one, tells of a call that comes now.
    #[inline]
    pub(crate) fn arrival(&self) -> Arrival {
        match &self.context {
            None => Arrival::new(),
            Some(context) => self.arrival_in(context),
        }
    }

    #[cold]
    fn arrival_in(&self, context: &Context) -> Arrival {
        let mut arrival = Arrival::new();
        if let Some(deadline) = context.deadline() {
            arrival.leaves_by(deadline);
        }
        if let Some(received) = context.credit() {
            arrival.joins_chain(Role::Auto, self.policy().attempts(), Some(received));
        }
        if let Some(tenant) = context.tenant() {
            arrival.child = self.upstream().child(tenant);
            arrival.caller = caller_key(tenant.as_bytes());
        }
        arrival
    }

    /// What the call goes by.
    #[inline]
    pub fn rules(&self) -> &Arc<Rules> {
        &self.both.rules
    }

    /// The same with what is called, to be taken along.
    #[inline]
    pub(crate) fn both(&self) -> &Arc<Both> {
        &self.both
    }
}

impl Terms for Owned {
    #[inline]
    fn upstream(&self) -> &Upstream {
        &self.both.upstream
    }

    #[inline]
    fn policy(&self) -> &Policy {
        &self.both.rules.policy
    }

    #[inline]
    fn over(&self, call: &Call) {
        if let Some(context) = &self.context {
            let (sends, returned) = match call.credit() {
                Some(credit) => (credit.sends(), credit.returned()),
                None => (Sends::new(call.attempts()), Retries::default()),
            };
            context.spent(sends, returned);
        }
    }
}
