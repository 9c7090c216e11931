//! Route limits: how often a route may be asked, by all together or by each.
//!
//! **Why.** A tenant's limit follows the tenant everywhere. What is dear is often one route, and who asks it too often may be
//! known by an address or a field rather than by a key.
//!
//! **How.** One bucket for the route, or one for each tenant, address or value of a field, in bounded memory. Requests that
//! have none of that share a bucket. An IPv6 network of 64 bits counts as one address. Whoever is refused is told when to
//! come back, see [`quell::http::quota`].
//!
//! ```
//! use http::HeaderMap;
//! use quell::{Clock, core::{limiter, mode::Mode}};
//! use quell_server::config::{self, LimitKey};
//! use quell_server::gateway::route_limit::{Asker, RouteLimit};
//!
//! let spec = limiter::Spec { per_second: 1.0, burst: 1 };
//! let written = config::RouteLimit { spec, mode: Mode::Enforce, key: LimitKey::Ip };
//! let limit = RouteLimit::new(&written, Clock::manual())?;
//! let headers = HeaderMap::new();
//! let from = |ip| Asker { tenant: None, ip: Some(ip), headers: &headers };
//! assert!(limit.take(from("10.0.0.1".parse()?)).is_ok());
//! assert!(limit.take(from("10.0.0.1".parse()?)).is_err());
//! assert!(limit.take(from("10.0.0.2".parse()?)).is_ok());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::net::IpAddr;

use http::HeaderMap;
use quell::{
    Clock,
    http::quota::{Decisions, Invalid, Limited, Passed, Quota, network},
};

use super::tenants::Tenant;
use crate::config::{self, LimitKey};

/// How many have a bucket of their own.
const KEYS: usize = 10_000;

/// What of a request tells who asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Who it is, if that is known.
    pub tenant: Option<&'a Tenant>,
    /// Where it comes from, by the word of those we trust.
    pub ip: Option<IpAddr>,
    /// What it sent.
    pub headers: &'a HeaderMap,
}

/// How often a route may be asked. See the [module](self).
#[derive(Debug)]
pub struct RouteLimit {
    key: LimitKey,
    quota: Quota,
}

impl RouteLimit {
    /// The same limit for each.
    pub fn new(written: &config::RouteLimit, clock: Clock) -> Result<Self, Invalid> {
        let keys = if written.key == LimitKey::Route { 1 } else { KEYS };
        let quota = Quota::new("route", written.spec, keys, clock)?.mode(written.mode);
        Ok(Self { key: written.key.clone(), quota })
    }

    /// Lets a request pass and says what to add to its reply, or refuses it.
    pub fn take(&self, asker: Asker<'_>) -> Result<Passed, Limited> {
        let take = |key: Option<&[u8]>| self.quota.take(key, 1);
        match &self.key {
            LimitKey::Route => take(None),
            LimitKey::Tenant => take(asker.tenant.map(|tenant| tenant.name.as_bytes())),
            LimitKey::Header(name) => {
                take(asker.headers.get(name.as_str()).map(|value| value.as_bytes()))
            }
            LimitKey::Ip => match asker.ip.map(network) {
                None => take(None),
                Some(IpAddr::V4(ip)) => take(Some(&ip.octets())),
                Some(IpAddr::V6(ip)) => take(Some(&ip.octets())),
            },
        }
    }

    /// What became of requests, since the start.
    pub fn decisions(&self) -> Decisions {
        self.quota.decisions()
    }

    /// How many have a bucket of their own, and how often a request had to do with the one that all others share.
    pub fn keys(&self) -> (usize, u64) {
        self.quota.keys()
    }

    /// Goes on as one just made, with every bucket as full as it is; if it tells others apart, they start anew. Call it last,
    /// once nothing else can go wrong with a reload: see [`Quota::follow`].
    #[must_use = "only what is returned has the new numbers"]
    pub fn follow(&self, fresh: Self) -> Self {
        if self.key != fresh.key {
            return fresh;
        }
        Self { key: fresh.key, quota: self.quota.follow(fresh.quota) }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use quell::core::{limiter, mode::Mode};

    use super::*;

    fn limit(key: LimitKey, clock: &Clock) -> RouteLimit {
        let spec = limiter::Spec { per_second: 1.0, burst: 1 };
        let written = config::RouteLimit { spec, mode: Mode::Enforce, key };
        RouteLimit::new(&written, clock.clone()).unwrap()
    }

    fn passes(limit: &RouteLimit, ip: Option<&str>, headers: &HeaderMap) -> bool {
        let ip = ip.map(|ip| ip.parse().unwrap());
        limit.take(Asker { tenant: None, ip, headers }).is_ok()
    }

    #[test]
    fn all_who_ask_a_route_share_its_bucket() {
        let limit = limit(LimitKey::Route, &Clock::manual());
        assert!(passes(&limit, Some("10.0.0.1"), &HeaderMap::new()));
        assert!(!passes(&limit, Some("10.0.0.2"), &HeaderMap::new()));
        assert_eq!(limit.decisions(), Decisions { passed: 1, limited: 1, would_limit: 0 });
    }

    #[test]
    fn an_address_has_a_bucket_and_so_has_a_network_of_ipv6() {
        let limit = limit(LimitKey::Ip, &Clock::manual());
        let none = HeaderMap::new();
        let answers =
            [Some("10.0.0.1"), Some("::ffff:10.0.0.1"), Some("10.0.0.2"), Some("2001:db8::1")]
                .map(|ip| passes(&limit, ip, &none));
        assert_eq!(answers, [true, false, true, true]);
        assert!(!passes(&limit, Some("2001:db8::ffff:2"), &none));
        assert!(passes(&limit, None, &none));
        assert!(!passes(&limit, None, &none), "those without one share a bucket");
    }

    #[test]
    fn a_fields_value_has_a_bucket_and_those_without_share_one() {
        let limit = limit(LimitKey::Header("x-device".to_owned()), &Clock::manual());
        let mut headers = HeaderMap::new();
        assert!(passes(&limit, None, &headers) && !passes(&limit, None, &headers));
        for value in ["a", "b", ""] {
            headers.insert("x-device", HeaderValue::from_static(value));
            assert!(passes(&limit, None, &headers) && !passes(&limit, None, &headers), "{value}");
        }
    }

    /// X9.
    #[test]
    fn a_reload_refills_no_bucket_unless_it_tells_others_apart() {
        let clock = Clock::manual();
        let (none, ip) = (HeaderMap::new(), Some("10.0.0.1"));
        let before = limit(LimitKey::Ip, &clock);
        assert!(passes(&before, ip, &none));
        let after = before.follow(limit(LimitKey::Ip, &clock));
        assert!(!passes(&after, ip, &none));
        let other = after.follow(limit(LimitKey::Route, &clock));
        assert!(passes(&other, ip, &none));
    }
}
