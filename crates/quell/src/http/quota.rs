//! Quota: a rate limit for each key, and the header fields that tell callers of it.
//!
//! **Why.** A caller who is refused without being told when to return comes back at once, and one who sees what is left can
//! slow down before it is refused. Every host that limits has to say so in the same fields.
//!
//! **How.** [`Quota::take`] lets a request pass and gives the fields of its reply, or refuses it and gives those of the
//! refusal, with a wait that is spread so that those who were refused together do not come back together. Keys are hashed
//! with a secret, and there is a bound on how many have a bucket of their own. [`Quota::follow`] is a reload: nobody gets a
//! new burst by it.
//!
//! | field | value |
//! |---|---|
//! | `RateLimit` | `"default";r=0;t=5`: what is left, and in how many seconds there is more |
//! | `RateLimit-Policy` | `"default";q=100;w=60`: the bucket's size, and the seconds in which it fills up |
//!
//! Both are those of draft-ietf-httpapi-ratelimit-headers-10, where they are lists: a reply that passed several quotas
//! names them all. With [`Quota::legacy_headers`] there are also `X-RateLimit-Limit` (the bucket's size), `-Remaining` and
//! `-Reset` (Unix seconds).
//!
//! ```
//! use http::HeaderMap;
//! use quell::{Clock, core::limiter, http::quota::Quota};
//!
//! let clock = Clock::manual();
//! let quota = Quota::new("tenant", limiter::Spec { per_second: 0.2, burst: 1 }, 10_000, clock)?;
//! let mut reply = HeaderMap::new();
//! quota.take(Some(b"shop"), 1).unwrap().write(&mut reply);
//! assert_eq!(reply["ratelimit"], r#""tenant";r=0;t=5"#);
//!
//! let limited = quota.take(Some(b"shop"), 1).unwrap_err();
//! assert!(limited.wait.unwrap().as_secs() >= 5);
//! assert!(quota.take(Some(b"another"), 1).is_ok());
//! # Ok::<_, quell::http::quota::Invalid>(())
//! ```

use std::{
    fmt::Write,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use quell_core::{
    Rng, Time,
    limiter::{self, Status},
    limiters::{self, Limiters},
    mode::Mode,
};

use super::whole::Whole;
use crate::{Clock, key};

const QUOTA: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// A rate limit for each key. See the [module](self).
#[derive(Debug)]
pub struct Quota {
    name: Box<str>,
    policy: HeaderValue,
    legacy: bool,
    on_pass: bool,
    mode: Mode,
    clock: Clock,
    shared: Arc<Shared>,
}

/// What outlives a reload.
#[derive(Debug)]
struct Shared {
    /// Keys are kept as numbers that nobody outside can foresee, so nobody can make up one that meets another's.
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limiters: Limiters,
    decisions: Decisions,
    rng: Rng,
}

/// What became of requests, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decisions {
    /// They passed.
    pub passed: u64,
    /// They were refused.
    pub limited: u64,
    /// They passed in report mode, and would have been refused.
    pub would_limit: u64,
}

/// Why there can be no such quota. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// See [`limiters::Invalid`].
    #[error(transparent)]
    Limit(#[from] limiters::Invalid),
    /// The name stands in a header.
    #[error(
        "rate_limit.name is {0:?}: write 1 to 64 visible characters other than \\\" and \\\\, such as \"default\""
    )]
    Name(String),
}

/// A request passed: what its reply says of it.
#[derive(Debug, Default)]
#[must_use = "the reply is to say what is left"]
pub struct Passed(Option<Fields>);

#[derive(Debug)]
struct Fields {
    quota: HeaderValue,
    policy: HeaderValue,
    /// What the bucket can hold, what is in it, and at which Unix second there is more.
    legacy: Option<(u32, u32, u64)>,
}

/// A request did not pass.
#[derive(Debug)]
#[must_use = "the request is to be refused"]
pub struct Limited {
    /// How long until the same request may pass, in whole seconds and spread; `None` is never.
    pub wait: Option<Duration>,
    fields: Passed,
}

impl Passed {
    /// Adds the fields to those of a reply. What others wrote in the lists stays: their quotas count as well.
    pub fn write(self, headers: &mut HeaderMap) {
        let Some(Fields { quota, policy, legacy }) = self.0 else { return };
        // A map that is full to its last field says less; it does not panic.
        let _ = headers.try_append(QUOTA, quota);
        let _ = headers.try_append(POLICY, policy);
        if let Some((limit, remaining, reset)) = legacy {
            let _ = headers.try_insert(LIMIT, HeaderValue::from(limit));
            let _ = headers.try_insert(REMAINING, HeaderValue::from(remaining));
            let _ = headers.try_insert(RESET, HeaderValue::from(reset));
        }
    }
}

