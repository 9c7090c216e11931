//! The wire: HTTP/1 as this gateway speaks it, to callers and to upstreams.
//!
//! **Why.** A proxy of HTTP/1 moves bytes between two sockets and should cost little more than that. A library for clients
//! and servers runs each connection as a task of its own, with channels in between, and hides what a proxy has to pass on
//! (`103 Early Hints`) or to notice (a caller who leaves before its body is wanted). HTTP/2, which is hard, is left to hyper.
//!
//! **How.** What comes from callers has passed the [gate](super::gate) before anything here looks at it, so this need not be
//! strict a second time. Heads are found by httparse and become `http` types; bodies are handed on as they come.
//!
//! - `inbox`: reading. `coded`: where a body ends. `head`: heads, from bytes and to bytes. `outbox`: writing.
//! - [`Talk`]: a caller's connection, shared by the conversation and the body that is being read from it.
//! - [`Conn`]: a connection to an upstream, owned by whoever uses it. There is no task behind it: a request that is dropped
//!   closes it.

mod coded;
mod conn;
mod head;
mod inbox;
mod outbox;
mod serve;
mod talk;

pub(super) use conn::{Conn, Lost, Terms};
pub(super) use head::Date;
pub(super) use serve::{Ended, serve};
pub(super) use talk::{OnRefusal, Talk, Upload};

/// What is wrong with a message, or with the connection that it came on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It ended in the middle.
    #[error("the connection ended in the middle of a message")]
    Ended,
    /// What came is no HTTP.
    #[error("{0}")]
    Garbled(&'static str),
    /// The body belongs to a request that is over.
    #[error("the request is over")]
    Over,
}
