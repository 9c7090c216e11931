//! Tenants: who calls, known by a key, and how often it may ask.
//!
//! **Why.** One caller must not use up what all share, and under pressure some matter more than others. For both the gateway
//! has to know who asks, and what it is told must be more than a claim.
//!
//! **How.** A caller sends its key as `x-api-key: …` or `authorization: Bearer …`. Its hash is compared with the hash of every
//! key there is, in the same time whether it is known or not. The field that held the key is taken out of the
//! request: **a key to the gateway ends at the gateway**, or every upstream could call in its tenants' names. The other field
//! is not touched, so a caller can show its key to us in the one and a token for the upstream in the other.
//!
//! | what a request brings | it is |
//! |---|---|
//! | a key that is known | the tenant; the field ends here |
//! | a key that begins with `qk_`, as all of ours do, and is not known | unauthorized: it was meant for us, and may be an old one |
//! | any other credential, or none | nobody; the fields go on, for they may be meant for the upstream |
//! | a field with a key, twice | unauthorized: it could be read in two ways |
//!
//! Whether nobody may pass is for the route to say (`tenants = "required"`). A route with `tenants = "off"` asks nobody, and
//! [`conceal`] keeps keys of ours from its upstream all the same.
//!
//! ```
//! use http::{HeaderMap, HeaderValue};
//! use quell::Clock;
//! use quell_server::config::Config;
//! use quell_server::gateway::tenants::Tenants;
//!
//! let config = Config::parse("quell.toml", "version = 1", &[])?;
//! let tenants = Tenants::new(&config, &Clock::system())?;
//! let mut headers = HeaderMap::new();
//! assert!(tenants.identify(&mut headers).unwrap().is_none());
//! headers.insert("x-api-key", HeaderValue::from_static("qk_1234"));
//! assert!(tenants.identify(&mut headers).is_err());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};
use quell::{
    Clock, Reason,
    classes::caller_key,
    core::{Priority, limiter},
    http::quota::{self, Decisions, Limited, Passed, Quota},
};
use subtle::ConditionallySelectable;

use crate::config::{self, Config, Secret};
use crate::key::{self, Hash, LONGEST, PREFIX};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"quell\"");

/// Who calls.
#[derive(Debug)]
pub struct Tenant {
    /// As the file has it.
    pub name: Arc<str>,
    /// How important it is under pressure.
    pub priority: Priority,
    /// What stands for it where callers share fairly.
    pub(super) key: u64,
    quota: Option<Quota>,
}

/// All tenants of a file. See the [module](self).
#[derive(Debug, Default)]
pub struct Tenants {
    all: Vec<Arc<Tenant>>,
    /// Every key there is, and which of them has it.
    keys: Vec<(Hash, u32)>,
}

/// A request whose key is none, or not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key is not known")]
pub struct Unauthorized;

/// Why there are no tenants. The message names the place of a key and never what is there.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// A hash cannot be had.
    #[error("tenant.{tenant}.keys: {error}")]
    Unreadable {
        /// Whose.
        tenant: String,
        /// Where, and why not.
        error: config::Unreadable,
    },
    /// There is something else.
    #[error("tenant.{tenant}.keys: what is in {place} is no hash: {error}")]
    NoHash {
        /// Whose.
        tenant: String,
        /// Where.
        place: Secret,
        /// What to write.
        error: key::NoHash,
    },
    /// The same key would be two callers.
    #[error(
        "tenant.{tenant}.keys: {place} has the hash of a key of tenant {other}: give each its own key"
    )]
    Shared {
        /// Whose.
        tenant: String,
        /// Where.
        place: Secret,
        /// Who had it first.
        other: Arc<str>,
    },
    /// See [`quota::Invalid`].
    #[error("tenant.{tenant}.{error}")]
    Limit {
        /// Whose.
        tenant: String,
        /// What is wrong.
        error: quota::Invalid,
    },
}

impl Unauthorized {
    /// Why, as replies, logs and metrics have it.
    pub const REASON: Reason = Reason::Unauthorized;

    /// Tells how to come back, as a 401 has to.
    pub fn write(self, headers: &mut HeaderMap) {
        let _ = headers.try_insert(WWW_AUTHENTICATE, CHALLENGE);
    }
}

impl Tenant {
    /// Lets a request pass and says what to add to its reply, or refuses it.
    pub fn admit(&self) -> Result<Passed, Limited> {
        self.quota.as_ref().map_or_else(|| Ok(Passed::default()), |quota| quota.take(None, 1))
    }

    /// What became of its requests, since the start; `None` if it has no limit.
    pub fn decisions(&self) -> Option<Decisions> {
        self.quota.as_ref().map(Quota::decisions)
    }

    /// What is left of its limit, if it has one.
    pub fn status(&self) -> Option<limiter::Status> {
        self.quota.as_ref().map(|quota| quota.status(None))
    }
}