impl Limited {
    /// Adds the fields to those of the refusal. Status, body and `Retry-After` are for whoever writes it.
    pub fn write(self, headers: &mut HeaderMap) {
        self.fields.write(headers);
    }
}

impl Quota {
    /// The same limit for every key, and a bucket of their own for so many; when none of them is full again, new keys share
    /// one. The name stands in the fields.
    pub fn new(
        name: &str,
        limit: limiter::Spec,
        keys: usize,
        clock: Clock,
    ) -> Result<Self, Invalid> {
        let limiters = Limiters::new(limit, keys, clock.now())?;
        let policy = policy(name, limit).ok_or_else(|| Invalid::Name(name.to_owned()))?;
        let state = Mutex::new(State {
            limiters,
            decisions: Decisions::default(),
            rng: Rng::new(key::seed()),
        });
        let shared = Arc::new(Shared { hasher: RandomState::new(), state });
        Ok(Self {
            name: name.into(),
            policy,
            legacy: false,
            on_pass: true,
            mode: Mode::Enforce,
            clock,
            shared,
        })
    }

    /// Whether replies also carry `X-RateLimit-Limit`, `-Remaining` and `-Reset`; not unless said.
    #[must_use]
    pub fn legacy_headers(mut self, legacy: bool) -> Self {
        self.legacy = legacy;
        self
    }

    /// Whether replies to what passed carry the fields as well; so they do unless said.
    #[must_use]
    pub fn headers_on_pass(mut self, on_pass: bool) -> Self {
        self.on_pass = on_pass;
        self
    }

    /// Whether it is obeyed; so it is unless said. In report mode everything passes, nothing is said and all is counted.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Where chance starts, for tests.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.shared.state.lock().rng = Rng::new(seed);
        self
    }

    /// Lets a request of this cost pass and takes its tokens, or says why not and takes none. Requests without a key share
    /// a bucket.
    pub fn take(&self, key: Option<&[u8]>, cost: u32) -> Result<Passed, Limited> {
        let key = self.hash(key);
        let mut state = self.shared.state.lock();
        let now = self.clock.now();
        let taken = state.limiters.take(now, key, cost);
        state.decisions.count(taken.is_ok(), self.mode);
        let is_silent = taken.is_ok() && !self.on_pass;
        if is_silent || self.mode == Mode::Report {
            return Ok(Passed::default());
        }
        let status = state.limiters.status(now, key);
        // Unless refused for a while, there is more when the bucket is full again.
        let reset = Whole::of(status.reset.since(now));
        let Err(refused) = taken else {
            drop(state);
            return Ok(self.fields(status, reset));
        };
        let at = refused.retry_at();
        let wait = (at < Time::MAX).then(|| Whole::of(at.since(now)).jittered(&mut state.rng));
        drop(state);
        let fields = self.fields(status, wait.unwrap_or(reset));
        Err(Limited { wait: wait.map(|Whole(wait)| Duration::from_secs(wait)), fields })
    }

    /// What there is to know of a key now. Takes nothing.
    pub fn status(&self, key: Option<&[u8]>) -> Status {
        let key = self.hash(key);
        self.shared.state.lock().limiters.status(self.clock.now(), key)
    }

    /// How many keys have a bucket of their own, and how often a request had to do with the one that all others share.
    pub fn keys(&self) -> (usize, u64) {
        self.shared.state.lock().limiters.keys()
    }

    /// What became of requests, since the start.
    pub fn decisions(&self) -> Decisions {
        self.shared.state.lock().decisions
    }

    /// Goes on as one just made: its numbers and name, with every bucket as full as it is, as far as that fits. From now on
    /// both take from the same buckets, so call this only once nothing else can go wrong with a reload.
    #[must_use = "what is followed has the new numbers and the old name"]
    pub fn follow(&self, fresh: Self) -> Self {
        // Whoever followed before shares its buckets with others, and has nothing of its own to hand over.
        if let Some(Shared { state, .. }) = Arc::into_inner(fresh.shared) {
            let State { limiters, .. } = state.into_inner();
            self.shared.state.lock().limiters.adopt(limiters, self.clock.now());
        }
        let clock = self.clock.clone();
        Self { shared: Arc::clone(&self.shared), clock, ..fresh }
    }

    fn hash(&self, key: Option<&[u8]>) -> u64 {
        self.shared.hasher.hash_one(key)
    }

    fn fields(&self, status: Status, Whole(until): Whole) -> Passed {
        let mut quota = String::with_capacity(self.name.len() + 32);
        // Writing to a string cannot fail.
        let _ = write!(quota, "\"{}\";r={};t={until}", self.name, status.tokens);
        let legacy = self.legacy.then(|| {
            let unix_now = self.clock.unix_now().as_nanos().div_ceil(1_000_000_000);
            let unix_now = u64::try_from(unix_now).unwrap_or(u64::MAX);
            (status.capacity, status.tokens, unix_now.saturating_add(until))
        });
        let quota = HeaderValue::try_from(quota).ok();
        Passed(quota.map(|quota| Fields { quota, policy: self.policy.clone(), legacy }))
    }
}

