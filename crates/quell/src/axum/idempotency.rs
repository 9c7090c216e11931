//! Idempotency: the same request twice has its effect once.
//!
//! **Why.** A caller who got no answer must ask again, and cannot know whether the first time counted. If it sends the same
//! `Idempotency-Key` both times, the second gets the first one's reply, and the payment is made once.
//!
//! **How.** [`Idempotency::new`] takes the name of what it protects and a [`Store`]; it is a layer for a router or a route. A keyed
//! request is read whole, claimed and handed to the handler; the reply is stored before it is given. Two requests are the
//! same if tenant, name, method, path and key are; then query and body must be too.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use axum::{Router, routing::post};
//! use quell::{axum::Idempotency, store::Memory};
//!
//! let keys = Idempotency::new("payments", Arc::new(Memory::new()))
//!     .required(true)
//!     .tenant(|parts| parts.headers.get("x-tenant").cloned())
//!     .ttl(Duration::from_secs(48 * 3_600))
//!     .build()?;
//! let app: Router = Router::new().route("/pay", post(|| async { "paid" })).layer(keys);
//! # Ok::<_, quell::axum::idempotency::Invalid>(())
//! ```
//!
//! # What a repeated request gets
//!
//! | the first one | the repeated one |
//! |---|---|
//! | is under way | 409 `KEY_IN_FLIGHT` and `Retry-After` |
//! | was answered 2xx, or 4xx that [count as final](Builder::final_statuses) | the same status and body, with `idempotency-replayed: true` |
//! | was answered so with more than 64 KiB, a stream, or a redirect | 409 `KEY_IN_FLIGHT`, never a second run |
//! | was answered anything else | is run |
//! | panicked, or was dropped with its caller | is run; with [`OnExpiry::Hold`] 409 `KEY_IN_FLIGHT`, never a second run |
//! | had another body or query | 422 `KEY_MISMATCH` |
//!
//! Without a key it is 400 `KEY_MISSING` where one is [required](Builder::required), and also if what was sent is no key: 1 to
//! 255 visible characters, once. A keyed body of more than 1 MiB is 413 `BODY_TOO_LARGE`. If the store cannot answer it
//! is 503 `STORE_DOWN`: without an answer there is no telling whether the work was done before. If it goes away while the
//! handler runs, the caller gets the handler's reply, and the key counts as under way until its lease is over; what
//! happens then is for [`Builder::on_expiry`] to say.
//!
//! A handler is dropped when its caller leaves, halfway through its work, and the key is free again; with [`OnExpiry::Hold`]
//! it stays taken until it is forgotten, for the effect may have happened. Work that must not be cut in half belongs in a
//! transaction, or into a task of its own. Set a [tenant](Builder::tenant) wherever callers
//! must not see each other's replies.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use axum_core::{body::Body, extract::Request, response::Response};
use http::{Method, StatusCode, request::Parts};
pub use quell_core::idempotency::{Invalid, OnExpiry};
use quell_core::{
    Reason,
    idempotency::{Rules, Spec},
};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    behind::{Behind, Front},
    respond::{own, refusal},
};
use crate::{
    Clock,
    http::{
        Pool, Statuses,
        keyed::{self, Asked, Begun, Carried, Held, Keys, Settled, Unread, carried},
        whole::Whole,
    },
    store::Store,
};

type TenantOf = dyn Fn(&Parts) -> Option<Vec<u8>> + Send + Sync;

/// Idempotency keys in front of handlers. Clones share everything. See the [module](self).
#[derive(Clone)]
pub struct Idempotency(Arc<Shared>);

struct Shared {
    name: String,
    keys: Keys,
    methods: Vec<Method>,
    required: bool,
    tenant_of: Option<Box<TenantOf>>,
    finals: Statuses,
    rules: Rules,
}

/// Idempotency as it is described. See the [module](self).
#[must_use = "nothing is made before `build`"]
pub struct Builder {
    name: String,
    store: Arc<dyn Store>,
    methods: Vec<Method>,
    required: bool,
    tenant_of: Option<Box<TenantOf>>,
    finals: Statuses,
    spec: Spec,
    clock: Clock,
}

impl Idempotency {
    /// Begins to describe what is protected. Two places that share a store and must not share keys have different names.
    #[allow(clippy::new_ret_no_self, reason = "what is described has to be checked first")]
    pub fn new(name: impl Into<String>, store: Arc<dyn Store>) -> Builder {
        Builder {
            name: name.into(),
            store,
            methods: keyed::METHODS.to_vec(),
            required: false,
            tenant_of: None,
            finals: Statuses::of(&[]),
            spec: Spec::default(),
            clock: Clock::system(),
        }
    }

