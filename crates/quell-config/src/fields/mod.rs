//! Fields: the settings of one table, asked for one by one.

mod guarded;

use std::{
    cell::{Cell, RefCell},
    fmt::Display,
};

use super::{
    document::Document,
    node::{At, Entry, Node, Table, Value},
    read::{Raw, Read},
    shape::Shape,
    value,
};

/// Longest name of a policy, an upstream or whatever else people give names to: they stand in labels of metrics.
pub const LONGEST_NAME: usize = 64;

/// The settings of one table. Whatever nobody has asked for when it is dropped is a mistake of whoever wrote it.
pub struct Fields<'a> {
    document: &'a Document,
    path: String,
    /// The same for all tables that are read alike: `upstream.*`, `route[]`.
    place: String,
    table: &'a Table,
    at: &'a At,
    asked: RefCell<Vec<&'static str>>,
    /// Whether what is not known may be a secret.
    secretive: Cell<bool>,
    /// Whether the names are people's own.
    free: Cell<bool>,
}

/// A setting that can be turned off with a word.
pub enum Switch<'a> {
    /// Not written.
    Absent,
    /// Written as `"off"`.
    Off,
    /// Written as a table.
    On(Fields<'a>),
}

impl<'a> Fields<'a> {
    /// The outermost table.
    pub(super) fn root(document: &'a Document, table: &'a Table, at: &'a At) -> Self {
        Self::new(document, (String::new(), String::new()), table, at)
    }

    fn new(
        document: &'a Document,
        (path, place): (String, String),
        table: &'a Table,
        at: &'a At,
    ) -> Self {
        document.note(|record| record.open(&place));
        let (secretive, free) = (Cell::new(false), Cell::new(false));
        Self { document, path, place, table, at, asked: RefCell::default(), secretive, free }
    }

