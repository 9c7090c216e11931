//! Idempotency: a request with a key has its effect once, however often it is repeated.
//!
//! **Why.** A caller who got no answer must ask again, and cannot know whether the first time counted. With a key that
//! is decided here, for services that do not know of keys; those that do see the same key on every attempt.
//!
//! **How.** [`quell::http::keyed`] decides, the same way as in a service. A keyed body is read whole before anything else
//! happens; a repeated request gets its reply from the store, and no budget, breaker or limit of the upstream hears of it.
//! A caller who leaves after something was sent leaves the key taken until its lease is over: the upstream may be at it.
//! gRPC has no keys, since what a call came to stands at the end of a stream.

use std::time::Duration;

use crate::config::Keys;
use http::Response;
use http::request::Parts;
use quell::core::Reason;
use quell::core::idempotency::Rules;
use quell::http::headers::{Answer, answer};
use quell::http::keyed::{Asked, Begun, Carried, Held, METHODS, Settled, Unread, Whole, carried};
use quell::http::{Pool, Statuses};

use super::body::{Body, FromCaller};
use super::counters::{Keyed, Pending, Verdict};
use super::per_core::{Core, LocalRoute};
use super::respond;
use super::watch::Busy;

/// What goes to the upstream.
#[derive(Debug)]
pub(super) enum Payload {
    /// As it comes.
    Streamed(FromCaller),
    /// All of it is here.
    Whole(Whole),
}

/// What a caller gets without a call.
#[derive(Debug)]
pub(super) enum Stopped {
    /// What it got before.
    Replay(Box<Response<bytes::Bytes>>),
    Refused {
        reason: Reason,
        wait: Option<Duration>,
    },
    Unread(Unread),
}

/// Claims the key of a request on a route that has keys. One without a key goes on where that is allowed.
pub(super) async fn begin(
    core: &Core,
    route: &LocalRoute,
    keys: &Keys,
    tenant: Option<&str>,
    parts: &Parts,
    body: FromCaller,
) -> Result<(Payload, Option<Held>), Stopped> {
    let key = match carried(&parts.headers) {
        _ if !METHODS.contains(&parts.method) => return Ok((Payload::Streamed(body), None)),
        Carried::Key(key) => key,
        Carried::None if !keys.required => return Ok((Payload::Streamed(body), None)),
        Carried::None | Carried::Unusable => return Err(refused(Reason::KeyMissing)),
    };
    let whole = Whole::read(body, Pool::global()).await.map_err(Stopped::Unread)?;
    let asked = Asked {
        tenant: tenant.map(str::as_bytes),
        name: &route.name,
        parts,
        key,
        body: whole.bytes(),
        rules: rules(keys)?,
    };
    match core.gateway.keys.begin(asked).await {
        Begun::Held(held) => {
            route.counters().keyed(Keyed::Claimed);
            Ok((Payload::Whole(whole), Some(held)))
        }
        Begun::Replay(reply) => Err(Stopped::Replay(Box::new(reply))),
        Begun::Refused { reason, wait } => Err(Stopped::Refused { reason, wait }),
    }
}

/// Settles a key by what its call came to. The reply is then the caller's.
pub(super) async fn settle(
    held: Held,
    response: Response<Body>,
    in_doubt: bool,
    busy: Busy,
    counted: &mut Pending<'_>,
) -> Response<Body> {
    // A fallback is no success of the upstream's.
    if counted.verdict != Verdict::Success {
        if in_doubt {
            held.doubt().await;
        } else {
            held.abandon().await;
        }
        return response;
    }
    let (parts, body) = held.settle(response, &Statuses::of(&[])).await.into_parts();
    match body {
        Settled::Passing(body) => Response::from_parts(parts, body),
        Settled::Whole(bytes) => Response::from_parts(parts, Body::own(bytes, busy)),
        Settled::Broken => {
            counted.verdict = Verdict::Failed;
            respond::broken(busy)
        }
    }
}

impl Stopped {
    pub(super) fn reply(self, busy: Busy, counted: &mut Pending<'_>) -> Response<Body> {
        let (keyed, response) = match self {
            Self::Replay(reply) => {
                counted.verdict = Verdict::Success;
                let mut response = reply.map(|bytes| Body::own(bytes, busy));
                answer(response.headers_mut(), Answer::after(Default::default()));
                (Keyed::Replayed, response)
            }
            Self::Refused { reason, wait } => {
                let keyed = match reason {
                    Reason::KeyMissing => Keyed::Missing,
                    Reason::KeyMismatch => Keyed::Mismatch,
                    Reason::StoreDown => Keyed::StoreDown,
                    _ => Keyed::InFlight,
                };
                (keyed, respond::refused(reason, wait, busy, counted))
            }
            Self::Unread(Unread::NoRoom) => {
                (Keyed::NoRoom, respond::refused(Reason::PoolFull, None, busy, counted))
            }
            Self::Unread(Unread::TooLong) => {
                counted.verdict = Verdict::Malformed;
                (Keyed::TooLong, respond::too_long(busy))
            }
            Self::Unread(Unread::Broken) => return respond::broke_off(busy),
        };
        counted.counters.keyed(keyed);
        response
    }
}

/// They were valid when the file was read.
fn rules(keys: &Keys) -> Result<Rules, Stopped> {
    Rules::new(keys.spec).map_err(|_| refused(Reason::StoreDown))
}

fn refused(reason: Reason) -> Stopped {
    Stopped::Refused { reason, wait: None }
}
