//! Limits: how much of everything a peer may send.
//!
//! **Why.** A limit that is written in two places is changed in one of them. Then a request passes the first check and
//! breaks the second one, and its caller sees a connection that closes without a word.
//!
//! **How.** Every limit of HTTP/1 is a constant in this file, and so are the limits of HTTP/2 that have to agree with
//! them. Checks, parsers, buffers, messages and tests take the number from here: to change a limit, change it here.
//! A request that exceeds a limit of its head is answered 431, or 414 if its target is too long. A body that exceeds one
//! is answered 400. A reply that exceeds one counts as broken.

/// A limit, and the sentence that tells a peer about it with the same number.
macro_rules! limit {
    (
        $(#[$doc:meta])*
        $limit:ident = $number:literal $(* $unit:ident)?;
        $(#[$told_doc:meta])*
        $told:ident = $before:literal, $after:literal;
    ) => {
        $(#[$doc])*
        pub const $limit: usize = $number $(* $unit)?;
        $(#[$told_doc])*
        pub(crate) const $told: &str = concat!($before, $number, $after);
    };
}

const KIB: usize = 1024;

limit! {
    /// Fields in one head at most, of a request and of a reply. Each line counts, and so does each crumb of a cookie that
    /// HTTP/2 cuts into many. As many fields may follow a body as trailers.
    MOST_FIELDS = 100;
    MOST_FIELDS_TOLD = "more than ", " header fields";
}

limit! {
    /// Bytes in the head of a request at most, with its request line and its line ends.
    LONGEST_HEAD = 32 * KIB;
    LONGEST_HEAD_TOLD = "the head is longer than ", " KiB";
}

limit! {
    /// Bytes in the target of a request at most.
    LONGEST_TARGET = 8 * KIB;
    LONGEST_TARGET_TOLD = "the target is longer than ", " KiB";
}

limit! {
    /// Bytes in the head of a reply at most.
    LONGEST_REPLY_HEAD = 60 * KIB;
    LONGEST_REPLY_HEAD_TOLD = "its head is longer than ", " KiB";
}

limit! {
    /// Bytes of trailers behind the body of a request at most.
    MOST_TRAILER_BYTES = 8 * KIB;
    MOST_TRAILER_BYTES_TOLD = "too many trailers, or more than ", " KiB of them";
}

limit! {
    /// Digits of a chunk's size at most: no more fit into 64 bits.
    MOST_SIZE_DIGITS = 16;
    MOST_SIZE_DIGITS_TOLD = "a chunk's size is not 1 to ", " hexadecimal digits";
}

/// Bytes of a method at most, as far as anybody looks for the end of one in a request line that does not end.
pub(crate) const LONGEST_METHOD: usize = 64;

/// Bytes of chunk extensions in the body of one request at most. Nobody uses them, and they are not passed on.
pub const MOST_EXTENSION_BYTES: usize = 4 * KIB;

/// Bytes that are looked at to find the end of the line with a chunk's size. It has room for all extensions that
/// [`MOST_EXTENSION_BYTES`] allows.
pub const LONGEST_SIZE_LINE: usize = 8 * KIB;

/// Bytes of trailers behind the body of a reply at most.
pub const MOST_REPLY_TRAILER_BYTES: usize = 16 * KIB;

/// Interim replies (1xx) that an upstream may send before the real one.
pub const MOST_INTERIM_REPLIES: u32 = 100;

/// What HTTP/2 counts of a request's head at most: the same head may come over either protocol.
pub const LONGEST_HEADER_LIST: u32 = header_list(LONGEST_HEAD);

/// What HTTP/2 counts of a reply's head at most.
pub const LONGEST_REPLY_HEADER_LIST: u32 = header_list(LONGEST_REPLY_HEAD);

/// The size of a header list as HTTP/2 counts it (each field costs 32 bytes more than its text), in whole KiB.
const fn header_list(head: usize) -> u32 {
    ((head + MOST_FIELDS * 32).div_ceil(KIB) * KIB) as u32 // some ten KiB: it fits
}

const _: () = assert!(MOST_EXTENSION_BYTES + MOST_SIZE_DIGITS + 4 <= LONGEST_SIZE_LINE);
const _: () = assert!(MOST_TRAILER_BYTES <= MOST_REPLY_TRAILER_BYTES);
const _: () = assert!(LONGEST_TARGET < LONGEST_HEAD);
// More than this is more than a map of fields can hold.
const _: () = assert!(MOST_FIELDS <= 16 * KIB);
