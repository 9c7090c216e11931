//! Caller: a closure as a [`Sender`].

use std::time::Duration;

use quell_core::{Outcome, Reason, Time};

use crate::{
    Clock,
    attempt::{Attempt, Key},
    error::{CallError, Cause, Parts, Problem},
    observe::{Next, Tried},
    prepared::Options,
    run::{Done, End, Sender, Try},
    upstream::Sending,
};

/// A retry that is about to be waited for.
#[derive(Debug)]
pub struct Retry<'a, E> {
    /// The attempt that failed; the first is 1.
    pub attempt: u32,
    /// How long until the next one.
    pub delay: Duration,
    /// What went wrong.
    pub error: Problem<'a, E>,
}

pub(crate) struct Caller<'a, F, T, E> {
    attempt: F,
    options: Options<'a, T, E>,
    key: Key,
    clock: &'a Clock,
    /// What the last attempt came to.
    outcome: Outcome,
}

/// A result, and the status it was classified with.
type Kept<T, E> = (Result<T, E>, Option<u16>);

impl<'a, F, T, E> Caller<'a, F, T, E> {
    pub(crate) fn new(attempt: F, options: Options<'a, T, E>, clock: &'a Clock) -> Self {
        Self { attempt, options, key: Key::default(), clock, outcome: Outcome::Abandoned }
    }

    /// What the caller of the library gets.
    pub(crate) fn finish(
        self,
        done: Done<Result<T, E>, Kept<T, E>>,
        name: &str,
    ) -> Result<T, CallError<T, E>> {
        let cause = match done.end {
            // The upstream did its work, or at least no attempt will change the reply: theirs to read.
            End::Reply(Ok(reply)) if !deserves_another(&self.outcome) => return Ok(reply),
            End::Reply(result) => cause(result, code(&self.outcome)),
            End::Kept((result, code)) => cause(result, code),
            End::Refused { earlier: Some((result, code)) } => cause(result, code),
            End::TimedOut { .. } => Cause::TimedOut,
            // Where attempts were made and nothing was kept, they all timed out.
            End::Refused { earlier: None } if done.attempts > 0 => Cause::TimedOut,
            End::Refused { earlier: None } => Cause::Refused,
        };
        let now = self.clock.now();
        Err(CallError::new(Parts {
            operation: self.options.operation.unwrap_or_else(|| name.to_owned()),
            attempts: done.attempts,
            elapsed: done.elapsed,
            reason: done.reason.unwrap_or(Reason::NotRetryable),
            retry_in: done.retry_at.map(|at| at.since(now)),
            cause,
        }))
    }
}

fn deserves_another(outcome: &Outcome) -> bool {
    outcome.is_retryable() || matches!(outcome, Outcome::Defer { .. })
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
    T: 'static,
    E: 'static,
{
    type Reply = Result<T, E>;
    type Kept = Kept<T, E>;

    /// Nobody can see into a closure: once it runs, it may have sent something.
    fn send(&mut self, attempt: Try, sending: Sending<'_>) -> impl Future<Output = Self::Reply> {
        sending.mark_sent();
        let timeout = attempt.timeout_at.since(attempt.started);
        (self.attempt)(Attempt { number: attempt.number, timeout, key: self.key.clone() })
    }

    fn classify(&mut self, reply: &Self::Reply) -> Outcome {
        self.options.outcome(reply, self.clock)
    }

    fn is_repeatable(&self) -> bool {
        self.options.idempotent || self.key.was_read()
    }

    async fn keep(&mut self, reply: Self::Reply, _: Time) -> Result<Self::Kept, Self::Reply> {
        Ok((reply, code(&self.outcome)))
    }

    fn tried(&mut self, tried: &Tried, reply: Option<&Self::Reply>) {
        self.outcome = tried.outcome;
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