    /// Where this table stands: `upstream.payments`.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn below(&self, name: &str) -> String {
        below(&self.path, name)
    }

    /// Tells whoever listens what can be written here.
    fn note(&self, name: &'static str, shape: impl FnOnce() -> Shape) {
        self.document.note(|record| record.shape(&self.place, name, shape()));
    }

    /// What a setting or a table means, in words for an operator who looks at it in an editor.
    pub fn means(&self, name: &'static str, means: &'static str) {
        self.document.note(|record| record.means(&self.place, name, means));
    }

    fn ask(&self, name: &'static str) -> Option<&'a Entry> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&name) {
            asked.push(name);
            self.document.note(|record| record.asked(&self.place, name));
        }
        self.table.get(name)
    }

    /// Whether a setting is written.
    pub fn has(&self, name: &'static str) -> bool {
        self.ask(name).is_some()
    }

    /// Says what to write if a setting that cannot be left out is not written.
    pub fn needs(&self, name: &'static str, what: &str) {
        self.document.note(|record| record.needs(&self.place, name));
        if !self.has(name) {
            self.wrong(name, format_args!("is missing: write {what}"));
        }
    }

    /// Whether a table is written.
    pub fn is_table(&self, name: &'static str) -> bool {
        matches!(self.ask(name), Some(Entry { node: Node { value: Value::Table(_), .. }, .. }))
    }

    /// Whether a list is not written, or has nothing in it.
    pub fn is_empty(&self, name: &'static str) -> bool {
        match self.ask(name).map(|entry| &entry.node.value) {
            None => true,
            Some(Value::List(list)) => list.is_empty(),
            Some(_) => false,
        }
    }

    /// Reads a setting if it is written, else leaves what there is; whether it was there and right.
    pub fn set<T: Read>(&self, name: &'static str, into: &mut T) -> bool {
        let found = self.get(name);
        let is_written = found.is_some();
        if let Some(value) = found {
            *into = value;
        }
        is_written
    }

    /// Reads a setting; `None` if it is not written, or wrong.
    pub fn get<T: Read>(&self, name: &'static str) -> Option<T> {
        self.note(name, T::shape);
        let entry = self.ask(name)?;
        self.read(&self.below(name), &entry.node)
    }

    fn read<T: Read>(&self, path: &str, node: &Node) -> Option<T> {
        let read = T::read(&Raw(&node.value));
        if read.is_none() {
            let message = format!("{path} is {}: write {}", node.value.shown(), T::expected());
            self.document.wrong(node.at.clone(), message);
        }
        read
    }

    /// Reads a list; `None` if it is not written. Parts that are wrong are left out.
    pub fn list<T: Read>(&self, name: &'static str) -> Option<Vec<T>> {
        self.note(name, || Shape::list(T::shape()));
        let parts = self.parts(name)?;
        let path = self.below(name);
        let part = |(i, node)| self.read(&format!("{path}[{i}]"), node);
        Some(parts.iter().enumerate().filter_map(part).collect())
    }

    fn parts(&self, name: &'static str) -> Option<&'a [Node]> {
        let entry = self.ask(name)?;
        let Value::List(list) = &entry.node.value else {
            let sort = entry.node.value.sort();
            self.wrong(name, format_args!("is {sort}: write a list in brackets"));
            return None;
        };
        Some(list)
    }

    /// One of a few words, and what it means.
    pub fn word<T: Copy>(&self, name: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let known = || words.iter().map(|(word, _)| *word);
        self.note(name, || Shape::words(known()));
        self.document.note(|record| record.words(self.below(name), known()));
        let entry = self.ask(name)?;
        let written = match &entry.node.value {
            Value::Text(text) => text.as_str(),
            _ => "",
        };
        let found = words.iter().find(|(word, _)| *word == written);
        if found.is_none() {
            let shown = entry.node.value.shown();
            let fix = choice(written, known());
            self.wrong(name, format_args!("is {shown}: {fix}"));
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// Some of a few words, by their places among these; `None` if it is not written.
    pub fn words(&self, name: &'static str, words: &[&str]) -> Option<Vec<usize>> {
        self.note(name, || Shape::list(Shape::Text));
        let path = self.below(name);
        let part = |(i, node): (usize, &Node)| {
            let written: String = self.read(&format!("{path}[{i}]"), node)?;
            let found = words.iter().position(|word| *word == written);
            if found.is_none() {
                let (shown, fix) = (node.value.shown(), choice(&written, words.iter().copied()));
                self.document.wrong(node.at.clone(), format!("{path}[{i}] is {shown}: {fix}"));
            }
            found
        };
        Some(self.parts(name)?.iter().enumerate().filter_map(part).collect())
    }

    /// The name of something else in the file.
    pub fn reference<'b>(
        &self,
        name: &'static str,
        what: &str,
        known: impl Iterator<Item = &'b String> + Clone,
    ) -> Option<String> {
        let written: String = self.get(name)?;
        if known.clone().any(|known| *known == written) {
            return Some(written);
        }
        let fix = match value::nearest(&written, known.map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("write one, as [{what}.{written}]"),
        };
        self.wrong(
            name,
            format_args!("is \"{}\", and no {what} is called that: {fix}", written.escape_debug()),
        );
        None
    }

    /// A table within this one.
    pub fn table(&self, name: &'static str) -> Option<Fields<'a>> {
        self.note(name, || Shape::Table);
        let entry = self.ask(name)?;
        self.inside((self.below(name), below(&self.place, name)), &entry.at, &entry.node)
    }

    fn inside(&self, at_path: Paths, at: &'a At, node: &'a Node) -> Option<Fields<'a>> {
        if let Value::Table(table) = &node.value {
            return Some(Self::new(self.document, at_path, table, at));
        }
        let (path, _) = at_path;
        self.document.mask(&node.at); // nobody knows what it is
        let message = format!("{path} is {}: write a table, such as {{ … }}", node.value.sort());
        self.document.wrong(node.at.clone(), message);
        None
    }

    /// A table within this one, or the word `"off"`.
    pub fn switch(&self, name: &'static str) -> Switch<'a> {
        self.note(name, || Shape::words(["off"]));
        match self.ask(name).map(|entry| &entry.node.value) {
            None => Switch::Absent,
            Some(Value::Text(text)) if text == "off" => Switch::Off,
            Some(_) => self.table(name).map_or(Switch::Absent, Switch::On),
        }
    }

    /// Tables with names that people gave them: `[policy.payments]`.
    pub fn named(&self, name: &'static str) -> Vec<(String, Fields<'a>)> {
        self.note(name, || Shape::Named);
        let Some(entry) = self.ask(name) else { return Vec::new() };
        let Value::Table(table) = &entry.node.value else {
            let _ = self.table(name); // says what is wrong
            return Vec::new();
        };
        let tables = table.0.iter().filter_map(|entry| {
            let path = format!("{}.{}", self.below(name), entry.name);
            if !is_name(&entry.name) {
                let message = format!(
                    "{} has the name {}: write 1 to {LONGEST_NAME} of the characters a-z, A-Z, 0-9, underscore and dash",
                    self.below(name),
                    Value::Text(entry.name.clone()).shown(),
                );
                self.document.wrong(entry.at.clone(), message);
                return None;
            }
            let paths = (path, format!("{}.*", below(&self.place, name)));
            Some((entry.name.clone(), self.inside(paths, &entry.at, &entry.node)?))
        });
        tables.collect()
    }

    /// Tables in a row: `[[route]]`.
    pub fn rows(&self, name: &'static str) -> Vec<Fields<'a>> {
        self.note(name, || Shape::Rows);
        let rows = self.parts(name).unwrap_or_default().iter().enumerate();
        let (path, place) = (self.below(name), below(&self.place, name));
        let paths = |i| (format!("{path}[{i}]"), format!("{place}[]"));
        rows.filter_map(|(i, node)| self.inside(paths(i), &node.at, node)).collect()
    }

    /// One table, or several in a row.
    pub fn tables(&self, name: &'static str) -> Vec<Fields<'a>> {
        match self.is_table(name) {
            true => self.table(name).into_iter().collect(),
            false => self.rows(name),
        }
    }

    /// Values with names, in the order they are written.
    pub fn values<T: Read>(&self, name: &'static str) -> Vec<(String, T)> {
        self.note(name, || Shape::values(T::shape()));
        let Some(inside) = self.table(name) else { return Vec::new() };
        inside.leave();
        let value = |entry: &Entry| {
            let value = inside.read(&inside.below(&entry.name), &entry.node)?;
            Some((entry.name.clone(), value))
        };
        inside.table.0.iter().filter_map(value).collect()
    }

    /// A setting is wrong in itself.
    pub fn wrong(&self, name: &'static str, why: impl Display) {
        let at = self.table.find(&[name], self.at).clone();
        self.document.wrong(at, format!("{} {why}", self.below(name)));
    }

    /// The core refuses what is written. Its message begins with the setting it is about, seen from this table.
    pub fn invalid(&self, error: &impl Display) {
        let message = error.to_string();
        let setting = message.split([' ', '[', ':']).next().unwrap_or_default();
        let path: Vec<_> = setting.split('.').collect();
        let at = self.table.find(&path, self.at).clone();
        self.document.wrong(at, self.below(&message));
    }

    /// Another host reads this table, or these tables: here nobody looks into them.
    pub fn leave_to_others(&self, name: &'static str) {
        self.ask(name);
    }

    /// What is in this table is for another reader.
    pub fn leave(&self) {
        self.document.note(|record| record.free(&self.place));
        self.free.set(true);
    }

    /// A setting that is understood, and that nothing acts on yet.
    pub fn idle(&self, name: &'static str, instead: &'static str) {
        let at = self.table.find(&[name], self.at);
        self.document.mark_idle(at, self.below(name), instead);
    }

    /// The same for this whole table.
    pub fn all_idle(&self, instead: &'static str) {
        self.document.mark_idle(self.at, self.path.clone(), instead);
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        if self.free.get() {
            return;
        }
        let asked = self.asked.borrow();
        for entry in self.table.0.iter().filter(|entry| !asked.contains(&entry.name.as_str())) {
            if self.secretive.get() {
                self.document.mask(&entry.node.at);
            }
            let name: String = entry.name.chars().take(LONGEST_NAME).collect();
            let fix = choice(&name, asked.iter().copied());
            let path = self.below(&name);
            self.document.wrong(entry.at.clone(), format!("{path} is not known here: {fix}"));
        }
    }
}

/// Where a table stands: in this file, and in every one.
type Paths = (String, String);

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What to write instead of this.
fn choice<'a>(written: &str, words: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = value::nearest(written, words.clone()) {
        return format!("did you mean `{near}`?");
    }
    let words: Vec<_> = words.collect();
    match words.as_slice() {
        [] => "leave it out".to_owned(),
        [only] => format!("write {only}"),
        [first @ .., last] => format!("write {} or {last}", first.join(", ")),
    }
}

fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(legal)
}
