//! Prepared: a call that is ready to go.

use std::{
    future::{Future, IntoFuture, Ready, ready},
    pin::Pin,
    time::Duration,
};

use quell_core::Outcome;

use crate::{
    Quell,
    attempt::{Attempt, Key},
    caller::{Answer, Caller, Denied, Options, Retry},
    error::CallError,
    levers::route_key,
    quell::Owned,
    run::{drive, drive_blocking},
    upstream::{Guard, Terms as _},
};

/// A call under way, boxed because `await` needs a future with a name. Dropping it gives back all that the call holds.
///
/// With a name, calls by different closures stand in one list or in a field:
///
/// ```
/// use std::{future::IntoFuture, io};
/// use quell::{CallError, CallFuture, Quell};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let stock = Quell::upstream("stock").build()?;
/// let calls: [CallFuture<'_, u32, CallError<u32, io::Error>>; 2] =
///     [stock.call(async |_| Ok(7)).into_future(), stock.call(async |_| Ok(35)).into_future()];
/// let mut pens = 0;
/// for call in calls {
///     pens += call.await?;
/// }
/// assert_eq!(pens, 42);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<_, io::Error>(())
/// ```
pub type CallFuture<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// A call that is ready to go: `await` it, or on a thread [`wait`](Prepared::wait) for it.
///
/// What a call needs beyond its closure is said in between: who hears of retries, what counts as a failure, what
/// the operation is called.
///
/// ```
/// use quell::{Clock, Failure, Fault, Outcome, Quell};
///
/// let stock = Quell::upstream("stock").clock(Clock::manual()).build()?;
/// let left = stock
///     .call_blocking(|attempt| Ok::<_, String>(if attempt.number() == 1 { -1 } else { 7 }))
///     .operation("count pens")
///     .idempotent()
///     .classify(|result| match result {
///         Ok(0..) => Outcome::Success,
///         _ => Outcome::Failed(Failure::of(Fault::Server)),
///     })
///     .wait();
/// assert_eq!(left.unwrap(), 7);
/// # Ok::<_, quell::Invalid>(())
/// ```
#[must_use = "nothing is sent before `await`, or `wait` on a thread"]
pub struct Prepared<'a, F, T, E> {
    quell: &'a Quell,
    attempt: F,
    key: Key,
    deadline: Option<Duration>,
    options: Options<'a, T, E>,
}

impl<'a, F, T: 'static, E: 'static> Prepared<'a, F, T, E> {
    pub(crate) fn new(quell: &'a Quell, attempt: F) -> Self {
        Self { quell, attempt, key: Key::here(), deadline: None, options: Options::new() }
    }
}

impl<'a, F, T, E> Prepared<'a, F, T, E> {
    /// What the call is named in its error, instead of the upstream's name. Calls of one name are of one
    /// [kind](crate::classes): how long one takes is compared with the others of its kind only.
    pub fn operation(mut self, name: impl Into<String>) -> Self {
        self.options.operation = Some(name.into());
        self
    }

