//! Settings that are, or may hold, what must not be shown.

use std::{fmt::Display, path::PathBuf, str::FromStr};

use super::{
    super::{
        node::{Node, Value},
        read::Raw,
        secret::Secret,
        shape::Shape,
    },
    Fields,
};

/// Where a secret is.
const PLACE: Shape = Shape::Like("^(env|file):.+$");

impl Fields<'_> {
    /// The places of secrets.
    pub fn secrets(&self, name: &'static str) -> Vec<Secret> {
        self.note(name, || Shape::list(PLACE));
        self.secretive.set(true);
        let Some(entry) = self.ask(name) else { return Vec::new() };
        // Shown nowhere before it is known to be a place.
        self.document.mask(&entry.node.at);
        let parts = self.parts(name).unwrap_or_default();
        let path = self.below(name);
        let part = |(i, node): (usize, &Node)| self.place(&format!("{path}[{i}]"), node);
        parts.iter().enumerate().filter_map(part).collect()
    }

    /// The place of a secret.
    pub fn secret(&self, name: &'static str) -> Option<Secret> {
        self.note(name, || PLACE);
        self.secretive.set(true);
        let entry = self.ask(name)?;
        self.document.mask(&entry.node.at);
        self.place(&self.below(name), &entry.node)
    }

    fn place(&self, path: &str, node: &Node) -> Option<Secret> {
        let text = Raw(&node.value).text().unwrap_or_default().parse();
        if let Err(error) = &text {
            self.document
                .wrong(node.at.clone(), format!("{path} is no place of a secret: {error}"));
        }
        text.ok()
    }

    /// The path of a file. What a file should hold, such as a key, is refused and not shown.
    pub fn file(&self, name: &'static str) -> Option<PathBuf> {
        self.note(name, || Shape::Text);
        let entry = self.ask(name)?;
        if matches!(&entry.node.value, Value::Text(text) if text.contains(['\n', '\0']) || text.contains("-----"))
        {
            self.hide(name);
            self.wrong(name, "holds what should be in a file: write the path of the file");
            return None;
        }
        self.get::<String>(name).map(PathBuf::from)
    }

    /// Keeps a setting out of every line that is shown.
    pub fn hide(&self, name: &'static str) {
        if let Some(entry) = self.ask(name) {
            self.document.mask(&entry.node.at);
        }
    }

    /// What can be parsed, where a text that cannot may hold credentials; `None` if it cannot.
    pub fn parsed_one<T: FromStr<Err: Display>>(&self, name: &'static str) -> Option<T> {
        self.note(name, || Shape::Text);
        let entry = self.ask(name)?;
        self.parse(&self.below(name), &entry.node)
    }

    fn parse<T: FromStr<Err: Display>>(&self, path: &str, node: &Node) -> Option<T> {
        let text: String = self.read(path, node)?;
        let parsed = text.parse();
        if let Err(error) = &parsed {
            if text.contains('@') {
                self.document.mask(&node.at);
            }
            self.document.wrong(node.at.clone(), format!("{path}: {error}"));
        }
        parsed.ok()
    }

    /// A list of the same.
    pub fn parsed<T: FromStr<Err: Display>>(&self, name: &'static str) -> Option<Vec<T>> {
        self.note(name, || Shape::list(Shape::Text));
        let path = self.below(name);
        let part = |(i, node): (usize, &Node)| self.parse(&format!("{path}[{i}]"), node);
        let parsed: Vec<_> = self.parts(name)?.iter().enumerate().map(part).collect();
        parsed.into_iter().collect() // not before all were looked at
    }
}
