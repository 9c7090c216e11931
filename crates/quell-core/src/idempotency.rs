//! Idempotency: the same request twice has its effect once.
//!
//! **Why.** A caller who got no answer must ask again, and cannot know whether the first time counted. With a key
//! the second request is recognised: it gets the first one's reply, or is told that the first is still being worked
//! on. What goes wrong elsewhere is the check: "there is a row for this key" also holds after an attempt that failed,
//! and then swallows the very retry it was made for. So everything here goes by the state, never by existence.
//!
//! **How.** A key is free, in progress or done. These functions are the whole machine; a store reads the record, runs
//! one of them and writes the outcome in one atomic step. A claim has a fence that only grows, and ends in
//! [`complete`] or [`abandon`] (after a failure that may be retried), both of which need owner and fence: whoever
//! was overtaken after its lease ran out changes nothing.
//!
//! ```
//! use quell_core::{Stamp, idempotency::*};
//!
//! let rules = Rules::new(Spec::default())?;
//! let (now, payload, me, other) = (Stamp::ZERO, Fingerprint([7; 32]), Owner(1), Owner(2));
//! let Begin::Claim(record) = begin(None, now, me, payload, &rules) else { panic!() };
//! let fence = record.fence();
//! assert!(matches!(begin(Some(&record), now, other, payload, &rules), Begin::InFlight { .. }));
//!
//! let record = complete(Some(&record), now, me, fence, Ending::of(201, false, Some(512)).unwrap(), &rules).unwrap();
//! assert!(matches!(begin(Some(&record), now, other, payload, &rules), Begin::Replay(_)));
//! let changed = Fingerprint([8; 32]);
//! assert_eq!(begin(Some(&record), now, other, changed, &rules), Begin::Mismatch);
//! # Ok::<_, Invalid>(())
//! ```

use core::time::Duration;

use crate::{Reason, Stamp};

/// The longest body that is stored for replay.
pub const LONGEST_BODY: u64 = 64 * 1024;

/// Header fields that are never stored, in lower case: they belong to one connection, one caller or one call.
pub const NEVER_STORED: &[&str] = &[
    "authentication-info",
    "authorization",
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "quell-attempts",
    "quell-retry",
    "quell-retry-credit",
    "quell-stop",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// Who claims: drawn anew by every process that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u128);

/// A digest of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// Grows with every claim of a key: of two claims the later one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// What to do when an owner went silent: it may have done the work or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnExpiry {
    /// The next request does it again.
    #[default]
    Rerun,
    /// Nobody does, until the record is forgotten or somebody looks.
    Hold,
}

/// How keys are kept, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// How long an owner may be silent before it counts as gone.
    pub lease: Duration,
    /// How long a key is remembered.
    pub ttl: Duration,
    /// What happens to the key of an owner that is gone.
    pub on_expiry: OnExpiry,
}

impl Default for Spec {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3_600);
        Self { lease: Duration::from_secs(60), ttl: day, on_expiry: OnExpiry::Rerun }
    }
}

/// Why a [`Spec`] makes no sense. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Every claim would have run out at once.
    #[error(
        "idempotency.lease is {0:?}, so every claim would be void at once: write at least \"1ms\", such as \"60s\""
    )]
    Lease(Duration),
    /// The key would be forgotten while it is worked on.
    #[error(
        "idempotency.ttl is {ttl:?}, less than idempotency.lease {lease:?}: write at least the lease, such as \"24h\""
    )]
    Ttl {
        /// As written.
        ttl: Duration,
        /// The lease as written.
        lease: Duration,
    },
}

/// A [`Spec`] that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules(Spec);

