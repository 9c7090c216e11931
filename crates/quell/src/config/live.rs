//! Live: the handles on all upstreams of one file, which follow it while the process runs.
//!
//! **Why.** Policies are changed when something is wrong. A restart would forget what is known at that moment: it fills budgets,
//! closes breakers and loses the limits that were found. Here a changed file changes the numbers and keeps the state; and
//! one that is wrong in any place changes nothing, because half of a change is what nobody meant.
//!
//! **How.** Load once, take handles by name, give them to whoever calls. [`Live::reload`] reads the file again, for instance on
//! SIGHUP; [`Live::watch`] looks at it by itself.
//!
//! ```
//! use quell::config::Live;
//!
//! # let path = std::env::temp_dir().join(format!("quell-live-{}.toml", std::process::id()));
//! let file = |attempts| format!("version = 1\n[policy.payments]\nattempts = {attempts}\n[upstream.payments]\n");
//! std::fs::write(&path, file("2"))?;
//! let live = Live::load(&path)?;
//! let payments = live.quell("payments")?; // the same handle each time
//!
//! std::fs::write(&path, file("4"))?;
//! assert_eq!(live.reload()?.to_string(), "changed: payments");
//! assert_eq!(payments.rules().policy.attempts(), 4);
//!
//! std::fs::write(&path, file("0"))?;
//! let error = live.reload().unwrap_err().to_string();
//! assert!(error.contains("policy.payments.attempts is 0") && error.contains(":3:"), "{error}");
//! assert_eq!(payments.rules().policy.attempts(), 4);
//! # std::fs::remove_file(path)?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;

use quell_config::text;

use super::{Config, Error, NotCallable, Override, Unusable, Watch};
use crate::{Quell, sync::Mutex, upstream::Host};

/// How many upstreams that vanished from the file are remembered, should they return.
const MOST_GONE: usize = 64;

/// See the [module](self). Clones are the same.
#[derive(Debug, Clone)]
pub struct Live(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    flags: Vec<Override>,
    host: Host,
    now: ArcSwap<State>,
    /// What the file was like when it was last taken or turned down; held by whoever does so.
    seen: Mutex<Mark>,
}

/// A file's content in short; `None` if it cannot be read.
pub(super) type Mark = Option<u64>;

#[derive(Debug)]
struct State {
    config: Config,
    handles: BTreeMap<String, Quell>,
    /// Those that vanished, the longest gone first. One that comes back goes on where it was: a file that is caught half
    /// written must not fill a budget.
    gone: VecDeque<Quell>,
}

/// What a reload changed, as names of upstreams. Displays as a line for a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Now in the file.
    pub appeared: Vec<String>,
    /// Other numbers than before, of its own or of its policy.
    pub changed: Vec<String>,
    /// No longer in the file. Handles on them work on under the last numbers; their state is kept for a while, should they
    /// return.
    pub vanished: Vec<String>,
    /// Of those that vanished earlier, the ones that are no longer remembered: should they return, they begin anew.
    pub forgotten: Vec<String>,
}

impl Live {
    /// All upstreams of a file, with the environment over it.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Unusable> {
        Self::load_with(path, &[], Host::default())
    }

    /// The same with flags over both, and a clock, an observer and a seed. Each upstream has chance of its own from it.
    pub fn load_with(
        path: impl AsRef<Path>,
        flags: &[Override],
        host: Host,
    ) -> Result<Self, Unusable> {
        let (path, flags) = (path.as_ref().to_owned(), flags.to_vec());
        let content = text(&path)?;
        let config = parse(&path, &content, &flags)?;
        let handles = handles(&config, &host)?;
        let state = State { config, handles, gone: VecDeque::new() };
        let seen = Mutex::new(mark(&Ok(content)));
        let now = ArcSwap::from_pointee(state);
        Ok(Self(Arc::new(Shared { path, flags, host, now, seen })))
    }

    /// The handle on an upstream: always the same for a name, as long as it is in the file. Its
    /// [rules](Quell::rules) are what is written now.
    pub fn quell(&self, upstream: &str) -> Result<Quell, NotCallable> {
        let state = self.0.now.load();
        let found = state.handles.get(upstream);
        found.cloned().ok_or_else(|| NotCallable::NoUpstream(upstream.to_owned()))
    }

    /// All that is in force, such as for [`Config::effective`] or [`Config::idle`].
    pub fn config(&self) -> Config {
        self.0.now.load().config.clone()
    }

    /// Reads the file again. Handles go on under its numbers, with all that is known: budget, breaker, limiters, estimates,
    /// patience, ghosts. A file with anything wrong in it changes nothing.
    pub fn reload(&self) -> Result<Changes, Unusable> {
        self.take(text(&self.0.path))
    }

    /// Looks at the file's content this often, but not more than ten times a second; reloads when it changed and tells what
    /// came of it. What is wrong is told once, not at every look.
    ///
    /// A change is taken at the second look that finds it, as a file may be caught half written. It goes on for as long as
    /// the future is polled, on a tokio runtime, so spawn it:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn watch(live: &quell::config::Live) {
    /// tokio::spawn(live.watch(Duration::from_secs(2), |told| match told {
    ///     Ok(changes) => eprintln!("quell.toml: {changes}"),
    ///     Err(error) => eprintln!("quell.toml is not taken: {error}"),
    /// }));
    /// # }
    /// ```
    pub fn watch(
        &self,
        every: Duration,
        told: impl FnMut(Result<Changes, Unusable>) + Send + 'static,
    ) -> Watch {
        Watch::new(self.clone(), self.0.host.clock.clone(), every, told)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// What the file was like when it was last taken or turned down.
    pub(super) fn seen(&self) -> Mark {
        *self.0.seen.lock()
    }

    /// Takes this content, if it is right.
    pub(super) fn take(&self, content: Result<String, Error>) -> Result<Changes, Unusable> {
        let mut seen = self.0.seen.lock(); // one at a time
        *seen = mark(&content);
        let config = parse(&self.0.path, &content?, &self.0.flags)?;
        // All of them anew first: if that works, nothing below can fail.
        let fresh = handles(&config, &self.0.host)?;
        let before = self.0.now.load_full();
        let (state, changes) = before.follow(config, fresh)?;
        self.0.now.store(Arc::new(state));
        Ok(changes)
    }
}

