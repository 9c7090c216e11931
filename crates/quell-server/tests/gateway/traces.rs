//! Traces of a running gateway, as a collector gets them.

use bytes::Bytes;
use http_body_util::Full;

use crate::kit::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
/// The kinds of spans, as numbered by OTLP.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

#[derive(Debug, Default)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    attributes: Vec<(String, String)>,
}

impl Span {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A field of a protobuf message: a number, or the bytes of a text, a message or whatever else.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(from: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = from[0];
        *from = &from[1..];
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return number;
        }
    }
}

/// The fields of a message, by their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = match key & 7 {
            0 => {
                fields.push((key >> 3, Field::Number(varint(&mut message))));
                continue;
            }
            1 => 8,
            2 => varint(&mut message) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (bytes, rest) = message.split_at(length);
        fields.push((key >> 3, Field::Bytes(bytes)));
        message = rest;
    }
    fields
}

/// The messages in this field.
fn within<'a>(message: &'a [u8], number: u64) -> Vec<&'a [u8]> {
    let inside = |(field, value): (u64, Field<'a>)| match value {
        Field::Bytes(bytes) if field == number => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(inside).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn span(message: &[u8]) -> Span {
    let mut span = Span::default();
    for field in fields(message) {
        match field {
            (1, Field::Bytes(id)) => span.trace = hex(id),
            (2, Field::Bytes(id)) => span.id = hex(id),
            (4, Field::Bytes(id)) => span.parent = hex(id),
            (5, Field::Bytes(name)) => span.name = text(name),
            (6, Field::Number(kind)) => span.kind = kind,
            (9, Field::Bytes(pair)) => {
                let value = match fields(within(pair, 2)[0]).remove(0) {
                    (1, Field::Bytes(value)) => text(value),
                    (_, Field::Number(value)) => value.to_string(),
                    (_, Field::Bytes(value)) => hex(value),
                };
                span.attributes.push((text(within(pair, 1)[0]), value));
            }
            _ => {}
        }
    }
    span
}

/// All spans that came so far: those of every scope of every resource of every batch.
fn spans(collector: &Fake) -> Vec<Span> {
    let batches = collector.seen();
    let resources = batches.iter().flat_map(|batch| within(&batch.body, 1));
    let scopes = resources.flat_map(|resource| within(resource, 2));
    scopes.flat_map(|scope| within(scope, 2)).map(span).collect()
}

#[tokio::test]
async fn a_request_that_is_retried_is_one_trace_with_a_span_for_each_attempt() {
    let collector = Fake::start(|_, _| answer(200, "")).await;
    let upstream = Fake::start(|n, _| answer(if n == 1 { 503 } else { 200 }, "x")).await;
    let gateway = gateway_with(upstream.addr, |config| {
        config.file.gateway.otlp = Some(format!("http://{}", collector.addr));
    });
    let request = request("GET", "/orders?page=2")
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"))
        .body(Full::<Bytes>::default());
    assert_eq!(send(gateway.addr(), request.unwrap()).await.status, 200);
    until("the spans arrive", || async { spans(&collector).len() >= 3 }).await;

    let spans = spans(&collector);
    let of = |kind| spans.iter().filter(move |span| span.kind == kind).collect::<Vec<_>>();
    let [call] = of(SERVER)[..] else { panic!("{spans:#?}") };
    let [first, second] = of(CLIENT)[..] else { panic!("{spans:#?}") };
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert_eq!((call.parent.as_str(), call.name.as_str()), (CALLER, "GET default"));
    assert_eq!(
        (call.get("url.path"), call.get("quell.outcome")),
        (Some("/orders"), Some("success"))
    );
    assert_eq!(call.get("http.response.status_code"), Some("200"));
    for (attempt, code, resent) in [(first, "503", None), (second, "200", Some("1"))] {
        assert_eq!(attempt.parent, call.id);
        assert_eq!(attempt.get("http.response.status_code"), Some(code));
        assert_eq!(attempt.get("http.request.resend_count"), resent);
    }
    // Whoever is called goes on from the attempt it was called by.
    let told = upstream
        .seen()
        .iter()
        .map(|seen| seen.header("traceparent").unwrap().to_owned())
        .collect::<Vec<_>>();
    let expected = [first, second].map(|attempt| format!("00-{TRACE}-{}-01", attempt.id));
    assert_eq!(told, expected);
    assert_eq!(collector.seen()[0].uri.path(), "/v1/traces");
}
