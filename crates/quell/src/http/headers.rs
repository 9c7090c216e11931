//! Headers: what hops of a chain tell each other, in one place.
//!
//! **Why.** Three attempts at each of four hops are eighty-one calls. Hops that tell each other how many retries are left,
//! how much time, and what was already tried below make a sum of it. Everybody who sends or answers has to write and
//! read the same fields in the same way, so it is done here and nowhere else.
//!
//! **How.** [`stamp`] writes what an attempt carries, [`Told`] reads what a reply says to whoever sent the attempt, and
//! [`answer`] writes what a reply says to our own caller. What a request brought is read by [`deadline`] and [`credit`], and
//! for the calls made on its behalf by [`Context`](crate::context::Context).
//!
//! | field | on | says |
//! |---|---|---|
//! | `quell-attempt` | request | the number of this attempt at this hop |
//! | `quell-deadline-ms` | request | how much time is left |
//! | `quell-retry-credit` | request | retries still allowed below; also a member of W3C `baggage`, which applications forward |
//! | `quell-attempts` | reply | sends made here and below |
//! | `quell-retry-credit` | reply | what of the credit was provably not spent |
//! | `quell-stop` | reply | why there was no further attempt |
//! | `quell-retry` | reply | `no`, or `after=<s>`: what the caller should do |
//!
//! ```
//! use std::time::Duration;
//! use http::HeaderMap;
//! use quell::core::credit::{Retries, Sends};
//! use quell::http::headers::{self, Answer, Outgoing, Told};
//!
//! let mut request = HeaderMap::new();
//! let left = Some(Duration::from_millis(1_500));
//! headers::stamp(&mut request, Outgoing { attempt: 1, left, credit: Some(Retries::new(2)) });
//! assert_eq!(request["quell-deadline-ms"], "1500");
//! assert_eq!(request["baggage"], "quell-retry-credit=2");
//!
//! let mut reply = HeaderMap::new();
//! headers::answer(&mut reply, Answer { credit: Some(Retries::new(1)), ..Answer::after(Sends::new(2)) });
//! let told = Told::read(&reply);
//! assert_eq!((told.sends, told.returned), (Sends::new(2), Retries::new(1)));
//! ```

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use quell_core::{
    Reason,
    credit::{Retries, Sends},
};

use super::Word;

pub use super::brought::{credit, deadline};

/// Of a request: the number of this attempt at this hop.
pub const ATTEMPT: HeaderName = HeaderName::from_static("quell-attempt");
/// Of a request: how much time is left, in milliseconds.
pub const DEADLINE: HeaderName = HeaderName::from_static("quell-deadline-ms");
/// Of a request: retries still allowed below. Of a reply: how many of them are handed back.
pub const CREDIT: HeaderName = HeaderName::from_static("quell-retry-credit");
/// W3C's, of which one member is ours: applications that know nothing of Quell forward it.
pub const BAGGAGE: HeaderName = HeaderName::from_static("baggage");
/// Of a reply: sends made at a hop and below.
pub const ATTEMPTS: HeaderName = HeaderName::from_static("quell-attempts");
/// Of a reply: why there was no further attempt.
pub const STOP: HeaderName = HeaderName::from_static("quell-stop");
/// Of a reply: what the caller should do. See [`Word`].
pub const RETRY: HeaderName = HeaderName::from_static("quell-retry");

/// A longer `baggage` is passed on as it is: nobody is obliged to read it.
const LONGEST_BAGGAGE: usize = 8_192;

/// What one attempt says to the hop below. All of it differs from attempt to attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Its number; the first is 1.
    pub attempt: u32,
    /// How much time is left for it.
    pub left: Option<Duration>,
    /// What it may hand on, where the call is part of a chain.
    pub credit: Option<Retries>,
}

impl Outgoing {
    /// The fields that an attempt carries in place of those of the same names, for whoever does not keep them in a map. What
    /// they are added to is looked at because `baggage` has other members too.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use quell::http::headers::Outgoing;
    ///
    /// let first = Outgoing { attempt: 1, left: None, credit: None };
    /// let [Some((name, value)), None, None, None] = first.fields(&HeaderMap::new()) else { panic!() };
    /// assert_eq!((name.as_str(), value.as_bytes()), ("quell-attempt", &b"1"[..]));
    /// ```
    pub fn fields(self, headers: &HeaderMap) -> [Option<(HeaderName, HeaderValue)>; 4] {
        let Self { attempt, left, credit } = self;
        let left = left.map(|left| {
            let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            (DEADLINE, HeaderValue::from(millis))
        });
        let number_of = |credit: Retries| number(u64::from(credit.get()));
        let baggage = credit.and_then(|credit| baggage(headers, credit));
        [
            Some((ATTEMPT, number(u64::from(attempt)))),
            left,
            credit.map(|credit| (CREDIT, number_of(credit))),
            baggage.map(|baggage| (BAGGAGE, baggage)),
        ]
    }
}

/// Writes what an attempt carries, in place of what an earlier one carried. Without credit, `baggage` and
/// `quell-retry-credit` stay as they are: what an application forwards by itself can only tighten.
pub fn stamp(headers: &mut HeaderMap, outgoing: Outgoing) {
    if outgoing.left.is_none() {
        headers.remove(DEADLINE); // it is relative, so that of an earlier attempt has gone stale
    }
    for (name, value) in outgoing.fields(headers).into_iter().flatten() {
        put(headers, name, value);
    }
}

