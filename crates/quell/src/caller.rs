//! Caller: a closure as a [`Sender`].

use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use quell_core::{
    Outcome, Reason, Time,
    credit::{Credit, Role},
};

use crate::{
    Clock, Owned, Rules,
    attempt::{Attempt, Key},
    classify,
    error::{CallError, Cause, Parts, Problem},
    http::Statuses,
    observe::{Next, Tried},
    run::{Done, End, Failed, Sender, Try},
    upstream::Guard,
};

/// A retry that is about to be waited for, as [`on_retry`](crate::Prepared::on_retry) hears of it: before the wait, so
/// that the log says what goes on while the caller still wonders.
///
/// ```
/// use quell::{Clock, Quell};
///
/// let stock = Quell::upstream("stock").idempotent().clock(Clock::manual()).build()?;
/// let mut lines = Vec::new();
/// let pens = stock
///     .call_blocking(|attempt| if attempt.number() == 1 { Err("connection reset") } else { Ok(7) })
///     .on_retry(|retry| lines.push(format!("attempt {}: {}", retry.attempt, retry.error)))
///     .wait();
/// assert_eq!((pens.unwrap(), lines), (7, vec!["attempt 1: connection reset".to_owned()]));
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug)]
pub struct Retry<'a, E> {
    /// The attempt that failed; the first is 1.
    pub attempt: u32,
    /// How long until the next one.
    pub delay: Duration,
    /// What went wrong.
    pub error: Problem<'a, E>,
}

/// A call that was refused, or failed and may not be tried again, as [`on_denied`](crate::Prepared::on_denied) hears of
/// it. The reason is the first thing to count: it tells an upstream in trouble from a request that nobody vouched for.
///
/// ```
/// use quell::{Clock, Quell, Reason};
///
/// let stock = Quell::upstream("stock").clock(Clock::manual()).build()?;
/// let mut why = None;
/// let order = stock
///     .call_blocking(|_| Err::<(), _>("connection reset")) // after it was sent, perhaps: it may have been ordered
///     .on_denied(|denied| why = Some((denied.attempts, denied.reason)))
///     .wait();
/// assert!(order.is_err());
/// assert_eq!(why, Some((1, Reason::NotSafe)));
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug)]
pub struct Denied<'a, E> {
    /// How many attempts were made; none if the call was refused.
    pub attempts: u32,
    /// Why there is no other.
    pub reason: Reason,
    /// What went wrong with the last one, if there was any.
    pub error: Option<Problem<'a, E>>,
}

/// A reply, and what it took to get it: a success at the third attempt is a success that somebody should know of.
///
/// ```
/// use quell::{Clock, Quell};
///
/// let stock = Quell::upstream("stock").idempotent().clock(Clock::manual()).build()?;
/// let answer = stock
///     .call_blocking(|attempt| if attempt.number() < 3 { Err("connection reset") } else { Ok(7) })
///     .wait_counted()
///     .unwrap();
/// assert_eq!((answer.value, answer.attempts, answer.reason), (7, 3, None));
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<T> {
    /// The reply.
    pub value: T,
    /// How many attempts were made; none if a fallback stands in for a call that was refused.
    pub attempts: u32,
    /// From the call's first moment to its end.
    pub elapsed: Duration,
    /// Why there was no further attempt; `None` after a success.
    pub reason: Option<Reason>,
}

type OfResult<'a, T, E, R> = Option<Box<dyn FnMut(&Result<T, E>) -> R + Send + 'a>>;
type OnRetry<'a, E> = Option<Box<dyn FnMut(&Retry<'_, E>) + Send + 'a>>;
type OnDenied<'a, E> = Option<Box<dyn FnMut(&Denied<'_, E>) + Send + 'a>>;
type Fallback<'a, T, E> = Option<Box<dyn FnMut(&CallError<T, E>) -> T + Send + 'a>>;

/// What was said of a call beyond its closure.
pub(crate) struct Options<'a, T, E> {
    pub(crate) operation: Option<String>,
    pub(crate) idempotent: bool,
    /// By pointer: only whoever prepares a call has to know that its types outlive everything.
    usual: fn(&Result<T, E>, &Clock, &Statuses) -> Outcome,
    pub(crate) classify: OfResult<'a, T, E, Outcome>,
    pub(crate) retry_if: OfResult<'a, T, E, bool>,
    pub(crate) backoff: Option<Box<dyn FnMut(u32) -> Duration + Send + 'a>>,
    pub(crate) on_retry: OnRetry<'a, E>,
    pub(crate) on_denied: OnDenied<'a, E>,
    pub(crate) fallback: Fallback<'a, T, E>,
}

impl<T: 'static, E: 'static> Options<'_, T, E> {
    pub(crate) fn new() -> Self {
        Self {
            operation: None,
            idempotent: false,
            usual: classify::usual,
            classify: None,
            retry_if: None,
            backoff: None,
            on_retry: None,
            on_denied: None,
            fallback: None,
        }
    }
}

pub(crate) struct Caller<'a, F, T, E> {
    attempt: F,
    options: Options<'a, T, E>,
    key: Key,
    clock: Clock,
    rules: Arc<Rules>,
    /// Lends where nobody handed us a credit: the chain begins here. What became of a loan no closure tells.
    edge: Credit,
}

