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

/// Fields of a reply at most.
const MOST_FIELDS: usize = 100;
/// Fields that are added on the way.
const ADDED: usize = 10;

const HEAD: Broken = Broken::Garbled("a head that cannot be read");
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
    let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut read = httparse::Request::new(&mut []);
    let Ok(Status::Complete(length)) = read.parse_with_uninit_headers(bytes, &mut fields) else {
        return Err(HEAD);
    };
    let (Some(method), Some(target)) = (read.method, read.path) else { return Err(HEAD) };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| HEAD)?;
    let target = place(bytes, target.as_bytes());
    let version = version(read.version);
    let places = Places::of(bytes, read.headers);
    let head = bytes.split_to(length).freeze();

    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = method;
    parts.uri = Uri::from_maybe_shared(at(&head, target)).map_err(|_| HEAD)?;
    parts.version = version;
    parts.headers = places.fields(&head).ok_or(HEAD)?;
    let headers = &parts.headers;
    let coded = match headers.get(CONTENT_LENGTH) {
        Some(length) => Coded::of_length(number(length).ok_or(LENGTH)?),
        None if headers.contains_key(TRANSFER_ENCODING) => Coded::CHUNKED,
        None => Coded::Over,
    };
    let expects = coded != Coded::Over
        && version == Version::HTTP_11
        && headers.get(EXPECT).is_some_and(|e| e.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let keep = may_follow(version, headers);
    Ok(Asked { parts, coded, keep, expects })
}

/// Takes a reply's head off the bytes; `None` if some of it is missing. `asked` is what it replies to.
pub(super) fn reply(bytes: &mut BytesMut, asked: &Method) -> Result<Option<Told>, Broken> {
    let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut read = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut read, bytes, &mut fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(_) => return Err(HEAD),
    };
    let status = read.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(HEAD)?;
    let version = version(read.version);
    let places = Places::of(bytes, read.headers);
    let head = bytes.split_to(length).freeze();

    let (mut parts, ()) = Response::new(()).into_parts();
    parts.status = status;
    parts.version = version;
    parts.headers = places.fields(&head).ok_or(HEAD)?;
    let mut keep = may_follow(version, &parts.headers);
    let coded = framing(&mut parts.headers, &mut keep)?;
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

/// What follows a reply's head. Of chunks and a length the chunks count, and nobody else should see the length.
fn framing(headers: &mut HeaderMap, keep: &mut bool) -> Result<Coded, Broken> {
    if headers.contains_key(TRANSFER_ENCODING) {
        *keep &= headers.remove(CONTENT_LENGTH).is_none();
        let last = headers.get_all(TRANSFER_ENCODING).iter().next_back();
        let last = last.and_then(|codings| codings.as_bytes().rsplit(|byte| *byte == b',').next());
        let is_chunked =
            last.is_some_and(|last| last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        return Ok(if is_chunked { Coded::CHUNKED } else { Coded::UntilEnd });
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else { return Ok(Coded::UntilEnd) };
    let mut is_repeated = false;
    for other in lengths {
        if other != first {
            return Err(LENGTH);
        }
        is_repeated = true;
    }
    let length = number(first).ok_or(LENGTH)?;
    if is_repeated {
        let first = first.clone();
        headers.insert(CONTENT_LENGTH, first);
    }
    Ok(Coded::of_length(length))
}

fn number(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes();
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn version(minor: Option<u8>) -> Version {
    if minor == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 }
}

fn may_follow(version: Version, headers: &HeaderMap) -> bool {
    let Some(_) = headers.get(CONNECTION) else { return version == Version::HTTP_11 };
    let says = |word: &[u8]| {
        let values = headers.get_all(CONNECTION).iter();
        let mut words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        words.any(|said| said.trim_ascii().eq_ignore_ascii_case(word))
    };
    !says(b"close") && (version == Version::HTTP_11 || says(b"keep-alive"))
}

/// From where to where; a head is shorter than 64 KiB.
type Place = (u16, u16);

/// Where in the bytes the fields of a head stand.
struct Places {
    fields: [(Place, Place); MOST_FIELDS],
    count: usize,
}

impl Places {
    fn of(bytes: &[u8], fields: &[Header<'_>]) -> Self {
        let mut places = Self { fields: [((0, 0), (0, 0)); MOST_FIELDS], count: fields.len() };
        for (to, field) in places.fields.iter_mut().zip(fields) {
            *to = (place(bytes, field.name.as_bytes()), place(bytes, field.value));
        }
        places
    }

    fn fields(&self, head: &Bytes) -> Option<HeaderMap> {
        let mut map = HeaderMap::with_capacity(self.count + ADDED);
        for &(name, value) in &self.fields[..self.count] {
            let name = HeaderName::from_bytes(head.get(usize::from(name.0)..usize::from(name.1))?);
            let value = HeaderValue::from_maybe_shared(at(head, value));
            map.append(name.ok()?, value.ok()?);
        }
        Some(map)
    }
}

fn place(bytes: &[u8], part: &[u8]) -> Place {
    let from = part.as_ptr() as usize - bytes.as_ptr() as usize;
    (from as u16, (from + part.len()) as u16)
}

fn at(head: &Bytes, (from, to): Place) -> Bytes {
    head.slice(usize::from(from)..usize::from(to))
}

/// Fields in memory of their own.
pub(super) fn copied(fields: &[Header<'_>]) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        map.append(name, HeaderValue::from_bytes(field.value).ok()?);
    }
    Some(map)
}

/// Writes the head of a request to an upstream. `host` stands in place of the one it came with.
pub(super) fn write_request(
    out: &mut Vec<u8>,
    parts: &request::Parts,
    host: Option<&HeaderValue>,
    body: Coded,
) {
    out.reserve(1024);
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
            _ => {}
        }
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
    out.reserve(1024);
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
        if !matches!(*name, CONTENT_LENGTH | TRANSFER_ENCODING | CONNECTION | HOST) {
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
    field(out, &CONTENT_LENGTH, &HeaderValue::from(length));
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
