//! The gateway over real sockets. One program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used)] // the helpers are tests too

mod access;
mod admin;
mod chain;
#[cfg(feature = "test-clients")]
mod clients;
mod corpora;
mod drains;
mod endpoints;
mod faults;
#[path = "../../src/host/kit.rs"]
mod files;
mod gate;
mod grpc;
mod idempotency;
mod kit;
mod life;
mod limits;
mod names;
mod parts;
mod proxy;
mod readers;
mod reasons;
mod reloads;
mod retry;
mod routes;
mod streams;
mod tls;
#[cfg(feature = "otlp")]
mod traces;
mod usual;