/// What a store keeps under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// As good as absent. It stands for the sake of its fence, and a store may drop it after `keep`.
    Free {
        /// Of the last claim.
        fence: Fence,
        /// When it may be forgotten.
        keep: Stamp,
    },
    /// Somebody is at it.
    InProgress {
        /// Who.
        owner: Owner,
        /// Of this claim.
        fence: Fence,
        /// When the owner counts as gone.
        until: Stamp,
        /// Of the payload that was claimed.
        fingerprint: Fingerprint,
        /// When it may be forgotten.
        keep: Stamp,
    },
    /// It is done, for good or ill.
    Done {
        /// By whom.
        owner: Owner,
        /// Of the claim that did it.
        fence: Fence,
        /// Of the payload that was done.
        fingerprint: Fingerprint,
        /// How it ended.
        ending: Ending,
        /// When it may be forgotten.
        keep: Stamp,
    },
}

/// How the work on a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The reply is stored beside the record, in full.
    Stored {
        /// Its status.
        status: u16,
    },
    /// It was done, but the reply was too long or streamed and is gone.
    Unstored {
        /// Its status.
        status: u16,
    },
    /// It failed for good, without a reply.
    Failed,
}

/// What a request with a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Begin {
    /// Go ahead, once this record is written.
    Claim(Record),
    /// It was done before: answer with what is stored. Nothing is sent, so budget and breaker hear of nothing.
    Replay(Ending),
    /// Somebody is at it, or was and its reply is gone: never a second run.
    InFlight {
        /// When it may be different.
        retry_at: Stamp,
    },
    /// The key was used with another payload.
    Mismatch,
}

/// The claim is not ours any more: it ran out and was taken over, or was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the claim on this idempotency key is not ours any more")]
pub struct Stale;

impl Rules {
    /// Checks what was written.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        if spec.lease < Duration::from_millis(1) {
            return Err(Invalid::Lease(spec.lease));
        }
        if spec.ttl < spec.lease {
            return Err(Invalid::Ttl { ttl: spec.ttl, lease: spec.lease });
        }
        Ok(Self(spec))
    }

    /// How long an owner may be silent before it counts as gone.
    pub const fn lease(&self) -> Duration {
        self.0.lease
    }

    /// How long a key is remembered.
    pub const fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// What happens to the key of an owner that is gone.
    pub const fn on_expiry(&self) -> OnExpiry {
        self.0.on_expiry
    }

    /// Whether a key is remembered for as long as somebody may still repeat its request; else warn at the start.
    pub fn outlives(&self, horizon: Duration) -> bool {
        self.0.ttl > horizon
    }
}

impl Record {
    /// Of the last claim.
    pub const fn fence(&self) -> Fence {
        match *self {
            Self::Free { fence, .. }
            | Self::InProgress { fence, .. }
            | Self::Done { fence, .. } => fence,
        }
    }

    /// When a store may forget it.
    pub const fn keep(&self) -> Stamp {
        match *self {
            Self::Free { keep, .. } | Self::InProgress { keep, .. } | Self::Done { keep, .. } => {
                keep
            }
        }
    }
}

impl Begin {
    /// The refusal's reason, if it is one.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Claim(_) | Self::Replay(_) => None,
            Self::InFlight { .. } => Some(Reason::KeyInFlight),
            Self::Mismatch => Some(Reason::KeyMismatch),
        }
    }
}

impl Ending {
    /// What a reply with this status makes of the key; `None` means that it is free again, because the reply may be
    /// retried or changed nothing. `length` is `None` for a streamed body; `declared` says that the route calls this
    /// 4xx final. A redirect has had its effect, so it is done, but it is not stored.
    pub const fn of(status: u16, declared: bool, length: Option<u64>) -> Option<Self> {
        let fits = matches!(length, Some(length) if length <= LONGEST_BODY);
        match status {
            200..=299 if fits => Some(Self::Stored { status }),
            200..=399 => Some(Self::Unstored { status }),
            408 | 425 | 429 => None,
            400..=499 if declared && fits => Some(Self::Stored { status }),
            400..=499 if declared => Some(Self::Unstored { status }),
            _ => None,
        }
    }
}

