//! Decoder: where a body ends, and what of the bytes that came belongs to it.
//!
//! **Why.** On a connection that carries one message after the other, a body that is read one byte too far or too short
//! turns the next message into something else.
//!
//! **How.** [`Framing`] is what the head said of the body, and counts down as the body comes. Chunks are taken apart here;
//! their data is handed on without a copy.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;
use httparse::Status;

use crate::error::Broken;
use crate::limits::{LONGEST_SIZE_LINE, MOST_FIELDS, MOST_REPLY_TRAILER_BYTES};
use crate::parser;
use crate::rules::FieldRules;

const CHUNK: Broken = Broken::Garbled("a chunk's size cannot be read");
const CHUNK_END: Broken = Broken::Garbled("a chunk does not end where its size says");
const TRAILERS: Broken = Broken::Garbled("trailers that cannot be read");

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Nothing: all of it has come.
    Over,
    /// So many bytes.
    Length(u64),
    /// Chunks, of which so much has come.
    Chunks(Part),
    /// Whatever comes until the connection ends.
    UntilEnd,
}

/// Where in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Before the line with its size.
    Size,
    /// In its data, of which so many bytes are still to come.
    Data(u64),
    /// Before the line end behind its data.
    DataEnd,
    /// After the last one.
    Trailers,
}

/// What the bytes hold next.
#[derive(Debug)]
pub enum Piece {
    /// Bytes of the body.
    Data(Bytes),
    /// What followed it: the body ended.
    Trailers(HeaderMap),
    /// The body ended.
    Over,
    /// More has to come first.
    Starved,
}

impl Framing {
    /// Chunks, of which nothing has come.
    pub const CHUNKED: Self = Self::Chunks(Part::Size);

    /// So many bytes.
    pub const fn of_length(length: u64) -> Self {
        if length == 0 { Self::Over } else { Self::Length(length) }
    }

    /// How much is known to follow: what can be read without looking at it.
    pub(crate) const fn ahead(self) -> u64 {
        match self {
            Self::Length(left) | Self::Chunks(Part::Data(left)) => left,
            Self::UntilEnd => u64::MAX,
            _ => 0,
        }
    }

    /// So much of what [`Framing::ahead`] told was read.
    pub(crate) const fn passed(&mut self, read: u64) {
        match self {
            Self::Length(left) => *self = Self::of_length(left.saturating_sub(read)),
            Self::Chunks(Part::Data(left)) if *left <= read => *self = Self::Chunks(Part::DataEnd),
            Self::Chunks(Part::Data(left)) => *left -= read,
            _ => {}
        }
    }

    /// Takes the next piece of the body from the bytes.
    pub fn next(&mut self, bytes: &mut BytesMut, rules: &FieldRules) -> Result<Piece, Broken> {
        loop {
            match self {
                Self::Over => return Ok(Piece::Over),
                _ if bytes.is_empty() => return Ok(Piece::Starved),
                Self::Length(_) | Self::UntilEnd | Self::Chunks(Part::Data(_)) => {
                    let length = usize::try_from(self.ahead()).unwrap_or(usize::MAX);
                    let data = parser::split(bytes, length);
                    self.passed(data.len() as u64);
                    return Ok(Piece::Data(data));
                }
                Self::Chunks(Part::Size) => match httparse::parse_chunk_size(bytes) {
                    Ok(Status::Complete((line, size))) if line <= LONGEST_SIZE_LINE => {
                        bytes.advance(line);
                        let part = if size == 0 { Part::Trailers } else { Part::Data(size) };
                        *self = Self::Chunks(part);
                    }
                    Ok(Status::Partial) if bytes.len() <= LONGEST_SIZE_LINE => {
                        return Ok(Piece::Starved);
                    }
                    Ok(_) | Err(_) => return Err(CHUNK),
                },
                Self::Chunks(Part::DataEnd) => match bytes.get(..2) {
                    Some(b"\r\n") => {
                        bytes.advance(2);
                        *self = Self::CHUNKED;
                    }
                    None if bytes.starts_with(b"\r") => return Ok(Piece::Starved),
                    _ => return Err(CHUNK_END),
                },
                Self::Chunks(Part::Trailers) => return self.trailers(bytes, rules),
            }
        }
    }

    /// The next of the body as frames: one, or its end. `None` while more has to come first.
    pub(crate) fn frame(
        &mut self,
        bytes: &mut BytesMut,
        rules: &FieldRules,
    ) -> Option<Option<Result<Frame<Bytes>, Broken>>> {
        match self.next(bytes, rules) {
            Ok(Piece::Data(data)) => Some(Some(Ok(Frame::data(data)))),
            Ok(Piece::Trailers(trailers)) => Some(Some(Ok(Frame::trailers(trailers)))),
            Ok(Piece::Over) => Some(None),
            Ok(Piece::Starved) => None,
            Err(broken) => Some(Some(Err(broken))),
        }
    }

