//! HTTP/1 as a proxy speaks it, to callers and to upstreams.
//!
//! **Why.** A proxy of HTTP/1 moves bytes between two sockets and should cost little more than that. A library for clients
//! and servers runs each connection as a task of its own, with channels in between, and hides what a proxy has to pass on
//! (`103 Early Hints`) or to notice (a caller who leaves before its body is wanted). HTTP/2, which is hard, is left to
//! others. All of it is in one crate, which knows nothing of the gateway, so that it can be read, tested and fuzzed alone.
//!
//! **How.** What comes from callers passes the [`gate`] before anything else here looks at it, so the parser need not be
//! strict a second time. Bodies are handed on as they come.
//!
//! - [`server::Connection`]: a caller's connection, shared by the conversation and the body that is being read from it.
//!   [`server::serve`] answers its requests, and asks a [`server::Supervisor`] when to stop.
//! - [`client::Connection`]: a connection to an upstream, owned by the request that uses it. There is no task behind it: a
//!   request that is dropped closes it.
//! - [`gate`]: what could be read in two ways is refused. [`limits`]: how much of everything a peer may send.
//! - Inside, in the order of a message's way: `inbox` reads, [`parser`] makes heads of bytes, [`decoder`] finds where a body
//!   ends, `encoder` makes bytes of heads, `outbox` writes. The two that read are public for those who test them alone.

pub mod client;
pub mod decoder;
mod encoder;
mod error;
pub mod gate;
mod inbox;
pub mod limits;
mod outbox;
pub mod parser;
mod rules;
pub mod server;
mod transport;

pub use encoder::Date;
pub use error::Broken;
pub use rules::FieldRules;
pub use transport::{Raw, Transport};
