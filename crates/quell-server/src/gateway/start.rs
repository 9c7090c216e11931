//! Start and stop: listeners, one thread per core, one for the admin side.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::{self, JoinHandle};

use crate::config::{self, Listen, ServerTls};
use arc_swap::ArcSwap;
use quell::core::spec::Invalid;
use quell::http::keyed::Keys;
use quell::http::quota;
use quell::store::{self, Kind, NotOpened, Store};
use thiserror::Error;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use super::config::Config;
use super::counters::CoreCounters;
use super::describe::describe;
use super::listen::{self, Bound};
use super::operations::Served;
use super::per_core::{Core, Gateway};
use super::plan::Plan;
use super::reload::NotTaken;
use super::tenants;
use crate::admin;
use crate::host::Host;
use crate::host::access::Access;
use crate::host::life::{Life, Phase};
use crate::host::log::{self, Log};
use crate::host::reload::Source;
use crate::host::tls::{self, TlsError};
use crate::host::trace::Traces;

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
        addr: String,
        /// Why not.
        error: io::Error,
    },
    /// A file from which it cannot be told where requests go.
    #[error(
        "the file has {0} upstreams and no route: write one [upstream.…], or a [[route]] with upstream = \"…\" for each"
    )]
    NoRoutes(usize),
    /// See [`Invalid`].
    #[error(transparent)]
    Policy(#[from] Invalid),
    /// See [`tenants::Invalid`].
    #[error(transparent)]
    Tenants(#[from] tenants::Invalid),
    /// A limit that is none.
    #[error("route {route}: {error}")]
    Limit {
        /// Whose.
        route: String,
        /// What is wrong.
        error: quota::Invalid,
    },
    /// See [`TlsError`].
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// See [`NotOpened`].
    #[error(transparent)]
    Store(NotOpened),
    /// A log that cannot be written.
    #[error(
        "access_log is {to}, which cannot be written: {error}; write \"stdout\", \"stderr\", \"off\" or a path"
    )]
    AccessLog {
        /// As written.
        to: String,
        /// Why not.
        error: io::Error,
    },
    /// Traces that cannot be sent.
    #[error("otlp is {to}: {error}")]
    Traces {
        /// As written.
        to: String,
        /// Why not.
        error: io::Error,
    },
    /// No thread or no runtime to be had.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A gateway that runs. Dropping it ends it at once.
#[derive(Debug)]
pub struct Running {
    listen: Listen,
    admin_addr: SocketAddr,
    gateway: Arc<Gateway>,
    life: Life,
    cores: Vec<JoinHandle<()>>,
    admin: Option<JoinHandle<()>>,
}

