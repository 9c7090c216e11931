//! The gateway: a proxy in front of services that cannot cause a retry storm.
//!
//! **Why.** Callers in any language get the policies without a line of code, and a service in trouble gets them on
//! behalf of callers who know nothing of it.
//!
//! **How.** One thread per core, each with its own listener, upstream connections and counters; only the plan and the
//! policies' state are shared. Bodies stream both ways. `handle` is a request's whole way from top to bottom:
//!
//! 1. `gate`: what could be read in two ways is refused.
//! 2. `plan`: the first route that matches says which upstream, by which policy.
//! 3. `headers`: hop-by-hop fields end here; who called, and through whom, is written by us.
//! 4. what the caller told of its deadline and its chain's credit can only tighten ours.
//! 5. `idempotency`: a request with a key that was done before gets the same reply, where the route has keys.
//! 6. `forward`: [`quell::run::drive`] admits, queues or refuses, has attempts sent over the `lane`s, judges them at
//!    the response head, keeps a failed reply and sleeps, and sends again while the policies allow it. The request's
//!    body is copied on its way.
//! 7. `respond`: the last reply's status and body as they are, or a refusal of our own; `grpc` says it in gRPC's words.
//!
//! A caller who leaves drops the future of its request, and with it the guard (what was sent becomes a ghost) and the
//! upstream connection or stream, which is closed or reset at once.
//!
//! ```no_run
//! use quell_server::gateway::{self, Config};
//!
//! let gateway = gateway::start(Config::local("http://127.0.0.1:9000".parse()?))?;
//! println!("send requests to http://{}/", gateway.addr());
//! gateway.drain();
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod access;
mod admission;
pub(crate) mod backend;
mod body;
mod config;
mod conversation;
pub(crate) mod counters;
mod forward;
mod gate;
mod grpc;
mod headers;
mod idempotency;
mod io;
#[cfg(test)]
mod kit;
mod lane;
mod listen;
pub(crate) mod log;
mod notify;
pub(crate) mod per_core;
pub(crate) mod plan;
pub(crate) mod preflight;
pub(crate) mod reload;
mod resolve;
mod respond;
pub(crate) mod route;
pub mod route_limit;
pub(crate) mod start;
pub mod tenants;
mod tls;
mod trace;
mod tunnel;
mod watch;
mod wire;

use std::rc::Rc;

use http::{Request, Response, StatusCode};
use quell::classes::caller_at;
use quell::core::credit::Received;
use quell::core::{Arrival, Reason, Time};
use quell::http::credential;
use quell::http::headers::{credit, deadline};
use quell::run::drive;

pub use config::{Config, HostField, InvalidTarget, Target, To};
pub use notify::Notify;
pub use reload::NotTaken;
pub use resolve::Names;
pub use start::{Error, Running, start};
pub use tls::TlsError;

use access::Line;
use body::{Body, FromCaller, Minder, Uploaded};
use conversation::{Caller, Tunnel};
use counters::{Pending, Verdict};
use forward::{Forward, From, Outgoing};
use grpc::Grpc;
use headers::{Facts, Marks};
use idempotency::Payload;
use per_core::{Core, Driven, LocalRoute};
use watch::Busy;

/// One request, from its head to the head of its reply.
async fn handle(
    core: &Rc<Core>,
    caller: &Caller,
    busy: Busy,
    request: Request<Uploaded>,
) -> Response<Body> {
    let driven = core.driven();
    let line = core.gateway.access.as_ref().map(|access| Line::begin(access, &request));
    let found = driven.route(&request);
    let route = found.ok().flatten();
    let is_grpc = grpc::is_spoken(route.map(|route| &***route), request.headers());
    let read = gate::check(&request).and_then(|()| found.map(drop).map_err(|_| gate::WALKS));
    let mut response = match (read, route) {
        (Err(malformed), _) => {
            Pending::new(&core.counters().unrouted, line.as_deref()).verdict = Verdict::Malformed;
            respond::malformed(malformed, busy)
        }
        (Ok(()), None) => {
            Pending::new(&core.counters().unrouted, line.as_deref()).refuse(Reason::NoRoute);
            respond::refused(Reason::NoRoute, None, busy)
        }
        (Ok(()), Some(route)) => {
            let asked = Asked { busy, is_grpc, line: line.as_deref() };
            through(core, &driven, route, caller, asked, request).await
        }
    };
    if is_grpc {
        response = grpc::in_trailers(response);
    }
    if core.is_draining() && !caller.is_h2 {
        respond::farewell(&mut response);
    }
    match line {
        Some(line) => {
            line.answered(&response);
            response.map(|body| body.noted(line))
        }
        None => response,
    }
}

/// What goes along with a request that has a route.
struct Asked<'a> {
    busy: Busy,
    is_grpc: bool,
    /// Where it is noted, if it is.
    line: Option<&'a Line>,
}

