//! Hop: what every protocol over HTTP writes on an attempt and reads from its reply.

use http::{HeaderMap, HeaderValue};
use quell_core::credit::{Retries, Sends};

use super::headers::{self, Outgoing, Told};
use crate::{Rules, context::Context, key::idempotency_key, run::Try};

/// The key of a request that has none and needs one: that of the request on whose behalf it is made, or a new one.
pub(crate) fn key(rules: &Rules) -> Option<HeaderValue> {
    let brought = Context::current().and_then(|context| context.next_key());
    let key = brought.or_else(|| rules.make_keys.then(idempotency_key))?;
    HeaderValue::try_from(key).ok()
}

/// What an attempt carries: its number, the time it has and the chain's credit.
pub(crate) fn stamp(headers: &mut HeaderMap, attempt: &Try) {
    let Try { number, credit, .. } = *attempt;
    headers::stamp(headers, Outgoing { attempt: number, left: Some(attempt.timeout()), credit });
}

/// What a reply told of the chain below, if it said anything: what was lent in silence is not lent again.
pub(crate) fn told(headers: &HeaderMap) -> Option<(Sends, Retries)> {
    headers.contains_key(headers::ATTEMPTS).then(|| {
        let told = Told::read(headers);
        (told.sends, told.returned)
    })
}
