//! A layer for gRPC clients.
//!
//! **Why.** A gRPC reply is an HTTP 200 whatever became of the call: its status stands in the trailers, or in the headers
//! where there is nothing else. Layers for HTTP see successes only, and repeat nothing or the wrong thing.
//!
//! **How.** Put [`layer`] around a channel and give it to a generated client. The first frame of each reply is looked at, as
//! [everybody](crate::http::grpc) who passes gRPC on does: if it is the trailers, the call failed before it said anything
//! and can be made again; once there is a message, the reply is passed on and nothing is repeated any more. So is a stream
//! that has nothing to say for a tenth of a second.
//!
//! - `UNAVAILABLE` and `RESOURCE_EXHAUSTED` are worth another attempt, unless [said otherwise](Layer::retry_on);
//!   `grpc-retry-pushback-ms` is obeyed, and garbage in it is a stop. Nobody knows whether a method is idempotent, so
//!   what may have been acted on is repeated only if the handle was built with
//!   [`idempotent`](crate::Builder::idempotent) or the metadata has an `idempotency-key`. What never reached a server is
//!   always repeated.
//! - Every retry says in `grpc-previous-rpc-attempts` how many came before it, and every attempt in `grpc-timeout` what is
//!   left of the caller's time, if the caller named one. The whole call ends by then.
//! - Requests are kept while they are sent, up to 64 KiB; longer ones, and streams that outgrow it, are sent once.
//! - Our own refusals are replies: their status has the code of their reason, its word as the message, and says in
//!   the metadata when to come back. Where no server answered at all, the status says how often it was tried.
//! - Unless the first attempt succeeded, a reply's extensions have an [`Ended`](crate::tower::Ended) that says what it took.
//!
//! ```
//! use quell::Quell;
//! use tower::ServiceBuilder;
//! use tonic::transport::{Channel, Endpoint};
//!
//! # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
//! let greeter = Quell::upstream("greeter").idempotent().build()?;
//! let channel = Endpoint::from_static("http://greeter.internal:50051").connect_lazy();
//! let service = ServiceBuilder::new().layer(quell::tonic::layer(greeter)).service(channel);
//! // let client = GreeterClient::new(service);
//! let client: tonic::client::Grpc<quell::tonic::Service<Channel>> = tonic::client::Grpc::new(service);
//! # let _ = client;
//! # Ok(())
//! # }
//! ```

mod failure;
mod peek;
mod protocol;
mod service;

pub use crate::http::grpc::Peeked as Body;
pub use peek::{Peek, PeekFuture};
pub use protocol::{Grpc, Source};
pub use service::{Layer, ResponseFuture, Service, layer};

/// What services below may fail with, once it is boxed.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
