//! A world: a service that is healthy throughout, and those who call it.
//!
//! **How.** The service is the same in all worlds and does what a request asks of it, so a world is a list of flows. Each
//! flow is one kind of caller: when they come, what they ask for, and when they leave. A world adds what holds for the
//! service as a whole: how many workers it has, whether it pauses, which of its endpoints is odd.
//!
//! Who is *good* must be answered, as through a proxy that does nothing; of the others nothing is promised.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::{Arrivals, Work};

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// For how long callers come.
    pub(crate) seconds: u64,
    pub(crate) service: Shape,
    pub(crate) flows: Vec<Flow>,
    /// Whether it leaves the machine enough time for other worlds beside it.
    pub(crate) light: bool,
    /// Whether it is one of the few that CI runs.
    pub(crate) short: bool,
    /// Whether it is the machine that is slow here, so that latencies and its lateness say nothing.
    pub(crate) saturated: bool,
}

/// What the service is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    /// Who works at a time, first come, first served; nobody waits if this is missing.
    pub(crate) workers: Option<usize>,
    pub(crate) pause: Option<Pause>,
    /// Two more endpoints, and what is odd about the first.
    pub(crate) odd: Option<Odd>,
    /// It speaks HTTP/2 without TLS, as gRPC's services do.
    pub(crate) h2c: bool,
}

/// Nothing moves for `lasts`, each `every`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    pub(crate) every: Duration,
    pub(crate) lasts: Duration,
}

/// What is wrong with one of three endpoints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Odd {
    /// It takes so much longer.
    Slow(Duration),
    /// It answers 503 at once.
    Errs,
    /// Nobody listens there.
    Refuses,
}

/// Whose callers they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Who {
    /// They must be answered.
    Good,
    /// They hang up, or ask for what fails.
    Other,
    /// They would shut the others out.
    Hostile,
}

/// How they reach the proxy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wire {
    /// HTTP/1.1, connections kept and taken again.
    Http1,
    /// HTTP/2 without TLS, so many connections.
    Http2(usize),
    /// Upgraded connections, over each of which so many small messages go and come back, each after this pause.
    Tunnel(u32, Duration),
}

/// One kind of caller.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    pub(crate) who: Who,
    pub(crate) arrivals: Arrivals,
    /// When the first of them comes.
    pub(crate) from: Duration,
    pub(crate) wire: Wire,
    /// The last part of their address, 127.0.0.x.
    pub(crate) address: u8,
    /// `{id}` in it becomes a number, another for every call, and `{name}` one of a hundred names.
    pub(crate) path: &'static str,
    pub(crate) credential: Option<&'static str>,
    pub(crate) work: Work,
    /// What the service answers.
    pub(crate) status: u16,
    /// The share of calls whose first attempt gets a 503.
    pub(crate) fails_once: f64,
    /// Bytes of the reply.
    pub(crate) reply: usize,
    /// The reply is a stream of so many events, so far apart.
    pub(crate) events: Option<(u32, Duration)>,
    pub(crate) upload: Option<Upload>,
    /// Bytes of the reply that are read per second.
    pub(crate) reads: Option<usize>,
    pub(crate) leave: Option<Leave>,
}

/// A body that takes its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upload {
    pub(crate) bytes: usize,
    /// Bytes per second, from the slowest caller to the fastest.
    pub(crate) pace: (usize, usize),
}

/// A share of the callers hangs up, some time after it sent its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leave {
    pub(crate) share: f64,
    pub(crate) after: (Duration, Duration),
}

impl World {
    pub(crate) fn new(name: &'static str, about: &'static str, flows: Vec<Flow>) -> Self {
        Self {
            name,
            about,
            seconds: 20,
            service: Shape::default(),
            flows,
            light: true,
            short: false,
            saturated: false,
        }
    }

    pub(crate) fn seconds(self, seconds: u64) -> Self {
        Self { seconds, ..self }
    }

    pub(crate) fn service(self, service: Shape) -> Self {
        Self { service, ..self }
    }

    /// It wants the machine for itself.
    pub(crate) fn heavy(self) -> Self {
        Self { light: false, ..self }
    }

    pub(crate) fn in_short(self) -> Self {
        Self { short: true, ..self }
    }

    pub(crate) fn saturated(self) -> Self {
        Self { saturated: true, ..self.heavy() }
    }

    pub(crate) fn endpoints(&self) -> usize {
        if self.service.odd.is_some() { 3 } else { 1 }
    }

    pub(crate) fn is_hostile(&self) -> bool {
        self.flows.iter().any(|flow| flow.who == Who::Hostile)
    }
}

impl Flow {
    fn new(who: Who, name: &'static str, path: &'static str, arrivals: Arrivals) -> Self {
        Self {
            name,
            who,
            arrivals,
            from: Duration::ZERO,
            wire: Wire::Http1,
            address: 1,
            path,
            credential: None,
            work: Work::Takes(Duration::ZERO),
            status: 200,
            fails_once: 0.0,
            reply: 64,
            events: None,
            upload: None,
            reads: None,
            leave: None,
        }
    }

    pub(crate) fn good(name: &'static str, path: &'static str, arrivals: Arrivals) -> Self {
        Self::new(Who::Good, name, path, arrivals)
    }

    pub(crate) fn other(name: &'static str, path: &'static str, arrivals: Arrivals) -> Self {
        Self::new(Who::Other, name, path, arrivals)
    }

    pub(crate) fn hostile(name: &'static str, path: &'static str, arrivals: Arrivals) -> Self {
        Self::new(Who::Hostile, name, path, arrivals)
    }

    pub(crate) fn takes(self, time: Duration) -> Self {
        self.works(Work::Takes(time))
    }

    pub(crate) fn works(self, work: Work) -> Self {
        Self { work, ..self }
    }

    /// Everybody hangs up, between these times after sending.
    pub(crate) fn leaves(self, from: Duration, to: Duration) -> Self {
        self.some_leave(1.0, from, to)
    }

    pub(crate) fn some_leave(self, share: f64, from: Duration, to: Duration) -> Self {
        Self { leave: Some(Leave { share, after: (from, to) }), ..self }
    }

    pub(crate) fn uploads(self, bytes: usize, slowest: usize, fastest: usize) -> Self {
        Self { upload: Some(Upload { bytes, pace: (slowest, fastest) }), ..self }
    }

    pub(crate) fn over(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }
}
