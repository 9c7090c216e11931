//! Table: the settings of one table of the file, each declared once.
//!
//! **Why.** A setting is read, printed, compared, shown as JSON, completed by editors and documented. Where each of these
//! knows the setting by itself, one of them is forgotten. So a setting is declared once, with its name, its kind, and its
//! meaning in words, and everything else follows from that.
//!
//! **How.** The settings of a table are declared by a function that takes what they are kept in, and a [`Table`]. The same
//! function is walked in two ways. Where the table [reads](Table::reading), each setting of the file goes into its place and
//! what is wrong is told. Where it [writes](written), each setting is written down. Editors' [schema](super::schema()) is
//! what a reading walk was heard to ask for. The default of a setting is what its place held before.
//!
//! ```
//! use quell_config::table::{self, Table};
//!
//! #[derive(Clone)]
//! struct Cache { entries: u32, shared: bool }
//!
//! fn settings(cache: &mut Cache, table: &Table<'_>) {
//!     table.set("entries", &mut cache.entries, "how many entries are kept at most");
//!     table.set("shared", &mut cache.shared, "whether all tenants share it");
//!     if cache.entries == 0 {
//!         table.wrong("entries", "is 0: write at least 1");
//!     }
//! }
//!
//! let mut cache = Cache { entries: 10, shared: false };
//! quell_config::parse("f", "shared = true", &[], |root| settings(&mut cache, &Table::reading(root)))?;
//! let written = table::written(|table| settings(&mut cache.clone(), table));
//! assert_eq!(written.to_string(), "{ entries = 10, shared = true }");
//! # Ok::<_, quell_config::Problems>(())
//! ```

use std::{cell::RefCell, fmt::Display, path::PathBuf, str::FromStr};

use super::{
    fields::{Fields, Switch},
    preset::word,
    read::Read,
    secret::Secret,
    setting::{Settings, Value, Write},
};

/// What is written for a control that is off.
const OFF: &str = "off";

/// One table of the file, while it is read or written. See the [module](self).
pub struct Table<'a>(Walk<'a>);

enum Walk<'a> {
    Reads(&'a Fields<'a>),
    Writes(RefCell<Sheet>),
}

#[derive(Default)]
struct Sheet {
    settings: Vec<(&'static str, Value)>,
    /// These are written after all others, in this order.
    last: &'static [&'static str],
}

