//! A scripted upstream: a service on loopback that breaks on command and keeps exact books.
//!
//! **Why.** A storm needs a victim that behaves like the services people run: a fixed number of workers, a
//! first-come-first-served queue, and no idea that the callers have left (it *serves the departed*, which
//! is what a storm feeds on). And a claim about it needs a victim that is exact: its capacity is what it
//! says, its outages start and end on command, and its ledger is right to the last request.
//!
//! **How.** Every request takes a worker for the same time; `?bytes=n` asks for a reply of that size. Its
//! place and its worker's time are its own even if its connection closes meanwhile. The schedule is computed
//! on arrival, so timer lateness costs no capacity. Requests with an `x-request-id` are also booked by id.
//!
//! ```
//! # use std::time::Duration;
//! # use quell_server::demo::scripted::{Outage, Scripted, Shape};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let upstream = Scripted::start(Shape { workers: 36, service: Duration::from_millis(100) }).await?;
//! println!("send requests to http://{}/", upstream.addr());
//! upstream.begin(Outage::Fail); // whoever comes now gets a 500
//! upstream.end();
//! assert_eq!(upstream.ledger().failed, 0); // nobody came
//! # Ok(())
//! # }
//! ```

mod ledger;
mod line;
mod serve;
mod shop;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

pub use self::ledger::{Ledger, Visits};
use self::shop::Shop;
use super::tally::Tally;

/// Connections that may wait to be accepted: a herd must reach the queue, not die before it.
const BACKLOG: u32 = 4096;

/// What the service can do: `workers` at a time, each in `service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Requests in service at a time; at least 1.
    pub workers: usize,
    /// How long a worker takes for each.
    pub service: Duration,
}

impl Shape {
    /// Requests per second.
    pub fn capacity(&self) -> f64 {
        self.workers as f64 / self.service.as_secs_f64()
    }
}

/// How the service is out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Requests that arrive are answered with 500 at once and take no worker. Those in the line go on.
    Fail,
    /// Requests that arrive are swallowed: no worker, no reply, until the peer closes. Those in the line go
    /// on, but a reply that would leave during the hole is lost.
    Hole,
    /// The workers stand still. Requests line up, and afterwards all are served in turn, departed or not.
    Stall,
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
        if shape.workers == 0 {
            let message = "workers is 0, so nothing would ever be served: use at least 1";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?;
        let addr = listener.local_addr()?;
        let shop = Arc::new(Shop::new(shape));
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
