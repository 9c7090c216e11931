//! Failures: what a channel's errors mean to the policies.

use std::error::Error;

use ::tonic::{ConnectError, TimeoutExpired};
use quell_core::{Delivery, Failure, Fault};

use crate::http::delivery;

/// Longer chains of causes than this are not followed.
const DEEPEST: usize = 32;

/// What an error of the channel comes to.
pub(super) fn failure(error: &(dyn Error + 'static)) -> Failure {
    if is_due_to::<ConnectError>(error) {
        return Failure::of(Fault::Connect);
    }
    match delivery(error) {
        Delivery::NeverSent => Failure::of(Fault::Connect),
        _ if is_due_to::<TimeoutExpired>(error) => Failure::of(Fault::Timeout),
        delivery => Failure { delivery, ..Failure::of(Fault::Server) },
    }
}

/// Whether an error of this kind is among the causes.
pub(super) fn is_due_to<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.take(DEEPEST).any(|error| error.is::<E>())
}
