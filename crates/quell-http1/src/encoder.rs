//! Encoder: heads, and what ends a body in chunks, from `http`'s types to bytes.
//!
//! **Why.** Framing is written in one place, from what is known of the body and not from what a peer said of it: a
//! `Content-Length` that is passed on beside a body of another length is how two parties come to disagree.

use std::cell::RefCell;
use std::time::SystemTime;

use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HOST, HeaderMap, HeaderName, HeaderValue, TE,
};
use http::request;
use http::response;
use http::{StatusCode, Version};

use crate::client::Terms;
use crate::decoder::Framing;
use crate::parser::number;
use crate::rules::FieldRules;

/// Room for most heads, so that it need not be made while one is written.
const HEAD_ROOM: usize = 1000;

/// Writes the head of a request to an upstream.
pub(crate) fn write_request(
    out: &mut Vec<u8>,
    parts: &request::Parts,
    Terms { host, added, may_replace }: Terms<'_>,
    body: Framing,
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
            CONTENT_LENGTH if matches!(body, Framing::Chunks(_)) => continue,
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
        Framing::Chunks(_) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Framing::Length(length) if !has_length => write_length(out, length),
        _ => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// How a reply is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner<'a> {
    pub(crate) body: Framing,
    /// The exact length of a body that need not be written: of a reply to HEAD.
    pub(crate) length: Option<u64>,
    /// Whether the connection stays.
    pub(crate) keep: bool,
    pub(crate) version: Version,
    pub(crate) date: &'a Date,
}

/// Writes the head of a reply to a caller.
pub(crate) fn write_reply(out: &mut Vec<u8>, parts: &response::Parts, manner: Manner<'_>) {
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
        Framing::Chunks(_) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Framing::Length(length) if !has_length => write_length(out, length),
        Framing::Over => {
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
fn fits(body: Framing, length: &HeaderValue) -> bool {
    match body {
        Framing::Over => true,
        Framing::Length(own) => number(length) == Some(own),
        Framing::Chunks(_) | Framing::UntilEnd => false,
    }
}

/// Writes a reply that comes before the real one.
pub(crate) fn write_interim(
    out: &mut Vec<u8>,
    status: StatusCode,
    headers: &HeaderMap,
    rules: &FieldRules,
) {
    write_status(out, status);
    write_fields(out, headers, rules);
}

/// Writes what ends a body in chunks.
pub(crate) fn write_end(out: &mut Vec<u8>, trailers: Option<&HeaderMap>, rules: &FieldRules) {
    out.extend_from_slice(b"0\r\n");
    match trailers {
        Some(trailers) => write_fields(out, trailers, rules),
        None => out.extend_from_slice(b"\r\n"),
    }
}

/// Fields that may stand before a reply or after it, and the empty line: none that frames a message.
fn write_fields(out: &mut Vec<u8>, headers: &HeaderMap, rules: &FieldRules) {
    for (name, value) in headers {
        if (rules.may_trail)(name) {
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
pub struct Date(RefCell<String>);

impl Default for Date {
    fn default() -> Self {
        let date = Self(RefCell::default());
        date.refresh();
        date
    }
}

impl Date {
    /// Looks at the clock. Call this at least once a second.
    pub fn refresh(&self) {
        *self.0.borrow_mut() = format!("date: {}\r\n", httpdate::fmt_http_date(SystemTime::now()));
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.borrow().as_bytes());
    }
}

#[cfg(test)]
#[path = "encoder_tests.rs"]
mod tests;
