//! Admission: who calls, and whether it may ask that often. Nothing of the upstream is touched yet.

use std::net::IpAddr;
use std::sync::Arc;

use crate::config::TenantsNeed;
use http::Response;
use http::header::HeaderMap;
use quell::core::budget::purse::Child;
use quell::core::{Priority, Reason};
use quell::http::quota;

use super::body::Body;
use super::counters::Pending;
use super::plan::Plan;
use super::respond;
use super::route::Route;
use super::route_limit::Asker;
use super::tenants::{Unauthorized, conceal};
use super::watch::Busy;

/// A request that may go on.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) priority: Priority,
    /// Whose part of the upstream's retry budget it draws on, where there are parts.
    pub(super) child: Option<Child>,
    /// What stands for it, if it is a tenant.
    pub(super) caller: Option<u64>,
    /// Who calls, where that is asked.
    pub(super) tenant: Option<Arc<str>>,
    limits: [quota::Passed; 2],
}

/// One that may not.
#[derive(Debug)]
pub(super) enum Refused {
    Unauthorized,
    Limited(quota::Limited),
}

/// Asks who calls, from this address, where the route wants to know, and takes from the limits of whoever it is and of the route.
pub(super) fn pass(
    plan: &Plan,
    route: &Route,
    ip: Option<IpAddr>,
    headers: &mut HeaderMap,
) -> Result<Passed, Refused> {
    let tenant = match route.written.tenants {
        TenantsNeed::Off => {
            if !plan.file.tenants.is_empty() {
                conceal(headers);
            }
            None
        }
        need => match plan.tenants.identify(headers) {
            Ok(None) if need == TenantsNeed::Required => return Err(Refused::Unauthorized),
            Ok(tenant) => tenant,
            Err(Unauthorized) => return Err(Refused::Unauthorized),
        },
    };
    let mut passed = Passed { child: route.child, ..Passed::default() };
    if let Some(tenant) = tenant {
        passed.limits[0] = tenant.admit().map_err(Refused::Limited)?;
        passed.priority = tenant.priority;
        passed.caller = Some(tenant.key);
        passed.tenant = Some(Arc::clone(&tenant.name));
        if route.child.is_some() {
            passed.child = Some(route.backend.upstream.child(&tenant.name));
        }
    }
    if let Some(limit) = &route.limit {
        let asker = Asker { tenant: tenant.map(|tenant| &**tenant), ip, headers };
        passed.limits[1] = limit.take(asker).map_err(Refused::Limited)?;
    }
    Ok(passed)
}

impl Passed {
    /// Tells how much is left.
    pub(super) fn write(self, headers: &mut HeaderMap) {
        self.limits.into_iter().for_each(|limit| limit.write(headers));
    }
}

impl Refused {
    pub(super) fn reply(self, busy: Busy, counted: &mut Pending<'_>) -> Response<Body> {
        match self {
            Self::Unauthorized => {
                let mut response = respond::refused(Unauthorized::REASON, None, busy, counted);
                Unauthorized.write(response.headers_mut());
                response
            }
            Self::Limited(limited) => {
                let mut response =
                    respond::refused(Reason::RateLimited, limited.wait, busy, counted);
                limited.write(response.headers_mut());
                response
            }
        }
    }
}
