//! The admin side: health for orchestrators, metrics for Prometheus. Loopback only, one small thread.
//!
//! `/healthz` says that the process lives, `/readyz` that it takes callers. Neither says anything of the upstream: a
//! gateway taken out of service because its upstream is down would make the outage worse.

mod metrics;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, watch};
use tokio::time::{interval, sleep};

use crate::gateway::log;
use crate::gateway::per_core::Gateway;
use crate::gateway::reload::keep_watch;
use crate::gateway::start::Phase;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 64;
const HEAD: Duration = Duration::from_secs(10);
const OUT_OF_FILES: Duration = Duration::from_millis(10);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Serves until the phase is `Stopping`.
pub(crate) fn spawn(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    phases: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("quell-admin".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = runtime.and_then(|runtime| runtime.block_on(run(listener, gateway, phases)));
        if let Err(error) = result {
            log::line(format_args!("the admin side ended: {error}"));
        }
    })
}

async fn run(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    mut phases: watch::Receiver<Phase>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics::Metrics(Arc::clone(&gateway))));
    let admin = Arc::new(Admin { registry, phases: phases.clone() });
    let accept = async {
        let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(OUT_OF_FILES).await;
                continue;
            };
            let admin = Arc::clone(&admin);
            tokio::spawn(async move {
                let service = service_fn(|request| std::future::ready(admin.answer(&request)));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD)
                    .serve_connection(TokioIo::new(stream), service);
                let _ = connection.await; // whoever leaves early has seen enough
                drop(place);
            });
        }
    };
    let report = async {
        let mut seconds = interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            gateway.log.second(&gateway);
        }
    };
    tokio::select! {
        () = accept => {}
        () = keep_watch(Arc::clone(&gateway)) => {}
        () = report => {}
        _ = phases.wait_for(|phase| *phase == Phase::Stopping) => {}
    }
    gateway.log.second(&gateway);
    Ok(())
}

struct Admin {
    registry: Registry,
    phases: watch::Receiver<Phase>,
}

impl Admin {
    fn answer(&self, request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD only\n".into()));
        }
        Ok(match request.uri().path() {
            "/healthz" => reply(StatusCode::OK, TEXT, "ok\n".into()),
            "/readyz" if *self.phases.borrow() == Phase::Serving => {
                reply(StatusCode::OK, TEXT, "ready\n".into())
            }
            "/readyz" => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n".into()),
            "/metrics" => self.metrics(),
            _ => {
                let paths = "here are /healthz, /readyz and /metrics\n";
                reply(StatusCode::NOT_FOUND, TEXT, paths.into())
            }
        })
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => reply(StatusCode::OK, OPEN_METRICS, text),
            Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
        }
    }
}

fn reply(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
