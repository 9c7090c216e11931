//! A body in chunks, followed strictly: sizes, extensions, line ends and trailers.

use super::class::{TEXT, TOKEN, is};
use super::malformed::{Malformed, bad};
use crate::limits::{
    MOST_EXTENSION_BYTES, MOST_FIELDS, MOST_SIZE_DIGITS, MOST_SIZE_DIGITS_TOLD, MOST_TRAILER_BYTES,
    MOST_TRAILER_BYTES_TOLD,
};

/// How far a body was followed.
#[derive(Debug, Clone, Default)]
pub(super) struct Chunks {
    part: Part,
    /// What is left of the chunk.
    left: u64,
    digits: usize,
    extensions: usize,
    trailers: usize,
    fields: usize,
}

#[derive(Debug, Clone, Copy, Default)]
enum Part {
    #[default]
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEnded,
    /// The beginning of a line after the last chunk.
    Line,
    Name,
    Value,
    ValueEnd,
    End,
}

const SIZE: Malformed = bad("chunk", MOST_SIZE_DIGITS_TOLD);
const LONG: Malformed = bad("chunk", "a chunk is longer than can be counted");
const EXTENSION: Malformed = bad("chunk", "a chunk's extensions are too long or not text");
const CHUNK_END: Malformed = bad("chunk", "a chunk does not end where its size says");
const TRAILER: Malformed = bad("trailer", "a trailer is not a header field");
const TRAILERS: Malformed = bad("trailer", MOST_TRAILER_BYTES_TOLD);

