//! Shape: what can be written for a setting, for editors and other programs.

use std::fmt;

/// What a value looks like, as far as a [schema](super::schema()) can say it.
///
/// ```
/// use quell_config::shape::Shape;
///
/// let limit = Shape::Either(vec![Shape::words(["off"]), Shape::Whole(255)]);
/// assert_eq!(limit.kinds().count(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Shape {
    /// Anything.
    Any,
    /// `true` or `false`.
    Bool,
    /// A number, whole or not.
    Number,
    /// A whole number from 0 to this.
    Whole(u64),
    /// A whole number between these.
    Between(u64, u64),
    /// Text.
    Text,
    /// Text that a regular expression finds.
    Like(&'static str),
    /// One of these words.
    Words(Vec<&'static str>),
    /// A list.
    List(Box<Self>),
    /// A table whose names are people's own, with such values.
    Values(Box<Self>),
    /// One of these.
    Either(Vec<Self>),
    /// A table.
    Table,
    /// Tables with names that people gave them.
    Named,
    /// Tables in a row.
    Rows,
}

impl Shape {
    /// One of these words.
    pub fn words(words: impl IntoIterator<Item = &'static str>) -> Self {
        Self::Words(words.into_iter().collect())
    }

    /// A list of these.
    pub fn list(part: Self) -> Self {
        Self::List(Box::new(part))
    }

    /// A table of these, under names of people's own.
    pub fn values(value: Self) -> Self {
        Self::Values(Box::new(value))
    }

    /// What it can be, one by one.
    pub fn kinds(&self) -> impl Iterator<Item = &Self> {
        match self {
            Self::Either(kinds) => kinds.as_slice(),
            alone => std::slice::from_ref(alone),
        }
        .iter()
    }
}

/// What a schema is written in.
pub(super) enum Json {
    Bool(bool),
    Whole(u64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    pub(super) fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        match self {
            Self::Bool(yes) => write!(f, "{yes}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Text(text) => quoted(f, text),
            Self::List(parts) => {
                rows(f, ('[', ']'), depth, parts, |f, part| part.write(f, depth + 1))
            }
            Self::Object(members) => rows(f, ('{', '}'), depth, members, |f, (name, value)| {
                quoted(f, name)?;
                f.write_str(": ")?;
                value.write(f, depth + 1)
            }),
        }
    }
}

/// One part in each line.
fn rows<T>(
    f: &mut fmt::Formatter<'_>,
    (open, close): (char, char),
    depth: usize,
    parts: &[T],
    part: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{open}")?;
    for (i, each) in parts.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(f, "{comma}\n{:1$}", "", 2 * (depth + 1))?;
        part(f, each)?;
    }
    if !parts.is_empty() {
        write!(f, "\n{:1$}", "", 2 * depth)?;
    }
    write!(f, "{close}")
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
