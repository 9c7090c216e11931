//! Values of the fields that frame and route a message, on both sides: the gate, the parser and a plain reading of the
//! values agree about the framing.
//!
//! The input is a list of lines: a first byte that picks the field, then its value.
#![no_main]

use bytes::BytesMut;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Method, Request};
use libfuzzer_sys::fuzz_target;
use quell_http1::decoder::Framing;
use quell_http1::gate::check;
use quell_http1::{FieldRules, parser};
use quell_http1_fuzz::gated;

const NAMES: [&str; 10] = [
    "Host",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Expect",
    "TE",
    "Upgrade",
    "Cookie",
    "Content_Length",
    "X-Other",
];

fuzz_target!(|data: &[u8]| {
    let mut fields = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some((first, value)) = line.split_first() else { continue };
        fields.extend_from_slice(NAMES[usize::from(*first) % NAMES.len()].as_bytes());
        fields.extend_from_slice(b": ");
        fields.extend(value.iter().filter(|byte| **byte != b'\r'));
        fields.extend_from_slice(b"\r\n");
    }
    request(&[b"POST / HTTP/1.1\r\n", fields.as_slice(), b"\r\n"].concat());
    reply(&[b"HTTP/1.1 200 OK\r\n", fields.as_slice(), b"\r\n"].concat());
});

fn request(head: &[u8]) {
    let gate = gated([head]);
    if gate.refused.is_some() {
        return;
    }
    assert_eq!(gate.passed, head);
    let read = parser::request(&mut BytesMut::from(head)).expect("it has passed");
    let said = |name| read.parts.headers.get_all(name).iter().collect::<Vec<_>>();
    let (lengths, codings) = (said(CONTENT_LENGTH), said(TRANSFER_ENCODING));
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => assert_eq!(read.framing, Framing::Over),
        ([length], []) => {
            let length = length.to_str().expect("digits").parse().expect("digits");
            assert_eq!(read.framing, Framing::of_length(length));
        }
        ([], [coding]) => {
            assert!(coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
            assert_eq!(read.framing, Framing::CHUNKED);
        }
        both => panic!("framed twice: {both:?}"),
    }
    let _ = check(&Request::from_parts(read.parts, ()));
}

fn reply(head: &[u8]) {
    let rules = FieldRules::ANY;
    let Ok(Some(read)) = parser::reply(&mut BytesMut::from(head), &Method::GET, &rules) else {
        return;
    };
    if matches!(read.framing, Framing::Chunks(_) | Framing::UntilEnd) {
        assert!(!read.keep || !read.parts.headers.contains_key(CONTENT_LENGTH));
    }
}
