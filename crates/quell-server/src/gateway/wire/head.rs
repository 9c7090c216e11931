//! Heads: from bytes and to bytes.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING,
};
use http::request;
use http::response;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use httparse::{Header, Status};

use super::Broken;
use super::coded::Coded;
use super::conn::Terms;
use crate::gateway::headers::{may_be_nominated, may_trail};

/// The longest head of a reply.
const LONGEST_REPLY: usize = 60 * 1024;
/// Fields of a reply at most.
const MOST_FIELDS: usize = 100;
/// Room for most heads, so that it need not be made while one is written.
const HEAD_ROOM: usize = 1000;
/// Fields that are added to a reply on the way, almost always.
const ADDED: usize = 1;

const HEAD: Broken = Broken::Garbled("a head that cannot be read");
const TOO_LONG: Broken = Broken::Garbled("its head is longer than 60 KiB");
const CODINGS: Broken = Broken::Garbled("a coding besides that of chunks");
const LENGTH: Broken = Broken::Garbled("it claims several lengths");

/// The head of a caller's request, and what follows it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) parts: request::Parts,
    pub(super) coded: Coded,
    /// Whether another request may follow on the connection.
    pub(super) keep: bool,
    /// Whether the caller waits for our word before it sends the body.
    pub(super) expects: bool,
}

/// The head of an upstream's reply, and what follows it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) parts: response::Parts,
    pub(super) coded: Coded,
    /// Whether another request may follow on the connection.
    pub(super) keep: bool,
}

