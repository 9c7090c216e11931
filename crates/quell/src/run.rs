//! Run: the one loop that every host inside a process uses.
//!
//! **Why.** The core decides; somebody has to do what it says: send, wait, queue, keep the failed reply, hand
//! back what happened. A function call and a proxied request differ in how they send and in what a reply is,
//! and in nothing else. So the loop is here once, and the difference is a [`Sender`].
//!
//! **How.** [`drive`] takes a [`Guard`] and a sender and runs the call to its end. Dropping it at any await gives
//! everything back, because the guard does. Threads without a runtime use [`drive_blocking`]: the same loop,
//! whose waits block.
//!
//! ```
//! use quell::{Clock, Upstream, run::{self, End, Sender, Try}, upstream::{Host, Sending}};
//! use quell::core::{Failure, Fault, Outcome, Policy, spec::{PolicySpec, UpstreamSpec}};
//!
//! /// Fails twice, then gives the number of the attempt.
//! struct Flaky;
//!
//! impl Sender for Flaky {
//!     type Reply = Result<u32, u16>;
//!     type Kept = Self::Reply;
//!     async fn send(&mut self, attempt: Try, sending: Sending<'_>) -> Self::Reply {
//!         sending.mark_sent();
//!         if attempt.number < 3 { Err(503) } else { Ok(attempt.number) }
//!     }
//!     fn classify(&mut self, reply: &Self::Reply) -> Outcome {
//!         match reply {
//!             Ok(_) => Outcome::Success,
//!             Err(code) => Outcome::Failed(Failure::of(Fault::Server).with_code(*code)),
//!         }
//!     }
//!     fn is_repeatable(&self) -> bool { true }
//!     async fn keep(&mut self, reply: Self::Reply, _: quell::core::Time) -> Result<Self::Kept, Self::Reply> {
//!         Ok(reply)
//!     }
//! }
//!
//! let policy = Policy::new(PolicySpec::library())?;
//! let host = Host { clock: Clock::manual(), ..Host::default() };
//! let upstream = Upstream::new("flaky", UpstreamSpec::library(), policy.per_try(), host)?;
//! let guard = upstream.begin(&policy);
//! let done = run::drive_blocking(guard, &mut Flaky);
//! assert!(matches!(done.end, End::Reply(Ok(3))));
//! # Ok::<_, quell::core::spec::Invalid>(())
//! ```

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quell_core::{Answer, Failure, Fault, Finish, Input, Outcome, Reason, Send, Step, Time};

use crate::{
    observe::{Event, Next, Tried},
    upstream::{Guard, Sending},
};

/// An attempt that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Try {
    /// Its number within the call; the first is 1.
    pub number: u32,
    /// Which endpoint to send to.
    pub endpoint: u16,
    /// When it was let go.
    pub started: Time,
    /// When it will be cut off.
    pub timeout_at: Time,
}

/// Makes attempts, and knows what came of them.
#[allow(async_fn_in_trait, reason = "whether the futures are `Send` is for the sender to say")]
pub trait Sender {
    /// What one attempt gives: usually a result, of which both sides count as a reply here.
    type Reply;
    /// A failed reply in the form in which it is kept while the call sleeps.
    type Kept;

    /// Makes one attempt up to the response head. Says by `sending` when the first byte goes out: an attempt that is
    /// cut off before holds nothing, one that is cut off after leaves a ghost. At its timeout it is dropped.
    fn send(&mut self, attempt: Try, sending: Sending<'_>) -> impl Future<Output = Self::Reply>;

    /// What an attempt came to.
    fn classify(&mut self, reply: &Self::Reply) -> Outcome;

    /// Whether the request may reach the upstream twice; asked when an attempt has ended.
    fn is_repeatable(&self) -> bool;

    /// Whether the request can be sent again in full; asked when an attempt has ended.
    fn is_replayable(&self) -> bool {
        true
    }

    /// Makes a failed reply ready to be kept while the call sleeps; its slot is already free. What cannot be kept, for
    /// its length or because it is not all there by then, is handed back, and the call ends with it.
    fn keep(
        &mut self,
        reply: Self::Reply,
        by: Time,
    ) -> impl Future<Output = Result<Self::Kept, Self::Reply>>;

    /// An attempt has ended and it is known what follows. `reply` is what it gave, if it gave anything.
    fn tried(&mut self, tried: &Tried, reply: Option<&Self::Reply>) {
        let _ = (tried, reply);
    }
}

/// How a call ended.
#[derive(Debug)]
pub struct Done<R, K> {
    /// What the caller gets.
    pub end: End<R, K>,
    /// Why there was no further attempt; `None` after a success.
    pub reason: Option<Reason>,
    /// How many attempts were made.
    pub attempts: u32,
    /// When the caller may come back, if it was refused.
    pub retry_at: Option<Time>,
    /// From the caller's arrival to the end.
    pub elapsed: Duration,
}

/// What a caller gets in the end.
#[derive(Debug)]
pub enum End<R, K> {
    /// What the last attempt gave.
    Reply(R),
    /// A reply with a status by an earlier attempt: what came later gave none.
    Kept(K),
    /// The last attempt ran into its timeout, and no attempt ever got a reply with a status.
    TimedOut {
        /// What the latest attempt that gave anything gave.
        earlier: Option<K>,
    },
    /// Our own refusal, and no attempt ever got a reply with a status.
    Refused {
        /// What the latest attempt that gave anything gave.
        earlier: Option<K>,
    },
}

/// Runs a call to its end.
pub async fn drive<S: Sender>(guard: Guard<'_>, sender: &mut S) -> Done<S::Reply, S::Kept> {
    Loop { guard, sender, waits: Waits::Async, last: None, kept: Kept::None }.run().await
}

/// Runs a call to its end on a thread that may block. An attempt cannot be cut off by its timeout, so the sender
/// has to keep it. The sender's futures must be ready at once.
pub fn drive_blocking<S: Sender>(guard: Guard<'_>, sender: &mut S) -> Done<S::Reply, S::Kept> {
    let run = Loop { guard, sender, waits: Waits::Blocking, last: None, kept: Kept::None }.run();
    match pin!(run).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a blocking sender's futures must be ready at once"),
    }
}