impl Tenants {
    /// Looks up the hashes of all keys.
    pub fn new(config: &Config, clock: &Clock) -> Result<Self, Invalid> {
        let (tenants, wrong) = Self::collect(config, clock);
        wrong.into_iter().next().map_or(Ok(tenants), Err)
    }

    /// All that can be used, and why the rest cannot.
    pub(crate) fn collect(config: &Config, clock: &Clock) -> (Self, Vec<Invalid>) {
        let (mut tenants, mut wrong) = (Self::default(), Vec::new());
        for (name, written) in &config.tenants {
            let quota = written
                .rate_limit
                .map(|limit| Ok(Quota::new("tenant", limit, 1, clock.clone())?.mode(written.mode)));
            let quota = quota.transpose().unwrap_or_else(|error| {
                wrong.push(Invalid::Limit { tenant: name.clone(), error });
                None
            });
            for place in &written.keys {
                match tenants.look_up(name, place) {
                    Ok(hash) => tenants.keys.push((hash, tenants.all.len() as u32)),
                    Err(invalid) => wrong.push(invalid),
                }
            }
            let (key, priority) = (caller_key(name.as_bytes()), written.priority);
            tenants.all.push(Arc::new(Tenant { name: name.as_str().into(), priority, key, quota }));
        }
        (tenants, wrong)
    }

    /// A hash that no other tenant has.
    fn look_up(&self, tenant: &str, place: &Secret) -> Result<Hash, Invalid> {
        let (name, place) = (|| tenant.to_owned(), || place.clone());
        let kept =
            place().reveal().map_err(|error| Invalid::Unreadable { tenant: name(), error })?;
        let no_hash = |error| Invalid::NoHash { tenant: name(), place: place(), error };
        let hash: Hash = kept.parse().map_err(no_hash)?;
        match self.find(&hash) {
            None => Ok(hash),
            Some(other) => {
                let other = Arc::clone(&other.name);
                Err(Invalid::Shared { tenant: name(), place: place(), other })
            }
        }
    }

    /// Who calls, by the key in its request, which ends here. `None` is nobody who is known.
    pub fn identify(&self, headers: &mut HeaderMap) -> Result<Option<&Arc<Tenant>>, Unauthorized> {
        for name in [API_KEY, AUTHORIZATION] {
            let Some(key) = credential(headers, &name)? else { continue };
            let tenant = (key.len() <= LONGEST).then(|| self.find(&Hash::of(key))).flatten();
            if tenant.is_some() {
                headers.remove(name);
                conceal(headers);
                return Ok(tenant);
            }
            if is_ours(key) {
                return Err(Unauthorized);
            }
        }
        Ok(None)
    }

    /// All keys are looked at, whichever it is: how long that takes tells nobody how near it came.
    fn find(&self, hash: &Hash) -> Option<&Arc<Tenant>> {
        let mut found = u32::MAX;
        for (kept, tenant) in &self.keys {
            found.conditional_assign(tenant, kept.is(hash));
        }
        self.all.get(found as usize)
    }

    /// All tenants, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.all.iter()
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.all.iter().find(|tenant| *tenant.name == *name)
    }

    /// Goes on as those of a file just read: its keys, priorities and numbers, and every limit as used up as it is. Call it
    /// last, once nothing else can go wrong with a reload: see [`Quota::follow`].
    #[must_use = "only what is returned has the new keys"]
    pub fn follow(&self, fresh: Self) -> Self {
        let go_on = |tenant: Arc<Tenant>| {
            let before = self.get(&tenant.name).and_then(|before| before.quota.as_ref());
            let Some(before) = before else { return tenant };
            // Just made, so nobody else holds it.
            Arc::try_unwrap(tenant).map_or_else(
                |held| held,
                |Tenant { quota, name, priority, key }| {
                    let quota = quota.map(|quota| before.follow(quota));
                    Arc::new(Tenant { name, priority, key, quota })
                },
            )
        };
        Self { all: fresh.all.into_iter().map(go_on).collect(), keys: fresh.keys }
    }
}

/// Takes keys of ours out of a request that nobody was asked for one, so that they end here all the same.
pub fn conceal(headers: &mut HeaderMap) {
    for name in [API_KEY, AUTHORIZATION] {
        let is_ours = |value| key_in(&name, value).is_some_and(is_ours);
        if headers.get_all(&name).iter().any(is_ours) {
            headers.remove(name);
        }
    }
}

/// The key that stands in this field, if there is one.
fn credential<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a [u8]>, Unauthorized> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(_), Some(_)) => Err(Unauthorized),
        (value, _) => Ok(value.and_then(|value| key_in(name, value))),
    }
}

fn key_in<'a>(name: &HeaderName, value: &'a HeaderValue) -> Option<&'a [u8]> {
    let value = value.as_bytes();
    if *name == API_KEY {
        return Some(value.trim_ascii());
    }
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

/// Whether it was made by `quell key new`, or pretends to be.
fn is_ours(key: &[u8]) -> bool {
    key.starts_with(PREFIX.as_bytes())
}

#[cfg(test)]
#[path = "tenants_tests.rs"]
mod tests;
