//! What the fuzz targets share: readers that are run side by side.

use bytes::BytesMut;
use http::{HeaderMap, Request};
use quell_http1::FieldRules;
use quell_http1::decoder::{Framing, Piece};
use quell_http1::gate::{Gate, Malformed, Phase, Refused, check};
use quell_http1::limits::MOST_FIELDS;
use quell_http1::parser;

/// What the gate made of bytes that came in parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Gated {
    /// What has passed.
    pub passed: Vec<u8>,
    /// Why the rest did not, if it did not.
    pub refused: Option<Malformed>,
    /// Where the connection stands.
    pub phase: Phase,
}

/// Shows a new gate these parts one after the other, with what was left over each time.
pub fn gated<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Gated {
    let mut gate = Gate::new();
    let (mut left, mut passed, mut refused) = (Vec::new(), Vec::new(), None);
    for part in parts {
        left.extend_from_slice(part);
        let look = gate.look(&left);
        passed.extend(left.drain(..look.pass));
        if let Some(Refused::Request(malformed) | Refused::Body(malformed)) = look.refused {
            refused = Some(malformed);
            break;
        }
    }
    Gated { passed, refused, phase: gate.phase() }
}

/// A body, or as much of it as there was.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Its data.
    pub data: Vec<u8>,
    /// Its trailers.
    pub trailers: usize,
    /// Whether it ended; `None` if it is broken.
    pub is_over: Option<bool>,
    /// What was not part of it. Says nothing if it is broken.
    pub rest: Vec<u8>,
}

/// Decodes a body that comes in these parts.
pub fn decoded<'a>(mut framing: Framing, parts: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut bytes = BytesMut::new();
    let mut body =
        Decoded { data: Vec::new(), trailers: 0, is_over: Some(false), rest: Vec::new() };
    // A body may have ended with its head.
    for part in std::iter::once([].as_slice()).chain(parts) {
        bytes.extend_from_slice(part);
        while body.is_over == Some(false) {
            match framing.next(&mut bytes, &FieldRules::ANY) {
                Ok(Piece::Data(data)) => body.data.extend_from_slice(&data),
                Ok(Piece::Trailers(trailers)) => body.trailers += trailers.len(),
                Ok(Piece::Over) => body.is_over = Some(true),
                Ok(Piece::Starved) => break,
                Err(_) => body.is_over = None,
            }
        }
    }
    if body.is_over.is_some() {
        body.rest = bytes.to_vec();
    }
    body
}

/// Reads every request in bytes that have passed the gate. Panics where the parser or the decoder reads them in another
/// way than the gate, or httparse in another way than the parser.
pub fn read_all(gated: &Gated) {
    let mut rest = gated.passed.clone();
    let mut last_is_over = true;
    while !rest.is_empty() {
        assert!(last_is_over, "a request follows a body that did not end");
        let mut bytes = BytesMut::from(rest.as_slice());
        let head = parser::request(&mut bytes).expect("the gate lets only whole heads through");
        assert_same_fields(&rest, &head.parts.headers);
        let _ = check(&Request::from_parts(head.parts, ()));
        let body = decoded(head.framing, [&bytes[..]]);
        last_is_over = body.is_over.expect("the gate lets no broken body through");
        if !last_is_over {
            break; // a part of a line may be left over
        }
        rest = body.rest;
    }
    if gated.refused.is_none() {
        assert_eq!(
            gated.phase == Phase::Body,
            !last_is_over,
            "both know whether a body is under way"
        );
    }
}

/// The fields that httparse finds, as names and values.
fn assert_same_fields(head: &[u8], ours: &HeaderMap) {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    assert!(request.parse(head).expect("httparse reads it, too").is_complete());
    let mut theirs: Vec<_> = request
        .headers
        .iter()
        .map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec()))
        .collect();
    let mut ours: Vec<_> = ours
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    theirs.sort();
    ours.sort();
    assert_eq!(ours, theirs);
}
