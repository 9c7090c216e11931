//! Shape: what kind of request it is, told by its method and by the form of its path.
//!
//! **Why.** A service that answers one path in 3 ms and another in 400 ms is healthy, and whoever mixes up the two sees trouble
//! where there is none. So calls are compared with calls of their own kind only. Nobody has to list the kinds: requests that
//! differ only in what they are about (`/orders/7`, `/orders/8`) are of one.
//!
//! **How.** A segment of the path that looks like an identifier stands as `*`; the query does not count; of a long path the
//! first eight segments do. What looks like an identifier: digits; eight or more hexadecimal digits, dashes among them (so a
//! UUID); mostly digits, or four of them; a longer token in which digits and both cases are mixed; an address with an
//! `@`; whatever is longer than 40 bytes. The key is made in one look at the bytes, and takes no memory.
//!
//! ```
//! use http::Method;
//! use quell::http::Shape;
//!
//! let (one, other) = (Shape::new(&Method::GET, "/orders/7"), Shape::new(&Method::GET, "/orders/8"));
//! assert_eq!(one.to_string(), "GET /orders/*");
//! assert_eq!(one.key(0), other.key(0));
//! assert_ne!(one.key(0), Shape::new(&Method::PUT, "/orders/7").key(0));
//! assert_ne!(one.key(0), one.key(1)); // within another route
//! ```

use std::fmt;

use ::http::Method;

/// Segments that count.
const MOST_SEGMENTS: usize = 8;
/// Longer segments are identifiers, whatever they look like.
const LONGEST_WORD: usize = 40;
/// What stands in a key for an identifier, and for the rest of a long path. No byte of a path is so large.
const ID: u64 = 0x100;
const REST: u64 = 0x200;

/// What kind of request it is: its method and the shape of its path, with what looks like an id left out.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    method: &'a Method,
    path: &'a str,
}

impl<'a> Shape<'a> {
    /// Of a request with this method and this path, without its query.
    pub fn new(method: &'a Method, path: &'a str) -> Self {
        Self { method, path }
    }

    /// What stands for it, never 0. The same shape has another one with another seed: that of its route, say.
    #[inline]
    pub fn key(&self, seed: u64) -> u64 {
        let mut key =
            self.method.as_str().bytes().fold(seed ^ BASIS, |key, byte| mix(key, byte.into()));
        let (mut segments, mut rest) = (0, self.path.as_bytes());
        while let Some((&first, after)) = rest.split_first() {
            if first == b'/' {
                rest = after;
                continue;
            }
            if segments == MOST_SEGMENTS {
                key = mix(key, REST);
                break;
            }
            let begun = mix(key, b'/'.into());
            let (mut looks, mut read, mut length) = (0, begun, 0);
            for &byte in rest {
                if byte == b'/' {
                    break;
                }
                looks += u64::from(LOOKS[usize::from(byte)]);
                read = mix(read, byte.into());
                length += 1;
            }
            key = if is_id(length, looks) { mix(begun, ID) } else { read };
            (segments, rest) = (segments + 1, &rest[length..]);
        }
        spread(key)
    }
}

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut segments = self.path.split('/').filter(|segment| !segment.is_empty());
        write!(f, "{} ", self.method)?;
        for segment in segments.by_ref().take(MOST_SEGMENTS) {
            let looks = segment.bytes().map(|byte| u64::from(LOOKS[usize::from(byte)])).sum();
            f.write_str("/")?;
            f.write_str(if is_id(segment.len(), looks) { "*" } else { segment })?;
        }
        match segments.next() {
            Some(_) => f.write_str("/…"),
            None if self.path.bytes().all(|byte| byte == b'/') => f.write_str("/"),
            None => Ok(()),
        }
    }
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a.
#[inline(always)]
const fn mix(key: u64, byte: u64) -> u64 {
    (key ^ byte).wrapping_mul(0x0100_0000_01b3)
}

/// Makes every bit depend on every other, for whoever looks at a few of them only.
#[inline(always)]
const fn spread(key: u64) -> u64 {
    let key = (key ^ (key >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let key = key ^ (key >> 32);
    if key == 0 { 1 } else { key }
}

// What is counted of a segment, each in a byte of its own of one sum. A segment in which one of them could overflow is an
// identifier for its length.
const DIGIT: u32 = 1;
const HEX: u32 = 1 << 8;
const SMALL: u32 = 1 << 16;
const LARGE: u32 = 1 << 24;
/// For these bytes alone it is one.
const AT: u32 = 4 * DIGIT;

/// What each byte counts for. Dashes stand between hexadecimal digits as well as any of these does.
const LOOKS: [u32; 256] = {
    let (mut looks, mut byte) = ([0; 256], 0);
    while byte < 256 {
        looks[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT | HEX,
            b'a'..=b'f' => SMALL | HEX,
            b'A'..=b'F' => LARGE | HEX,
            b'g'..=b'z' => SMALL,
            b'G'..=b'Z' => LARGE,
            b'-' => HEX,
            b'@' => AT,
            _ => 0,
        };
        byte += 1;
    }
    looks
};

/// Whether a segment of this length, in which so much was counted, is an identifier.
#[inline(always)]
fn is_id(length: usize, looks: u64) -> bool {
    if length > LONGEST_WORD {
        return true;
    }
    let count = |what: u32| (looks / what as u64) as usize & 0xff;
    let (digits, hex) = (count(DIGIT), count(HEX));
    if digits == 0 {
        return false;
    }
    let is_mixed = count(SMALL) > 0 && count(LARGE) > 0;
    digits == length
        || digits >= 4
        || (digits * 2 > length && length >= 5)
        || (hex == length && length >= 8)
        || (is_mixed && length >= 16)
        || (is_mixed && length >= 8 && digits >= 2)
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
