//! Handles on the upstreams of a file, for calls from inside this process.

use std::path::Path;

use quell_core::spec::UpstreamSpec;

use super::{Config, Error, Repeats};
use crate::{Quell, Rules, upstream::Host};

/// Why an upstream of the file cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum NotCallable {
    /// It is not there.
    #[error("no upstream is called \"{0}\": write [upstream.{0}]")]
    NoUpstream(String),
    /// See [`crate::Invalid`].
    #[error(transparent)]
    Invalid(#[from] crate::Invalid),
}

/// Why a file cannot be called by. The message names the line, or the setting, and the fix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It cannot be read, or something in it is wrong.
    #[error(transparent)]
    File(#[from] Error),
    /// It is right, but not about this upstream.
    #[error(transparent)]
    Upstream(#[from] NotCallable),
}

impl Config {
    /// A handle on an upstream, for calls from inside this process. Its endpoints are up to the caller, who sends; what is
    /// worth another attempt is the [rules](Quell::rules)' to say.
    ///
    /// Each call makes another handle with a state of its own: make one and clone it, or have [`Live`](super::Live) keep it.
    pub fn quell(&self, upstream: &str) -> Result<Quell, NotCallable> {
        self.quell_with(upstream, Host::default())
    }

    /// The same with a clock, an observer and a seed.
    ///
    /// ```
    /// use quell::{Clock, config::Config, upstream::Host};
    ///
    /// let config = Config::parse("quell.toml", "version = 1\n[upstream.stock]", &[])?;
    /// let stock = config.quell_with("stock", Host { clock: Clock::manual(), ..Host::default() })?;
    /// assert_eq!(stock.call_blocking(|_| Ok::<_, std::io::Error>(7)).wait()?, 7);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn quell_with(&self, upstream: &str, host: Host) -> Result<Quell, NotCallable> {
        let (rules, spec) = self.parts(upstream)?;
        let shared = crate::Upstream::new(upstream, spec, rules.policy.per_try(), host)?;
        Ok(Quell::new(shared, rules))
    }

    /// What a handle is made of.
    pub(super) fn parts(&self, upstream: &str) -> Result<(Rules, UpstreamSpec), NotCallable> {
        let found = self.upstreams.get(upstream);
        let found = found.ok_or_else(|| NotCallable::NoUpstream(upstream.to_owned()))?;
        let written = self.policy_for(upstream);
        let rules = Rules {
            idempotent: written.unsafe_methods == Repeats::Always,
            statuses: (&written).into(),
            unsafe_methods: written.unsafe_methods.into(),
            ..Rules::new(quell_core::Policy::new(written.spec)?)
        };
        // The caller chooses the endpoint, so to the policies there is one.
        Ok((rules, UpstreamSpec { endpoints: 1, ..found.spec }))
    }
}

impl Quell {
    /// The handle on one upstream of a file, with the environment over it. For several, or a file that changes while the
    /// process runs, see [`config::Live`](super::Live).
    ///
    /// ```
    /// use quell::Quell;
    ///
    /// # let path = std::env::temp_dir().join(format!("quell-from-file-{}.toml", std::process::id()));
    /// std::fs::write(&path, "version = 1\n[policy.payments]\nattempts = 4\n[upstream.payments]\n")?;
    /// let payments = Quell::from_file(&path, "payments")?;
    /// assert_eq!(payments.rules().policy.attempts(), 4);
    ///
    /// let error = Quell::from_file(&path, "stock").unwrap_err();
    /// assert_eq!(error.to_string(), "no upstream is called \"stock\": write [upstream.stock]");
    /// # std::fs::remove_file(path)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_file(path: impl AsRef<Path>, upstream: &str) -> Result<Self, Unusable> {
        Ok(Config::load(path.as_ref(), &[])?.quell(upstream)?)
    }
}
