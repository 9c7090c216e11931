//! Prepared: a call that is ready to go.

use std::{future::Future, future::IntoFuture, pin::Pin};

use quell_core::Outcome;

use crate::{
    Quell,
    attempt::Attempt,
    caller::{Caller, Retry},
    classify,
    error::CallError,
    run,
};

/// A boxed future, as `await` needs one with a name.
pub type CallFuture<'a, T, E> =
    Pin<Box<dyn Future<Output = Result<T, CallError<T, E>>> + Send + 'a>>;

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
    options: Options<'a, T, E>,
}

pub(crate) struct Options<'a, T, E> {
    pub(crate) operation: Option<String>,
    pub(crate) idempotent: bool,
    pub(crate) classify: Option<Classify<'a, T, E>>,
    pub(crate) on_retry: Option<OnRetry<'a, E>>,
}

type Classify<'a, T, E> = Box<dyn FnMut(&Result<T, E>) -> Outcome + Send + 'a>;
type OnRetry<'a, E> = Box<dyn FnMut(&Retry<'_, E>) + Send + 'a>;

impl<'a, F, T, E> Prepared<'a, F, T, E> {
    pub(crate) fn new(quell: &'a Quell, attempt: F) -> Self {
        let idempotent = quell.is_idempotent();
        let options = Options { operation: None, idempotent, classify: None, on_retry: None };
        Self { quell, attempt, options }
    }

    /// What the call is named in its error, instead of the upstream's name.
    pub fn operation(mut self, name: impl Into<String>) -> Self {
        self.options.operation = Some(name.into());
        self
    }

    /// This call may reach the upstream twice without harm.
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }

    /// Says what an attempt came to, in place of the [usual rules](crate::classify).
    pub fn classify(mut self, classify: impl FnMut(&Result<T, E>) -> Outcome + Send + 'a) -> Self {
        self.options.classify = Some(Box::new(classify));
        self
    }

    /// Hears of every retry before its wait.
    pub fn on_retry(mut self, on_retry: impl FnMut(&Retry<'_, E>) + Send + 'a) -> Self {
        self.options.on_retry = Some(Box::new(on_retry));
        self
    }
}

impl<'a, F, Fut, T, E> Prepared<'a, F, T, E>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    T: 'static,
    E: 'static,
{
    /// What `await` does, without a box and for futures that are not `Send`.
    pub async fn run(self) -> Result<T, CallError<T, E>> {
        let Self { quell, attempt, options } = self;
        let clock = quell.shared().clock();
        let guard = quell.shared().begin(quell.policy());
        let mut caller = Caller::new(attempt, options, clock);
        let done = run::drive(guard, &mut caller).await;
        caller.finish(done, quell.name())
    }
}

impl<'a, F, T, E> Prepared<'a, F, T, E>
where
    F: FnMut(Attempt) -> Result<T, E>,
    T: 'static,
    E: 'static,
{
    /// Makes the call on this thread, which blocks while the call waits.
    pub fn wait(self) -> Result<T, CallError<T, E>> {
        let Self { quell, mut attempt, options } = self;
        let clock = quell.shared().clock();
        let guard = quell.shared().begin(quell.policy());
        let mut caller = Caller::new(|this| std::future::ready(attempt(this)), options, clock);
        let done = run::drive_blocking(guard, &mut caller);
        caller.finish(done, quell.name())
    }
}

impl<'a, F, Fut, T, E> IntoFuture for Prepared<'a, F, T, E>
where
    F: FnMut(Attempt) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'static,
    E: Send + 'static,
{
    type Output = Result<T, CallError<T, E>>;
    type IntoFuture = CallFuture<'a, T, E>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<T, E> Options<'_, T, E>
where
    T: 'static,
    E: 'static,
{
    pub(crate) fn outcome(&mut self, result: &Result<T, E>, clock: &crate::Clock) -> Outcome {
        match &mut self.classify {
            Some(classify) => classify(result),
            None => classify::usual(result, clock),
        }
    }
}
