//! Where an endpoint is: its name looked up now and then, and a connection to one of its addresses.
//!
//! **Why.** Names move: a fail-over, a new deployment or a scaled service is a change of DNS that a process which looked once
//! never hears of. And a name service that fails is no reason to forget where everybody is.
//!
//! **How.** A [`Resolver`] belongs to one endpoint on one core. [`Resolver::refresh`], called by the core's sweep and by
//! every connect, looks the name up in the background when that is due: after `every`, or after a connect that
//! failed, at most once a second. What was found last is used until something else is found ([`Known`] decides). A
//! connect tries one address after the other, IPv6 and IPv4 in turn, each within its share of the time. Addresses
//! written as such are never looked up.

mod known;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, ready};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout_at};

use known::Known;

/// The least that one address is given when there are others to try.
const SHARE: Duration = Duration::from_millis(250);

type Found = io::Result<Vec<SocketAddr>>;
type Finding = Pin<Box<dyn Future<Output = Found>>>;
type Find = dyn Fn(&str, u16) -> Found + Send + Sync;

/// Where names are, as whoever embeds a gateway says: in place of the system's name service. It is asked on the cores, so it
/// must not wait.
///
/// ```
/// use quell_server::gateway::{Config, Names};
///
/// let mut config = Config::local("http://payments.test:9000".parse()?);
/// config.names = Some(Names::new(|_, port| Ok(vec![([127, 0, 0, 1], port).into()])));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Names(Arc<Find>);

impl Names {
    /// Says which addresses a name and a port have.
    pub fn new(
        find: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(find))
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names")
    }
}

/// Looks a name up: the system's way, an embedder's, or a test's.
struct Lookup(Box<dyn Fn(String, u16) -> Finding>);

impl Lookup {
    fn of(names: Option<&Names>) -> Self {
        let Some(Names(find)) = names.cloned() else { return Self::system() };
        Self(Box::new(move |host, port| Box::pin(ready(find(&host, port)))))
    }

    fn system() -> Self {
        Self(Box::new(|host, port| {
            Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
        }))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Resolver {
    host: String,
    port: u16,
    lookup: Lookup,
    known: RefCell<Known>,
    looking: Cell<bool>,
    looked: Notify,
}

impl Resolver {
    /// For an endpoint's name or address (without brackets), looked up again every so often.
    pub(super) fn new(host: &str, port: u16, every: Duration, names: Option<&Names>) -> Rc<Self> {
        Self::with(host, port, every, Lookup::of(names))
    }

    fn with(host: &str, port: u16, every: Duration, lookup: Lookup) -> Rc<Self> {
        let known = match host.parse::<IpAddr>() {
            Ok(ip) => Known::fixed(SocketAddr::new(ip, port)),
            Err(_) => Known::name(every),
        };
        Rc::new(Self {
            host: host.to_owned(),
            port,
            lookup,
            known: RefCell::new(known),
            looking: Cell::new(false),
            looked: Notify::new(),
        })
    }

    /// Another interval, of a file that was reloaded: what is known stays, which a new resolver would have to find.
    pub(super) fn set_every(&self, every: Duration) {
        self.known.borrow_mut().set_every(every);
    }

    /// Looks the name up in the background if that is due and not under way.
    pub(super) fn refresh(self: &Rc<Self>) {
        if self.looking.get() || !self.known.borrow().is_due(Instant::now()) {
            return;
        }
        self.looking.set(true);
        let this = Rc::clone(self);
        spawn_local(async move {
            let found = (this.lookup.0)(this.host.clone(), this.port).await;
            this.known.borrow_mut().learn(Instant::now(), found);
            this.looking.set(false);
            this.looked.notify_waiters();
        });
    }

    /// Connects to one of its addresses within this time, lookup included. Small writes go out at once.
    pub(super) async fn connect(self: &Rc<Self>, within: Duration) -> io::Result<TcpStream> {
        self.reach(within, TcpStream::connect).await.inspect(|stream| {
            let _ = stream.set_nodelay(true); // a peer that has already gone is noticed soon enough
        })
    }

    async fn reach<T, F: Future<Output = io::Result<T>>>(
        self: &Rc<Self>,
        within: Duration,
        connect: impl Fn(SocketAddr) -> F,
    ) -> io::Result<T> {
        let until = Instant::now() + within;
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let order = timeout_at(until, self.order()).await.map_err(late)??;
        let mut last = io::ErrorKind::TimedOut.into();
        for (tried, addr) in order.iter().enumerate() {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                break;
            }
            let share = (left / (order.len() - tried) as u32).max(SHARE).min(left);
            match timeout_at(now + share, connect(*addr)).await.unwrap_or_else(|e| Err(late(e))) {
                Ok(connected) => {
                    self.known.borrow_mut().reached(*addr);
                    return Ok(connected);
                }
                Err(error) => {
                    self.known.borrow_mut().failed(*addr, Instant::now());
                    last = error;
                }
            }
        }
        self.refresh();
        Err(last)
    }

    /// The addresses in the order to try them; waits for them if none is known yet.
    async fn order(self: &Rc<Self>) -> Found {
        loop {
            self.refresh();
            if let Some(order) = self.known.borrow_mut().order(Instant::now()) {
                return Ok(order);
            }
            if !self.looking.get() {
                return Err(self.known.borrow().why(&self.host));
            }
            self.looked.notified().await;
        }
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