/// One request that has a route.
async fn through(
    core: &Core,
    driven: &Driven,
    route: &Rc<LocalRoute>,
    caller: &Caller,
    asked: Asked<'_>,
    request: Request<Uploaded>,
) -> Response<Body> {
    let Asked { busy, is_grpc, line } = asked;
    let upstream = &route.backend.upstream;
    let since = upstream.clock().now();
    let mut counted = Pending::new(route.counters(), line);
    if let Some(line) = line {
        line.routed(route, since);
    }
    let is_trusted = driven.plan.trusts(caller.ip);
    let (mut parts, body) = request.into_parts();
    let marks = Marks::of(&parts.headers);
    let told = marks.has_deadline().then(|| deadline(&parts.headers)).flatten();
    let lent = marks.has_credit().then(|| credit(&parts.headers)).flatten();
    let ip = match is_trusted {
        true => headers::origin(&parts.headers, |ip| driven.plan.trusts(Some(ip))).or(caller.ip),
        false => caller.ip,
    };
    let facts = Facts { peer: &caller.shown, is_tls: caller.is_tls, is_trusted };
    let onward = headers::onward(&mut parts, marks, facts);
    let switches = onward.upgrade.is_some();
    headers::to_origin_form(&mut parts.uri);
    if !route.rewrite(&mut parts) {
        counted.verdict = Verdict::Malformed;
        return respond::malformed(gate::SPELT, busy);
    }
    if let Some(reason) = core.cannot_serve(route) {
        counted.refuse(reason);
        return respond::refused(reason, None, busy);
    }
    let passed = match admission::pass(&driven.plan, route, ip, &mut parts.headers) {
        Ok(passed) => passed,
        Err(refused) => return refused.reply(busy, &mut counted),
    };
    if let (Some(line), Some(tenant)) = (line, &passed.tenant) {
        line.tenant(tenant);
    }
    let body = FromCaller::new(body, Minder::of_upload(&busy, caller.is_h2));
    let (payload, held) = match &route.written.idempotency {
        // Boxed because it is rare and large, as below.
        Some(keys) if !is_grpc => {
            let tenant = passed.tenant.as_deref();
            let begun = idempotency::begin(core, route, keys, tenant, &parts, body);
            match Box::pin(begun).await {
                Ok(begun) => begun,
                Err(stopped) => {
                    let mut response = stopped.reply(busy, &mut counted);
                    passed.write(response.headers_mut());
                    return response;
                }
            }
        }
        _ => (Payload::Streamed(body), None),
    };

    let by = told.map(|told| since + told);
    // The time in which a body was read whole was its caller's.
    let since = if held.is_some() { upstream.clock().now() } else { since };
    let from = || if ip == caller.ip { caller.key } else { ip.map_or(0, caller_at) };
    let mut arrival = Arrival {
        since,
        deadline: by.unwrap_or(Time::MAX),
        priority: passed.priority,
        class: route.class(&parts.method, parts.uri.path(), is_grpc),
        caller: passed.caller.unwrap_or_else(from),
        credential: if marks.has_credential() { credential(&parts.headers) } else { 0 },
        child: passed.child.unwrap_or_default(),
        ..Arrival::new()
    };
    let received = lent.map(|lent| match is_trusted {
        true => Received::trusted(lent),
        false => Received::stranger(lent),
    });
    arrival.joins_chain(route.role, route.policy.attempts(), received);
    let guard = upstream.begin_for(&route.policy, arrival);
    let grpc = is_grpc.then(|| Grpc::new(route, &mut parts.headers, by));
    let from = From { busy: &busy, is_stream: caller.is_h2, talk: caller.talk.as_ref(), grpc };
    let mut outgoing = Outgoing::new(core, route, from, (parts, onward), payload);
    (outgoing.held, outgoing.line) = (held.as_ref(), line);
    let done = match &held {
        None => drive(guard, Forward::new(&outgoing)).await,
        Some(held) => Box::pin(held.work(drive(guard, Forward::new(&outgoing)))).await,
    };
    let (switched, in_doubt) = (outgoing.switched.take(), outgoing.in_doubt.get());
    drop(outgoing);

    let (now, watch) = (since + done.elapsed, Rc::clone(busy.watch()));
    let mut response = respond::reply(route, done, now, lent.is_some(), busy, &mut counted);
    if let Some(held) = held {
        let settled = idempotency::settle(held, response, in_doubt, watch.begin(), &mut counted);
        response = Box::pin(settled).await;
    }
    passed.write(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        match switched.filter(|_| switches).and_then(lane::Taken::into_raw) {
            Some(upstream) => {
                watch.tunnel();
                let open = route.lanes.stream();
                caller.tunnel.replace(Some(Tunnel { upstream, open }));
            }
            None => *response.status_mut() = StatusCode::BAD_GATEWAY,
        }
    }
    response
}
