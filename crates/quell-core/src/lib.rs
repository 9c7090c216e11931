//! The decisions of Quell: retry infrastructure that cannot cause a retry storm.
//!
//! This crate *decides* and does nothing else. Every policy is plain data behind `&mut`; `now` and the
//! generator's seed come in as arguments, and what to do comes out as data. There is no clock, lock, sleep,
//! log or I/O in it, which is why the simulator can run the very code that runs in production.
//!
//! Start with [`call`] (the retry loop) and [`upstream`] (what all callers of a service share), then read the
//! policies they are made of.

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod call;
mod callers;
pub mod classes;
pub mod credit;
pub mod endpoints;
pub mod event;
pub mod hedge;
pub mod idempotency;
pub mod in_flight;
pub mod intake;
pub mod keyed;
pub mod ladder;
pub mod latency;
pub mod lease;
pub mod limiter;
pub mod limiters;
pub mod lint;
pub mod mode;
pub mod outcome;
pub mod pace;
pub mod patience;
pub mod pools;
pub mod queue;
pub mod reason;
pub mod rng;
pub mod spec;
pub mod throttle;
pub mod time;
pub mod upstream;
pub mod window;
pub mod worst;

#[cfg(test)]
mod testing;

pub use call::{Answer, Arrival, Call, Finish, Input, Send, Step};
pub use event::Event;
pub use outcome::{Delivery, Failure, Fault, Outcome};
pub use queue::Ticket;
pub use reason::Reason;
pub use rng::Rng;
pub use spec::Policy;
pub use time::{Stamp, Time};
pub use upstream::{
    Admission, Ask, AttemptId, Lever, Permit, Priority, Pulled, Refusal, Release, Snapshot, Stuck,
    Upstream, Wake,
};

#[cfg(test)]
mod composition_tests;
#[cfg(test)]
mod invalid_tests;
