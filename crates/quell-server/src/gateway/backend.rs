//! Backend: an upstream as the gateway reaches it. The policies' state, and where to connect and how.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, ClientTls, HostField, Protocol, Target};
use quell::Upstream;
use rustls::pki_types::ServerName;

use super::resolve::{Names, Resolver};
use crate::host::tls::{self, Offer, TlsError, Trust};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Backend {
    /// Budget, breaker, limits, queue, ghosts: kept by name over reloads.
    pub(crate) upstream: Upstream,
    /// Which place it has on every core: the same for a name as long as the process lives.
    pub(super) place: usize,
    pub(crate) endpoints: Vec<Endpoint>,
    /// What all endpoints that speak TLS share, and what it was made of.
    pub(super) tls: Option<Arc<tls::Client>>,
    shown: (ClientTls, Protocol),
    pub(super) protocol: Protocol,
    pub(super) host: HostField,
    pub(super) connect_timeout: Duration,
    pub(super) resolve: Duration,
    names: Option<Names>,
}

/// One place to send to.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) target: Target,
    /// How, and under which name, where it speaks TLS.
    pub(super) tls: Option<(Arc<tls::Client>, ServerName<'static>)>,
}

impl Backend {
    /// The endpoints in the order in which the core knows them: whoever stays keeps its index, as far as there is one.
    pub(super) fn in_order(written: &[Target], before: Option<&Self>) -> Vec<Target> {
        let known = |at: usize| before?.endpoints.get(at).map(|endpoint| &endpoint.target);
        let stays = |at: usize| known(at).filter(|target| written.contains(target));
        let mut rest = written
            .iter()
            .filter(|&target| !(0..written.len()).any(|at| stays(at) == Some(target)));
        (0..written.len()).filter_map(|at| stays(at).or_else(|| rest.next()).cloned()).collect()
    }

    /// As written, but for what [`Backend::in_order`] says. What is known of TLS is kept where it is written the same.
    pub(super) fn new(
        written: &config::Upstream,
        upstream: Upstream,
        place: usize,
        before: Option<&Self>,
        names: Option<&Names>,
    ) -> Result<Self, TlsError> {
        let shown = (written.tls.clone(), written.protocol);
        let kept = before.filter(|before| before.shown == shown).and_then(|b| b.tls.clone());
        let tls = match kept {
            None if written.endpoints.iter().any(|target| target.tls) => {
                Some(Arc::new(client(written, upstream.name())?))
            }
            kept => kept,
        };
        let mut endpoints = Vec::with_capacity(written.endpoints.len());
        for target in Self::in_order(&written.endpoints, before) {
            let tls = match tls.as_ref().filter(|_| target.tls) {
                Some(tls) => Some((Arc::clone(tls), tls.name(&target.host)?)),
                None => None,
            };
            endpoints.push(Endpoint { target, tls });
        }
        Ok(Self {
            upstream,
            place,
            endpoints,
            tls,
            shown,
            protocol: written.protocol,
            host: written.host,
            connect_timeout: written.connect_timeout,
            resolve: written.resolve,
            names: names.cloned(),
        })
    }

    /// Who knows where an endpoint is, on one core.
    pub(super) fn resolver(&self, endpoint: &Endpoint) -> Rc<Resolver> {
        let Target { host, port, .. } = &endpoint.target;
        Resolver::new(host, *port, self.resolve, self.names.as_ref())
    }
}

/// What all its endpoints that speak TLS share.
pub(super) fn client(written: &config::Upstream, name: &str) -> Result<tls::Client, TlsError> {
    let ClientTls { ca, cert, key, server_name } = &written.tls;
    let trust = Trust {
        table: &format!("upstream.{name}.tls"),
        ca: ca.as_deref(),
        cert: cert.as_deref(),
        key: key.as_deref(),
        server_name: server_name.as_deref(),
    };
    let offer = match written.protocol {
        Protocol::Auto => Offer::Auto,
        Protocol::Http1 => Offer::Http1,
        Protocol::Http2 => Offer::Http2,
    };
    tls::Client::new(trust, offer)
}