impl Decisions {
    fn count(&mut self, passes: bool, mode: Mode) {
        match (passes, mode) {
            (true, _) => self.passed += 1,
            (false, Mode::Enforce) => self.limited += 1,
            (false, Mode::Report) => self.would_limit += 1,
        }
    }
}

/// The field that is the same in every reply; `None` if the name cannot stand in it.
fn policy(name: &str, limit: limiter::Spec) -> Option<HeaderValue> {
    let fits = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
        return None;
    }
    let window = (f64::from(limit.burst) / limit.per_second).ceil().max(1.0) as u64;
    HeaderValue::try_from(format!("\"{name}\";q={};w={window}", limit.burst)).ok()
}

/// The network that counts as one caller: an IPv6 network of 64 bits usually belongs to one customer.
///
/// ```
/// use quell::http::quota::network;
///
/// assert_eq!(network("2001:db8:0:1:ffff::1".parse()?).to_string(), "2001:db8:0:1::");
/// assert_eq!(network("::ffff:10.0.0.1".parse()?).to_string(), "10.0.0.1");
/// # Ok::<_, std::net::AddrParseError>(())
/// ```
pub fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: limiter::Spec = limiter::Spec { per_second: 0.2, burst: 2 };

    fn quota(name: &str, clock: &Clock) -> Quota {
        Quota::new(name, SLOW, 10, clock.clone()).unwrap().seed(7)
    }

    #[test]
    fn an_ipv6_network_is_one_caller_and_a_mapped_address_is_the_one_it_maps() {
        let name = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(name("2001:db8:0:1::2"), name("2001:db8:0:1:ffff::1"));
        assert_ne!(name("2001:db8:0:2::2"), "2001:db8:0:1::");
        assert_eq!(name("::ffff:10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn no_key_is_not_the_empty_key() {
        let quota = quota("a", &Clock::manual());
        assert_ne!(quota.hash(None), quota.hash(Some(b"")));
    }

    #[test]
    fn a_reply_that_passed_two_quotas_names_both() {
        let clock = Clock::manual();
        let mut reply = HeaderMap::new();
        for name in ["tenant", "route"] {
            let quota = quota(name, &clock).legacy_headers(true);
            quota.take(None, 1).unwrap().write(&mut reply);
        }
        let values = |name: HeaderName| reply.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(values(QUOTA), [r#""tenant";r=1;t=5"#, r#""route";r=1;t=5"#]);
        assert_eq!(values(POLICY), [r#""tenant";q=2;w=10"#, r#""route";q=2;w=10"#]);
        assert_eq!(values(LIMIT), ["2"], "no list, so the last one speaks");
    }

    /// X10.
    #[test]
    fn in_report_mode_everything_passes_in_silence_and_is_counted() {
        let quota = quota("a", &Clock::manual()).mode(Mode::Report);
        let mut reply = HeaderMap::new();
        for _ in 0..5 {
            quota.take(None, 1).unwrap().write(&mut reply);
        }
        assert!(reply.is_empty());
        assert_eq!(quota.decisions(), Decisions { passed: 2, limited: 0, would_limit: 3 });
    }

    /// X9.
    #[test]
    fn a_reload_is_no_way_to_a_new_burst_and_says_the_new_numbers() {
        let clock = Clock::manual();
        let before = quota("before", &clock);
        for _ in 0..2 {
            let _ = before.take(Some(b"shop"), 1).unwrap();
        }
        let larger = limiter::Spec { per_second: 1.0, burst: 100 };
        let after = before.follow(Quota::new("after", larger, 10, clock.clone()).unwrap());
        assert!(after.take(Some(b"shop"), 1).is_err());
        clock.advance(Duration::from_secs(3));
        let mut reply = HeaderMap::new();
        after.take(Some(b"shop"), 1).unwrap().write(&mut reply);
        assert_eq!(reply[QUOTA], r#""after";r=2;t=98"#);
        assert_eq!(reply[POLICY], r#""after";q=100;w=100"#);
        let _ = before.take(Some(b"shop"), 2).unwrap();
        assert!(
            after.take(Some(b"shop"), 1).is_err(),
            "what is under way takes from the same bucket"
        );
    }
}