/// Starts a gateway on threads of its own.
pub fn start(config: Config) -> Result<Running, Error> {
    let Config { file, path, set, cores, streams, log, names } = config;
    let written = file.gateway.clone();
    if !written.admin.ip().is_loopback() {
        return Err(Error::AdminNotLocal(written.admin));
    }
    let cores = cores.max(1);
    let log = Arc::new(Log::new(log));
    let store = open_store(file.store.as_ref())?;
    let plan = Plan::first(file, names, cores, &log)?;
    let server = |tls: &ServerTls| {
        tls::Server::new("gateway.tls", &tls.cert, &tls.key, tls.client_ca.as_deref())
    };
    let tls = written.tls.as_ref().map(server).transpose()?;
    let clients = plan.backends.values().filter_map(|backend| backend.tls.as_ref());
    let warnings = clients.filter_map(|tls| tls.live.warning());
    for warning in warnings.chain(tls.as_ref().and_then(|tls| tls.live.warning())) {
        log.say(format_args!("{warning}"));
    }
    let traces = written.otlp.as_deref().map(Traces::open).transpose();
    let traces = traces.map_err(|error| {
        let to = written.otlp.clone().unwrap_or_default();
        Error::Traces { to, error }
    })?;
    let access = Access::open(&written.access_log, written.log_error_body, traces)
        .map_err(|error| Error::AccessLog { to: written.access_log.to_string(), error })?;
    let unable = |what, addr: &dyn ToString| {
        let addr = addr.to_string();
        move |error| Error::Listen { what, addr, error }
    };
    let listeners = match &written.listen {
        Listen::Tcp(addr) => listen::tcp(*addr, cores),
        Listen::Unix(path) => listen::unix(path, cores),
    };
    let listeners = listeners.map_err(unable("listen", &written.listen))?;
    let listen = listeners.first().and_then(Bound::addr).map_or(written.listen, Listen::Tcp);
    let (admin, admin_addr) =
        admin::listen(written.admin).map_err(unable("admin", &written.admin))?;
    let gateway = Arc::new(Gateway {
        plan: ArcSwap::from_pointee(plan),
        generation: AtomicU64::new(0),
        cores: (0..cores).map(|_| CoreCounters::default()).collect(),
        most_streams: (streams as usize / cores).max(1) as u32,
        log,
        tls,
        source: Source::new(path, set),
        keys: Keys::new(store),
        access,
    });
    let life = Life::begin();
    let mut running = Running { listen, admin_addr, gateway, life, cores: Vec::new(), admin: None };
    for (index, listener) in listeners.into_iter().enumerate() {
        running.cores.push(spawn_core(&running.gateway, index, listener, running.life.phases())?);
    }
    let (gateway, life) = (Arc::clone(&running.gateway), running.life.clone());
    let served = Arc::new(Served { gateway, life });
    running.admin = Some(admin::spawn(admin, served, running.life.phases())?);
    Ok(running)
}

impl Running {
    /// Where callers come in by TCP. A gateway on a unix socket has the address that nobody has.
    pub fn addr(&self) -> SocketAddr {
        match self.listen {
            Listen::Tcp(addr) => addr,
            Listen::Unix(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
        }
    }

    /// Where health and metrics are served.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// What is in force, for people to read when it starts.
    pub fn describe(&self) -> String {
        describe(&self.listen, self.admin_addr, &self.gateway)
    }

    /// Reads the file and the certificates again; a file with anything wrong in it changes nothing. Answers with what
    /// changed.
    pub fn reload(&self) -> Result<Vec<String>, NotTaken> {
        self.gateway.reload()
    }

    /// Comes when somebody asked the admin side to drain, or it has begun in another way.
    pub fn drains(&self) -> impl Future<Output = ()> + use<> {
        self.life.drains()
    }

    /// Takes no more callers, answers those who are here, and ends; returns when that is done.
    pub fn drain(mut self) {
        self.life.drain();
        for core in self.cores.drain(..) {
            let _ = core.join(); // a core that panicked has ended, too
        }
    }

    /// Ends now; returns when all threads have ended.
    pub fn stop(self) {}
}

impl Host for Running {
    fn reload(&self) {
        let _ = self.reload(); // which tells what came of it
    }

    fn drains(&self) -> impl Future<Output = ()> {
        self.drains()
    }

    fn drain(self) {
        self.drain();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.life.stop();
        for thread in self.cores.drain(..).chain(self.admin.take()) {
            let _ = thread.join();
        }
    }
}

/// The store that the file names, or one in memory. For a kind that is not offered yet, keys are kept in memory: the file's
/// reader has told the operator so.
fn open_store(named: Option<&config::Store>) -> Result<Arc<dyn Store>, Error> {
    match store::open(named.map_or(Kind::Memory, config::Store::kind)) {
        Err(NotOpened::NotOffered(_)) => store::open(Kind::Memory).map_err(Error::Store),
        opened => opened.map_err(Error::Store),
    }
}

fn spawn_core(
    gateway: &Arc<Gateway>,
    index: usize,
    listener: Bound,
    phases: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<()>> {
    let gateway = Arc::clone(gateway);
    thread::Builder::new().name(format!("quell-core-{index}")).spawn(move || {
        let result = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .and_then(|runtime| {
                let result = runtime.block_on(Core::new(gateway, index).run(listener, phases));
                runtime.shutdown_background(); // a name lookup that hangs must not hold us up
                result
            });
        if let Err(error) = result {
            log::line(format_args!("core {index} ended: {error}"));
        }
    })
}