    /// This call may reach the upstream twice without harm.
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }

    /// The key that [`Attempt::key`] gives, instead of one made for this call: an order's number, say, so that a repeated
    /// order is recognised after a restart too.
    ///
    /// ```
    /// use quell::{Clock, Quell};
    ///
    /// let orders = Quell::upstream("orders").clock(Clock::manual()).build()?;
    /// let call = orders.call_blocking(|attempt| Ok::<_, String>(attempt.key().to_owned()));
    /// assert_eq!(call.key("order-7").wait().unwrap(), "order-7");
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Key::given(key.into());
        self
    }

    /// Nobody waits longer than this. It can only shorten the policy's timeout.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quell::{Clock, Quell};
    ///
    /// let stock = Quell::upstream("stock").clock(Clock::manual()).build()?;
    /// let call = stock.call_blocking(|attempt| Ok::<_, String>(attempt.timeout()));
    /// assert_eq!(call.deadline(Duration::from_secs(2)).wait().unwrap(), Duration::from_secs(2));
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn deadline(mut self, within: Duration) -> Self {
        self.deadline = Some(within);
        self
    }

    /// Says what an attempt came to, in place of the [usual rules](crate::classify).
    pub fn classify(mut self, classify: impl FnMut(&Result<T, E>) -> Outcome + Send + 'a) -> Self {
        self.options.classify = Some(Box::new(classify));
        self
    }

    /// Says whether a failure is worth another attempt; what it means to breaker and budget stays as it was, and an
    /// upstream that says not to come back is obeyed all the same.
    ///
    /// ```
    /// use quell::{Clock, Quell};
    ///
    /// let stock = Quell::upstream("stock").idempotent().clock(Clock::manual()).build()?;
    /// let call = stock.call_blocking(|_| Err::<(), _>("no such pen"));
    /// let error = call.retry_if(|result| *result != Err("no such pen")).wait().unwrap_err();
    /// assert_eq!(error.attempts(), 1);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn retry_if(mut self, retry_if: impl FnMut(&Result<T, E>) -> bool + Send + 'a) -> Self {
        self.options.retry_if = Some(Box::new(retry_if));
        self
    }

    /// Says how long to wait after an attempt, in place of the policy's backoff; the first attempt is 1. A hint of the
    /// upstream and the deadline hold all the same. Beware of waits without jitter: callers who failed together come back
    /// together.
    pub fn backoff(mut self, wait: impl FnMut(u32) -> Duration + Send + 'a) -> Self {
        self.options.backoff = Some(Box::new(wait));
        self
    }

    /// Hears of every retry before it is waited for.
    pub fn on_retry(mut self, on_retry: impl FnMut(&Retry<'_, E>) + Send + 'a) -> Self {
        self.options.on_retry = Some(Box::new(on_retry));
        self
    }

    /// Hears that the call was refused, or that it failed and may not be tried again, and why.
    pub fn on_denied(mut self, on_denied: impl FnMut(&Denied<'_, E>) + Send + 'a) -> Self {
        self.options.on_denied = Some(Box::new(on_denied));
        self
    }

    /// Stands in for the reply if the upstream is in trouble or has too much to do: see
    /// [`Reason::allows_fallback`](quell_core::Reason::allows_fallback). Budget, breaker and observers see the failure.
    ///
    /// ```
    /// use quell::{Clock, Quell, Reason};
    ///
    /// let prices = Quell::upstream("prices").idempotent().clock(Clock::manual()).build()?;
    /// let answer = prices
    ///     .call_blocking(|_| Err::<u32, _>("connection reset"))
    ///     .fallback(|_| 42) // yesterday's
    ///     .wait_counted()
    ///     .unwrap();
    /// assert_eq!((answer.value, answer.attempts), (42, 3));
    /// assert_eq!(answer.reason, Some(Reason::AttemptsSpent));
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn fallback(mut self, fallback: impl FnMut(&CallError<T, E>) -> T + Send + 'a) -> Self {
        self.options.fallback = Some(Box::new(fallback));
        self
    }

    fn parts<G>(self, attempt: impl FnOnce(F) -> G) -> (Guard<Owned>, Caller<'a, G, T, E>) {
        let (terms, mut arrival) = self.quell.arrive();
        if let Some(within) = self.deadline {
            arrival.leaves_by(terms.upstream().clock().now() + within);
        }
        if let Some(operation) = &self.options.operation {
            arrival.class = terms.upstream().class(route_key(operation), || operation.clone());
        }
        let guard = Guard::new(terms, arrival);
        let caller = Caller::new(attempt(self.attempt), self.options, self.key, &guard);
        (guard, caller)
    }
}

impl<'a, F, Fut, T, E> Prepared<'a, F, T, E>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    /// What [`counted`](Prepared::counted) does, without a box and for futures that are not `Send`.
    pub async fn run(self) -> Result<Answer<T>, CallError<T, E>> {
        let (guard, mut caller) = self.parts(|attempt| attempt);
        let upstream = guard.upstream().clone();
        let done = drive(guard, &mut caller).await;
        caller.finish(done, upstream.name())
    }
}

impl<'a, F, Fut, T, E> Prepared<'a, F, T, E>
where
    F: FnMut(Attempt) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'a,
    E: Send + 'a,
{
    /// The same with the number of attempts, and how long it took, beside the reply.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// use quell::{Clock, Quell};
    ///
    /// let stock = Quell::upstream("stock").idempotent().clock(Clock::tokio()).build()?;
    /// let answer = stock
    ///     .call(async |attempt| match attempt.number() {
    ///         1 | 2 => Err(std::io::Error::other("connection reset")),
    ///         _ => Ok(7),
    ///     })
    ///     .counted()
    ///     .await?;
    /// assert_eq!((answer.value, answer.attempts), (7, 3));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn counted(self) -> CallFuture<'a, Answer<T>, CallError<T, E>> {
        Box::pin(self.run())
    }
}

impl<'a, F, T, E> Prepared<'a, F, T, E>
where
    F: FnMut(Attempt) -> Result<T, E>,
{
    /// Makes the call on this thread, which blocks while the call waits.
    pub fn wait(self) -> Result<T, CallError<T, E>> {
        self.wait_counted().map(|answer| answer.value)
    }

    /// The same with the number of attempts, and how long it took, beside the reply.
    pub fn wait_counted(self) -> Result<Answer<T>, CallError<T, E>> {
        let at_once = |mut attempt: F| move |this| -> Ready<_> { ready(attempt(this)) };
        let (guard, mut caller) = self.parts(at_once);
        let name = guard.upstream().clone();
        let done = drive_blocking(guard, &mut caller);
        caller.finish(done, name.name())
    }
}

impl<'a, F, Fut, T, E> IntoFuture for Prepared<'a, F, T, E>
where
    F: FnMut(Attempt) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'a,
    E: Send + 'a,
{
    type Output = Result<T, CallError<T, E>>;
    type IntoFuture = CallFuture<'a, T, CallError<T, E>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { Ok(self.run().await?.value) })
    }
}
