//! Replies as an upstream may send them: a head that comes byte by byte is the same head, its body ends in the same place,
//! and nothing of its framing is handed on.
#![no_main]

use bytes::BytesMut;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use libfuzzer_sys::fuzz_target;
use quell_http1::FieldRules;
use quell_http1::decoder::Framing;
use quell_http1::parser::{ReplyHead, reply};
use quell_http1_fuzz::decoded;

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let method = if first & 1 == 0 { Method::GET } else { Method::HEAD };
    let read = |bytes: &[u8]| {
        let mut bytes = BytesMut::from(bytes);
        reply(&mut bytes, &method, &FieldRules::ANY).map(|head| head.map(|head| (head, bytes)))
    };
    let whole = read(data);
    let singly = (1..=data.len()).map(|end| (end, read(&data[..end])));
    let first = singly.into_iter().find(|(_, head)| !matches!(head, Ok(None)));
    match (whole, first) {
        (Ok(None), None) | (Err(_), Some((_, Err(_)))) => {}
        (Ok(Some((head, body))), Some((end, Ok(Some((same, nothing)))))) => {
            assert!(nothing.is_empty());
            assert_eq!(data.len() - end, body.len());
            assert_eq!((head.framing, head.keep), (same.framing, same.keep));
            assert_eq!(head.parts.headers, same.parts.headers);
            framed(&head);
            assert_eq!(decoded(head.framing, [&body[..]]), decoded(head.framing, body.chunks(1)));
        }
        (whole, first) => panic!("at once {whole:?}, byte by byte {first:?}"),
    }
});

/// What the head says of its framing is what the framing is.
fn framed(head: &ReplyHead) {
    let ReplyHead { parts, framing, keep } = head;
    let length = parts.headers.get(CONTENT_LENGTH);
    if parts.status != StatusCode::SWITCHING_PROTOCOLS {
        assert!(!parts.headers.contains_key(TRANSFER_ENCODING), "which means its connection only");
    }
    match framing {
        Framing::Length(told) => {
            assert_eq!(length.and_then(|length| length.to_str().ok()?.parse().ok()), Some(*told));
        }
        Framing::Chunks(_) => assert!(length.is_none(), "the chunks count"),
        Framing::UntilEnd => assert!(!keep),
        Framing::Over => {}
    }
}
