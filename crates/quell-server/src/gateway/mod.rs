//! The gateway: an HTTP/1.1 proxy in front of one upstream that cannot cause a retry storm.
//!
//! **Why.** Callers in any language get the policies without a line of code, and a service in trouble gets them on
//! behalf of callers who know nothing of it.
//!
//! **How.** One thread per core, each with its own listener, upstream connections and counters; only the policies'
//! state is shared. Bodies stream both ways. `handle` is a request's whole way from top to bottom:
//!
//! 1. `gate`: what could be read in two ways is refused.
//! 2. `headers`: hop-by-hop fields end here; who called, and through whom, is written by us.
//! 3. the caller's deadline, if it told one, can only shorten ours.
//! 4. `forward`: [`quell::run::drive`] admits, queues or refuses, has attempts sent over the `pool`, judges them at
//!    the response head, keeps a failed reply and sleeps, and sends again while the policies allow it. The request's
//!    body is copied on its way (`replay`).
//! 5. `respond`: the last reply's status and body as they are, or a refusal of our own.
//!
//! A caller who leaves drops the future of its request, and with it the guard (what was sent becomes a ghost) and the
//! upstream connection, which is closed at once.
//!
//! Later work: a strict parser in front of hyper (see `gate`), upgrades (an `Upgrade` is passed on as an ordinary
//! request without the field, `CONNECT` is refused with 501), routes, HTTP/2.
//!
//! ```no_run
//! use quell_server::gateway::{self, Config};
//!
//! let gateway = gateway::start(Config::local("http://127.0.0.1:9000".parse()?))?;
//! println!("send requests to http://{}/", gateway.addr());
//! gateway.drain();
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod body;
mod config;
pub(crate) mod counters;
mod file;
mod forward;
mod gate;
mod headers;
#[cfg(test)]
mod kit;
#[allow(dead_code, unused_imports)] // until every way in goes through it
mod listen;
pub(crate) mod log;
#[allow(dead_code)] // until the command tells it
pub(crate) mod notify;
pub(crate) mod per_core;
mod pool;
mod replay;
#[allow(dead_code)] // until every connection goes through it
mod resolve;
mod respond;
pub mod route_limit;
mod socket;
pub(crate) mod start;
#[allow(dead_code, unused_imports)] // until every connection goes through it
pub mod tenants;
mod tls;
mod watch;

use std::convert::Infallible;
use std::rc::Rc;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use quell::run::drive;

pub use config::{Config, Host, InvalidTarget, Target};
pub use file::Unable;
pub use start::{Error, Running, start};
pub use tls::TlsError;

use body::Body;
use counters::{Pending, Verdict};
use forward::{Forward, Outgoing};
use per_core::Core;
use watch::Busy;

/// One request, from its head to the head of its reply.
async fn handle(
    core: &Rc<Core>,
    peer: &HeaderValue,
    busy: Busy,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let since = core.gateway.upstream.clock().now();
    let mut counted = Pending::new(&core.counters);
    if let Err(malformed) = gate::check(&request) {
        counted.verdict = Verdict::Malformed;
        return Ok(respond::malformed(malformed, busy));
    }
    let (mut parts, body) = request.into_parts();
    let told = headers::told_deadline(&parts.headers);
    headers::onward(&mut parts.headers, peer, core.gateway.config.host, &core.gateway.config.to);
    to_origin_form(&mut parts);

    let mut guard = core.gateway.upstream.begin(&core.gateway.policy);
    guard.call().set_since(since);
    if let Some(told) = told {
        guard.call().set_deadline(since + told);
    }
    let outgoing = Outgoing::new(core, busy.watch(), parts, body);
    let done = drive(guard, Forward::new(&outgoing)).await;
    drop(outgoing);

    let now = since + done.elapsed;
    let mut response = respond::reply(done, now, busy, &mut counted);
    respond::farewell(core, &mut response);
    Ok(response)
}

/// The target as an origin server wants it: without scheme and host, which the `Host` field has.
fn to_origin_form(parts: &mut Parts) {
    if parts.uri.authority().is_some() {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
}
