//! What reqwest's replies and errors mean to the policies.
//!
//! Only classification: nothing of reqwest is called. Its client retries protocol errors by itself, which no budget
//! sees; build it with `.retry(reqwest::retry::never())`.
//!
//! ```no_run
//! use quell::Quell;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
//! let search = Quell::upstream("search").idempotent().build()?;
//! let page = search.call(|_| client.get("http://search.internal/?q=quell").send()).await?;
//! # Ok(())
//! # }
//! ```

use quell_core::{Delivery, Failure, Fault, Outcome};

use crate::{Clock, http::Statuses};

/// What came of one `send()`.
pub fn classify(
    result: &Result<reqwest::Response, reqwest::Error>,
    clock: &Clock,
    statuses: &Statuses,
) -> Outcome {
    match result {
        Ok(reply) => statuses.classify(reply.status(), reply.headers(), clock.unix_now()),
        Err(error) => failure(error, clock, statuses),
    }
}

fn failure(error: &reqwest::Error, clock: &Clock, statuses: &Statuses) -> Outcome {
    // `error_for_status` turned a reply into an error; its headers are gone.
    if let Some(status) = error.status() {
        return statuses.classify(status, &::http::HeaderMap::new(), clock.unix_now());
    }
    Outcome::Failed(if error.is_builder() {
        Failure { delivery: Delivery::NeverSent, ..Failure::of(Fault::Fatal) }
    } else if error.is_redirect() {
        Failure::of(Fault::Fatal)
    } else if error.is_connect() {
        Failure::of(Fault::Connect) // before the timeout: connecting can time out, too
    } else if error.is_timeout() {
        Failure::of(Fault::Timeout)
    } else {
        Failure::of(Fault::Server)
    })
}
