//! Run: the one loop that every host inside a process uses.
//!
//! **Why.** The core decides; somebody has to do what it says: send, wait, queue, keep the failed reply, hand
//! back what happened. A function call, a tower service and a proxied request differ in how they send and in what a
//! reply is, and in nothing else. So the loop is here once, and the difference is a [`Sender`].
//!
//! **How.** [`Drive`] is a future that takes a [`Guard`] and a sender and runs the call to its end. Dropping it at any
//! moment gives everything back, because the guard does. Threads without a runtime use [`drive_blocking`]: the same
//! loop, whose waits block. It allocates nothing for an attempt that succeeds; a hedge, which is rare, gets a box.
//!
//! ```
//! use std::future::{Ready, ready};
//! use quell::{Clock, Upstream, run::{self, End, Sender, Try}, upstream::Host};
//! use quell::core::{Failure, Fault, Outcome, Policy, Time, spec::{PolicySpec, UpstreamSpec}};
//!
//! /// Fails twice, then gives the number of the attempt.
//! struct Flaky;
//!
//! impl Sender for Flaky {
//!     type Reply = Result<u32, u16>;
//!     type Kept = Self::Reply;
//!     type Attempt = Ready<Self::Reply>;
//!     type Keeping = Ready<Result<Self::Kept, Self::Reply>>;
//!     fn send(&mut self, attempt: &Try) -> Self::Attempt {
//!         ready(if attempt.number < 3 { Err(503) } else { Ok(attempt.number) })
//!     }
//!     fn classify(&mut self, reply: &Self::Reply) -> Outcome {
//!         match reply {
//!             Ok(_) => Outcome::Success,
//!             Err(code) => Outcome::Failed(Failure::of(Fault::Server).with_code(*code)),
//!         }
//!     }
//!     fn is_repeatable(&self) -> bool { true }
//!     fn keep(&mut self, reply: Self::Reply, _: &Outcome, _: Time) -> Self::Keeping {
//!         ready(Ok(reply))
//!     }
//! }
//!
//! let policy = Policy::new(PolicySpec::library())?;
//! let host = Host { clock: Clock::manual(), ..Host::default() };
//! let upstream = Upstream::new("flaky", UpstreamSpec::library(), policy.per_try(), host)?;
//! let guard = upstream.begin(&policy);
//! let done = run::drive_blocking(guard, Flaky);
//! assert!(matches!(done.end, End::Reply(Ok(3))));
//! # Ok::<_, quell::core::spec::Invalid>(())
//! ```

mod drive;

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quell_core::{
    Outcome, Reason, Time,
    credit::{Credit, Retries, Sends},
};

pub use drive::Drive;

use crate::{
    observe::Tried,
    upstream::{Guard, Terms},
};

/// An attempt that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Try {
    /// Its number within the call; the first is 1.
    pub number: u32,
    /// Which endpoint to send to.
    pub endpoint: u16,
    /// How long it waited for a slot before.
    pub queued: Duration,
    /// When it was let go.
    pub started: Time,
    /// When it will be cut off.
    pub timeout_at: Time,
    /// Retries that those below may make, if the call is part of a chain.
    pub credit: Option<Retries>,
}

impl Try {
    /// How long it may take.
    pub fn timeout(&self) -> Duration {
        self.timeout_at.since(self.started)
    }
}

/// How far a caller is with giving a request whose attempt is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// All was given at this time, or what was given is not taken: from then on the upstream is waited for.
    All(Time),
    /// It comes, and is taken.
    Flowing,
    /// The caller is waited for, and gives nothing.
    Stalled,
}

/// Makes attempts, and knows what came of them.
pub trait Sender {
    /// What one attempt gives: usually a result, of which both sides count as a reply here.
    type Reply;
    /// A failed reply in the form in which it is kept while the call sleeps.
    type Kept;
    /// An attempt under way, up to the response head. At its timeout it is dropped.
    type Attempt: Future<Output = Self::Reply>;
    /// A failed reply that is being made ready.
    type Keeping: Future<Output = Result<Self::Kept, Self::Reply>>;

    /// Makes one attempt.
    fn send(&mut self, attempt: &Try) -> Self::Attempt;

    /// Whether the first byte of an attempt went out: one that is cut off before holds nothing, one that is cut off after
    /// leaves a ghost. Nobody can see into most futures, so unless somebody knows better it did.
    fn is_sent(&self, attempt: &Self::Attempt) -> bool {
        let _ = attempt;
        true
    }

    /// How far the caller is with the request, asked when an attempt's time seems to be over: what a caller takes to give it
    /// is not the upstream's fault.
    fn given(&self, attempt: &Self::Attempt) -> Given {
        let _ = attempt;
        Given::All(Time::ZERO)
    }

    /// Whether the upstream was handed all of the request, or can be at once: until then an attempt holds no slot, for it is no
    /// work yet. Asked before each attempt, and whenever one under way was looked at that had not got all of it.
    fn is_given(&self) -> bool {
        true
    }