/// Takes a request's head off the bytes, which the gate let through: so it is whole.
pub(super) fn request(bytes: &mut BytesMut) -> Result<Asked, Broken> {
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
    let coded = match said.length {
        Some(_) => Coded::of_length(said.length()?),
        None if said.chunked.is_some() => Coded::CHUNKED,
        None => Coded::Over,
    };
    let expects = coded != Coded::Over && version == Version::HTTP_11 && {
        let expected = parts.headers.get(EXPECT);
        expected.is_some_and(|word| word.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    };
    Ok(Asked { parts, coded, keep: said.keeps(version), expects })
}

/// Takes a reply's head off the bytes; `None` if some of it is missing. `asked` is what it replies to.
pub(super) fn reply(bytes: &mut BytesMut, asked: &Method) -> Result<Option<Told>, Broken> {
    let mut found = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut read = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut read, bytes, &mut found) {
        Ok(Status::Complete(length)) if length <= LONGEST_REPLY => length,
        Ok(Status::Partial) if bytes.len() <= LONGEST_REPLY => return Ok(None),
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
    said.drop_nominated(&mut parts.headers);
    let mut keep = said.keeps(version);
    let coded = match said.chunked {
        // Of chunks and a length the chunks count, and nobody else should see the length.
        Some(_) if said.codings > 1 => return Err(CODINGS), // undone by nobody, and named to nobody
        Some(is_chunked) => {
            keep &= parts.headers.remove(CONTENT_LENGTH).is_none();
            if is_chunked { Coded::CHUNKED } else { Coded::UntilEnd }
        }
        None if said.length.is_none() => Coded::UntilEnd,
        None => Coded::of_length(said.length()?),
    };
    let coded = if has_no_body(status, asked) { Coded::Over } else { coded };
    keep &= coded != Coded::UntilEnd;
    Ok(Some(Told { parts, coded, keep }))
}

/// Whether a reply of this status to such a request has no body, whatever its fields say.
pub(super) fn has_no_body(status: StatusCode, asked: &Method) -> bool {
    *asked == Method::HEAD
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

fn number(value: &HeaderValue) -> Option<u64> {
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
pub(super) fn split(bytes: &mut BytesMut, length: usize) -> Bytes {
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
    fn drop_nominated(&self, headers: &mut HeaderMap) {
        for name in self.nominated.iter().filter(|name| may_be_nominated(name)) {
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
pub(super) fn trailers(fields: &[Header<'_>]) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(field.value).ok()?;
        if may_trail(&name) {
            map.append(name, value);
        }
    }
    Some(map)
}

/// Writes the head of a request to an upstream.
pub(super) fn write_request(
    out: &mut Vec<u8>,
    parts: &request::Parts,
    Terms { host, added, may_replace }: Terms<'_>,
    body: Coded,
) {
    out.reserve(HEAD_ROOM);
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let mut has_length = false;
    if let Some(host) = host {
        field(out, &HOST, host);
    }
    for (name, value) in &parts.headers {
        match *name {
            HOST if host.is_some() => continue,
            CONTENT_LENGTH if matches!(body, Coded::Chunks(_)) => continue,
            CONTENT_LENGTH => has_length = true,
            TE => out.extend_from_slice(b"connection: te\r\n"),
            _ if may_replace && added.iter().any(|(other, _)| other == name) => continue,
            _ => {}
        }
        field(out, name, value);
    }
    for (name, value) in added {
        field(out, name, value);
    }
    match body {
        Coded::Chunks(_) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Coded::Length(length) if !has_length => write_length(out, length),
        _ => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// How a reply is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner<'a> {
    pub(super) body: Coded,
    /// The exact length of a body that need not be written: of a reply to HEAD.
    pub(super) length: Option<u64>,
    /// Whether the connection stays.
    pub(super) keep: bool,
    pub(super) version: Version,
    pub(super) date: &'a Date,
}

/// Writes the head of a reply to a caller.
pub(super) fn write_reply(out: &mut Vec<u8>, parts: &response::Parts, manner: Manner<'_>) {
    let Manner { body, length, keep, version, date } = manner;
    out.reserve(HEAD_ROOM);
    write_status(out, parts.status);
    let (mut has_length, mut has_date, mut has_connection) = (false, false, false);
    for (name, value) in &parts.headers {
        match *name {
            CONTENT_LENGTH if !fits(body, value) => continue,
            CONTENT_LENGTH => has_length = true,
            DATE => has_date = true,
            CONNECTION => has_connection = true,
            _ => {}
        }
        field(out, name, value);
    }
    match body {
        Coded::Chunks(_) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Coded::Length(length) if !has_length => write_length(out, length),
        Coded::Over => {
            if let Some(length) = length.filter(|_| !has_length) {
                write_length(out, length);
            }
        }
        _ => {}
    }
    if !has_date {
        date.write(out);
    }
    if !has_connection {
        match (keep, version) {
            (false, _) => out.extend_from_slice(b"connection: close\r\n"),
            (true, Version::HTTP_10) => out.extend_from_slice(b"connection: keep-alive\r\n"),
            (true, _) => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether this is the length of such a body; of one that is not shown we cannot tell.
fn fits(body: Coded, length: &HeaderValue) -> bool {
    match body {
        Coded::Over => true,
        Coded::Length(own) => number(length) == Some(own),
        Coded::Chunks(_) | Coded::UntilEnd => false,
    }
}

/// Writes a reply that comes before the real one.
pub(super) fn write_interim(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
    write_status(out, status);
    write_fields(out, headers);
}

/// Writes what ends a body in chunks.
pub(super) fn write_end(out: &mut Vec<u8>, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    match trailers {
        Some(trailers) => write_fields(out, trailers),
        None => out.extend_from_slice(b"\r\n"),
    }
}

/// Fields that may stand before a reply or after it, and the empty line: none that frames a message.
fn write_fields(out: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        if may_trail(name) {
            field(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn field(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The date as replies tell it, looked up twice a second and not for every reply.
#[derive(Debug)]
pub(in crate::gateway) struct Date(RefCell<String>);

impl Default for Date {
    fn default() -> Self {
        let date = Self(RefCell::default());
        date.refresh();
        date
    }
}

impl Date {
    pub(in crate::gateway) fn refresh(&self) {
        *self.0.borrow_mut() = format!("date: {}\r\n", httpdate::fmt_http_date(SystemTime::now()));
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.borrow().as_bytes());
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
