//! Reload: what another file comes to in a gateway that runs.
//!
//! **Why.** A reload changes the numbers and forgets nothing: budgets, breakers, limits, estimates, patience, ghosts and counters
//! stay. A file with anything wrong in it changes nothing at all.
//!
//! **How.** When a file is read again, and what is told of it, is the same in every host: `host::reload`. Here all of the file is proven
//! before any of it is in force. Where a gateway listens is not changed while it runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config;
use thiserror::Error;

use super::per_core::Gateway;
use super::plan::Plan;
use super::start;
use crate::host::tls::{self, TlsError};

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

impl Gateway {
    /// Reads the file and the certificates again. Answers with what changed, a line each.
    pub(crate) fn reload(&self) -> Result<Vec<String>, NotTaken> {
        let take =
            |path: &Path, set: &[config::Override]| self.take(config::Config::load(path, set)?);
        self.source.again(&self.log, take).unwrap_or(Err(NotTaken::NoFile))
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

    /// Looks at the certificates: new ones are taken once they were seen twice.
    pub(super) fn look_at_certificates(&self) {
        if let Some(tls) = &self.tls {
            tls::tell(&self.log, "gateway.tls", tls.live.look());
        }
        for (name, backend) in &self.plan.load().backends {
            if let Some(tls) = &backend.tls {
                tls::tell(&self.log, &format!("upstream.{name}.tls"), tls.live.look());
            }
        }
    }
}
