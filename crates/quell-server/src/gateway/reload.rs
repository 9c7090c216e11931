//! Reload: another file, the same gateway.
//!
//! **Why.** Numbers are changed in the middle of an outage, when what is known of the upstream matters most. So a
//! reload changes the numbers and forgets nothing: budgets, breakers, limits, estimates, patience, ghosts and counters
//! stay. A file with anything wrong in it changes nothing at all.
//!
//! **How.** On SIGHUP, on a word to the admin side, and when the file's content has changed and was seen twice, as it
//! may be caught half written. What came of it is told with every setting that changed. Where a gateway listens is not
//! changed while it runs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::sleep;

use super::log::line;
use super::per_core::Gateway;
use super::plan::Plan;
use super::start;
use super::tls::TlsError;

/// How often certificates are looked at.
const CERTIFICATES: Duration = Duration::from_secs(2);
/// Changes that are told one by one.
const MOST_TOLD: usize = 50;

/// Where the file is, and what it was like when it was last taken or turned down.
#[derive(Debug, Default)]
pub(crate) struct Source {
    path: Option<PathBuf>,
    /// What goes over it.
    set: Vec<config::Override>,
    /// One reload at a time.
    seen: Mutex<Option<u64>>,
}

/// Why a reload changed nothing.
#[derive(Debug, Error)]
pub enum NotTaken {
    /// It was told where to send, and has no file.
    #[error("there is no file to read again: start it with --config")]
    NoFile,
    /// See [`config::Error`].
    #[error(transparent)]
    File(#[from] config::Error),
    /// See [`start::Error`].
    #[error(transparent)]
    Plan(#[from] start::Error),
    /// See [`TlsError`].
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Source {
    pub(super) fn new(path: Option<PathBuf>, set: Vec<config::Override>) -> Self {
        let seen = Mutex::new(path.as_deref().and_then(mark));
        Self { path, set, seen }
    }
}

impl Gateway {
    /// Reads the file and the certificates again. Answers with what changed, a line each.
    pub(crate) fn reload(&self) -> Result<Vec<String>, NotTaken> {
        let path = self.source.path.as_deref().ok_or(NotTaken::NoFile)?;
        let mut seen = self.source.seen.lock();
        *seen = mark(path);
        let file = config::Config::load(path, &self.source.set).map_err(NotTaken::from);
        let result = file.and_then(|file| self.take(file));
        self.tell(&result);
        result
    }

    /// Goes on by this file and the certificates as they are now, or changes nothing: all of it is proven before any of it is in
    /// force.
    fn take(&self, mut file: config::Config) -> Result<Vec<String>, NotTaken> {
        let before = self.plan.load_full();
        let mut changes = file.changes_since(&before.file);
        let (is, was) = (&mut file.gateway, &before.file.gateway);
        if (&is.listen, is.admin, &is.tls) != (&was.listen, was.admin, &was.tls) {
            changes.push("gateway.listen, admin and tls take effect at the next start".to_owned());
        }
        (is.listen, is.admin, is.tls) = (was.listen.clone(), was.admin, was.tls.clone());
        let plan = before.next(file, self.cores.len(), &self.log)?;
        let certificates = self.prepare_certificates(&before)?;
        certificates.into_iter().for_each(|put| put());
        let generation = plan.generation;
        self.plan.store(Arc::new(plan));
        self.generation.store(generation, Ordering::Release);
        Ok(changes)
    }

    /// Reads all certificates. Each of what is returned puts one of them in force.
    fn prepare_certificates<'a>(
        &'a self,
        plan: &'a Plan,
    ) -> Result<Vec<Box<dyn FnOnce() + 'a>>, TlsError> {
        let mut ready: Vec<Box<dyn FnOnce() + 'a>> = Vec::new();
        if let Some(tls) = &self.tls {
            ready.push(Box::new(tls.live.prepare()?));
        }
        for tls in plan.backends.values().filter_map(|backend| backend.tls.as_ref()) {
            ready.push(Box::new(tls.live.prepare()?));
        }
        Ok(ready)
    }

    fn tell(&self, result: &Result<Vec<String>, NotTaken>) {
        self.log.tally.reloaded(result.is_ok());
        match result {
            Ok(changes) if changes.is_empty() => {
                self.log.say(format_args!("reloaded: nothing changed"))
            }
            Ok(changes) => {
                for change in changes.iter().take(MOST_TOLD) {
                    self.log.say(format_args!("reloaded: {change}"));
                }
                if changes.len() > MOST_TOLD {
                    let more = changes.len() - MOST_TOLD;
                    self.log.say(format_args!("reloaded: and {more} changes more"));
                }
            }
            // Whoever turned the log off still wants to know that a change was not made.
            Err(error) => line(format_args!("not reloaded, all stays as it was: {error}")),
        }
    }

    /// Looks at the certificates: new ones are taken once they were seen twice.
    fn look_at_certificates(&self) {
        let told = |what: &str, looked: Result<bool, TlsError>| match looked {
            Ok(false) => {}
            Ok(true) => self.log.say(format_args!("{what}: new certificates")),
            Err(error) => line(format_args!("{what}: the old certificates stay: {error}")),
        };
        if let Some(tls) = &self.tls {
            told("gateway.tls", tls.live.look());
        }
        for (name, backend) in &self.plan.load().backends {
            if let Some(tls) = &backend.tls {
                told(&format!("upstream.{name}.tls"), tls.live.look());
            }
        }
    }
}

/// Reloads when the file has changed, and certificates with it, for as long as it is polled.
pub(crate) async fn keep_watch(gateway: Arc<Gateway>) {
    let certificates = async {
        loop {
            sleep(CERTIFICATES).await;
            let gateway = Arc::clone(&gateway);
            aside(move || gateway.look_at_certificates()).await;
        }
    };
    let file = async {
        let Some(path) = gateway.source.path.clone() else { return std::future::pending().await };
        let mut fresh = None;
        loop {
            let every = gateway.plan.load().file.gateway.watch;
            sleep(every.unwrap_or(CERTIFICATES)).await;
            let read = path.clone();
            let now = aside(move || mark(&read)).await.flatten();
            // A file that is away is being written.
            let is_new = every.is_some() && now.is_some() && now != *gateway.source.seen.lock();
            if is_new && fresh == now {
                let gateway = Arc::clone(&gateway);
                aside(move || gateway.reload().is_ok()).await; // which tells what came of it
            }
            fresh = now;
        }
    };
    tokio::join!(certificates, file);
}

/// Does what may wait for a disk on a thread of its own, so that nobody else does: this one also answers health checks.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// What a file's content is known by.
fn mark(path: &std::path::Path) -> Option<u64> {
    let content = std::fs::read(path).ok()?;
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    Some(hasher.finish())
}
