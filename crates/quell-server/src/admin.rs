//! The admin side: health for orchestrators, metrics for Prometheus, state and levers for people. Loopback only, one small
//! thread, never in the way of a request.
//!
//! `/healthz` says that the process lives, `/readyz` that it takes callers. Neither says anything of the upstreams: a
//! gateway taken out of service because its upstream is down would make the outage worse.
//!
//! Everybody on the machine may look; whoever changes something has to show the token that the host's file names, such as
//! `gateway.admin_token`, and is written down (see `door` and `audit`).
//!
//! What is served, and by whom, is not known here: a host is its [`Operations`].

mod audit;
pub(crate) mod catalogue;
mod classes;
mod door;
pub(crate) mod exposition;
mod levers;
mod metrics;
pub(crate) mod operations;
#[cfg(test)]
mod tests;
mod view;
pub(crate) mod wanted;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use self::door::{Refused, is_local, may_change};
use self::exposition::Format;
use self::levers::Levers;
use self::operations::Operations;
use self::wanted::Wanted;
use crate::host::bind::bind;
use crate::host::life::Phase;
use crate::host::side::{self, Chores};

/// Connections at a time.
const MOST_CONNECTIONS: usize = 64;
/// The longest body of a request.
const MOST_BODY: usize = 64 * 1024;
const HEAD: Duration = Duration::from_secs(10);
const OUT_OF_FILES: Duration = Duration::from_millis(10);

const TEXT: &str = "text/plain; charset=utf-8";
const PATHS: &str = "here are /healthz, /readyz, /metrics, /state, /classes, /routes, /config, /levers and /audit; \
                     with the token POST /levers, DELETE /levers/{id}, POST /reload and POST /drain\n";

/// Where the admin side listens, and its address. It shows and does things that are not for strangers, so that has to be loopback.
pub(crate) fn listen(addr: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    if !addr.ip().is_loopback() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it may only listen on loopback"));
    }
    let listener = bind(addr, false)?;
    let addr = listener.local_addr()?;
    Ok((listener, addr))
}

/// Serves on a thread of its own, which also does the host's chores, until the host stops.
pub(crate) fn spawn(
    listener: TcpListener,
    host: Arc<dyn Operations>,
    phases: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<()>> {
    let chores: Arc<dyn Chores> = Arc::clone(&host) as _;
    side::spawn(chores, phases, serve(listener, host))
}

async fn serve(listener: TcpListener, host: Arc<dyn Operations>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = router(Arc::new(Admin { host, levers: Levers::default() }));
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(OUT_OF_FILES).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(stream), service);
            let _ = connection.await; // whoever leaves early has seen enough
            drop(place);
        });
    }
    Ok(())
}

struct Admin {
    host: Arc<dyn Operations>,
    levers: Levers,
}

type Shared = State<Arc<Admin>>;

fn router(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { text("ok\n") }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/state", get(|State(admin): Shared| async move { json(&admin.state()) }))
        .route("/classes", get(|State(admin): Shared| async move { json(&classes::everywhere(&*admin.host.in_force())) }))
        .route("/routes", get(|State(admin): Shared| async move { json(&view::routes(&*admin.host.in_force())) }))
        .route("/config", get(|State(admin): Shared| async move { text(admin.host.in_force().config()) }))
        .route("/audit", get(|State(admin): Shared| async move { json(&admin.audit()) }))
        .route("/levers", get(|State(admin): Shared| async move { json(&admin.levers.show(&*admin.host.in_force())) }))
        .route("/levers", post(pull))
        .route("/levers/{id}", delete(undo))
        .route("/reload", post(reload))
        .route("/drain", post(drain))
        .fallback(|| async { (StatusCode::NOT_FOUND, PATHS) })
        .method_not_allowed_fallback(|| async { (StatusCode::METHOD_NOT_ALLOWED, PATHS) })
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(middleware::from_fn(local))
        .with_state(admin)
}

/// Every request passes here first.
async fn local(request: Request, next: Next) -> Response {
    if let Err(refused) = is_local(request.uri(), request.headers()) {
        return refused.into_response();
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn ready(State(admin): Shared) -> Response {
    match admin.host.is_ready() {
        true => text("ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
    }
}

async fn metrics(State(admin): Shared, uri: Uri, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::chosen(uri.query(), accept);
    of_kind(format.content_type(), metrics::page(&*admin.host, format))
}

async fn pull(State(admin): Shared, headers: HeaderMap, body: Bytes) -> Result<Response, Refused> {
    admin.may_change(&headers)?;
    let wanted: Wanted = read(&body)?;
    Ok(json(&admin.levers.pull(&*admin.host.in_force(), &wanted)?))
}

/// Who undoes a lever, reloads or drains, and why: a body that may be left out.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Says {
    by: String,
    why: String,
}

async fn undo(
    State(admin): Shared,
    Path(id): Path<u64>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    let says = admin.hears(&headers, &body)?;
    Ok(json(&admin.levers.undo(&*admin.host.in_force(), id, &says.by, &says.why)?))
}

async fn reload(
    State(admin): Shared,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    let says = admin.hears(&headers, &body)?;
    let reloaded = admin.host.reload().map(|changes| match &*changes {
        [] => "nothing changed".to_owned(),
        changes => changes.join("; "),
    });
    let note = match &reloaded {
        Ok(changes) => format!("reloaded: {changes}"),
        Err(_) => "a reload failed and changed nothing".to_owned(),
    };
    admin.levers.audit.note(note, &says.by, &says.why);
    match reloaded {
        Ok(changes) => Ok(json(&serde_json::json!({ "done": format!("reloaded: {changes}") }))),
        Err(problems) => Err((StatusCode::UNPROCESSABLE_ENTITY, format!("{problems}\n"))),
    }
}

async fn drain(State(admin): Shared, headers: HeaderMap, body: Bytes) -> Result<Response, Refused> {
    let says = admin.hears(&headers, &body)?;
    admin.levers.audit.note("draining".to_owned(), &says.by, &says.why);
    admin.host.drain();
    Ok(json(&serde_json::json!({ "done": "draining" })))
}

impl Admin {
    fn may_change(&self, headers: &HeaderMap) -> Result<(), Refused> {
        may_change(self.host.in_force().token(), headers)
    }

    /// Whether whoever asks may, and what they say.
    fn hears(&self, headers: &HeaderMap, body: &[u8]) -> Result<Says, Refused> {
        self.may_change(headers)?;
        if body.is_empty() { Ok(Says::default()) } else { read(body) }
    }

    fn state(&self) -> serde_json::Value {
        view::everything(&*self.host.in_force(), self.host.is_ready())
    }

    /// What has ended by itself is written down before anybody reads.
    fn audit(&self) -> audit::Shown {
        self.levers.show(&*self.host.in_force());
        self.levers.audit.show()
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        (StatusCode::BAD_REQUEST, format!("the body is not what is expected: {error}\n"))
    })
}

fn text(text: impl Into<String>) -> Response {
    of_kind(TEXT, text.into())
}

fn json(value: &impl Serialize) -> Response {
    Json(value).into_response()
}

fn of_kind(kind: &'static str, text: String) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}
