//! Context: what a request brought, for the calls that are made on its behalf.
//!
//! **Why.** A service that is called with two seconds left must not call others with ten, and one that is called in the
//! third attempt of a chain must not start three of its own. Nobody passes that by hand through every function. So the
//! server side puts it into a context once, and outgoing calls pick it up by themselves.
//!
//! **How.** [`Context::from_headers`] reads a request. [`Context::scope`] runs a future in it and [`Context::enter`] a
//! closure; inside, [`Context::current`] is it. It is set around each poll on the thread that polls, so it works on any
//! runtime and in blocking code. A task that is spawned is another task: take the context along with
//! `tokio::spawn(context.scope(work))`.
//!
//! Each call reports what it spent with [`Context::spent`], so that the reply can say it: [`Context::answer`].
//!
//! ```
//! use std::time::Duration;
//! use http::{HeaderMap, HeaderValue};
//! use quell::{Clock, context::Context, core::credit::{Retries, Sends}};
//!
//! let clock = Clock::manual();
//! let mut request = HeaderMap::new();
//! request.insert("quell-deadline-ms", HeaderValue::from_static("1500"));
//! request.insert("quell-retry-credit", HeaderValue::from_static("2"));
//!
//! let context = Context::from_headers(&request, &clock, true);
//! context.enter(|| {
//!     let current = Context::current().unwrap();
//!     assert_eq!(current.deadline(), Some(clock.now() + Duration::from_millis(1_500)));
//!     current.spent(Sends::new(2), Retries::new(1)); // a call that was repeated once
//! });
//! assert!(Context::current().is_none());
//! assert_eq!(context.answer(), (Sends::new(2), Retries::new(1)));
//! ```

use std::{cell::RefCell, fmt, future::Future, mem, pin::Pin, sync::Arc, task::Poll};

use http::{HeaderMap, HeaderValue};
use pin_project_lite::pin_project;
use quell_core::{
    Time,
    credit::{Received, Retries, Sends},
};

use crate::{
    Clock,
    http::{IDEMPOTENCY_KEY, headers},
    sync::Mutex,
};

thread_local! {
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// See the [module](self). Cheap to clone; clones share what was spent.
#[derive(Clone, Default)]
pub struct Context(Arc<Inner>);

#[derive(Clone, Default)]
struct Inner {
    deadline: Option<Time>,
    credit: Option<Credit>,
    key: Option<HeaderValue>,
    tenant: Option<Arc<str>>,
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Clone, Copy)]
struct Credit {
    retries: Retries,
    trusted: bool,
}

/// What the calls made on a request's behalf came to.
#[derive(Default)]
struct Ledger {
    /// Sends but the first of every call.
    extra: u32,
    /// The least that came back from any.
    least: Option<Retries>,
    /// Calls that were given a key.
    keyed: u32,
}

impl Context {
    /// A context in which nothing is known; the `with_…` methods add to it.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a request brought: its [deadline](headers::deadline), its [credit of retries](headers::credit) and its
    /// `idempotency-key`.
    ///
    /// `trusted` says whether it comes from a hop of ours. A stranger's credit may lower what we would do on our own, and
    /// nothing else; so may anybody's deadline. Credit that cannot be read allows nothing. A deadline that cannot be read
    /// was not said, and one that can is a day at most; nothing left means that the caller has gone.
    pub fn from_headers(headers: &HeaderMap, clock: &Clock, trusted: bool) -> Self {
        let deadline = headers::deadline(headers).map(|left| clock.now() + left);
        let credit = headers::credit(headers).map(|retries| Credit { retries, trusted });
        let key = headers.get(IDEMPOTENCY_KEY).filter(|key| !key.is_empty()).cloned();
        Self(Arc::new(Inner { deadline, credit, key, ..Inner::default() }))
    }

    /// The context that this code runs in, if any.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// The same context with a deadline, unless it has an earlier one. It shares what was spent, as all of these do.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quell::{Clock, context::Context};
    ///
    /// let now = Clock::manual().now();
    /// let context = Context::new().with_deadline(now + Duration::from_secs(2)).with_tenant("acme");
    /// let later = context.clone().with_deadline(now + Duration::from_secs(9));
    /// assert_eq!(later.deadline(), context.deadline());
    /// assert_eq!(later.tenant(), Some("acme"));
    /// ```
    #[must_use]
    pub fn with_deadline(self, deadline: Time) -> Self {
        self.with(|inner| {
            inner.deadline = Some(inner.deadline.map_or(deadline, |own| own.min(deadline)));
        })
    }