/// A result, and the status it was classified with.
type Kept<T, E> = (Result<T, E>, Option<u16>);

impl<'a, F, T, E> Caller<'a, F, T, E> {
    pub(crate) fn new(
        attempt: F,
        options: Options<'a, T, E>,
        key: Key,
        guard: &Guard<Owned>,
    ) -> Self {
        let (clock, rules) = (guard.upstream().clock().clone(), Arc::clone(guard.terms().rules()));
        let edge = Credit::new(Role::Auto, rules.policy.attempts(), None);
        Self { attempt, options, key, clock, rules, edge }
    }

    /// What the caller of the library gets.
    pub(crate) fn finish(
        &mut self,
        done: Done<Result<T, E>, Kept<T, E>>,
        name: &str,
    ) -> Result<Answer<T>, CallError<T, E>> {
        let Done { end, outcome, reason, attempts, retry_at, elapsed, .. } = done;
        let cause = match end {
            // The upstream did its work, or at least no attempt will change the reply: theirs to read.
            End::Reply(Ok(value)) if !deserves_another(&outcome) => {
                return Ok(Answer { value, attempts, elapsed, reason });
            }
            End::Reply(result) => cause(result, code(&outcome)),
            End::Kept((result, code)) => cause(result, code),
            End::Refused { earlier: Some((result, code)) } => cause(result, code),
            End::TimedOut { .. } => Cause::TimedOut,
            // Where attempts were made and nothing was kept, they all timed out.
            End::Refused { earlier: None } if attempts > 0 => Cause::TimedOut,
            End::Refused { earlier: None } => Cause::Refused,
        };
        let now = self.clock.now();
        let error = CallError::new(Parts {
            operation: self.options.operation.take().unwrap_or_else(|| name.to_owned()),
            attempts,
            elapsed,
            reason: reason.unwrap_or(Reason::NotRetryable),
            retry_in: retry_at.map(|at| at.since(now)).or(outcome.hint()),
            cause,
        });
        self.denied(&error);
        match &mut self.options.fallback {
            Some(fallback) if error.reason().allows_fallback() => {
                let value = fallback(&error);
                Ok(Answer { value, attempts, elapsed, reason })
            }
            _ => Err(error),
        }
    }

    fn denied(&mut self, error: &CallError<T, E>) {
        let (attempts, reason) = (error.attempts(), error.reason());
        if let Some(on_denied) = &mut self.options.on_denied
            && reason != Reason::NotRetryable
        {
            on_denied(&Denied { attempts, reason, error: error.problem() });
        }
    }
}

fn deserves_another(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(failure) => failure.retryable || failure.told_not_to,
        other => matches!(other, Outcome::Defer { .. }),
    }
}

fn code(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Failed(failure) => failure.code,
        _ => None,
    }
}

fn cause<T, E>(result: Result<T, E>, code: Option<u16>) -> Cause<T, E> {
    match result {
        Ok(reply) => Cause::Reply(reply, code),
        Err(error) => Cause::Error(error),
    }
}

impl<F, Fut, T, E> Sender for Caller<'_, F, T, E>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Reply = Result<T, E>;
    type Kept = Kept<T, E>;
    type Attempt = Fut;
    type Keeping = Ready<Result<Self::Kept, Self::Reply>>;

    fn send(&mut self, attempt: &Try) -> Fut {
        let (number, timeout) = (attempt.number, attempt.timeout());
        let credit = attempt.credit.unwrap_or_else(|| self.edge.lend(false));
        let key = self.key.clone();
        (self.attempt)(Attempt { number, timeout, credit, key })
    }

    fn classify(&mut self, reply: &Self::Reply) -> Outcome {
        let mut outcome = match &mut self.options.classify {
            Some(classify) => classify(reply),
            None => (self.options.usual)(reply, &self.clock, &self.rules.statuses),
        };
        if let (Some(retry_if), Outcome::Failed(failure)) =
            (&mut self.options.retry_if, &mut outcome)
        {
            failure.retryable = retry_if(reply) && !failure.told_not_to;
        }
        outcome
    }

    fn is_repeatable(&self) -> bool {
        self.rules.idempotent || self.options.idempotent || self.key.was_read()
    }

    fn wait(&mut self, failed: &Failed<'_, Self::Reply>) -> Option<Duration> {
        self.options.backoff.as_mut().map(|backoff| backoff(failed.attempt))
    }

    fn keep(&mut self, reply: Self::Reply, outcome: &Outcome, _: Time) -> Self::Keeping {
        ready(Ok((reply, code(outcome))))
    }

    fn tried(&mut self, tried: &Tried, reply: Option<&Self::Reply>) {
        if let (Next::Retry { at }, Some(on_retry)) = (tried.next, &mut self.options.on_retry) {
            let error = match reply {
                Some(Ok(_)) => Problem::Reply(code(&tried.outcome)),
                Some(Err(error)) => Problem::Error(error),
                None => Problem::TimedOut,
            };
            let delay = at.since(tried.ended);
            on_retry(&Retry { attempt: tried.attempt, delay, error });
        }
    }
}