impl State {
    /// What comes after this, with the handles of this where there are any.
    fn follow(
        &self,
        config: Config,
        fresh: BTreeMap<String, Quell>,
    ) -> Result<(Self, Changes), Unusable> {
        let mut changes = Changes::default();
        let mut handles = BTreeMap::new();
        for (name, anew) in fresh {
            if !self.handles.contains_key(&name) {
                changes.appeared.push(name.clone());
            } else if self.config.differs(&config, &name) {
                changes.changed.push(name.clone());
            }
            let handle = match self.known(&name) {
                Some(known) => {
                    let (rules, spec) = config.parts(&name)?;
                    known.reload(rules, spec).map_err(NotCallable::from)?;
                    known.clone()
                }
                None => anew,
            };
            handles.insert(name, handle);
        }
        let mut gone = self.gone.clone();
        gone.retain(|gone| !handles.contains_key(gone.name()));
        for (name, handle) in self.handles.iter().filter(|(name, _)| !handles.contains_key(*name)) {
            changes.vanished.push(name.clone());
            gone.push_back(handle.clone());
        }
        let many = gone.len().saturating_sub(MOST_GONE);
        changes.forgotten = gone.drain(..many).map(|gone| gone.name().to_owned()).collect();
        Ok((Self { config, handles, gone }, changes))
    }

    fn known(&self, name: &str) -> Option<&Quell> {
        self.handles.get(name).or_else(|| self.gone.iter().find(|gone| gone.name() == name))
    }
}

impl Config {
    /// Whether calls to an upstream are on other terms there.
    fn differs(&self, other: &Self, upstream: &str) -> bool {
        self.policy_for(upstream) != other.policy_for(upstream)
            || self.upstreams.get(upstream) != other.upstreams.get(upstream)
    }
}

impl Changes {
    /// Whether all is as it was.
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty() && self.changed.is_empty() && self.vanished.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { appeared, changed, vanished, forgotten } = self;
        let parts = [
            ("appeared", appeared),
            ("changed", changed),
            ("vanished", vanished),
            ("forgotten", forgotten),
        ];
        let parts: Vec<_> = parts
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", names.join(", ")))
            .collect();
        f.write_str(if parts.is_empty() { "nothing changed" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}

fn parse(path: &Path, content: &str, flags: &[Override]) -> Result<Config, Error> {
    Ok(Config::parse(&path.display().to_string(), content, &Override::over_env(flags))?)
}

fn handles(config: &Config, host: &Host) -> Result<BTreeMap<String, Quell>, NotCallable> {
    let handle = |name: &String| {
        let host = Host { seed: seed(host.seed, name), ..host.clone() };
        Ok((name.clone(), config.quell_with(name, host)?))
    };
    config.upstreams.keys().map(handle).collect()
}

/// A seed for each name, or all upstreams would draw the same waits (FNV-1a).
fn seed(seed: u64, name: &str) -> u64 {
    name.bytes().fold(seed, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

pub(super) fn mark(content: &Result<String, Error>) -> Mark {
    let mut hasher = DefaultHasher::new();
    content.as_ref().ok()?.hash(&mut hasher);
    Some(hasher.finish())
}
