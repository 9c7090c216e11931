//! A build without traces: there are none, and nothing can be noted of one.

use std::io;

use http::{HeaderMap, Request, StatusCode};
use quell::core::Reason;
use quell::observe::Tried;
use quell::observe::labels::Verdict;

/// Where spans go: there is no such place.
#[derive(Debug)]
pub(crate) enum Traces {}

/// The spans of one call.
#[derive(Debug)]
pub(crate) enum Traced {}

impl Traces {
    pub(crate) fn open(_: &str) -> io::Result<Self> {
        Err(io::Error::other(
            "this build has no traces: build it with --features otlp, or take the setting out",
        ))
    }
}

impl Traced {
    pub(crate) fn begin<B>(traces: &Traces, _: &Request<B>) -> Self {
        match *traces {}
    }

    pub(crate) fn routed(&mut self, _: &str, _: &str) {
        match *self {}
    }

    pub(crate) fn send(&mut self, _: u32, _: &mut HeaderMap) {
        match *self {}
    }

    pub(crate) fn tried(&mut self, _: Option<String>, _: &Tried, _: Option<StatusCode>) {
        match *self {}
    }

    pub(crate) fn ended(&mut self, _: Verdict, _: Option<Reason>) {
        match *self {}
    }

    pub(crate) fn answered(&mut self, _: StatusCode) {
        match *self {}
    }
}
