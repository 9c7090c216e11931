//! Reload: another file, the same host.
//!
//! **Why.** Numbers are changed in the middle of an outage, when what is known of the upstream matters most. So a file is read again
//! without a restart. A file with anything wrong in it changes nothing at all.
//!
//! **How.** On SIGHUP, on a word to the admin side, and when the file's content has changed and was seen twice, as it
//! may be caught half written. Only one reload runs at a time. What came of it is told with every setting that changed. What a file
//! comes to is up to the host: it proves all of it before it puts any of it in force.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::log::{Log, line};
use super::side::Chores;
use super::twice::Twice;
use crate::config::Override;

/// How often certificates are looked at.
const CERTIFICATES: Duration = Duration::from_secs(2);
/// Changes that are told one by one.
const MOST_TOLD: usize = 50;

/// Where the file is, and what it was like when it was last taken or turned down.
#[derive(Debug, Default)]
pub(crate) struct Source {
    path: Option<PathBuf>,
    /// What goes over it.
    set: Vec<Override>,
    /// One reload at a time.
    seen: Mutex<Twice<u64>>,
}

impl Source {
    /// Of a host that has just read this file. One without a file is never reloaded.
    pub(crate) fn new(path: Option<PathBuf>, set: Vec<Override>) -> Self {
        let seen = Mutex::new(Twice::new(path.as_deref().and_then(mark)));
        Self { path, set, seen }
    }

    /// Has the file taken as it is now, and tells what came of it: what changed, or why nothing did. `None` if there is no file.
    pub(crate) fn again<E: Display>(
        &self,
        log: &Log,
        take: impl FnOnce(&Path, &[Override]) -> Result<Vec<String>, E>,
    ) -> Option<Result<Vec<String>, E>> {
        let path = self.path.as_deref()?;
        let mut seen = self.seen.lock();
        seen.took(mark(path));
        let result = take(path, &self.set);
        tell(log, &result);
        Some(result)
    }

    /// Whether the file is another than the one that was taken, and whole. Reads it, so this may wait for a disk.
    fn look(&self) -> bool {
        self.path.as_deref().is_some_and(|path| self.seen.lock().look(mark(path)))
    }
}

fn tell<E: Display>(log: &Log, result: &Result<Vec<String>, E>) {
    log.tally.reloaded(result.is_ok());
    match result {
        Ok(changes) if changes.is_empty() => log.say(format_args!("reloaded: nothing changed")),
        Ok(changes) => {
            for change in changes.iter().take(MOST_TOLD) {
                log.say(format_args!("reloaded: {change}"));
            }
            if changes.len() > MOST_TOLD {
                let more = changes.len() - MOST_TOLD;
                log.say(format_args!("reloaded: and {more} changes more"));
            }
        }
        // An operator who turned the log off still wants to know that a change was not made.
        Err(error) => line(format_args!("not reloaded, all stays as it was: {error}")),
    }
}

/// Reloads when the file has changed, and certificates with it, for as long as it is polled.
pub(super) async fn keep_watch(host: Arc<dyn Chores>) {
    let certificates = async {
        loop {
            sleep(CERTIFICATES).await;
            let host = Arc::clone(&host);
            aside(move || host.look_at_certificates()).await;
        }
    };
    let file = async {
        loop {
            let every = host.watch();
            sleep(every.unwrap_or(CERTIFICATES)).await;
            if every.is_some() {
                let host = Arc::clone(&host);
                aside(move || look(&*host)).await;
            }
        }
    };
    tokio::join!(certificates, file);
}

/// Reloads if the file is another.
fn look(host: &dyn Chores) {
    if host.source().look() {
        let _ = host.reload(); // which tells what came of it
    }
}

/// Does what may wait for a disk on a thread of its own, so that nobody else does: this one also answers health checks.
async fn aside(work: impl FnOnce() + Send + 'static) {
    let _ = tokio::task::spawn_blocking(work).await; // it fails only when the runtime goes down
}

/// What a file's content is known by.
fn mark(path: &Path) -> Option<u64> {
    let content = std::fs::read(path).ok()?;
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    Some(hasher.finish())
}