/// A request with a key wants to begin.
pub fn begin(
    record: Option<&Record>,
    now: Stamp,
    owner: Owner,
    fingerprint: Fingerprint,
    rules: &Rules,
) -> Begin {
    let claim = |last: u64| {
        // Greater than the last, and than any that was forgotten with its record: nobody claims a key a thousand times
        // per millisecond for as long as it is remembered. Below 2^53, which is as far as Lua can count.
        let fence = Fence(last.saturating_add(1).max(now.as_millis().saturating_mul(1 << 10)));
        let (until, keep) = (now + rules.0.lease, now + rules.0.ttl);
        Begin::Claim(Record::InProgress { owner, fence, until, fingerprint, keep })
    };
    let Some(record) = record else { return claim(0) };
    let last = record.fence().0;
    match *record {
        Record::Free { .. } => claim(last),
        _ if record.keep() <= now => claim(last),
        Record::InProgress { fingerprint: other, .. } | Record::Done { fingerprint: other, .. }
            if other != fingerprint =>
        {
            Begin::Mismatch
        }
        Record::InProgress { until, .. } if now < until => Begin::InFlight { retry_at: until },
        Record::InProgress { keep, .. } => match rules.0.on_expiry {
            OnExpiry::Rerun => claim(last),
            OnExpiry::Hold => Begin::InFlight { retry_at: keep },
        },
        Record::Done { ending: Ending::Unstored { .. }, keep, .. } => {
            Begin::InFlight { retry_at: keep }
        }
        Record::Done { ending, .. } => Begin::Replay(ending),
    }
}

/// The work is done for good. Said twice, the first word stands.
pub fn complete(
    record: Option<&Record>,
    now: Stamp,
    owner: Owner,
    fence: Fence,
    ending: Ending,
    rules: &Rules,
) -> Result<Record, Stale> {
    match record {
        Some(&done @ Record::Done { owner: by, fence: at, .. }) if (by, at) == (owner, fence) => {
            Ok(done)
        }
        _ => {
            let (fingerprint, _) = held(record, owner, fence)?;
            Ok(Record::Done { owner, fence, fingerprint, ending, keep: now + rules.0.ttl })
        }
    }
}

/// The work failed in a way that may be retried: the key is free again.
pub fn abandon(record: Option<&Record>, owner: Owner, fence: Fence) -> Result<Record, Stale> {
    let (_, keep) = held(record, owner, fence)?;
    Ok(Record::Free { fence, keep })
}

/// The work takes longer than the lease: it begins anew.
pub fn renew(
    record: Option<&Record>,
    now: Stamp,
    owner: Owner,
    fence: Fence,
    rules: &Rules,
) -> Result<Record, Stale> {
    let (fingerprint, keep) = held(record, owner, fence)?;
    let until = now + rules.0.lease;
    Ok(Record::InProgress { owner, fence, until, fingerprint, keep: keep.max(now + rules.0.ttl) })
}

/// Whether a reply's header field may be stored, in whatever case it is written.
pub fn may_store(field: &str) -> bool {
    !NEVER_STORED.iter().any(|never| never.eq_ignore_ascii_case(field))
}

/// Feeds the parts of a key's scope (tenant, route, method, path, key) to a digest. Their number and lengths come
/// along, so no two scopes read the same: (`a:b`, `c`) is not (`a`, `b:c`).
pub fn feed_scope(parts: &[&[u8]], mut digest: impl FnMut(&[u8])) {
    digest(&(parts.len() as u64).to_le_bytes());
    for part in parts {
        digest(&(part.len() as u64).to_le_bytes());
        digest(part);
    }
}

/// The claim, if it is still held by this owner under this fence; that its lease ran out unnoticed does no harm.
fn held(
    record: Option<&Record>,
    owner: Owner,
    fence: Fence,
) -> Result<(Fingerprint, Stamp), Stale> {
    match record {
        Some(&Record::InProgress { owner: by, fence: at, fingerprint, keep, .. })
            if (by, at) == (owner, fence) =>
        {
            Ok((fingerprint, keep))
        }
        _ => Err(Stale),
    }
}

#[cfg(test)]
#[path = "idempotency_tests.rs"]
mod tests;