    fn trailers(&mut self, bytes: &mut BytesMut, rules: &FieldRules) -> Result<Piece, Broken> {
        if bytes.starts_with(b"\r\n") {
            bytes.advance(2);
            *self = Self::Over;
            return Ok(Piece::Over);
        }
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        match httparse::parse_headers(bytes, &mut fields) {
            Ok(Status::Complete((length, fields))) if length <= MOST_REPLY_TRAILER_BYTES => {
                let trailers = parser::trailers(fields, rules).ok_or(TRAILERS)?;
                bytes.advance(length);
                *self = Self::Over;
                Ok(Piece::Trailers(trailers))
            }
            Ok(Status::Partial) if bytes.len() <= MOST_REPLY_TRAILER_BYTES => Ok(Piece::Starved),
            Ok(_) | Err(_) => Err(TRAILERS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a body comes to, given in parts.
    fn read(
        mut framing: Framing,
        parts: &[&[u8]],
    ) -> Result<(Vec<u8>, usize, bool, Vec<u8>), String> {
        let (mut bytes, mut data) = (BytesMut::new(), Vec::new());
        let (mut trailers, mut is_over) = (0, false);
        for part in parts {
            bytes.extend_from_slice(part);
            loop {
                match framing
                    .next(&mut bytes, &FieldRules::ANY)
                    .map_err(|error| error.to_string())?
                {
                    Piece::Data(piece) => data.extend_from_slice(&piece),
                    Piece::Trailers(fields) => trailers += fields.len(),
                    Piece::Over => is_over = true,
                    Piece::Starved => break,
                }
                if is_over {
                    break;
                }
            }
        }
        Ok((data, trailers, is_over, bytes.to_vec()))
    }

    #[test]
    fn a_body_of_known_length_ends_there_and_what_follows_stays() {
        let all = read(Framing::of_length(3), &[b"ab", b"cGET"]).unwrap();
        assert_eq!(all, (b"abc".to_vec(), 0, true, b"GET".to_vec()));
        assert_eq!(read(Framing::of_length(0), &[b"x"]).unwrap().3, b"x");
    }

    #[test]
    fn chunks_are_put_together_wherever_they_are_cut() {
        let body = b"3;x\r\nabc\r\nA\r\n0123456789\r\n0\r\nSum: 1\r\nOther: 2\r\n\r\nrest";
        for cut in 0..body.len() {
            let (data, trailers, is_over, rest) =
                read(Framing::CHUNKED, &[&body[..cut], &body[cut..]]).unwrap();
            assert_eq!((data.as_slice(), trailers), (b"abc0123456789".as_slice(), 2), "{cut}");
            assert!(is_over && rest == b"rest", "{cut}");
        }
        let singly: Vec<_> = body.chunks(1).collect();
        assert_eq!(read(Framing::CHUNKED, &singly).unwrap().0, b"abc0123456789");
    }

    #[test]
    fn a_body_without_trailers_ends_with_its_empty_line() {
        assert_eq!(
            read(Framing::CHUNKED, &[b"1\r\na\r\n0\r\n\r\nHTTP"]).unwrap(),
            (b"a".to_vec(), 0, true, b"HTTP".to_vec())
        );
    }

    #[test]
    fn nonsense_and_endless_lines_are_errors() {
        for body in ["x\r\n", "3\r\nabcd\r\n", "0\r\n: x\r\n\r\n", "fffffffffffffffff\r\n"] {
            assert!(read(Framing::CHUNKED, &[body.as_bytes()]).is_err(), "{body}");
        }
        let line = format!("3;{}", "x".repeat(LONGEST_SIZE_LINE));
        assert!(read(Framing::CHUNKED, &[line.as_bytes()]).is_err());
        let trailers = format!("0\r\na: {}", "x".repeat(MOST_REPLY_TRAILER_BYTES));
        assert!(read(Framing::CHUNKED, &[trailers.as_bytes()]).is_err());
    }

    /// Where an upstream's bytes are cut must make no difference to what they come to.
    #[test]
    fn a_line_that_is_too_long_is_an_error_when_it_comes_at_once_too() {
        let line = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(LONGEST_SIZE_LINE));
        let trailers = format!("0\r\na: {}\r\n\r\n", "x".repeat(MOST_REPLY_TRAILER_BYTES));
        for body in [line, trailers] {
            assert!(read(Framing::CHUNKED, &[body.as_bytes()]).is_err());
            let singly: Vec<_> = body.as_bytes().chunks(1).collect();
            assert!(read(Framing::CHUNKED, &singly).is_err());
        }
    }

    #[test]
    fn until_the_end_everything_is_data() {
        assert_eq!(read(Framing::UntilEnd, &[b"0\r\n", b"\r\n"]).unwrap().0, b"0\r\n\r\n");
    }
}
