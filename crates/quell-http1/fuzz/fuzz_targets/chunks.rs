//! Bodies in chunks: in one piece or byte by byte they come to the same, and the gate and the decoder agree about their ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_http1::decoder::Framing;
use quell_http1::gate::Phase;
use quell_http1_fuzz::{decoded, gated};

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

fuzz_target!(|data: &[u8]| {
    let whole = decoded(Framing::CHUNKED, [data]);
    assert_eq!(whole, decoded(Framing::CHUNKED, data.chunks(1)));

    let gate = gated([HEAD, data]);
    let passed = decoded(Framing::CHUNKED, [&gate.passed[HEAD.len()..]]);
    assert_ne!(passed.is_over, None, "the gate lets no broken body through");
    if gate.phase == Phase::Body {
        assert_eq!(passed.is_over, Some(false), "both know that it is under way");
    } else {
        // What follows it is another request, or the beginning of one.
        assert_eq!((passed.is_over, &passed.data), (Some(true), &whole.data));
    }
});
