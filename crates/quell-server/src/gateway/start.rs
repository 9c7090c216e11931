//! Start and stop: listeners, one thread per core, one for the admin side.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use quell::core::Policy;
use quell::core::spec::Invalid;
use quell::upstream::Host;
use quell::{Clock, Upstream};
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use super::config::Config;
use super::counters::Counters;
use super::log::Log;
use super::per_core::{Core, Gateway};
use super::tls::{Tls, TlsError};
use crate::admin;

/// Connections that may wait to be accepted: a herd must reach the queue, not die before it.
const BACKLOG: i32 = 4096;

/// Where a gateway stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Accepts.
    Serving,
    /// Finishes what is under way.
    Draining,
    /// Ends now.
    Stopping,
}

/// Why a gateway does not start. The message names the setting, the value and the fix.
#[derive(Debug, Error)]
pub enum Error {
    /// The admin side shows and will do things that are not for strangers.
    #[error("admin is {0}: it may only listen on loopback, such as 127.0.0.1:9901")]
    AdminNotLocal(SocketAddr),
    /// An address that cannot be had.
    #[error("{what} is {addr}, which cannot be listened on: {error}")]
    Listen {
        /// Which setting.
        what: &'static str,
        /// Its value.
        addr: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// See [`Invalid`].
    #[error(transparent)]
    Policy(#[from] Invalid),
    /// See [`TlsError`].
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No thread or no runtime to be had.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A running gateway. It stops when dropped, and all its threads have ended then.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    admin_addr: SocketAddr,
    gateway: Arc<Gateway>,
    phase: watch::Sender<Phase>,
    cores: Vec<JoinHandle<()>>,
    admin: Option<JoinHandle<()>>,
}

/// Starts a gateway; when this returns, it accepts.
pub fn start(config: Config) -> Result<Running, Error> {
    if !config.admin.ip().is_loopback() {
        return Err(Error::AdminNotLocal(config.admin));
    }
    let policy = Policy::new(config.policy)?;
    let log = Arc::new(Log::new(config.log));
    let host = Host { clock: Clock::system(), observer: Some(log.clone()), ..Host::default() };
    let upstream = Upstream::new("default", config.upstream, policy.per_try(), host)?;
    let tls = match config.to.tls {
        true => Some(Tls::new(&config.to, config.roots.as_deref())?),
        false => None,
    };
    let cores = config.cores.max(1);
    let listeners = listen(config.listen, cores).map_err(|error| Error::Listen {
        what: "listen",
        addr: config.listen,
        error,
    })?;
    let addr = listeners[0].local_addr()?;
    let (admin, admin_addr) = bind(config.admin, false)
        .and_then(|admin| admin.local_addr().map(|addr| (admin, addr)))
        .map_err(|error| Error::Listen { what: "admin", addr: config.admin, error })?;
    let counters = (0..cores).map(|_| Arc::new(Counters::default())).collect();
    let config = Config { cores, ..config };
    let gateway =
        Arc::new(Gateway { config, policy, upstream, tls, memory: Arc::default(), counters, log });
    let (phase, phases) = watch::channel(Phase::Serving);
    let mut running = Running { addr, admin_addr, gateway, phase, cores: Vec::new(), admin: None };
    for (index, listener) in listeners.into_iter().enumerate() {
        running.cores.push(spawn_core(&running.gateway, index, listener, phases.clone())?);
    }
    running.admin = Some(admin::spawn(admin, Arc::clone(&running.gateway), phases)?);
    Ok(running)
}

impl Running {
    /// Where callers come in.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where health and metrics are served.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// What is in force, for people to read when it starts.
    pub fn describe(&self) -> String {
        super::log::describe(self.addr, self.admin_addr, &self.gateway)
    }

    /// Takes no more callers, answers those who are here, and ends; returns when that is done.
    pub fn drain(mut self) {
        self.phase.send_replace(Phase::Draining);
        for core in self.cores.drain(..) {
            let _ = core.join(); // a core that panicked has ended, too
        }
    }

    /// Ends now; returns when all threads have ended.
    pub fn stop(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Stopping);
        for thread in self.cores.drain(..).chain(self.admin.take()) {
            let _ = thread.join();
        }
    }
}

fn spawn_core(
    gateway: &Arc<Gateway>,
    index: usize,
    listener: TcpListener,
    phases: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<()>> {
    let gateway = Arc::clone(gateway);
    let counters = Arc::clone(&gateway.counters[index]);
    thread::Builder::new().name(format!("quell-core-{index}")).spawn(move || {
        let result = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .and_then(|runtime| {
                let result = runtime.block_on(Core::new(gateway, counters).run(listener, phases));
                runtime.shutdown_background(); // a name lookup that hangs must not hold us up
                result
            });
        if let Err(error) = result {
            super::log::line(format_args!("core {index} ended: {error}"));
        }
    })
}

/// One listener per core on one address; the kernel spreads callers over them.
fn listen(addr: SocketAddr, cores: usize) -> io::Result<Vec<TcpListener>> {
    if addr.port() != 0 {
        drop(bind(addr, false)?); // a port shared by mistake with another process is found here
    }
    let first = bind(addr, true)?;
    let addr = first.local_addr()?;
    let rest = (1..cores).map(|_| bind(addr, true));
    std::iter::once(Ok(first)).chain(rest).collect()
}

fn bind(addr: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