    /// The same context with a credit of retries, unless it has a smaller one. `trusted` is as for
    /// [`Context::from_headers`]; whoever mixes the two is not trusted.
    #[must_use]
    pub fn with_credit(self, retries: Retries, trusted: bool) -> Self {
        self.with(|inner| {
            let own = inner.credit.unwrap_or(Credit { retries, trusted });
            let retries = own.retries.min(retries);
            inner.credit = Some(Credit { retries, trusted: own.trusted && trusted });
        })
    }

    /// The same context on behalf of this tenant, for limits and counts of their own.
    #[must_use]
    pub fn with_tenant(self, tenant: &str) -> Self {
        self.with(|inner| inner.tenant = Some(tenant.into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// When whoever asked will be gone. Calls made here must end by then.
    pub fn deadline(&self) -> Option<Time> {
        self.0.deadline
    }

    /// The chain's credit of retries, if the request carried one. A request that fans out hands it to each of its calls:
    /// the bound is per path.
    pub fn credit(&self) -> Option<Received> {
        let Credit { retries, trusted } = self.0.credit?;
        Some(if trusted { Received::trusted(retries) } else { Received::stranger(retries) })
    }

    /// The key by which the caller's request is known again. Calls made here that need a key and have none get one that
    /// follows from it: the first the key itself, unchanged, the next ones `…-2`, `…-3` and so on. So a request that is
    /// repeated repeats none of them, as long as its handler makes its calls in the same order; those made at once, or in an
    /// order that changes, should be given keys of their own.
    pub fn key(&self) -> Option<&HeaderValue> {
        self.0.key.as_ref()
    }

    /// The key of the next call made here that needs one.
    pub(crate) fn next_key(&self) -> Option<String> {
        let key = self.0.key.as_ref()?.to_str().ok()?;
        let mut ledger = self.0.ledger.lock();
        ledger.keyed += 1;
        Some(if ledger.keyed == 1 { key.to_owned() } else { format!("{key}-{}", ledger.keyed) })
    }

    /// On whose behalf all this is.
    pub fn tenant(&self) -> Option<&str> {
        self.0.tenant.as_deref()
    }

    /// A call made on this request's behalf is over: its sends, there and below, and what of the credit came back. One
    /// that was dropped reports what it had sent, and that nothing came back.
    pub fn spent(&self, sends: Sends, returned: Retries) {
        let mut ledger = self.0.ledger.lock();
        let extra = u32::from(sends.get()).saturating_sub(1);
        ledger.extra = ledger.extra.saturating_add(extra);
        ledger.least = Some(ledger.least.map_or(returned, |least| least.min(returned)));
    }

    /// What the reply says of all the calls that were made: sends here and below (`quell-attempts`), the request itself
    /// among them, and what of the credit is provably left (`quell-retry-credit`). That is the least that came back from
    /// any call, and nothing where no credit came with the request.
    pub fn answer(&self) -> (Sends, Retries) {
        let Ledger { extra, least, .. } = *self.0.ledger.lock();
        let given = self.0.credit.map_or(Retries::default(), |credit| credit.retries);
        let left = least.map_or(given, |least| least.min(given));
        (Sends::new(extra.saturating_add(1)), left)
    }

    /// Runs a closure in this context.
    pub fn enter<T>(&self, inside: impl FnOnce() -> T) -> T {
        let mut slot = Some(self.clone());
        let _entered = Entered::new(&mut slot);
        inside()
    }

    /// A future that runs in this context.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use quell::context::Context;
    ///
    /// let tenant = || Context::current().and_then(|current| current.tenant().map(str::to_owned));
    /// let context = Context::new().with_tenant("acme");
    /// assert_eq!(context.scope(async { tenant() }).await.as_deref(), Some("acme"));
    /// assert_eq!(tenant(), None);
    /// # });
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        Scoped { context: Some(self.clone()), future }
    }
}

/// Shows no key: it is the caller's.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Context");
        shown.field("deadline", &self.0.deadline).field("credit", &self.credit());
        shown.field("tenant", &self.0.tenant).finish_non_exhaustive()
    }
}

pin_project! {
    /// A future in a context: see [`Context::scope`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Scoped<F> {
        // While it is polled, this is what was current before.
        context: Option<Context>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = Entered::new(this.context);
        this.future.poll(cx)
    }
}

/// Has swapped a context with the thread's, and swaps back when dropped, even by a panic.
struct Entered<'a>(&'a mut Option<Context>);

impl<'a> Entered<'a> {
    fn new(slot: &'a mut Option<Context>) -> Self {
        swap(slot);
        Self(slot)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        swap(self.0);
    }
}

/// On a thread that is being torn down there is nothing to swap with, either time.
fn swap(slot: &mut Option<Context>) {
    let _ = CURRENT.try_with(|current| mem::swap(&mut *current.borrow_mut(), slot));
}
