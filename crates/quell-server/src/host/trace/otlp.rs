//! Spans over OTLP. They wait in a queue of 4096, leave once a second, and are dropped when the queue is full or the
//! collector does not take them: telemetry is not tried again at the expense of what it tells of.

use std::io;
use std::time::Duration;

use http::{HeaderMap, Request, StatusCode, Uri};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, Span,
};
use quell::core::{Outcome, Reason};
use quell::observe::labels::{Came, Verdict};
use quell::observe::{Next, Tried};

use super::post::{PATIENCE, Post};

/// Spans that wait to be sent, at most.
const MOST_WAITING: usize = 4_096;
const EVERY: Duration = Duration::from_secs(1);
const ONLY_PLAIN: &str = "spans are sent in plain HTTP alone: write http://HOST:PORT of a collector on this machine, which can pass them on over TLS";

/// Where spans go. The last ones are sent when this is dropped.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// The spans of one call, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Traced {
    tracer: SdkTracer,
    method: String,
    call: Context,
    /// Attempts under way, by their numbers.
    open: Vec<(u32, Context)>,
}

impl Traces {
    /// Sends to this collector.
    pub(crate) fn open(to: &str) -> io::Result<Self> {
        let is_plain = to.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("http"));
        if !is_plain {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, ONLY_PLAIN));
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Post)
            .with_endpoint(endpoint(to))
            .with_timeout(PATIENCE)
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(io::Error::other)?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(MOST_WAITING)
            .with_scheduled_delay(EVERY)
            .build();
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(batches)
            .with_resource(Resource::builder().with_service_name("quell").build())
            .build();
        let tracer = provider.tracer("quell");
        Ok(Self { provider, tracer })
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        let _ = self.provider.shutdown_with_timeout(PATIENCE); // whoever collects them may have gone
    }
}

/// Collectors take spans under this path.
fn endpoint(to: &str) -> String {
    match to.parse::<Uri>().map(|uri| uri.path().len() > 1) {
        Ok(true) => to.to_owned(),
        _ => format!("{}/v1/traces", to.trim_end_matches('/')),
    }
}

impl Traced {
    /// Goes on with the caller's trace, or begins one.
    pub(crate) fn begin<B>(traces: &Traces, request: &Request<B>) -> Self {
        let caller = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(request.headers()));
        let method = request.method().as_str().to_owned();
        let attributes = [
            KeyValue::new("http.request.method", method.clone()),
            KeyValue::new("url.path", request.uri().path().to_owned()),
        ];
        let tracer = traces.tracer.clone();
        let span = start(&tracer, &method, SpanKind::Server, attributes, &caller);
        Self { tracer, method, call: caller.with_span(span), open: Vec::new() }
    }

    /// It takes this route to this upstream.
    pub(crate) fn routed(&mut self, route: &str, upstream: &str) {
        let span = self.call.span();
        span.update_name(format!("{} {route}", self.method));
        span.set_attribute(KeyValue::new("quell.route", route.to_owned()));
        span.set_attribute(KeyValue::new("quell.upstream", upstream.to_owned()));
    }

    /// An attempt goes out with these header fields; one that came back unsent may do so twice.
    pub(crate) fn send(&mut self, attempt: u32, headers: &mut HeaderMap) {
        if !self.open.iter().any(|(number, _)| *number == attempt) {
            let mut attributes = vec![KeyValue::new("http.request.method", self.method.clone())];
            if attempt > 1 {
                let resent = i64::from(attempt) - 1;
                attributes.push(KeyValue::new("http.request.resend_count", resent));
            }
            let method = &self.method;
            let span = start(&self.tracer, method, SpanKind::Client, attributes, &self.call);
            self.open.push((attempt, self.call.with_span(span)));
        }
        if let Some((_, attempt)) = self.open.iter().find(|(number, _)| *number == attempt) {
            TraceContextPropagator::new().inject_context(attempt, &mut HeaderInjector(headers));
        }
    }

    /// An attempt has ended.
    pub(crate) fn tried(
        &mut self,
        endpoint: Option<String>,
        tried: &Tried,
        code: Option<StatusCode>,
    ) {
        let Some(place) = self.open.iter().position(|(number, _)| *number == tried.attempt) else {
            return; // it was never sent
        };
        let (_, attempt) = self.open.swap_remove(place);
        let span = attempt.span();
        if let Some(endpoint) = endpoint {
            span.set_attribute(KeyValue::new("server.address", endpoint));
        }
        if let Some(code) = code {
            span.set_attribute(status_code(code));
        }
        if tried.hedge {
            span.set_attribute(KeyValue::new("quell.hedge", true));
        }
        if tried.outcome != Outcome::Success {
            let error = Came::of(&tried.outcome).as_str();
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(error));
        }
        if let Next::Stop(Some(reason)) = tried.next {
            span.set_attribute(KeyValue::new("quell.reason", reason.as_str()));
        }
        span.end();
    }

    /// What the call came to.
    pub(crate) fn ended(&mut self, verdict: Verdict, reason: Option<Reason>) {
        let span = self.call.span();
        span.set_attribute(KeyValue::new("quell.outcome", verdict.as_str()));
        if let Some(reason) = reason {
            span.set_attribute(KeyValue::new("quell.reason", reason.as_str()));
        }
    }

    /// The caller gets this.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        let span = self.call.span();
        span.set_attribute(status_code(status));
        if status.is_server_error() {
            span.set_status(Status::error(status.as_str().to_owned()));
        }
    }
}

