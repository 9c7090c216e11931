//! Attempt: what a closure may know of the attempt it is to make.
//!
//! **Why.** An upstream can only tell a repeated order from a second one if both carry the same key, and only gives up in
//! time if it is told how long anybody waits. Both are known here, and neither is the closure's to invent.
//!
//! **How.** The closure of a [call](crate::Quell::call) is given one each time it is run, and puts into its request what
//! the upstream understands:
//!
//! ```
//! use quell::{Attempt, Clock, Quell};
//!
//! fn request(attempt: &Attempt) -> http::request::Builder {
//!     http::Request::post("/orders")
//!         .header("idempotency-key", attempt.key()) // the same on every attempt: a promise that it is honoured
//!         .header("quell-attempt", attempt.number())
//!         .header("quell-deadline-ms", attempt.timeout().as_millis() as u64)
//! }
//!
//! let orders = Quell::upstream("orders").clock(Clock::manual()).build()?;
//! let sent = orders.call_blocking(|attempt| request(&attempt).body(())).wait().unwrap();
//! assert_eq!(sent.headers()["quell-attempt"], "1");
//! assert_eq!(sent.headers()["quell-deadline-ms"], "10000");
//! # Ok::<_, quell::Invalid>(())
//! ```

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quell_core::credit::Retries;

use crate::{context::Context, key::idempotency_key};

/// One attempt, handed to the closure that makes it.
///
/// ```
/// use quell::{Clock, Quell};
///
/// let ledger = Quell::upstream("ledger").clock(Clock::manual()).build()?;
/// let mut keys = Vec::new();
/// let booked = ledger.call_blocking(|attempt| {
///     keys.push(attempt.key().to_owned());
///     if attempt.number() < 2 { Err("connection reset") } else { Ok(()) }
/// });
/// assert!(booked.wait().is_ok());
/// assert_eq!(keys[0], keys[1]); // by which the ledger knows that it is the same booking
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone)]
pub struct Attempt {
    pub(crate) number: u32,
    pub(crate) timeout: Duration,
    pub(crate) credit: Retries,
    pub(crate) key: Key,
}

/// One key per call, made when somebody first asks for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Key(Arc<Once>);

#[derive(Debug, Default)]
struct Once {
    key: OnceLock<String>,
    read: AtomicBool,
    /// On whose behalf the call is made.
    context: Option<Context>,
}

impl Key {
    /// One that follows from the request on whose behalf the call is made, if there is one.
    pub(crate) fn here() -> Self {
        Self(Arc::new(Once { context: Context::current(), ..Once::default() }))
    }

    /// One that somebody else has chosen.
    pub(crate) fn given(key: impl Into<String>) -> Self {
        let key = OnceLock::from(key.into());
        Self(Arc::new(Once { key, ..Once::default() }))
    }

    pub(crate) fn was_read(&self) -> bool {
        self.0.read.load(Ordering::Acquire)
    }

    fn read(&self) -> &str {
        self.0.read.store(true, Ordering::Release);
        let brought = || self.0.context.as_ref().and_then(Context::next_key);
        self.0.key.get_or_init(|| brought().unwrap_or_else(idempotency_key))
    }
}

impl Attempt {
    /// Its number within the call; the first is 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// A key, the same on every attempt of this call and on no other call: 32 random hexadecimal digits, the one that the
    /// call was [given](crate::Prepared::key), or one that [follows](crate::context::Context::key) from the key of the
    /// request on whose behalf the call is made. Send it as `idempotency-key`. Reading it is a promise that the
    /// upstream will honour it, and makes the call repeatable.
    pub fn key(&self) -> &str {
        self.key.read()
    }

    /// How long this attempt may take. Async attempts are cut off then; blocking ones have to see to it themselves.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many retries those below may make for this request. Send it as `quell-retry-credit`: it keeps the retries of a
    /// chain a sum. Where the request is not part of one, a chain begins here.
    pub fn credit(&self) -> u16 {
        self.credit.get()
    }
}
