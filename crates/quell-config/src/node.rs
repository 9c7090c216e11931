//! Node: a file as a tree in which everything knows where it was written, with what overrules it laid on top.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Where something was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    /// In the file.
    File(Range<usize>),
    /// In the environment or a flag.
    Outside(String),
}

/// A value, and where it was written.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) at: At,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Real(f64),
    Bool(bool),
    List(Vec<Node>),
    Table(Table),
    /// Something that no setting is: a date, or a number past all measure.
    Other(String),
}

/// Entries in the order they were written.
#[derive(Debug, Clone, Default)]
pub(super) struct Table(pub(super) Vec<Entry>);

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) at: At,
    pub(super) node: Node,
}

impl Value {
    /// For people: what stands there.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) if text.chars().count() > 60 => {
                format!("\"{}…\"", text.chars().take(60).collect::<String>().escape_debug())
            }
            Self::Text(text) => format!("\"{}\"", text.escape_debug()),
            Self::Whole(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Bool(yes) => yes.to_string(),
            Self::Other(text) => text.chars().take(60).collect(),
            Self::List(_) | Self::Table(_) => self.sort().to_owned(),
        }
    }

    /// For people: what sort of thing stands there, where it may be a secret.
    pub(super) fn sort(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Whole(_) | Self::Real(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(_) => "something else",
        }
    }
}

impl Table {
    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.name == name)
    }

    /// Where a key was written, or the deepest table around it that was.
    pub(super) fn find<'a>(&'a self, path: &[&str], around: &'a At) -> &'a At {
        let [name, rest @ ..] = path else { return around };
        let Some(entry) = self.get(name) else { return around };
        match &entry.node.value {
            Value::Table(table) => {
                // A table that is only implied by its parts has no place of its own worth showing.
                table.find(rest, &entry.at)
            }
            _ => &entry.node.at,
        }
    }

    pub(super) fn of(table: &DeTable<'_>, place: &impl Fn(Range<usize>) -> At) -> Self {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| Entry {
            name: AsRef::<str>::as_ref(key.get_ref()).to_owned(),
            at: place(key.span()),
            node: Node::of(value, place),
        };
        Self(entries.into_iter().map(entry).collect())
    }

    /// Puts a value where a path leads, case and dashes aside, as variables of the environment have neither.
    pub(super) fn set(&mut self, path: &[String], node: Node) -> Result<(), String> {
        let [name, rest @ ..] = path else { return Err("names nothing".to_owned()) };
        let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
        let place = self.0.iter().position(|entry| entry.name == *name);
        let place =
            place.or_else(|| self.0.iter().position(|entry| plain(&entry.name) == plain(name)));
        let place = place.unwrap_or_else(|| {
            let value = Value::Table(Self::default());
            let (name, at) = (name.to_ascii_lowercase(), node.at.clone());
            self.0.push(Entry { name, at: at.clone(), node: Node { value, at } });
            self.0.len() - 1
        });
        self.0[place].node.set(name, rest, node)
    }
}

impl Node {
    pub(super) fn of(value: &Spanned<DeValue<'_>>, place: &impl Fn(Range<usize>) -> At) -> Self {
        let at = place(value.span());
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.clone().into_owned()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Value::Whole(number),
                    Err(_) => Value::Other(number.to_string()),
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Value::Real(number),
                Err(_) => Value::Other(number.to_string()),
            },
            DeValue::Boolean(yes) => Value::Bool(*yes),
            DeValue::Datetime(date) => Value::Other(date.to_string()),
            DeValue::Array(list) => {
                Value::List(list.iter().map(|value| Self::of(value, place)).collect())
            }
            DeValue::Table(table) => Value::Table(Table::of(table, place)),
        };
        Self { value, at }
    }

    /// What stands in a variable or a flag: a TOML value, or text without its quotes.
    pub(super) fn outside(text: &str, name: &str) -> Self {
        let at = At::Outside(name.to_owned());
        let parsed = DeValue::parse(text.trim()).ok();
        let node = parsed.map(|value| Self::of(&value, &|_| at.clone()));
        match node {
            Some(node) if !matches!(node.value, Value::Other(_)) => node,
            _ => Self { value: Value::Text(text.to_owned()), at },
        }
    }

    fn set(&mut self, name: &str, path: &[String], node: Self) -> Result<(), String> {
        let [next, ..] = path else {
            *self = node;
            return Ok(());
        };
        match &mut self.value {
            Value::Table(table) => table.set(path, node),
            Value::List(list) => {
                let count = list.len();
                let place = next.parse().ok().and_then(|place: usize| list.get_mut(place));
                let found = place.ok_or_else(|| {
                    format!("{name} has {count} parts, counted from 0, and none is {next}")
                })?;
                found.set(next, &path[1..], node)
            }
            other => Err(format!("{name} is {}, so there is no {next} in it", other.sort())),
        }
    }
}
