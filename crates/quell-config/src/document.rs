//! Document: a file that is read setting by setting, so that each can be wrong in its own place.
//!
//! **Why.** A mistake in a policy is found at night or when it is written. When it is written it should take one look: all
//! mistakes at once, each with its line, and the word that was meant. A setting that nobody reads would be a
//! promise that nobody keeps, so one that was not asked for is a mistake as well.
//!
//! **How.** [`Document::parse`] reads TOML and lays what [overrules](Override) it on top. [`Fields`] is one table of it: a
//! reader asks for settings by name and type, and goes on when one is wrong. When the fields are dropped, whatever
//! was not asked for is reported. [`Document::finish`] tells all that was wrong.
//!
//! ```
//! use std::time::Duration;
//!
//! let mut patience = Duration::ZERO;
//! let text = "patience = \"1s\"\nload = 3";
//! let read = quell_config::parse("f.toml", text, &[], |root| root.set("patience", &mut patience));
//! let problems = read.unwrap_err().to_string();
//! assert!(problems.starts_with("load is not known here\n  --> f.toml:2:1"), "{problems}");
//! assert!(problems.ends_with("= help: write patience"), "{problems}");
//! # Ok::<_, quell_config::Problems>(())
//! ```

use std::{cell::RefCell, ffi::OsString, fmt, ops::Range};

use toml::de::DeTable;

use super::{
    fields::Fields,
    node::{At, Node, Table},
    problem::{Place, Problem, Problems, Source},
    schema::Record,
};

/// Most bytes that a file may have.
pub(super) const LONGEST: usize = 1 << 20;
/// Most levels that a name in the environment may have.
const DEEPEST: usize = 16;
/// Words after which something secret may stand, for lines that could not be read.
const SECRETIVE: [&str; 4] = ["key", "url", "token", "@"];

/// A setting that overrules the file: a variable of the environment, or a flag, which overrules both.
#[derive(Clone, PartialEq, Eq)]
pub struct Override {
    name: String,
    path: Vec<String>,
    value: String,
}

