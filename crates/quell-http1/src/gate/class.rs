//! Classes of bytes: where in a head each byte may stand.
//!
//! **Why.** Every byte of a head is asked this once, so one look into a table has to answer.

/// What bytes may be part of, by [`CLASSES`].
pub(super) const TOKEN: u8 = 1;
pub(super) const TARGET: u8 = 2;
pub(super) const TEXT: u8 = 4;

/// The classes of every byte: of names and methods (`tchar`), of targets, of values (visible, blank, tab or over ASCII).
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        if byte.is_ascii_alphanumeric() || is_one_of(byte, b"!#$%&'*+-.^_`|~") {
            classes[i] |= TOKEN;
        }
        // What URIs may have, and what clients are known to leave as it is.
        if byte.is_ascii_alphanumeric() || is_one_of(byte, b"-._~%:/?[]@!$&'()*+,;=|{}^\\") {
            classes[i] |= TARGET;
        }
        if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
            classes[i] |= TEXT;
        }
        i += 1;
    }
    classes
}

const fn is_one_of(byte: u8, set: &[u8]) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == byte {
            return true;
        }
        i += 1;
    }
    false
}

#[inline]
pub(super) fn is(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}