/// All settings of a table, as a walk of it writes them down. The walk takes a copy, and what the copy holds after it does not matter.
pub fn written(walk: impl FnOnce(&Table<'_>)) -> Settings {
    let table = Table(Walk::Writes(RefCell::default()));
    walk(&table);
    let Walk::Writes(sheet) = table.0 else { return Settings::default() };
    let Sheet { mut settings, last } = sheet.into_inner();
    settings
        .sort_by_key(|(name, _)| last.iter().position(|late| late == name).map_or(0, |at| at + 1));
    Settings(settings)
}

impl<'a> Table<'a> {
    /// Reads from these fields.
    pub fn reading(fields: &'a Fields<'a>) -> Self {
        Self(Walk::Reads(fields))
    }

    /// The fields that are read; `None` in a walk that writes.
    pub fn fields(&self) -> Option<&'a Fields<'a>> {
        match &self.0 {
            Walk::Reads(fields) => Some(fields),
            Walk::Writes(_) => None,
        }
    }

    /// Whether this walk reads.
    pub fn reads(&self) -> bool {
        self.fields().is_some()
    }

    /// These are written after all others, in this order. They are read in the order in which they are declared.
    pub fn written_last(&self, names: &'static [&'static str]) {
        if let Walk::Writes(sheet) = &self.0 {
            sheet.borrow_mut().last = names;
        }
    }

    /// A setting that is read and written in a way of its own. All other ways to declare one are made of this.
    pub fn setting<T>(
        &self,
        name: &'static str,
        means: &'static str,
        read: impl FnOnce(&'a Fields<'a>) -> T,
        write: impl FnOnce() -> Option<Value>,
    ) -> Option<T> {
        match self.0 {
            Walk::Reads(fields) => {
                fields.means(name, means);
                Some(read(fields))
            }
            Walk::Writes(ref sheet) => {
                let value = write();
                sheet.borrow_mut().settings.extend(value.map(|value| (name, value)));
                None
            }
        }
    }

    /// A setting with one value. Says whether it was read.
    pub fn set<T: Read + Write>(
        &self,
        name: &'static str,
        into: &mut T,
        means: &'static str,
    ) -> bool {
        let read = self.setting(name, means, |fields| fields.get(name), || into.write());
        put(read.flatten(), into)
    }

    /// A setting that is one of a few words. Says whether it was read.
    pub fn word<T: Copy + PartialEq>(
        &self,
        name: &'static str,
        into: &mut T,
        words: &[(&'static str, T)],
        means: &'static str,
    ) -> bool {
        let write = || Some(Value::text(word(words, *into)));
        let read = self.setting(name, means, |fields| fields.word(name, words), write);
        put(read.flatten(), into)
    }

    /// A word that stands for many settings. It is not written, as those are.
    pub fn preset<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&'static str, T)],
        means: &'static str,
    ) -> Option<T> {
        self.setting(name, means, |fields| fields.word(name, words), || None).flatten()
    }

    /// A list. Says whether it was read.
    pub fn list<T: Read + Write>(
        &self,
        name: &'static str,
        into: &mut Vec<T>,
        means: &'static str,
    ) -> bool {
        let read = self.setting(name, means, |fields| fields.list(name), || into.write());
        put(read.flatten(), into)
    }

    /// A list of what is parsed from text that may hold credentials. It is not written if it is empty. Says whether it was read.
    pub fn parsed<T: FromStr<Err: Display> + Display>(
        &self,
        name: &'static str,
        into: &mut Vec<T>,
        means: &'static str,
    ) -> bool {
        let write = || (!into.is_empty()).then(|| Value::texts(into));
        let read = self.setting(name, means, |fields| fields.parsed(name), write);
        put(read.flatten(), into)
    }

    /// The place of a secret.
    pub fn secret(&self, name: &'static str, into: &mut Option<Secret>, means: &'static str) {
        let read = self.setting(name, means, |fields| fields.secret(name), || into.write());
        put(read, into);
    }

    /// The places of secrets.
    pub fn secrets(&self, name: &'static str, into: &mut Vec<Secret>, means: &'static str) {
        let read = self.setting(name, means, |fields| fields.secrets(name), || into.write());
        put(read, into);
    }

    /// The path of a file.
    pub fn file(&self, name: &'static str, into: &mut Option<PathBuf>, means: &'static str) {
        let read = self.setting(name, means, |fields| fields.file(name), || into.write());
        put(read, into);
    }

    /// A table within this one, which is always written. Its settings are read if it is there.
    pub fn inside(&self, name: &'static str, means: &'static str, walk: impl FnOnce(&Table<'_>)) {
        match &self.0 {
            Walk::Reads(fields) => {
                fields.means(name, means);
                if let Some(inside) = fields.table(name) {
                    walk(&Table::reading(&inside));
                }
            }
            Walk::Writes(sheet) => {
                let value = Value::Table(written(walk));
                sheet.borrow_mut().settings.push((name, value));
            }
        }
    }

    /// A table within this one that may be missing, and is not written then. The walk is given what is there to be
    /// written, or nothing where it reads, and says what came of it.
    pub fn maybe<T>(
        &self,
        name: &'static str,
        into: &mut Option<T>,
        means: &'static str,
        walk: impl FnOnce(&Table<'_>, Option<T>) -> Option<T>,
    ) {
        match &self.0 {
            Walk::Reads(fields) => {
                fields.means(name, means);
                if let Some(inside) = fields.table(name) {
                    *into = walk(&Table::reading(&inside), None);
                }
            }
            Walk::Writes(sheet) => {
                let Some(there) = into.take() else { return };
                let inside = written(|table| {
                    walk(table, Some(there));
                });
                sheet.borrow_mut().settings.push((name, Value::Table(inside)));
            }
        }
    }

    /// The same for a table in whose place may stand `"off"`.
    pub fn maybe_off<T>(
        &self,
        name: &'static str,
        into: &mut Option<T>,
        means: &'static str,
        walk: impl FnOnce(&Table<'_>, Option<T>) -> Option<T>,
    ) {
        let Some(fields) = self.fields() else { return self.maybe(name, into, means, walk) };
        fields.means(name, means);
        match fields.switch(name) {
            Switch::Absent => {}
            Switch::Off => *into = None,
            Switch::On(inside) => *into = walk(&Table::reading(&inside), None),
        }
    }

    /// The same, and `"off"` is written where there is nothing.
    pub fn switch<T>(
        &self,
        name: &'static str,
        into: &mut Option<T>,
        means: &'static str,
        walk: impl FnOnce(&Table<'_>, Option<T>) -> Option<T>,
    ) {
        match &self.0 {
            Walk::Writes(sheet) if into.is_none() => {
                sheet.borrow_mut().settings.push((name, Value::text(OFF)));
            }
            _ => self.maybe_off(name, into, means, walk),
        }
    }

    /// Whether a setting is written in the file that is read.
    pub fn has(&self, name: &'static str) -> bool {
        self.fields().is_some_and(|fields| fields.has(name))
    }

    /// Says what to write if a setting that cannot be left out is not written.
    pub fn needs(&self, name: &'static str, what: &str) {
        if let Some(fields) = self.fields() {
            fields.needs(name, what);
        }
    }

    /// A setting is wrong in itself. What is in force was read once, so a walk that writes tells nothing.
    pub fn wrong(&self, name: &'static str, why: impl Display) {
        if let Some(fields) = self.fields() {
            fields.wrong(name, why);
        }
    }

    /// The core refuses what is written: see [`Fields::invalid`].
    pub fn invalid(&self, error: &impl Display) {
        if let Some(fields) = self.fields() {
            fields.invalid(error);
        }
    }

    /// A setting that is understood, and that nothing acts on yet.
    pub fn idle(&self, name: &'static str, instead: &'static str) {
        if let Some(fields) = self.fields() {
            fields.idle(name, instead);
        }
    }
}

fn put<T>(read: Option<T>, into: &mut T) -> bool {
    let is_read = read.is_some();
    if let Some(value) = read {
        *into = value;
    }
    is_read
}
