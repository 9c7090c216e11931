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
//! 7. `respond`: the last reply's status and body as they are, or a refusal of our own.
//!
//! What differs between HTTP and gRPC on this way is in `dialect`.
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
mod describe;
mod dialect;
mod forward;
mod gate;
mod headers;
mod idempotency;
mod io;
mod lane;
mod listen;
mod metrics;
mod operations;
pub(crate) mod per_core;
pub(crate) mod plan;
pub(crate) mod preflight;
pub(crate) mod reload;
mod resolve;
mod respond;
pub(crate) mod route;
pub mod route_limit;
mod settings;
pub(crate) mod start;
pub mod tenants;
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
pub use reload::NotTaken;
pub use resolve::Names;
pub use start::{Error, Running, start};

pub use crate::host::tls::TlsError;

use access::Line;
use body::{Body, FromCaller, Minder, Uploaded};
use conversation::{Caller, Tunnel};
use counters::{Pending, Verdict};
use dialect::Dialect;
use forward::{Forward, From, Outgoing, Sent};
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
    let dialect = Dialect::of(route.map(|route| &***route), request.headers());
    let read = gate::check(&request).and_then(|()| found.map(drop).map_err(|_| gate::WALKS));
    let counters = match (&read, route) {
        (Ok(()), Some(route)) => route.counters(),
        _ => &core.counters().unrouted,
    };
    let mut counted = Pending::new(counters, line.as_deref());
    let response = match (read, route) {
        (Err(malformed), _) => {
            counted.verdict = Verdict::Malformed;
            respond::malformed(malformed, busy)
        }
        (Ok(()), None) => respond::refused(Reason::NoRoute, None, busy, &mut counted),
        (Ok(()), Some(route)) => {
            let asked = Asked { busy, dialect, line: line.as_deref() };
            through(core, &driven, route, caller, asked, request, &mut counted).await
        }
    };
    let mut response = dialect.refuse(response, counted.told());
    drop(counted);
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
    dialect: Dialect,
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
    counted: &mut Pending<'_>,
) -> Response<Body> {
    let Asked { busy, dialect, line } = asked;
    let upstream = &route.backend.upstream;
    let since = upstream.clock().now();
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
        return respond::refused(reason, None, busy, counted);
    }
    let passed = match admission::pass(&driven.plan, route, ip, &mut parts.headers) {
        Ok(passed) => passed,
        Err(refused) => return refused.reply(busy, counted),
    };
    if let (Some(line), Some(tenant)) = (line, &passed.tenant) {
        line.tenant(tenant);
    }
    let body = FromCaller::new(body, Minder::of_upload(&busy, caller.is_h2));
    let (payload, held) = match &route.written.idempotency {
        // Boxed because it is rare and large, as below.
        Some(keys) if dialect.has_keys() => {
            let tenant = passed.tenant.as_deref();
            let begun = idempotency::begin(core, route, keys, tenant, &parts, body);
            match Box::pin(begun).await {
                Ok(begun) => begun,
                Err(stopped) => {
                    let mut response = stopped.reply(busy, counted);
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
        class: dialect.class(route, &parts.method, parts.uri.path()),
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
    let dialect = dialect.open(route, &mut parts.headers, by);
    let from = From { busy: &busy, is_stream: caller.is_h2, talk: caller.talk.as_ref(), dialect };
    let mut sent = Sent::default();
    let mut outgoing = Outgoing::new(core, route, from, (parts, onward), payload);
    (outgoing.held, outgoing.line) = (held.as_ref(), line);
    let done = match &held {
        None => drive(guard, Forward::new(&outgoing, &mut sent)).await,
        Some(held) => Box::pin(held.work(drive(guard, Forward::new(&outgoing, &mut sent)))).await,
    };
    drop(outgoing);

    let (now, watch) = (since + done.elapsed, Rc::clone(busy.watch()));
    let (mut response, switched) = respond::reply(route, done, now, lent.is_some(), busy, counted);
    if let Some(held) = held {
        let settled = idempotency::settle(held, response, sent.in_doubt, watch.begin(), counted);
        response = Box::pin(settled).await;
    }
    passed.write(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        match switched.filter(|_| switches).and_then(|switched| switched.into_raw()) {
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