/// `baggage` with our member in it. One that is too long is passed on as it is.
fn baggage(headers: &HeaderMap, credit: Retries) -> Option<HeaderValue> {
    let mut all = Vec::new();
    for value in headers.get_all(BAGGAGE) {
        all.extend_from_slice(value.as_bytes());
        all.push(b',');
    }
    match (all.len(), credit.get()) {
        (0, 0) => Some(HeaderValue::from_static("quell-retry-credit=0")),
        (0, 1) => Some(HeaderValue::from_static("quell-retry-credit=1")),
        (0, 2) => Some(HeaderValue::from_static("quell-retry-credit=2")),
        (..=LONGEST_BAGGAGE, _) => {
            HeaderValue::from_maybe_shared(bytes::Bytes::from(credit.write_baggage(&all))).ok()
        }
        _ => None,
    }
}

/// What a reply says to whoever sent the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Sends that it took there and below. Silence and garbage are one.
    pub sends: Sends,
    /// What of the credit comes back. Silence and garbage are nothing.
    pub returned: Retries,
    /// Whether there may be another attempt, and when.
    pub word: Option<Word>,
}

impl Default for Told {
    /// A reply that says nothing.
    fn default() -> Self {
        Self { sends: Sends::new(1), returned: Retries::default(), word: None }
    }
}

impl Told {
    /// Reads a reply. Of several values the one that allows least counts.
    pub fn read(headers: &HeaderMap) -> Self {
        let silent = Self::default();
        let values = |name| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
        Self {
            sends: values(ATTEMPTS).filter_map(Sends::read).max().unwrap_or(silent.sends),
            returned: values(CREDIT).map(Retries::read).min().unwrap_or(silent.returned),
            word: Word::read(headers),
        }
    }
}

/// What a reply says to our caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Sends made here and below.
    pub sends: Sends,
    /// Why there was no further attempt; `None` after a success.
    pub stop: Option<Reason>,
    /// What of the caller's credit is handed back, if it came with any.
    pub credit: Option<Retries>,
    /// What the caller should do: see [`Word::on`].
    pub word: Option<Word>,
    /// The reply is ours, and no upstream's: then a wait stands in `Retry-After` as well.
    pub is_ours: bool,
}

impl Answer {
    /// A success after so many sends, to a caller without credit.
    pub const fn after(sends: Sends) -> Self {
        Self { sends, stop: None, credit: None, word: None, is_ours: false }
    }

    /// A call that ended for this reason, after which the caller may come back in `wait`. `is_ours` says whether the
    /// reply is our own refusal; an upstream's keeps its own `Retry-After`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::HeaderMap;
    /// use quell::{Reason, core::credit::Sends, http::headers::{self, Answer}};
    ///
    /// let mut reply = HeaderMap::new();
    /// let wait = Some(Duration::from_millis(2_100));
    /// headers::answer(&mut reply, Answer::stopped(Sends::new(0), Reason::BreakerOpen, wait, true));
    /// assert_eq!(reply["quell-stop"], "breaker_open");
    /// assert_eq!((&reply["quell-retry"], &reply["retry-after"]), (&"after=3".parse()?, &"3".parse()?));
    /// # Ok::<_, http::header::InvalidHeaderValue>(())
    /// ```
    pub fn stopped(sends: Sends, reason: Reason, wait: Option<Duration>, is_ours: bool) -> Self {
        let word = Word::on(reason, wait);
        Self { sends, stop: Some(reason), credit: None, word, is_ours }
    }
}

/// Writes what a reply says to our caller, in place of what an upstream said to us. An upstream's own word on retries
/// stays where we have none.
pub fn answer(headers: &mut HeaderMap, answer: Answer) {
    let Answer { sends, stop, credit, word, is_ours } = answer;
    // A look at every name costs less than two searches.
    if !is_ours && headers.keys().any(|name| *name == STOP || *name == CREDIT) {
        headers.remove(STOP);
        headers.remove(CREDIT);
    }
    put(headers, ATTEMPTS, number(u64::from(sends.get())));
    if let Some(reason) = stop {
        put(headers, STOP, HeaderValue::from_static(reason.as_str()));
    }
    if let Some(credit) = credit {
        put(headers, CREDIT, number(u64::from(credit.get())));
    }
    match word {
        Some(Word::No) => put(headers, RETRY, HeaderValue::from_static("no")),
        Some(after @ Word::After(wait)) => {
            if let Ok(value) = HeaderValue::try_from(after.to_string()) {
                put(headers, RETRY, value);
            }
            if is_ours {
                put(headers, RETRY_AFTER, retry_after(wait));
            }
        }
        None => {}
    }
}

/// The `Retry-After` of a reply that is ours: whole seconds, rounded up and at least one, so never earlier than meant.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(quell::http::headers::retry_after(Duration::from_millis(1_001)), "2");
/// ```
pub fn retry_after(wait: Duration) -> HeaderValue {
    number(whole_seconds(wait))
}

/// Rounded up, and at least one: never earlier than promised.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// A map that is full to its last field says less; it does not panic.
fn put(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    let _ = headers.try_insert(name, value);
}

/// Without formatting where that can be helped: almost every attempt is the first, and most waits are short.
fn number(n: u64) -> HeaderValue {
    const SMALL: [&str; 6] = ["0", "1", "2", "3", "4", "5"];
    match usize::try_from(n).ok().and_then(|n| SMALL.get(n)) {
        Some(small) => HeaderValue::from_static(small),
        None => HeaderValue::from(n),
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