/// Without the value, which may be a secret.
impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Override").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Override {
    /// The settings in the environment: `QUELL__UPSTREAM__PAYMENTS__BUDGET__MAX=50`.
    pub fn env() -> Vec<Self> {
        Self::in_env(std::env::vars_os())
    }

    /// The same, from an environment of one's own.
    pub fn in_env(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<Self> {
        let mut found: Vec<_> = variables
            .into_iter()
            .filter_map(|(name, value)| {
                let (name, value) = (name.to_str()?.to_owned(), value.to_str()?.to_owned());
                let path = name.strip_prefix("QUELL__")?.split("__");
                let path = path.map(str::to_ascii_lowercase).collect();
                Some(Self { name, path, value })
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// All that goes over a file: the environment, and flags over that.
    pub fn over_env(flags: &[Self]) -> Vec<Self> {
        let mut overrides = Self::env();
        overrides.extend_from_slice(flags);
        overrides
    }

    /// A flag's `upstream.payments.budget.max=50`.
    pub fn flag(flag: &str, text: &str) -> Option<Self> {
        let (path, value) = text.split_once('=')?;
        let path: Vec<_> = path.trim().split('.').map(str::to_owned).collect();
        let name = format!("{flag} {}", path.join("."));
        Some(Self { name, path, value: value.trim().to_owned() })
    }
}

/// Why nothing could be read: see [`Problems`].
type Wrong = (At, String);

/// See the [module](self).
pub(super) struct Document {
    source: Source,
    root: Table,
    start: At,
    notes: RefCell<Notes>,
}

/// Not the text, which may hold secrets.
impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("name", &self.source.name).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Notes {
    wrong: Vec<Wrong>,
    idle: Vec<Idle>,
    masks: Vec<Range<usize>>,
    /// What was asked for, if somebody wants to know.
    record: Option<Record>,
}

/// A setting that is understood and that nothing acts on yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    /// Which.
    pub path: String,
    /// What happens instead.
    pub instead: &'static str,
    /// Where it stands.
    pub place: Place,
}

impl Document {
    /// Reads TOML. Later overrides go over earlier ones.
    pub(super) fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, Problems> {
        let source = Source { name: name.to_owned(), text: text.to_owned() };
        if text.len() > LONGEST {
            let message = format!("the file has {} bytes: write at most 1MiB", text.len());
            let source = Source { text: String::new(), ..source };
            return Err(Problems::new(vec![source.problem(message, &(0..0), &[])]));
        }
        let parsed = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = format!("this is not TOML: {}", error.message().trim_end());
            Problems::new(vec![source.problem(message, &span, &secretive(text, span.start))])
        })?;
        let root = Table::of(parsed.get_ref(), &At::File);
        let (start, notes) = (At::File(0..0), RefCell::default());
        let mut document = Self { source, root, start, notes };
        for layer in overrides {
            document.lay(layer);
        }
        Ok(document)
    }

    fn lay(&mut self, layer: &Override) {
        let Override { name, path, value } = layer;
        let node = Node::outside(value, name);
        let done = if path.len() > DEEPEST || path.iter().any(String::is_empty) {
            Err("does not name a setting: write such as upstream.payments.budget.max, with two underscores for each dot in the environment".to_owned())
        } else {
            self.root.set(path, node)
        };
        if let Err(why) = done {
            let message = format!("{} {why}", path.join("."));
            self.wrong(At::Outside(name.clone()), message);
        }
    }

    /// The settings outside of all tables, and the tables.
    pub(super) fn root(&self) -> Fields<'_> {
        Fields::root(self, &self.root, &self.start)
    }

    /// What nothing acts on yet.
    pub(super) fn idle(&self) -> Vec<Idle> {
        self.notes.borrow().idle.clone()
    }

    /// All that was wrong, in the order of the file.
    pub(super) fn finish(&self) -> Result<(), Problems> {
        let notes = self.notes.borrow();
        if notes.wrong.is_empty() {
            return Ok(());
        }
        let mut wrong = notes.wrong.clone();
        wrong.sort_by_key(|(at, _)| match at {
            At::File(span) => span.start,
            At::Outside(_) => usize::MAX,
        });
        wrong.dedup();
        Err(Problems::new(
            wrong.iter().map(|(at, why)| self.problem(at, why, &notes.masks)).collect(),
        ))
    }

    fn problem(&self, at: &At, message: &str, masks: &[Range<usize>]) -> Problem {
        match at {
            At::File(span) => self.source.problem(message.to_owned(), span, masks),
            At::Outside(name) => Source::outside(message.to_owned(), name),
        }
    }

    pub(super) fn wrong(&self, at: At, message: String) {
        self.notes.borrow_mut().wrong.push((at, message));
    }

    pub(super) fn mark_idle(&self, at: &At, path: String, instead: &'static str) {
        let place = self.problem(at, "", &[]).place;
        self.notes.borrow_mut().idle.push(Idle { path, instead, place });
    }

    /// Writes down from now on what is asked for.
    pub(super) fn listen(&self, record: Record) {
        self.notes.borrow_mut().record = Some(record);
    }

    /// What was asked for since.
    pub(super) fn heard(self) -> Record {
        self.notes.into_inner().record.unwrap_or_default()
    }

    pub(super) fn note(&self, note: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut self.notes.borrow_mut().record {
            note(record);
        }
    }

    /// Keeps this out of every line that is shown.
    pub(super) fn mask(&self, at: &At) {
        if let At::File(span) = at {
            self.notes.borrow_mut().masks.push(span.clone());
        }
    }
}

/// What not to show of a line that could not be read.
fn secretive(text: &str, at: usize) -> Vec<Range<usize>> {
    let start = text.get(..at).and_then(|text| text.rfind('\n')).map_or(0, |newline| newline + 1);
    let end = text.get(at..).and_then(|text| text.find('\n')).map_or(text.len(), |end| at + end);
    let line = text.get(start..end).unwrap_or_default();
    let may_hold = SECRETIVE.iter().any(|word| line.contains(word));
    may_hold.then_some(start..end).into_iter().collect()
}
