//! Quell: the handle on one upstream through which calls are made.

use std::{future::Future, sync::Arc};

use arc_swap::ArcSwap;
use quell_core::{
    Policy, Snapshot,
    spec::{Invalid, PolicySpec, UpstreamSpec},
};

use crate::{
    Upstream,
    attempt::Attempt,
    builder::Builder,
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
pub struct Quell {
    upstream: Upstream,
    policy: Arc<ArcSwap<Policy>>,
    idempotent: bool,
}

impl Quell {
    /// Begins to describe an upstream. The name stands in errors, logs and metrics.
    pub fn upstream(name: impl Into<String>) -> Builder {
        Builder::new(name.into())
    }

    /// Calls with this policy through an upstream that others may share.
    pub fn new(upstream: Upstream, policy: Policy, idempotent: bool) -> Self {
        Self { upstream, policy: Arc::new(ArcSwap::from_pointee(policy)), idempotent }
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

    /// Goes on under another policy and spec with all that is known: budget, breaker, estimates, ghosts. All clones do.
    /// Calls under way keep the policy that they began with. What is not valid changes nothing.
    ///
    /// ```
    /// use quell::{Quell, core::spec::{PolicySpec, UpstreamSpec}};
    ///
    /// let stock = Quell::upstream("stock").build()?;
    /// let once = PolicySpec { attempts: 1, ..PolicySpec::library() };
    /// stock.clone().reload(once, UpstreamSpec::library())?;
    /// assert_eq!(stock.policy().attempts(), 1);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn reload(&self, policy: PolicySpec, upstream: UpstreamSpec) -> Result<(), Invalid> {
        let policy = Policy::new(policy)?;
        self.upstream.reload(upstream, policy.per_try())?;
        self.policy.store(Arc::new(policy));
        Ok(())
    }

    /// The upstream's name.
    pub fn name(&self) -> &str {
        self.upstream.name()
    }

    /// How the upstream looks now.
    pub fn snapshot(&self) -> Snapshot {
        self.upstream.snapshot()
    }

    /// What all clones share.
    pub fn shared(&self) -> &Upstream {
        &self.upstream
    }

    /// The policy of the next call.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// A call on these terms, for whoever makes attempts in another way than by a closure: see [`run`](crate::run).
    #[inline]
    pub fn begin(&self) -> Guard<Owned> {
        Guard::new(Owned { upstream: self.upstream.clone(), policy: self.policy() })
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.idempotent
    }
}

/// [`Terms`] that a call owns, so that it may outlive the handle it was made through.
#[derive(Debug, Clone)]
pub struct Owned {
    upstream: Upstream,
    policy: Arc<Policy>,
}

impl Terms for Owned {
    #[inline]
    fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    #[inline]
    fn policy(&self) -> &Policy {
        &self.policy
    }
}
