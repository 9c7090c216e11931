//! Keyed: requests with an `Idempotency-Key`, for whoever stands in front of the work.
//!
//! **Why.** A layer inside a service and a gateway in front of one must agree on when two requests are the same, who may go
//! ahead, what is stored and what a repeated request gets; a key that means one thing here and another there protects
//! nobody.
//!
//! **How.** [`carried`] reads the key, [`Whole::read`] the body, and [`Keys::begin`] asks the store: go ahead with what is
//! [`Held`], or give this reply, or refuse. Whoever goes ahead does its [work](Held::work) and [settles](Held::settle) the
//! key by its reply.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use std::sync::Arc;
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use quell::core::idempotency::{Rules, Spec};
//! use quell::http::{Statuses, keyed::{Asked, Begun, Keys}};
//! use quell::store::Memory;
//!
//! let keys = Keys::new(Arc::new(Memory::new()));
//! let rules = Rules::new(Spec::default())?;
//! let (parts, ()) = Request::post("/pay").body(())?.into_parts();
//! let asked = Asked { tenant: None, name: "shop", parts: &parts, key: b"8e03978e40d5", body: b"7 euros", rules };
//!
//! let Begun::Held(held) = keys.begin(asked).await else { panic!() };
//! let paid = held.work(async { Response::new(Full::new(Bytes::from("paid"))) }).await;
//! held.settle(paid, &Statuses::of(&[])).await;
//!
//! let Begun::Replay(again) = keys.begin(asked).await else { panic!() };
//! assert_eq!(again.body(), "paid");
//! assert_eq!(&again.headers()["idempotency-replayed"], "true");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<_, std::io::Error>(())
//! ```

mod digest;
mod held;
mod read;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, request::Parts};
use quell_core::{
    Reason, Rng,
    idempotency::{Owner, Rules},
};

pub use self::{
    digest::{Carried, carried},
    held::{Held, Settled},
    read::{LONGEST, Unread, Whole},
};
use super::whole::Whole as Seconds;
use crate::{
    Clock, key,
    store::{self, Reply, Store},
    sync::Mutex,
};

/// Methods whose keys count where nobody says otherwise. The others are the same twice by themselves, or promise nothing.
pub const METHODS: [Method; 2] = [Method::POST, Method::PATCH];
/// The mark of a reply that was given before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Claims keys in one store, in the name of one process. See the [module](self).
pub struct Keys {
    store: Arc<dyn Store>,
    owner: Owner,
    clock: Clock,
    /// For the spread of `Retry-After`.
    rng: Mutex<Rng>,
}

/// A request that carries a key.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Whose it is: the same key of another tenant is another key.
    pub tenant: Option<&'a [u8]>,
    /// What is protected: two places that share a store and must not share keys have different names.
    pub name: &'a str,
    /// Its method, path and query.
    pub parts: &'a Parts,
    /// See [`carried`].
    pub key: &'a [u8],
    /// All of it.
    pub body: &'a [u8],
    /// How long claims and records live.
    pub rules: Rules,
}

/// What becomes of a request that carries a key.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// It is done now.
    Held(Held),
    /// It was done before: this is the same reply, and says so.
    Replay(Response<Bytes>),
    /// It is not done.
    Refused {
        /// Why.
        reason: Reason,
        /// How long until that may be different, in whole seconds and spread out; `None` is never.
        wait: Option<Duration>,
    },
}

impl Keys {
    /// Claims keys in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let owner = Owner(u128::from(key::seed()) << 64 | u128::from(key::seed()));
        Self { store, owner, clock: Clock::system(), rng: Mutex::new(Rng::new(key::seed())) }
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Asks the store whether the work may begin.
    pub async fn begin(&self, asked: Asked<'_>) -> Begun {
        let Asked { tenant, name, parts, key, body, rules } = asked;
        let request = store::Request {
            key: digest::scope(tenant, name, parts, key),
            owner: self.owner,
            fingerprint: digest::fingerprint(parts, body),
            rules,
        };
        let (reason, wait) = match held::begin(&self.store, &self.clock, request).await {
            Ok(Ok(held)) => return Begun::Held(held),
            Ok(Err(store::Begun::Replay(reply))) => return Begun::Replay(again(&reply)),
            Ok(Err(store::Begun::InFlight { wait })) => {
                // Whoever is at it is usually done long before its lease is over; what is kept for longer has no reply.
                let wait = if wait <= rules.lease() { Duration::ZERO } else { wait };
                (Reason::KeyInFlight, Some(wait))
            }
            Ok(Err(store::Begun::Mismatch)) => (Reason::KeyMismatch, None),
            Ok(Err(store::Begun::Failed | store::Begun::Claimed(_))) => (Reason::KeyInFlight, None),
            Err(_) => (Reason::StoreDown, Some(Duration::ZERO)),
        };
        Begun::Refused { reason, wait: wait.map(|wait| self.spread(wait)) }
    }

    fn spread(&self, wait: Duration) -> Duration {
        Duration::from_secs(Seconds::of(wait).jittered(&mut self.rng.lock()).0)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

fn again(reply: &Reply) -> Response<Bytes> {
    let mut response = Response::new(reply.body().clone());
    *response.status_mut() = reply.status();
    *response.headers_mut() = reply.headers().clone();
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
