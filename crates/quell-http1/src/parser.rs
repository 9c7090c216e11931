//! Parser: heads, from bytes to `http`'s types.
//!
//! **Why.** What a head says of its connection and its body decides where the next message begins, so it is read in one
//! place, in the same pass that makes the map of fields.
//!
//! **How.** httparse finds the parts. A request's head has passed the [gate](crate::gate) before (which says why it is
//! read twice), so it is whole and well-formed here; a reply's head may be anything. Values are slices of the bytes that
//! came, not copies.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::request;
use http::response;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use httparse::{Header, Status};

use crate::decoder::Framing;
use crate::error::Broken;
use crate::limits::{LONGEST_REPLY_HEAD, LONGEST_REPLY_HEAD_TOLD, MOST_FIELDS};
use crate::rules::FieldRules;

/// Fields that are added to a reply on the way, almost always.
const ADDED: usize = 1;

const HEAD: Broken = Broken::Garbled("a head that cannot be read");
const TOO_LONG: Broken = Broken::Garbled(LONGEST_REPLY_HEAD_TOLD);
const CODINGS: Broken = Broken::Garbled("a coding besides that of chunks");
const LENGTH: Broken = Broken::Garbled("it claims several lengths");

/// The head of a caller's request, and what follows it.
#[derive(Debug)]
pub struct RequestHead {
    /// The head itself.
    pub parts: request::Parts,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether another request may follow on the connection.
    pub keep: bool,
    /// Whether the caller waits for our word before it sends the body.
    pub expects: bool,
}

/// The head of an upstream's reply, and what follows it.
#[derive(Debug)]
pub struct ReplyHead {
    /// The head itself, without what means its connection only.
    pub parts: response::Parts,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether another request may follow on the connection.
    pub keep: bool,
}

/// Takes a request's head off the bytes, which the gate let through: so it is whole.
pub fn request(bytes: &mut BytesMut) -> Result<RequestHead, Broken> {
    let mut found = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut read = httparse::Request::new(&mut []);
    let Ok(Status::Complete(length)) = read.parse_with_uninit_headers(bytes, &mut found) else {
        return Err(HEAD);
    };
    let (Some(method), Some(target)) = (read.method, read.path) else { return Err(HEAD) };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| HEAD)?;
    let target = place(bytes, target.as_bytes());
    let version = version(read.version);
    let mut places = NOWHERE;
    let places = note(&mut places, bytes, read.headers);
    let head = split(bytes, length);

    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = method;
    parts.uri = Uri::from_maybe_shared(at(&head, target)).map_err(|_| HEAD)?;
    parts.version = version;
    let Fields { map, said } = Fields::read(&head, places, 0, |_| true).ok_or(HEAD)?;
    parts.headers = map;
    let framing = match said.length {
        Some(_) => Framing::of_length(said.length()?),
        None if said.chunked.is_some() => Framing::CHUNKED,
        None => Framing::Over,
    };
    let expects = framing != Framing::Over && version == Version::HTTP_11 && {
        let expected = parts.headers.get(EXPECT);
        expected.is_some_and(|word| word.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    };
    Ok(RequestHead { parts, framing, keep: said.keeps(version), expects })
}

/// Takes a reply's head off the bytes; `None` if some of it is missing. `asked` is what it replies to.
pub fn reply(
    bytes: &mut BytesMut,
    asked: &Method,
    rules: &FieldRules,
) -> Result<Option<ReplyHead>, Broken> {
    let mut found = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut read = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut read, bytes, &mut found) {
        Ok(Status::Complete(length)) if length <= LONGEST_REPLY_HEAD => length,
        Ok(Status::Partial) if bytes.len() <= LONGEST_REPLY_HEAD => return Ok(None),
        Ok(_) => return Err(TOO_LONG),
        Err(_) => return Err(HEAD),
    };
    let status = read.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(HEAD)?;
    let version = version(read.version);
    let mut places = NOWHERE;
    let places = note(&mut places, bytes, read.headers);
    let head = split(bytes, length);

    let (mut parts, ()) = Response::new(()).into_parts();
    parts.status = status;
    parts.version = version;
    // What means this connection only is not even noted, but for a change of protocols.
    let is_wanted = |name: &HeaderName| {
        !matches!(*name, CONNECTION | TRANSFER_ENCODING)
            || status == StatusCode::SWITCHING_PROTOCOLS
    };
    let Fields { map, said } = Fields::read(&head, places, ADDED, is_wanted).ok_or(HEAD)?;
    parts.headers = map;
    said.drop_nominated(&mut parts.headers, rules);
    let mut keep = said.keeps(version);
    let framing = match said.chunked {
        // Of chunks and a length the chunks count, and nobody else should see the length.
        Some(_) if said.codings > 1 => return Err(CODINGS), // undone by nobody, and named to nobody
        Some(is_chunked) => {
            keep &= parts.headers.remove(CONTENT_LENGTH).is_none();
            if is_chunked { Framing::CHUNKED } else { Framing::UntilEnd }
        }
        None if said.length.is_none() => Framing::UntilEnd,
        None => Framing::of_length(said.length()?),
    };
    let framing = if has_no_body(status, asked) { Framing::Over } else { framing };
    keep &= framing != Framing::UntilEnd;
    Ok(Some(ReplyHead { parts, framing, keep }))
}

