//! Requests as a stranger may send them: where the bytes are cut makes no difference, and what passes the gate is read by
//! the parser, the decoder and httparse with the same bounds and the same fields.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_http1::gate::Phase;
use quell_http1_fuzz::{gated, read_all};

fuzz_target!(|data: &[u8]| {
    let whole = gated([data]);
    let singly = gated(data.chunks(1));
    assert_eq!(whole.refused, singly.refused);
    if whole.refused.is_none() {
        assert_eq!(whole, singly);
    } else {
        // Of a body that is refused late its head has passed.
        assert!(singly.passed.starts_with(&whole.passed));
    }
    if whole.phase != Phase::Open {
        read_all(&whole);
        read_all(&singly);
    }
});
