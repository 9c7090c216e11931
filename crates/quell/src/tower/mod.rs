//! Tower: the whole engine as one layer.
//!
//! **Why.** Resilience layers come one by one, and whoever stacks them has to know their order: a timeout inside or around
//! the retries, a limit that a backoff holds or not, a breaker that sees retries as calls. Most orders are wrong, and all
//! compile. Here there is one layer with fixed slots: deadline, fallback, retry and budget, hedge, breaker, in-flight limit
//! and queue, rate limit, attempt timeout. What is not asked for costs nothing, and no bad order can be written.
//!
//! **How.** Describe the upstream with the [builder](crate::Quell::upstream) and make a [`QuellLayer`] of the handle; what
//! kind of requests it sees is its *protocol*: [`Plain`] for anything that can be cloned, [`Http`] for requests with a
//! body, [`Once`] for what is never repeated. The service passes readiness through and admits in `call`, so a full limit
//! is an answer with a reason and not a caller who waits for ever in `poll_ready`. Its future has a name, owns what it
//! needs and allocates nothing when the first attempt succeeds. Dropping it gives back whatever the call holds.
//! Clones share everything.
//!
//! ```
//! use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
//! use quell::{Clock, Quell, tower::QuellLayer};
//! use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
//! # runtime.block_on(async {
//! let stock = Quell::upstream("stock").idempotent().clock(Clock::tokio()).build()?;
//! let calls = Arc::new(AtomicU32::new(0));
//! let flaky = service_fn(move |pens: u32| {
//!     let works = calls.fetch_add(1, Ordering::Relaxed) == 2;
//!     async move { if works { Ok(pens * 2) } else { Err(std::io::Error::other("reset")) } }
//! });
//! let mut service = QuellLayer::new(stock).layer(flaky);
//! assert_eq!(service.ready().await?.call(21).await?, 42);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! Experts who want one policy and nothing else find it in [`single`].

mod calls;
mod fallback;
mod future;
mod http;
mod layer;
mod plain;
mod protocol;
pub mod single;

pub use fallback::Fallback;
pub use future::ResponseFuture;
pub use http::{BoxedChain, Chain, Deliveries, Http, KeepReply, Source};
pub use layer::{QuellLayer, QuellService};
pub use plain::{Once, Plain, Reads, Usual};
pub use protocol::{About, Ended, Inbound, Outbound, Refused};
