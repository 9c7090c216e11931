//! The side thread: everything that a host does beside its work.
//!
//! **Why.** Health checks have to be answered while every other thread is busy, and a disk that hangs must not hold up the work.
//! So one small thread serves the admin side, looks at the files and sums up the log.
//!
//! **How.** A host says what there is to do as its [`Chores`]. The thread does it until the host stops.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quell::core::Reason;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::interval;

use super::life::Phase;
use super::log::{Log, line};
use super::reload::{Source, keep_watch};

/// What a host has done beside its work.
pub(crate) trait Chores: Send + Sync + 'static {
    /// Where changes are told and counted.
    fn log(&self) -> &Log;

    /// Its file.
    fn source(&self) -> &Source;

    /// How often the file is looked at; `None` if it is only read when somebody asks for it.
    fn watch(&self) -> Option<Duration>;

    /// Reads the file again, by [`Source::again`]. Answers with what changed, a line each, or why nothing did.
    fn reload(&self) -> Result<Vec<String>, String>;

    /// How much work was refused for this reason since the start.
    fn refused(&self, reason: Reason) -> u64;

    /// Looks whether there are new certificates. A host without certificates has nothing to do.
    fn look_at_certificates(&self) {}
}

/// Does the chores and serves the admin side, on a thread of its own, until the host stops.
pub(crate) fn spawn(
    host: Arc<dyn Chores>,
    phases: watch::Receiver<Phase>,
    admin: impl Future<Output = io::Result<()>> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("quell-admin".into()).spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let ended = runtime.and_then(|runtime| runtime.block_on(run(host, phases, admin)));
        if let Err(error) = ended {
            line(format_args!("the admin side ended: {error}"));
        }
    })
}

async fn run(
    host: Arc<dyn Chores>,
    mut phases: watch::Receiver<Phase>,
    admin: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let sum_up = || host.log().second(|reason| host.refused(reason));
    let seconds = async {
        let mut seconds = interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            sum_up();
        }
    };
    tokio::select! {
        ended = admin => ended?,
        () = keep_watch(Arc::clone(&host)) => {}
        () = seconds => {}
        _ = phases.wait_for(|phase| *phase == Phase::Stopping) => {}
    }
    sum_up();
    Ok(())
}
