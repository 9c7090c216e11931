//! Process: from the start of a host to its end, as the machine's supervisor and the operator see it.
//!
//! **Why.** SIGTERM, SIGINT and SIGHUP mean the same for every command that runs until it is told to end, and so does what systemd
//! hears of it. Whoever learned it for the gateway knows it for all.
//!
//! **How.** SIGHUP reloads. SIGTERM or SIGINT drains, and the second one ends at once. A drain that the admin side was asked for
//! ends the process, too. [`Process::new`] comes before anything is served, so that no signal finds us without an answer.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Notify;

/// What a process runs: a host that was started and serves on threads of its own.
pub trait Host: Send + 'static {
    /// Reads what it was told again, and tells the operator what came of it.
    fn reload(&self);

    /// Comes when the host no longer serves, for whatever reason.
    fn drains(&self) -> impl Future<Output = ()>;

    /// Takes no more work, finishes what is under way, and ends; returns when that is done.
    fn drain(self);
}

/// What runs until it is told to end: signals, the watchdog, a drain, and an end at once when it is told twice.
#[derive(Debug)]
pub struct Process {
    runtime: Runtime,
    asked: Asked,
    hup: Signal,
    manager: Notify,
}

/// The signals that ask for the end.
#[derive(Debug)]
struct Asked {
    term: Signal,
    int: Signal,
}

impl Asked {
    /// Comes with the next one.
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

impl Process {
    /// Listens for signals from now on.
    pub fn new() -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (asked, hup) = {
            let _in_runtime = runtime.enter();
            let (term, int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            (Asked { term, int }, signal(SignalKind::hangup())?)
        };
        let manager = Notify::from_env().context("NOTIFY_SOCKET")?;
        Ok(Self { runtime, asked, hup, manager })
    }

    /// Keeps the host until it has drained.
    pub fn run(self, host: impl Host) {
        let Self { runtime, mut asked, mut hup, manager } = self;
        manager.ready("serving");
        runtime.block_on(serve(&host, &manager, &mut asked, &mut hup));
        eprintln!("quell: draining");
        manager.stopping("draining");
        let (done, drained) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            host.drain();
            let _ = done.send(());
        });
        runtime.block_on(async {
            tokio::select! {
                _ = drained => eprintln!("quell: done"),
                () = asked.wait() => eprintln!("quell: asked twice, so ending at once"),
            }
        });
    }
}

/// Until the host is asked to end.
async fn serve(host: &impl Host, manager: &Notify, asked: &mut Asked, hup: &mut Signal) {
    let mut drains = std::pin::pin!(host.drains());
    let mut ending = std::pin::pin!(asked.wait());
    let mut alive = std::pin::pin!(alive(manager));
    loop {
        tokio::select! {
            () = &mut ending => return,
            () = &mut drains => return,
            () = &mut alive => {}
            _ = hup.recv() => {
                manager.reloading();
                host.reload();
                manager.ready("serving");
            }
        }
    }
}

/// Says that we are alive for as long as it is polled, if somebody listens for it.
async fn alive(manager: &Notify) {
    let Some(every) = manager.watchdog() else { return std::future::pending().await };
    loop {
        tokio::time::sleep(every).await;
        manager.alive();
    }
}
