//! Coded: where a body ends, and what of the bytes that came belongs to it.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;
use httparse::Status;

use super::Broken;
use super::head;

/// The longest line of a chunk's size, and the longest trailers.
const LONGEST_LINE: usize = 8 * 1024;
const LONGEST_TRAILERS: usize = 16 * 1024;
const MOST_TRAILERS: usize = 100;

const CHUNK: Broken = Broken::Garbled("a chunk's size cannot be read");
const CHUNK_END: Broken = Broken::Garbled("a chunk does not end where its size says");
const TRAILERS: Broken = Broken::Garbled("trailers that cannot be read");

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coded {
    Over,
    /// So many bytes.
    Length(u64),
    Chunks(Part),
    /// Whatever comes until the connection ends.
    UntilEnd,
}

/// Where in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
}

/// What the bytes hold next.
#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    /// The body ended.
    Over,
    /// More has to come first.
    Starved,
}

impl Coded {
    pub(super) const CHUNKED: Self = Self::Chunks(Part::Size);

    pub(super) const fn of_length(length: u64) -> Self {
        if length == 0 { Self::Over } else { Self::Length(length) }
    }

    /// How much is known to follow: what can be read without looking at it.
    pub(super) const fn ahead(self) -> u64 {
        match self {
            Self::Length(left) | Self::Chunks(Part::Data(left)) => left,
            Self::UntilEnd => u64::MAX,
            _ => 0,
        }
    }

    /// So much of what [`Coded::ahead`] told was read.
    pub(super) const fn passed(&mut self, read: u64) {
        match self {
            Self::Length(left) => *self = Self::of_length(left.saturating_sub(read)),
            Self::Chunks(Part::Data(left)) if *left <= read => *self = Self::Chunks(Part::DataEnd),
            Self::Chunks(Part::Data(left)) => *left -= read,
            _ => {}
        }
    }

    /// Takes the next piece of the body from the bytes.
    pub(super) fn next(&mut self, bytes: &mut BytesMut) -> Result<Piece, Broken> {
        loop {
            match self {
                Self::Over => return Ok(Piece::Over),
                _ if bytes.is_empty() => return Ok(Piece::Starved),
                Self::Length(_) | Self::UntilEnd | Self::Chunks(Part::Data(_)) => {
                    let length = usize::try_from(self.ahead()).unwrap_or(usize::MAX);
                    let data = head::split(bytes, length);
                    self.passed(data.len() as u64);
                    return Ok(Piece::Data(data));
                }
                Self::Chunks(Part::Size) => match httparse::parse_chunk_size(bytes) {
                    Ok(Status::Complete((line, size))) => {
                        bytes.advance(line);
                        let part = if size == 0 { Part::Trailers } else { Part::Data(size) };
                        *self = Self::Chunks(part);
                    }
                    Ok(Status::Partial) if bytes.len() <= LONGEST_LINE => {
                        return Ok(Piece::Starved);
                    }
                    Ok(Status::Partial) | Err(_) => return Err(CHUNK),
                },
                Self::Chunks(Part::DataEnd) => match bytes.get(..2) {
                    Some(b"\r\n") => {
                        bytes.advance(2);
                        *self = Self::CHUNKED;
                    }
                    None if bytes.starts_with(b"\r") => return Ok(Piece::Starved),
                    _ => return Err(CHUNK_END),
                },
                Self::Chunks(Part::Trailers) => return self.trailers(bytes),
            }
        }
    }

    /// The next of the body as frames: one, or its end. `None` while more has to come first.
    pub(super) fn frame(
        &mut self,
        bytes: &mut BytesMut,
    ) -> Option<Option<Result<Frame<Bytes>, Broken>>> {
        match self.next(bytes) {
            Ok(Piece::Data(data)) => Some(Some(Ok(Frame::data(data)))),
            Ok(Piece::Trailers(trailers)) => Some(Some(Ok(Frame::trailers(trailers)))),
            Ok(Piece::Over) => Some(None),
            Ok(Piece::Starved) => None,
            Err(broken) => Some(Some(Err(broken))),
        }
    }

    fn trailers(&mut self, bytes: &mut BytesMut) -> Result<Piece, Broken> {
        if bytes.starts_with(b"\r\n") {
            bytes.advance(2);
            *self = Self::Over;
            return Ok(Piece::Over);
        }
        let mut fields = [httparse::EMPTY_HEADER; MOST_TRAILERS];
        match httparse::parse_headers(bytes, &mut fields) {
            Ok(Status::Complete((length, fields))) => {
                let trailers = head::trailers(fields).ok_or(TRAILERS)?;
                bytes.advance(length);
                *self = Self::Over;
                Ok(Piece::Trailers(trailers))
            }
            Ok(Status::Partial) if bytes.len() <= LONGEST_TRAILERS => Ok(Piece::Starved),
            Ok(Status::Partial) | Err(_) => Err(TRAILERS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a body comes to, given in parts.
    fn read(mut coded: Coded, parts: &[&[u8]]) -> Result<(Vec<u8>, usize, bool, Vec<u8>), String> {
        let (mut bytes, mut data) = (BytesMut::new(), Vec::new());
        let (mut trailers, mut is_over) = (0, false);
        for part in parts {
            bytes.extend_from_slice(part);
            loop {
                match coded.next(&mut bytes).map_err(|error| error.to_string())? {
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
        let all = read(Coded::of_length(3), &[b"ab", b"cGET"]).unwrap();
        assert_eq!(all, (b"abc".to_vec(), 0, true, b"GET".to_vec()));
        assert_eq!(read(Coded::of_length(0), &[b"x"]).unwrap().3, b"x");
    }

    #[test]
    fn chunks_are_put_together_wherever_they_are_cut() {
        let body = b"3;x\r\nabc\r\nA\r\n0123456789\r\n0\r\nSum: 1\r\nOther: 2\r\n\r\nrest";
        for cut in 0..body.len() {
            let (data, trailers, is_over, rest) =
                read(Coded::CHUNKED, &[&body[..cut], &body[cut..]]).unwrap();
            assert_eq!((data.as_slice(), trailers), (b"abc0123456789".as_slice(), 2), "{cut}");
            assert!(is_over && rest == b"rest", "{cut}");
        }
        let singly: Vec<_> = body.chunks(1).collect();
        assert_eq!(read(Coded::CHUNKED, &singly).unwrap().0, b"abc0123456789");
    }

    #[test]
    fn a_body_without_trailers_ends_with_its_empty_line() {
        assert_eq!(
            read(Coded::CHUNKED, &[b"1\r\na\r\n0\r\n\r\nHTTP"]).unwrap(),
            (b"a".to_vec(), 0, true, b"HTTP".to_vec())
        );
    }

    #[test]
    fn nonsense_and_endless_lines_are_errors() {
        for body in ["x\r\n", "3\r\nabcd\r\n", "0\r\n: x\r\n\r\n", "fffffffffffffffff\r\n"] {
            assert!(read(Coded::CHUNKED, &[body.as_bytes()]).is_err(), "{body}");
        }
        let line = format!("3;{}", "x".repeat(LONGEST_LINE));
        assert!(read(Coded::CHUNKED, &[line.as_bytes()]).is_err());
        let trailers = format!("0\r\na: {}", "x".repeat(LONGEST_TRAILERS));
        assert!(read(Coded::CHUNKED, &[trailers.as_bytes()]).is_err());
    }

    #[test]
    fn until_the_end_everything_is_data() {
        assert_eq!(read(Coded::UntilEnd, &[b"0\r\n", b"\r\n"]).unwrap().0, b"0\r\n\r\n");
    }
}