    async fn serve_keyed<S>(&self, handler: S, request: Request, key: &[u8]) -> Response
    where
        S: Service<Request, Response = Response, Error = Infallible>,
    {
        let Shared { name, keys, tenant_of, rules, .. } = &*self.0;
        let (parts, body) = request.into_parts();
        let body = match keyed::Whole::read(body, Pool::global()).await {
            Ok(whole) => whole,
            Err(unread @ Unread::TooLong) => {
                return own(413, &unread.to_string(), "BODY_TOO_LARGE");
            }
            Err(unread @ Unread::Broken) => return own(400, &unread.to_string(), "BODY_BROKEN"),
            Err(Unread::NoRoom) => {
                return refusal(Reason::PoolFull, Some(Whole::of(Duration::ZERO)));
            }
        };
        let tenant = tenant_of.as_ref().and_then(|tenant_of| tenant_of(&parts));
        let (tenant, body) = (tenant.as_deref(), body.bytes().clone());
        let asked = Asked { tenant, name, parts: &parts, key, body: &body, rules: *rules };
        match keys.begin(asked).await {
            Begun::Held(held) => {
                self.run(held, handler, Request::from_parts(parts, body.into())).await
            }
            Begun::Replay(reply) => reply.map(Body::from),
            Begun::Refused { reason, wait } => refusal(reason, wait.map(Whole::of)),
        }
    }

    /// Does the work, and settles the key by what came of it before the caller hears of it.
    async fn run<S>(&self, mut held: Held, mut handler: S, request: Request) -> Response
    where
        S: Service<Request, Response = Response, Error = Infallible>,
    {
        held.working();
        let Ok(response) = held.work(handler.call(request)).await;
        let (parts, body) = held.settle(response, &self.0.finals).await.into_parts();
        match body {
            Settled::Passing(body) => Response::from_parts(parts, body),
            Settled::Whole(bytes) => Response::from_parts(parts, bytes.into()),
            Settled::Broken => own(500, "The answer broke off", "ANSWER_BROKEN"),
        }
    }
}

impl Builder {
    /// Whose keys count; POST and PATCH unless said. Other methods pass untouched.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Whether such a request must have a key; it need not unless said.
    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    /// Whose request it is: the same key of another tenant is another key.
    pub fn tenant<K: AsRef<[u8]>>(
        mut self,
        of: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        self.tenant_of = Some(Box::new(move |parts| of(parts).map(|key| key.as_ref().to_vec())));
        self
    }

    /// Replies of 4xx that no repetition will change, and that are stored like successes; none unless said. 408, 425 and
    /// 429 are never final.
    pub fn final_statuses(mut self, statuses: &[StatusCode]) -> Self {
        let codes: Vec<_> = statuses.iter().map(StatusCode::as_u16).collect();
        self.finals = Statuses::of(&codes);
        self
    }

    /// How long a process may be silent before its claims count for nothing; 60 s unless said. A handler may take longer:
    /// its claim is renewed while it runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.spec.lease = lease;
        self
    }

    /// How long a key is remembered; 24 h unless said. It should be longer than anybody goes on repeating.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.spec.ttl = ttl;
        self
    }

    /// What happens to the key of a process that went silent, or of a handler that panicked or was dropped midway; the next
    /// request is run unless said.
    pub fn on_expiry(mut self, on_expiry: OnExpiry) -> Self {
        self.spec.on_expiry = on_expiry;
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Checks what was written.
    pub fn build(self) -> Result<Idempotency, Invalid> {
        let Self { name, store, methods, required, tenant_of, finals, spec, clock } = self;
        let rules = Rules::new(spec)?;
        let keys = Keys::new(store).clock(clock);
        Ok(Idempotency(Arc::new(Shared {
            name,
            keys,
            methods,
            required,
            tenant_of,
            finals,
            rules,
        })))
    }
}

impl Front for Idempotency {
    async fn serve<S>(&self, mut handler: S, request: Request) -> Response
    where
        S: Service<Request, Response = Response, Error = Infallible> + Send,
        S::Future: Send,
    {
        let is_ours = self.0.methods.contains(request.method());
        match carried(request.headers()) {
            _ if !is_ours => {}
            Carried::None if !self.0.required => {}
            Carried::None | Carried::Unusable => return refusal(Reason::KeyMissing, None),
            Carried::Key(key) => {
                let key = key.to_vec();
                return self.serve_keyed(handler, request, &key).await;
            }
        }
        let Ok(response) = handler.call(request).await;
        response
    }
}

impl<S> Layer<S> for Idempotency {
    type Service = Behind<Self, S>;

    fn layer(&self, service: S) -> Behind<Self, S> {
        Behind::new(self, service)
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, rules, .. } = &*self.0;
        f.debug_struct("Idempotency")
            .field("name", name)
            .field("rules", rules)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, spec, .. } = self;
        f.debug_struct("Builder").field("name", name).field("spec", spec).finish_non_exhaustive()
    }
}