impl Chunks {
    /// Follows it through these bytes: how many of them are its own, and whether it ends with them. If something is
    /// wrong, how many were well.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(usize, bool), (usize, Malformed)> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if let Part::Data = self.part {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                at += here;
                self.left -= here as u64;
                if self.left == 0 {
                    self.part = Part::DataEnd;
                }
                continue;
            }
            let part = self.step(*byte).map_err(|malformed| (at, malformed))?;
            at += 1;
            match part {
                Some(part) => self.part = part,
                None => return Ok((at, true)),
            }
        }
        Ok((at, false))
    }

    /// The part that follows on this byte; `None` if the body ends with it.
    fn step(&mut self, byte: u8) -> Result<Option<Part>, Malformed> {
        let next = match self.part {
            Part::Size => match (byte as char).to_digit(16) {
                Some(_) if self.digits == MOST_SIZE_DIGITS => return Err(SIZE),
                Some(digit) => {
                    self.digits += 1;
                    self.left = self.left << 4 | u64::from(digit);
                    Part::Size
                }
                None if self.digits == 0 => return Err(SIZE),
                None if self.left > i64::MAX as u64 => return Err(LONG),
                None => match byte {
                    b'\r' => Part::SizeEnd,
                    b';' => Part::Extension,
                    _ => return Err(SIZE),
                },
            },
            Part::Extension if byte == b'\r' => Part::SizeEnd,
            Part::Extension => {
                self.extensions += 1;
                if self.extensions > MOST_EXTENSION_BYTES || !is(byte, TEXT) {
                    return Err(EXTENSION);
                }
                Part::Extension
            }
            Part::SizeEnd if byte != b'\n' => return Err(SIZE),
            Part::SizeEnd if self.left == 0 => Part::Line,
            Part::SizeEnd | Part::Data => Part::Data,
            Part::DataEnd if byte == b'\r' => Part::DataEnded,
            Part::DataEnded if byte == b'\n' => {
                self.digits = 0;
                Part::Size
            }
            Part::DataEnd | Part::DataEnded => return Err(CHUNK_END),
            Part::End if byte == b'\n' => return Ok(None),
            Part::End => return Err(TRAILER),
            Part::Line if byte == b'\r' => Part::End,
            Part::Line | Part::Name | Part::Value | Part::ValueEnd => self.trailer(byte)?,
        };
        Ok(Some(next))
    }

    fn trailer(&mut self, byte: u8) -> Result<Part, Malformed> {
        self.trailers += 1;
        self.fields += usize::from(matches!(self.part, Part::Line));
        if self.trailers > MOST_TRAILER_BYTES || self.fields > MOST_FIELDS {
            return Err(TRAILERS);
        }
        match (self.part, byte) {
            (Part::Name, b':') => Ok(Part::Value),
            (Part::Line | Part::Name, _) if is(byte, TOKEN) => Ok(Part::Name),
            (Part::Value, b'\r') => Ok(Part::ValueEnd),
            (Part::Value, _) if is(byte, TEXT) => Ok(Part::Value),
            (Part::ValueEnd, b'\n') => Ok(Part::Line),
            _ => Err(TRAILER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that are the body's own.
    fn own(body: &[u8]) -> Result<usize, &'static str> {
        let mut chunks = Chunks::default();
        match chunks.read(body) {
            Ok((length, true)) => Ok(length),
            Ok((_, false)) => Err("unfinished"),
            Err((_, malformed)) => Err(malformed.code),
        }
    }

    #[test]
    fn a_body_ends_after_the_empty_line_behind_its_last_chunk() {
        assert_eq!(own(b"3\r\nabc\r\n00\r\n\r\nGET /"), Ok(14));
        assert_eq!(own(b"A;x=\"y\";z\r\n0123\r\n6789\r\n0\r\nx-sum: 1\t2\r\ny:\r\n\r\n"), Ok(44));
        assert_eq!(own(b"3\r\nabc\r\n0\r\n"), Err("unfinished"));
        assert_eq!(own(b"7fffffffffffffff\r\nabc"), Err("unfinished"));
    }

    #[test]
    fn sizes_are_hexadecimal_digits_and_nothing_else() {
        for size in ["", "+3", "-3", " 3", "3 ", "3\t", "0x3", "3\n", "3\r", "3,", "g", "3\r\r\n"] {
            assert_eq!(
                own(format!("{size}\r\nabc\r\n0\r\n\r\n").as_bytes()),
                Err("chunk"),
                "{size:?}"
            );
        }
        assert_eq!(own(b"00000000000000003\r\nabc\r\n"), Err("chunk"), "17 digits");
        assert_eq!(own(b"8000000000000000\r\nabc\r\n"), Err("chunk"), "over what can be counted");
    }

    #[test]
    fn a_chunk_ends_where_its_size_says_and_lines_end_with_both_bytes() {
        for body in ["3\r\nabcd\r\n", "3\r\nab\r\n0\r\n", "3\nabc\r\n", "3\r\nabc\n", "3\r\nabc\rX"]
        {
            assert_eq!(own(body.as_bytes()), Err("chunk"), "{body:?}");
        }
        for rest in [
            "\n",
            "\rX",
            "a\r\n\r\n",
            " a: b\r\n\r\n",
            ": b\r\n\r\n",
            "a : b\r\n\r\n",
            "a: b\n\r\n",
        ] {
            assert_eq!(own(format!("0\r\n{rest}").as_bytes()), Err("trailer"), "{rest:?}");
        }
        assert_eq!(own(b"0\r\na: \x01\r\n\r\n"), Err("trailer"));
    }

    #[test]
    fn extensions_and_trailers_are_bounded_over_the_whole_body() {
        let chunk = format!("1;{}\r\nx\r\n", "e".repeat(1_000));
        assert_eq!(
            own(format!("{}0\r\n\r\n", chunk.repeat(4)).as_bytes()),
            Ok(4 * chunk.len() + 5)
        );
        assert_eq!(own(format!("{}0\r\n\r\n", chunk.repeat(5)).as_bytes()), Err("chunk"));
        assert_eq!(own(b"1;\x01\r\nx\r\n"), Err("chunk"));
        let trailers =
            |count: usize, line: &str| own(format!("0\r\n{}\r\n", line.repeat(count)).as_bytes());
        assert!(trailers(MOST_FIELDS, "a:\r\n").is_ok());
        assert_eq!(trailers(MOST_FIELDS + 1, "a:\r\n"), Err("trailer"));
        assert_eq!(
            trailers(1, &format!("a:{}\r\n", "x".repeat(MOST_TRAILER_BYTES))),
            Err("trailer")
        );
    }
}
