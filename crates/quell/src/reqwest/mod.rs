//! A reqwest client with the policies around it.
//!
//! **Why.** reqwest retries by itself what it holds to be safe, which no budget sees, and retries nothing else. Wrapping
//! every `send()` in a closure works, but whoever changes a code base of a hundred calls wants to change its client.
//!
//! **How.** [`Client`] looks like reqwest's and sends through it. Each request is repeated as its method and its
//! `idempotency-key` allow, within the budget of the [`Quell`](crate::Quell) that the client was made with; a body of
//! bytes is sent again as it is, a body that streams up to its first 64 KiB. The last reply is returned as it is, a 503
//! too: what is an error to reqwest is one here, [`Error`], which also says how often it was tried and why no more. Unless
//! the first attempt succeeded, so does an [`Ended`](crate::tower::Ended) in the reply's extensions.
//!
//! ```
//! use quell::{Quell, reqwest::Client};
//!
//! # async fn pay(order: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let payments = Client::new(Quell::upstream("payments").attempts(3).build()?)?;
//! let receipt = payments
//!     .post("http://payments.internal/charge")
//!     .idempotency_key(order) // or it would not be sent twice
//!     .body("pens=7")
//!     .send()
//!     .await?
//!     .error_for_status()?;
//! # let _ = receipt;
//! # Ok(())
//! # }
//! ```
//!
//! What needs a feature of reqwest is reached through its own builder:
//! [`.map(|request| request.json(&order))`](RequestBuilder::map).
//!
//! Three things that reqwest does are not the policies' business: it follows redirects within an attempt; a request that
//! finds its kept connection closed before the first byte goes out on another one; and a timeout that its own
//! [builder](::reqwest::ClientBuilder::timeout) was given runs for each attempt.
//!
//! Whoever keeps their own client can still give its replies to a [call](crate::Quell::call), which reads them by
//! [`classify`]; then it should be built with `.retry(reqwest::retry::never())`.

mod client;
mod protocol;
mod request;

use quell_core::{Delivery, Failure, Fault, Outcome};

pub use client::Client;
pub use protocol::{Reqwest, Source};
pub use request::RequestBuilder;

use crate::{CallError, Clock, http::Statuses};

/// Why there is no reply: what reqwest said last, after how many attempts, and why there was no other. A reply with a
/// status is never among these.
pub type Error = CallError<(), ::reqwest::Error>;

/// What came of one `send()`.
///
/// ```
/// use quell::{Clock, Outcome, http::Statuses, reqwest::classify};
///
/// let reply = reqwest::Response::from(http::Response::new("seven pens"));
/// assert_eq!(classify(&Ok(reply), &Clock::manual(), &Statuses::default()), Outcome::Success);
/// ```
pub fn classify(
    result: &Result<::reqwest::Response, ::reqwest::Error>,
    clock: &Clock,
    statuses: &Statuses,
) -> Outcome {
    match result {
        Ok(reply) => statuses.classify(reply.status(), reply.headers(), clock.unix_now()),
        Err(error) => match error.status() {
            // `error_for_status` turned a reply into an error; its headers are gone.
            Some(status) => statuses.classify(status, &::http::HeaderMap::new(), clock.unix_now()),
            None => Outcome::Failed(failure(error)),
        },
    }
}

fn failure(error: &::reqwest::Error) -> Failure {
    if error.is_builder() {
        Failure { delivery: Delivery::NeverSent, ..Failure::of(Fault::Fatal) }
    } else if error.is_redirect() {
        Failure::of(Fault::Fatal)
    } else if error.is_connect() {
        Failure::of(Fault::Connect) // before the timeout: connecting can time out, too
    } else if error.is_timeout() {
        Failure::of(Fault::Timeout)
    } else {
        Failure::of(Fault::Server)
    }
}