#[derive(Clone, Copy)]
enum Waits {
    Async,
    Blocking,
}

enum Kept<K> {
    None,
    /// With a status: a reply that a caller can be given.
    Reply(K),
    /// Without: good only to say what went wrong.
    Error(K),
}

struct Loop<'a, S: Sender> {
    guard: Guard<'a>,
    sender: &'a mut S,
    waits: Waits,
    last: Option<S::Reply>,
    kept: Kept<S::Kept>,
}

impl<S: Sender> Loop<'_, S> {
    async fn run(mut self) -> Done<S::Reply, S::Kept> {
        let mut step = self.guard.step(Input::Start);
        // The last attempt: when it may take until, and whether its reply had a status.
        let (mut timeout_at, mut coded) = (Time::MAX, false);
        loop {
            step = match step {
                Step::Send(send) => {
                    timeout_at = send.timeout_at;
                    let (outcome, next) = self.attempt(send).await;
                    coded = matches!(outcome, Outcome::Failed(Failure { code: Some(_), .. }));
                    next
                }
                Step::Enqueue { .. } => match self.waits {
                    Waits::Async => self.guard.queue().await,
                    Waits::Blocking => self.guard.queue_blocking(),
                },
                Step::Sleep { until } => {
                    let happened = if self.keep(coded, timeout_at).await {
                        self.sleep_until(until).await;
                        Input::Woke
                    } else {
                        Input::NotKept
                    };
                    self.guard.step(happened)
                }
                Step::Finish(finish) => return self.done(finish),
                // One attempt is open at a time, so there is none to go on waiting for.
                Step::Await => self.guard.step(Input::Woke),
            };
        }
    }

    async fn attempt(&mut self, send: Send) -> (Outcome, Step) {
        let Send { slot, attempt: number, endpoint, timeout_at, .. } = send;
        let started = self.guard.now();
        let attempt = Try { number, endpoint, started, timeout_at };
        let sending = self.sender.send(attempt, self.guard.sending());
        self.last = match self.waits {
            Waits::Async => self.guard.upstream().clock().timeout_at(timeout_at, sending).await,
            Waits::Blocking => Some(sending.await),
        };
        let (outcome, input) = match &self.last {
            Some(reply) => {
                let outcome = self.sender.classify(reply);
                (outcome, Input::Ended { slot, outcome })
            }
            None => (Outcome::Failed(Failure::of(Fault::Timeout)), Input::TimedOut { slot }),
        };
        self.guard.call().set_repeatable(self.sender.is_repeatable());
        self.guard.call().set_replayable(self.sender.is_replayable());
        let step = self.guard.step(input);
        let next = match &step {
            Step::Sleep { until } => Next::Retry { at: *until },
            Step::Finish(finish) => Next::Stop(finish.reason),
            _ => Next::Stop(None),
        };
        let ended = self.guard.now();
        let tried = Tried { attempt: number, endpoint, started, ended, outcome, next };
        self.sender.tried(&tried, self.last.as_ref());
        self.guard.upstream().tell(&Event::Tried(&tried));
        (outcome, step)
    }

    /// False if the reply cannot be kept, and has to be given to the caller now.
    async fn keep(&mut self, coded: bool, by: Time) -> bool {
        let Some(reply) = self.last.take() else { return true };
        if !coded && matches!(self.kept, Kept::Reply(_)) {
            return true; // a real reply is worth more than a later error
        }
        match self.sender.keep(reply, by).await {
            Ok(kept) if coded => self.kept = Kept::Reply(kept),
            Ok(kept) => self.kept = Kept::Error(kept),
            Err(reply) => {
                self.last = Some(reply);
                return false;
            }
        }
        true
    }

    async fn sleep_until(&mut self, until: Time) {
        let clock = self.guard.upstream().clock();
        match self.waits {
            Waits::Async => clock.sleep_until(until).await,
            Waits::Blocking => clock.sleep_until_blocking(until),
        }
    }

    fn done(self, finish: Finish) -> Done<S::Reply, S::Kept> {
        let end = match (finish.answer, self.last, self.kept) {
            (Answer::This, Some(reply), _) => End::Reply(reply),
            (Answer::Kept, _, Kept::Reply(kept)) => End::Kept(kept),
            (answer, _, kept) => {
                let earlier = match kept {
                    Kept::None => None,
                    Kept::Reply(kept) | Kept::Error(kept) => Some(kept),
                };
                match answer {
                    Answer::This => End::TimedOut { earlier },
                    Answer::Kept | Answer::Refusal => End::Refused { earlier },
                }
            }
        };
        Done {
            end,
            reason: finish.reason,
            attempts: finish.attempts,
            retry_at: finish.retry_at,
            elapsed: self.guard.now().since(self.guard.since()),
        }
    }
}