    /// What an attempt came to.
    fn classify(&mut self, reply: &Self::Reply) -> Outcome;

    /// Whether the request may reach the upstream twice; asked when an attempt has failed, or takes long.
    fn is_repeatable(&self) -> bool;

    /// Whether the request can be sent again in full; asked at the same time.
    fn is_replayable(&self) -> bool {
        true
    }

    /// Whether a second attempt can be made beside the first, without taking anything from it; asked when the first takes
    /// long.
    fn is_whole(&self) -> bool {
        self.is_replayable()
    }

    /// What the reply told of the chain below: how many sends it took, and what credit it hands back.
    fn told(&self, reply: &Self::Reply) -> Option<(Sends, Retries)> {
        let _ = reply;
        None
    }

    /// How long to wait before the next attempt, in place of the policy's backoff; asked when an attempt has failed.
    fn wait(&mut self, failed: &Failed<'_, Self::Reply>) -> Option<Duration> {
        let _ = failed;
        None
    }

    /// Makes a failed reply ready to be kept while the call sleeps; its slot is already free. What cannot be kept, for
    /// its length or because it is not all there by then, is handed back, and the call ends with it.
    fn keep(&mut self, reply: Self::Reply, outcome: &Outcome, by: Time) -> Self::Keeping;

    /// An attempt has ended and it is known what follows, or nobody waits for it any more. `reply` is what it gave, if it
    /// gave anything.
    fn tried(&mut self, tried: &Tried, reply: Option<&Self::Reply>) {
        let _ = (tried, reply);
    }
}

/// For whoever wants the sender back.
impl<S: Sender> Sender for &mut S {
    type Reply = S::Reply;
    type Kept = S::Kept;
    type Attempt = S::Attempt;
    type Keeping = S::Keeping;

    fn send(&mut self, attempt: &Try) -> Self::Attempt {
        (**self).send(attempt)
    }

    fn is_sent(&self, attempt: &Self::Attempt) -> bool {
        (**self).is_sent(attempt)
    }

    fn given(&self, attempt: &Self::Attempt) -> Given {
        (**self).given(attempt)
    }

    fn is_given(&self) -> bool {
        (**self).is_given()
    }

    fn classify(&mut self, reply: &Self::Reply) -> Outcome {
        (**self).classify(reply)
    }

    fn is_repeatable(&self) -> bool {
        (**self).is_repeatable()
    }

    fn is_replayable(&self) -> bool {
        (**self).is_replayable()
    }

    fn is_whole(&self) -> bool {
        (**self).is_whole()
    }

    fn told(&self, reply: &Self::Reply) -> Option<(Sends, Retries)> {
        (**self).told(reply)
    }

    fn wait(&mut self, failed: &Failed<'_, Self::Reply>) -> Option<Duration> {
        (**self).wait(failed)
    }

    fn keep(&mut self, reply: Self::Reply, outcome: &Outcome, by: Time) -> Self::Keeping {
        (**self).keep(reply, outcome, by)
    }

    fn tried(&mut self, tried: &Tried, reply: Option<&Self::Reply>) {
        (**self).tried(tried, reply);
    }
}

/// An attempt that failed, before it is known what follows.
#[derive(Debug)]
pub struct Failed<'a, R> {
    /// Its number within the call; the first is 1.
    pub attempt: u32,
    /// What it came to.
    pub outcome: &'a Outcome,
    /// What it gave; nothing if it ran into its timeout.
    pub reply: Option<&'a R>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Done<R, K> {
    /// What the caller gets.
    pub end: End<R, K>,
    /// What the last attempt that gave a reply came to, or how it failed to give one.
    pub outcome: Outcome,
    /// Why there was no further attempt; `None` after a success.
    pub reason: Option<Reason>,
    /// How many attempts were made.
    pub attempts: u32,
    /// When the caller may come back, if it was refused.
    pub retry_at: Option<Time>,
    /// From the caller's arrival to the end.
    pub elapsed: Duration,
    /// What is left of the chain's credit, if the call was part of one.
    pub credit: Option<Credit>,
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

/// Runs a call to its end. Nothing is done before it is polled.
pub fn drive<T: Terms, S: Sender>(guard: Guard<T>, sender: S) -> Drive<T, S> {
    Drive::new(guard, sender, Waits::Async)
}

/// Runs a call to its end on a thread that may block. An attempt cannot be cut off by its timeout, so the sender
/// has to keep it. The sender's futures must be ready at once.
pub fn drive_blocking<T: Terms, S: Sender>(guard: Guard<T>, sender: S) -> Done<S::Reply, S::Kept> {
    let run = pin!(Drive::new(guard, sender, Waits::Blocking));
    match run.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a blocking sender's futures must be ready at once"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Async,
    Blocking,
}
