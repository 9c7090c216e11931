//! Protocol: how requests of a kind are repeated, and what their replies mean.

use std::{future::Future, time::Duration};

use ::http::{HeaderMap, Method};
use quell_core::{
    Outcome, Reason, Time,
    credit::{Retries, Sends},
};

use crate::{
    Clock, Rules, Upstream,
    http::{Shape, credential},
    run::Try,
};

/// The way out: how a request of this kind is sent more than once.
///
/// [`Plain`](super::Plain), [`Once`](super::Once) and [`Http`](super::Http) are what most services need. A protocol of
/// one's own can say which of its requests may be repeated:
///
/// ```
/// use std::future::{Ready, ready};
/// use quell::{Clock, Failure, Fault, Outcome, Quell, Rules, core::Time, run::Try};
/// use quell::tower::{Inbound, Outbound, QuellLayer};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// #[derive(Clone, Copy)]
/// enum Command { Get, Add }
///
/// #[derive(Clone)]
/// struct Cache;
///
/// impl Outbound<Command> for Cache {
///     type Source = Command;
///     type Outgoing = Command;
///     fn source(&self, command: Command, _: &Rules) -> Command { command }
///     fn next(&self, command: &mut Command, _: &Try) -> Option<Command> { Some(*command) }
///     fn is_repeatable(&self, command: &Command) -> bool { matches!(command, Command::Get) }
///     fn is_replayable(&self, _: &Command) -> bool { true }
/// }
///
/// impl Inbound<u32, String> for Cache {
///     type Answer = u32;
///     type Keeping = Ready<Result<Result<u32, String>, Result<u32, String>>>;
///     fn answer(&self, reply: u32) -> u32 { reply }
///     fn classify(&self, result: &Result<u32, String>, _: &Clock, _: &Rules) -> Outcome {
///         if result.is_ok() { Outcome::Success } else { Outcome::Failed(Failure::of(Fault::Server)) }
///     }
///     fn keep(&self, result: Result<u32, String>, _: &Clock, _: Time) -> Self::Keeping { ready(Ok(result)) }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let quell = Quell::upstream("cache").clock(Clock::tokio()).build()?;
/// let down = service_fn(async |_: Command| Err::<u32, _>("connection reset".to_owned()));
/// let cache = QuellLayer::with(quell, Cache).layer(down);
/// assert_eq!(cache.clone().oneshot(Command::Get).await.unwrap_err().attempts(), 3);
/// assert_eq!(cache.oneshot(Command::Add).await.unwrap_err().attempts(), 1); // it may have been added
/// # Ok::<_, quell::Invalid>(())
/// # }).unwrap();
/// # Ok::<_, std::io::Error>(())
/// ```
pub trait Outbound<Req>: Clone {
    /// A call's request, from which every attempt takes its own.
    type Source;
    /// What goes to the service below.
    type Outgoing;

    /// What is known of a request before its call asks to be admitted: which [kind](crate::classes) it is of, above all.
    fn about(&self, request: &Req, upstream: &Upstream) -> About {
        let _ = (request, upstream);
        About::default()
    }

    /// A call begins.
    fn source(&self, request: Req, rules: &Rules) -> Self::Source;

    /// The request of the next attempt; `None` if there is nothing left to send, and then the call ends. Whether another
    /// follows nobody knows yet: an attempt that is deferred is made again even if it was to be the last.
    fn next(&self, source: &mut Self::Source, attempt: &Try) -> Option<Self::Outgoing>;

    /// Whether the request may reach the upstream twice, where the rules do not say that all may.
    fn is_repeatable(&self, source: &Self::Source) -> bool;

    /// Whether the request can be sent again in full.
    fn is_replayable(&self, source: &Self::Source) -> bool;

    /// Whether a second attempt can be made beside the first, without taking anything from it: a body that is still on its
    /// way can be read by one of them only.
    fn is_whole(&self, source: &Self::Source) -> bool {
        self.is_replayable(source)
    }

    /// Whether the request itself broke off, so that an error is its sender's and not the upstream's.
    fn is_broken(&self, source: &Self::Source) -> bool {
        let _ = source;
        false
    }

    /// Whether requests tell the hops below how often they may retry. Then the call has a credit.
    fn is_chained(&self) -> bool {
        false
    }
}

/// What is known of a request before it is sent; 0 is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct About {
    /// Of which kind it is: what [`Upstream::class`] gave.
    pub class: u64,
    /// Which credential the upstream sees: see [`http::credential`](crate::http::credential).
    pub credential: u64,
}

impl About {
    /// An HTTP request: by the shape of its path, and the credential in its fields.
    pub fn http(method: &Method, path: &str, headers: &HeaderMap, upstream: &Upstream) -> Self {
        let shape = Shape::new(method, path);
        let class = upstream.class(shape.key(0), || shape.to_string());
        Self { class, credential: credential(headers) }
    }
}

/// The way back: what a reply of this kind means, and how it is kept while a call sleeps. [`Outbound`] has an example of both.
pub trait Inbound<Res, Err>: Clone {
    /// What the caller gets for a reply of the service below.
    type Answer;
    /// A failed reply that is being made ready to be kept.
    type Keeping: Future<Output = Result<Result<Self::Answer, Err>, Result<Self::Answer, Err>>>;

    /// A reply came.
    fn answer(&self, reply: Res) -> Self::Answer;

    /// What an attempt with this result came to.
    fn classify(&self, result: &Result<Self::Answer, Err>, clock: &Clock, rules: &Rules)
    -> Outcome;

    /// What the reply told of the chain below: how many sends it took, and what credit it hands back.
    fn told(&self, answer: &Self::Answer) -> Option<(Sends, Retries)> {
        let _ = answer;
        None
    }

    /// Makes a failed reply ready to be kept. What cannot be, for its length or because it is not all there by then, comes
    /// back as an error, and the call ends with it.
    fn keep(&self, result: Result<Self::Answer, Err>, clock: &Clock, by: Time) -> Self::Keeping;

    /// The call ends with this reply after more than one attempt, or with a failure: what it took, for whoever reads it.
    fn mark(&self, answer: &mut Self::Answer, ended: Ended) {
        let _ = (answer, ended);
    }

    /// A reply that stands in for a failure, where the reason [allows](Reason::allows_fallback) one: in place of a reply
    /// that counts as a failure, too.
    fn stand_in(&self, refused: &Refused) -> Option<Self::Answer> {
        let _ = refused;
        None
    }

    /// A reply of our own where there is none to give, for protocols in which a refusal is a reply; otherwise the call
    /// ends in an error.
    fn refuse(&self, refused: &Refused) -> Option<Self::Answer> {
        let _ = refused;
        None
    }
}

/// What it took to get a reply: [`Http`](super::Http) puts it into the reply's extensions, unless the first attempt
/// succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How many attempts were made.
    pub attempts: u32,
    /// Why there was no further one; `None` after a success.
    pub reason: Option<Reason>,
    /// From the call's first moment to its end.
    pub elapsed: Duration,
}

/// A call without a reply to give, or without a good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Why there was no (further) attempt.
    pub reason: Reason,
    /// How many attempts were made.
    pub attempts: u32,
    /// When it may make sense to come back.
    pub retry_in: Option<Duration>,
}