/// Whether a reply of this status to such a request has no body, whatever its fields say.
pub(crate) fn has_no_body(status: StatusCode, asked: &Method) -> bool {
    *asked == Method::HEAD
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

pub(crate) fn number(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes();
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn version(minor: Option<u8>) -> Version {
    if minor == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 }
}

/// From where to where.
type Place = (u32, u32);

/// Takes the first of the bytes off. Where that is all of them, the memory goes along.
pub(crate) fn split(bytes: &mut BytesMut, length: usize) -> Bytes {
    if bytes.len() <= length {
        std::mem::take(bytes).freeze()
    } else {
        bytes.split_to(length).freeze()
    }
}

/// Where in the bytes the names and values of a head's fields stand.
type Places = [(Place, Place); MOST_FIELDS];

const NOWHERE: Places = [((0, 0), (0, 0)); MOST_FIELDS];

/// Notes where the fields stand.
fn note<'p>(places: &'p mut Places, bytes: &[u8], fields: &[Header<'_>]) -> &'p [(Place, Place)] {
    for (to, field) in places.iter_mut().zip(fields) {
        *to = (place(bytes, field.name.as_bytes()), place(bytes, field.value));
    }
    &places[..fields.len().min(MOST_FIELDS)]
}

/// A head's fields, and what some of them say.
struct Fields {
    map: HeaderMap,
    said: Said,
}

/// What a head says of its connection and of its body.
#[derive(Default)]
struct Said {
    close: bool,
    keep_alive: bool,
    /// Names that the connection keeps to itself.
    nominated: Vec<HeaderName>,
    /// Whether the last coding is that of chunks, if there is one.
    chunked: Option<bool>,
    codings: usize,
    /// Every length that is told, if they are one.
    length: Option<Option<u64>>,
}

impl Fields {
    /// Those that stand there and are wanted, in a map with room for some more. One length told twice is told once.
    fn read(
        head: &Bytes,
        places: &[(Place, Place)],
        more: usize,
        is_wanted: impl Fn(&HeaderName) -> bool,
    ) -> Option<Self> {
        let mut map = HeaderMap::with_capacity(places.len() + more);
        let mut said = Said::default();
        for &(name, value) in places {
            let name = head.get(name.0 as usize..name.1 as usize)?;
            let name = HeaderName::from_bytes(name).ok()?;
            let value = HeaderValue::from_maybe_shared(at(head, value)).ok()?;
            match name {
                CONNECTION => said.of_connection(value.as_bytes()),
                TRANSFER_ENCODING => {
                    let mut codings = value.as_bytes().rsplit(|byte| *byte == b',');
                    let last = codings.next().unwrap_or_default().trim_ascii();
                    said.codings += 1 + codings.count();
                    said.chunked = Some(last.eq_ignore_ascii_case(b"chunked"));
                }
                CONTENT_LENGTH => {
                    let length = number(&value);
                    let is_one = said.length.is_none_or(|before| before == length);
                    said.length = Some(length.filter(|_| is_one));
                    map.insert(name, value);
                    continue;
                }
                _ => {}
            }
            if is_wanted(&name) {
                map.append(name, value);
            }
        }
        Some(Self { map, said })
    }
}

impl Said {
    fn of_connection(&mut self, value: &[u8]) {
        for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if word.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if word.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if let Ok(name) = HeaderName::from_bytes(word) {
                self.nominated.push(name);
            }
        }
    }

    fn keeps(&self, version: Version) -> bool {
        !self.close && (version == Version::HTTP_11 || self.keep_alive)
    }

    fn length(&self) -> Result<u64, Broken> {
        self.length.flatten().ok_or(LENGTH)
    }

    /// Takes the fields out that the connection keeps to itself.
    fn drop_nominated(&self, headers: &mut HeaderMap, rules: &FieldRules) {
        for name in self.nominated.iter().filter(|name| (rules.may_be_nominated)(name)) {
            headers.remove(name);
        }
    }
}

fn place(bytes: &[u8], part: &[u8]) -> Place {
    let from = part.as_ptr() as usize - bytes.as_ptr() as usize;
    (from as u32, (from + part.len()) as u32) // no inbox is longer than some hundred KiB
}

fn at(head: &Bytes, (from, to): Place) -> Bytes {
    head.slice(from as usize..to as usize)
}

/// Trailers in memory of their own: those that may be.
pub(crate) fn trailers(fields: &[Header<'_>], rules: &FieldRules) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(field.value).ok()?;
        if (rules.may_trail)(&name) {
            map.append(name, value);
        }
    }
    Some(map)
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