fn start(
    tracer: &SdkTracer,
    name: &str,
    kind: SpanKind,
    attributes: impl IntoIterator<Item = KeyValue>,
    parent: &Context,
) -> Span {
    let span = tracer.span_builder(name.to_owned()).with_kind(kind).with_attributes(attributes);
    span.start_with_context(tracer, parent)
}

fn status_code(status: StatusCode) -> KeyValue {
    KeyValue::new("http.response.status_code", i64::from(status.as_u16()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use quell::core::{Failure, Fault, Time};

    use super::*;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_collector_that_wants_tls_is_refused_and_not_spoken_to_in_the_clear() {
        for to in ["https://127.0.0.1:4318", "grpc://127.0.0.1:4317", "127.0.0.1:4318"] {
            let error = Traces::open(to).unwrap_err().to_string();
            assert!(error.contains("plain HTTP"), "{to}: {error}");
        }
        assert!(Traces::open("http://127.0.0.1:4318").is_ok());
    }

    fn traceparent(headers: &HeaderMap) -> (String, String) {
        let text = headers["traceparent"].to_str().unwrap();
        let parts: Vec<_> = text.split('-').collect();
        (parts[1].to_owned(), parts[2].to_owned())
    }

    fn tried(attempt: u32, outcome: Outcome) -> Tried {
        Tried {
            attempt,
            hedge: false,
            endpoint: 0,
            queued: Duration::ZERO,
            started: Time::ZERO,
            ended: Time::ZERO,
            outcome,
            next: Next::Stop(None),
        }
    }

    /// A collector that takes one batch, and what it was sent.
    fn collector() -> (String, thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("http://{}", listener.local_addr().unwrap());
        let batch = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut read = Vec::new();
            let mut some = [0; 4_096];
            // The resource's name stands in every batch, and the span of the call is the last one to end.
            while !contains(&read, b"quell.outcome") {
                let n = stream.read(&mut some).unwrap();
                assert!(n > 0, "the batch broke off");
                read.extend_from_slice(&some[..n]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            read
        });
        (to, batch)
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn the_callers_trace_goes_on_with_a_span_for_each_attempt() {
        let (to, batch) = collector();
        let traces = Traces::open(&to).unwrap();
        let request = Request::get("/orders").header("traceparent", CALLER).body(()).unwrap();
        let mut traced = Traced::begin(&traces, &request);
        let (mut first, mut second) = (HeaderMap::new(), HeaderMap::new());
        traced.send(1, &mut first);
        traced.tried(None, &tried(1, Outcome::Failed(Failure::of(Fault::Timeout))), None);
        traced.send(2, &mut second);
        traced.tried(None, &tried(2, Outcome::Success), Some(StatusCode::OK));
        traced.ended(Verdict::Success, None);
        drop(traced);
        drop(traces);
        let (first, second) = (traceparent(&first), traceparent(&second));
        assert_eq!(first.0, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(first.0, second.0);
        assert!(first.1 != second.1 && first.1 != "b7ad6b7169203331");
        let batch = batch.join().unwrap();
        assert!(batch.starts_with(b"POST /v1/traces HTTP/1.1\r\n"));
        for part in ["/orders", "http.request.resend_count", "timeout"] {
            assert!(contains(&batch, part.as_bytes()), "{part}");
        }
    }

    /// D4.
    #[test]
    fn spans_that_a_collector_does_not_take_are_not_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let sent = thread::spawn(move || {
            let mut sent = 0;
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                let mut some = [0; 4_096];
                let read = stream.read(&mut some).unwrap();
                if some[..read].starts_with(b"stop") {
                    return sent;
                }
                sent += 1;
                stream.write_all(b"HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
        });
        let traces = Traces::open(&format!("http://{at}")).unwrap();
        let mut headers = HeaderMap::new();
        let mut traced = Traced::begin(&traces, &Request::get("/").body(()).unwrap());
        traced.send(1, &mut headers);
        assert_ne!(traceparent(&headers).0, "0".repeat(32), "a trace was begun");
        drop(traced);
        drop(traces);
        TcpStream::connect(at).unwrap().write_all(b"stop").unwrap();
        assert_eq!(sent.join().unwrap(), 1);
    }

    #[test]
    fn spans_go_where_collectors_take_them_unless_another_path_is_written() {
        assert_eq!(endpoint("http://c:4318"), "http://c:4318/v1/traces");
        assert_eq!(endpoint("http://c:4318/"), "http://c:4318/v1/traces");
        assert_eq!(endpoint("http://c:4318/otel/v1/traces"), "http://c:4318/otel/v1/traces");
    }
}
