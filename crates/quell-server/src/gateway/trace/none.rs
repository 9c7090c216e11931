//! A build without traces: there are none, and nothing can be noted of one.

use std::io;

use http::{HeaderMap, Request, StatusCode};
use quell::core::Reason;
use quell::observe::Tried;

use crate::gateway::counters::Verdict;
use crate::gateway::route::Route;

/// Where spans go: there is no such place.
#[derive(Debug)]
pub(in crate::gateway) enum Traces {}

/// The spans of one call.
#[derive(Debug)]
pub(in crate::gateway) enum Traced {}

impl Traces {
    pub(in crate::gateway) fn open(_: &str) -> io::Result<Self> {
        Err(io::Error::other(
            "this build has no traces: build it with --features otlp, or take the setting out",
        ))
    }
}

impl Traced {
    pub(in crate::gateway) fn begin<B>(traces: &Traces, _: &Request<B>) -> Self {
        match *traces {}
    }

    pub(in crate::gateway) fn routed(&mut self, _: &Route) {
        match *self {}
    }

    pub(in crate::gateway) fn send(&mut self, _: u32, _: &mut HeaderMap) {
        match *self {}
    }

    pub(in crate::gateway) fn tried(
        &mut self,
        _: Option<String>,
        _: &Tried,
        _: Option<StatusCode>,
    ) {
        match *self {}
    }

    pub(in crate::gateway) fn ended(&mut self, _: Verdict, _: Option<Reason>) {
        match *self {}
    }

    pub(in crate::gateway) fn answered(&mut self, _: StatusCode) {
        match *self {}
    }
}
