//! Store: where idempotency keys and the replies to them are remembered.
//!
//! **Why.** "The same request twice has its effect once" is only as good as the place where the first one is
//! remembered. Some services need no more than their own memory, some a database that a fleet shares. What must not
//! differ are the decisions: who may go ahead, who waits, who gets the stored reply.
//!
//! **How.** A [`Store`] has four verbs. [`Store::begin`] claims a key or says why not, [`Store::complete`] ends a claim for
//! good, [`Store::abandon`] frees the key for another try, and [`Store::renew`] is said while the work takes longer than
//! its lease. Every decision is made by [`quell_core::idempotency`]; a store reads the record, runs one of its functions
//! and writes the outcome in one atomic step. A store that cannot do that is [`Down`], and whoever asked goes no
//! further: without an answer there is no telling whether the work was done before.
//!
//! ```
//! use quell::core::idempotency::{Fingerprint, Owner, Rules, Spec};
//! use quell::{Clock, store::{Begun, Ended, Key, Memory, Reply, Request, Store}};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let store = Memory::new();
//! let request = Request {
//!     key: Key([1; 32]),                     // a digest of tenant, route, method, path and the caller's key
//!     owner: Owner(7),                       // drawn when the process starts
//!     fingerprint: Fingerprint([2; 32]),     // a digest of the payload
//!     rules: Rules::new(Spec::default())?,
//! };
//! let Begun::Claimed(claim) = store.begin(&request).await? else { panic!() };
//! assert!(matches!(store.begin(&request).await?, Begun::InFlight { .. }));
//!
//! let reply = Reply::new(http::StatusCode::CREATED, &http::HeaderMap::new(), "paid".into());
//! store.complete(&claim, Ended::Stored(reply.clone())).await?;
//! let Begun::Replay(again) = store.begin(&request).await? else { panic!() };
//! assert_eq!(again, reply);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<_, std::io::Error>(())
//! ```

mod memory;
mod open;

use std::{error::Error, fmt, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
pub use memory::{Memory, Usage};
pub use open::{Kind, NotKind, NotOpened, open};
use quell_core::idempotency::{Ending, Fence, Fingerprint, Owner, Rules, Stale, may_store};

/// What a verb of a [`Store`] gives: a future behind a pointer, so that the store can be chosen when the program runs.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A place that remembers keys. See the [module](self), also for an example.
///
/// The futures may be dropped at any moment: a verb then either took place as a whole or not at all.
pub trait Store: Send + Sync {
    /// Claims the key, or says why not.
    fn begin<'a>(&'a self, request: &'a Request) -> Answer<'a, Result<Begun, Down>>;

    /// The work is done, for good. Said twice, the first word stands.
    fn complete<'a>(&'a self, claim: &'a Claim, ended: Ended) -> Answer<'a, Result<(), Unsettled>>;

    /// The work failed in a way that may be retried: the key is free again.
    fn abandon<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Result<(), Unsettled>>;

    /// The work goes on: the lease begins anew.
    fn renew<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Result<(), Unsettled>>;
}

/// Under what a request is remembered: a digest of all that makes two requests the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 32]);

/// A request that carries a key and wants to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Under what it is remembered.
    pub key: Key,
    /// Who asks.
    pub owner: Owner,
    /// Of its payload: the same key with another payload is a mistake.
    pub fingerprint: Fingerprint,
    /// How long claims and records live.
    pub rules: Rules,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Begun {
    /// Go ahead, and end the claim.
    Claimed(Claim),
    /// It was done before: this is what it came to.
    Replay(Reply),
    /// It was done before and failed for good, without a reply.
    Failed,
    /// Somebody is at it, or was and its reply is gone: never a second run.
    InFlight {
        /// How long until that may be different.
        wait: Duration,
    },
    /// The key was used with another payload.
    Mismatch,
}

/// The right to do the work of one key. It ends in [`Store::complete`] or [`Store::abandon`], or by itself when its
/// lease runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a claim that is not ended keeps everybody else waiting until its lease runs out"]
pub struct Claim {
    /// On what.
    pub key: Key,
    /// Whose.
    pub owner: Owner,
    /// Which of the key's claims this is.
    pub fence: Fence,
    /// How long it lives.
    pub rules: Rules,
}

/// How the work on a key ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With a reply that whoever asks again will get.
    Stored(Reply),
    /// With a reply that is too long to be kept, or went by as a stream.
    Unstored {
        /// Its status.
        status: StatusCode,
    },
    /// It failed for good, without a reply.
    Failed,
}

impl Ended {
    /// The same as the record knows it.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Stored(reply) => Ending::Stored { status: reply.status.as_u16() },
            Self::Unstored { status } => Ending::Unstored { status: status.as_u16() },
            Self::Failed => Ending::Failed,
        }
    }
}

/// A reply as it is kept and given again: the same status and the same bytes.
///
/// ```
/// use http::{HeaderMap, HeaderValue, StatusCode};
/// use quell::store::Reply;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("content-type", HeaderValue::from_static("text/plain"));
/// headers.insert("set-cookie", HeaderValue::from_static("session=secret"));
/// let reply = Reply::new(StatusCode::OK, &headers, "paid".into());
/// assert_eq!(reply.headers().len(), 1); // what belongs to one caller is not kept for another
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    /// Keeps the header fields that [may be stored](may_store) and drops those of one caller or connection.
    pub fn new(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Self {
        let kept = headers.iter().filter(|(name, _)| may_store(name.as_str()));
        let headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { status, headers, body }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its header fields that were kept.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Its body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// What it takes up, in bytes.
    pub fn size(&self) -> usize {
        let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len()
        };
        self.body.len() + self.headers.iter().map(field).sum::<usize>()
    }
}

impl fmt::Debug for Reply {
    /// Without header fields and body, which are nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, headers: _, body } = self;
        f.debug_struct("Reply").field("status", status).field("length", &body.len()).finish()
    }
}

/// The store cannot answer, or has no room left. Nobody may go ahead on a guess: refuse with
/// [`Reason::StoreDown`](quell_core::Reason::StoreDown).
///
/// ```
/// let down = quell::store::Down::new("connection refused");
/// assert_eq!(down.to_string(), "the store cannot answer: connection refused");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the store cannot answer: {0}")]
pub struct Down(#[source] Box<dyn Error + Send + Sync>);

impl Down {
    /// The store is down for this cause.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// Why a claim was not ended or renewed.
#[derive(Debug, thiserror::Error)]
pub enum Unsettled {
    /// It was not the claimant's any more, and nothing was changed.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The store could not be asked.
    #[error(transparent)]
    Down(#[from] Down),
}
