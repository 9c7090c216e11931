//! A scripted upstream: a service on loopback that breaks on command and keeps exact books.
//!
//! **Why.** A storm needs a victim that behaves like the services people run: a fixed number of workers, a
//! first-come-first-served queue, and no idea that the callers have left (it *serves the departed*, which
//! is what a storm feeds on). And a claim about it needs a victim that is exact: its capacity is what it
//! says, its outages start and end on command, and its ledger is right to the last request.
//!
//! **How.** Every request takes a worker for its time, first come, first served, or all share the workers at once
//! ([`Sharing`]); `?bytes=n` asks for a reply of that size, `?ms=n` for work that takes so long. Its place and its worker's time are its own even if its
//! connection closes meanwhile. The schedule is computed, so timer lateness costs no capacity. With the same seed it
//! draws what the simulator's service draws. Requests with an `x-request-id` are also booked by id.
//!
//! ```
//! # use std::time::Duration;
//! # use quell_server::demo::scripted::{Outage, Scripted, Shape};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let upstream = Scripted::start(Shape::constant(36, Duration::from_millis(100))).await?;
//! println!("send requests to http://{}/", upstream.addr());
//! upstream.begin(Outage::Fail); // whoever comes now gets a 500
//! upstream.end();
//! assert_eq!(upstream.ledger().failed, 0); // nobody came
//! # Ok(())
//! # }
//! ```

mod ledger;
mod line;
mod pace;
mod serve;
mod shop;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quell_sim::dist::{Dist, Draw};
use quell_sim::scenario::OutageKind;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

pub use self::ledger::{Ledger, Visits};
pub use self::pace::Sharing;
use self::shop::Shop;
use super::tally::Tally;

/// Connections that may wait to be accepted: a herd must reach the queue, not die before it.
const BACKLOG: u32 = 4096;

/// What the service can do: `workers` at a time, each in `service`.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Requests in service at full speed; at least 1.
    pub workers: usize,
    /// How long a worker takes for each.
    pub service: Dist,
    /// Whether requests wait for a worker or share them all.
    pub sharing: Sharing,
    /// Seed of the service times, and of whom an outage hits that does not hit everybody.
    pub seed: u64,
}

impl Shape {
    /// First come, first served, and always in the same time.
    pub fn constant(workers: usize, service: Duration) -> Self {
        Self { workers, service: service.into(), sharing: Sharing::Fifo, seed: 1 }
    }

    /// Requests per second.
    pub fn capacity(&self) -> f64 {
        let mean = Draw::new(&self.service).map_or(Duration::ZERO, |service| service.mean());
        self.workers as f64 / mean.as_secs_f64()
    }
}

/// How the service is out of order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outage {
    /// Requests that arrive are answered with 500 at once and take no worker. Those in the line go on.
    Fail,
    /// Requests that arrive are swallowed: no worker, no reply, until the peer closes. Those in the line go
    /// on, but a reply that would leave during the hole is lost.
    Hole,
    /// The workers stand still. Requests line up, and afterwards all are served in turn, departed or not.
    Stall,
    /// Work that starts takes so many times longer, to its end.
    Slow {
        /// How many times.
        factor: f64,
    },
    /// Of the work that starts, a share takes this long instead, to its end.
    Hang {
        /// Which share, from 0 to 1.
        share: f64,
        /// How long.
        time: Duration,
    },
}

impl Outage {
    /// The outage that the simulator knows by this name; `None` if it has no twin here.
    pub fn twin_of(kind: OutageKind) -> Option<Self> {
        Some(match kind {
            OutageKind::Fail => Self::Fail,
            OutageKind::Hole => Self::Hole,
            OutageKind::Stall => Self::Stall,
            OutageKind::Latency { factor } => Self::Slow { factor },
            OutageKind::Hang { share, time } => Self::Hang { share, time },
            _ => return None,
        })
    }
}

/// A running upstream. It stops when dropped.
pub struct Scripted {
    addr: SocketAddr,
    shop: Arc<Shop>,
    tasks: [JoinHandle<()>; 2],
}

impl Scripted {
    /// Starts a service on a free port of 127.0.0.1, on the present tokio runtime.
    pub async fn start(shape: Shape) -> io::Result<Self> {
        Self::start_on(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), shape).await
    }

    /// Starts a service on this address.
    pub async fn start_on(addr: SocketAddr, shape: Shape) -> io::Result<Self> {
        let shop = Arc::new(Shop::new(&shape)?);
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?;
        let addr = listener.local_addr()?;
        let clock = Arc::clone(&shop);
        let tasks = [
            tokio::spawn(serve::accept(listener, Arc::clone(&shop))),
            tokio::spawn(async move { clock.tick().await }),
        ];
        Ok(Self { addr, shop, tasks })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Starts an outage. If there is one already, it gives way to the new one.
    pub fn begin(&self, outage: Outage) {
        self.shop.begin(outage);
    }

    /// Ends the outage.
    pub fn end(&self) {
        self.shop.end();
    }

    /// The books, up to now.
    pub fn ledger(&self) -> Ledger {
        self.shop.ledger()
    }

    /// How often requests under this `x-request-id` came and were served.
    pub fn visits(&self, id: &str) -> Visits {
        self.shop.visits(id)
    }

    /// The same for every id; the first million ids are kept.
    pub fn all_visits(&self) -> HashMap<String, Visits> {
        self.shop.all_visits()
    }

    /// Counts every arrival from now on as sent in this tally, too.
    pub fn count_into(&self, tally: Arc<Tally>) {
        self.shop.tally(tally);
    }

    /// Stops, and returns when the port is free.
    pub async fn stop(mut self) {
        for task in &mut self.tasks {
            task.abort();
            let _ = task.await; // an aborted task ends in an error, as asked
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
