//! Setting: a value as it stands in a file, and the settings of one table with their values.
//!
//! **Why.** What is in force is printed, shown as JSON, and compared with what was in force before a reload. All three want
//! values, not text: text would have to be parsed again.
//!
//! ```
//! use quell_config::{Policy, Preset};
//!
//! let settings = Policy::of(Preset::Gateway).written();
//! assert_eq!(settings.get("attempts").unwrap().to_string(), "2");
//! assert_eq!(settings.get("timeout").unwrap().to_string(), "\"1m\"");
//! ```

use std::{
    fmt::{self, Display, Write as _},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use super::{read::OrOff, secret::Secret, target::Target, value::Written};

/// A value as it stands in a file. Displays as TOML in one line.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number that may have a fraction.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<Self>),
    /// A table of settings.
    Table(Settings),
    /// A table whose names are the operator's own.
    Named(Vec<(String, Self)>),
}

/// The settings of one table, in the order in which they are written. Displays as a table in one line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings(pub(super) Vec<(&'static str, Value)>);

impl Value {
    /// Text.
    pub fn text(text: impl Display) -> Self {
        Self::Text(text.to_string())
    }

    /// A list of texts.
    pub fn texts<T: Display>(parts: &[T]) -> Self {
        Self::List(parts.iter().map(Self::text).collect())
    }
}

impl Settings {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Writes them below a heading, a line each.
    pub fn section(&self, heading: &str, text: &mut String) {
        let _ = write!(text, "\n{heading}\n");
        for (name, value) in &self.0 {
            let _ = writeln!(text, "{name} = {value}");
        }
    }

    /// The value of one setting.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => quoted(f, text),
            Self::Whole(number) => number.fmt(f),
            Self::Real(number) => write!(f, "{number:?}"), // with a point, so that it reads as one
            Self::Bool(yes) => yes.fmt(f),
            Self::List(parts) => {
                f.write_char('[')?;
                for (i, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if i == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Self::Table(settings) => settings.fmt(f),
            Self::Named(values) => members(f, values, |f, (name, value)| {
                quoted(f, name)?;
                write!(f, " = {value}")
            }),
        }
    }
}

impl Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        members(f, &self.0, |f, (name, value)| write!(f, "{name} = {value}"))
    }
}

fn members<T>(
    f: &mut fmt::Formatter<'_>,
    all: &[T],
    one: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str("{ ")?;
    for (i, each) in all.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        one(f, each)?;
    }
    f.write_str(" }")
}

/// Text in quotes.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// What can be written as one value.
pub trait Write {
    /// The value; `None` if the setting is left out.
    fn write(&self) -> Option<Value>;
}

macro_rules! whole {
    ($($number:ty),+) => {$(
        impl Write for $number {
            fn write(&self) -> Option<Value> {
                Some(Value::Whole(*self as u64))
            }
        }
    )+};
}

whole!(u8, u16, u32, usize);

macro_rules! texts {
    ($($kind:ty),+) => {$(
        impl Write for $kind {
            fn write(&self) -> Option<Value> {
                Some(Value::text(self))
            }
        }
    )+};
}

texts!(String, SocketAddr, Secret, Target);

impl Write for f64 {
    fn write(&self) -> Option<Value> {
        Some(Value::Real(*self))
    }
}

impl Write for bool {
    fn write(&self) -> Option<Value> {
        Some(Value::Bool(*self))
    }
}

impl Write for Duration {
    fn write(&self) -> Option<Value> {
        Some(Value::text(Written(*self)))
    }
}

impl Write for PathBuf {
    fn write(&self) -> Option<Value> {
        Some(Value::text(self.display()))
    }
}

impl Write for OrOff {
    fn write(&self) -> Option<Value> {
        self.0.map_or_else(|| Some(Value::text("off")), |time| time.write())
    }
}

impl<T: Write> Write for Option<T> {
    fn write(&self) -> Option<Value> {
        self.as_ref()?.write()
    }
}

impl<T: Write> Write for Vec<T> {
    fn write(&self) -> Option<Value> {
        Some(Value::List(self.iter().filter_map(T::write).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_displays_as_it_stands_in_a_file() {
        let inside = Settings(vec![("on", Value::Bool(true)), ("share", Value::Real(1.0))]);
        for (value, expected) in [
            (Value::text("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000A\""),
            (Value::Whole(7), "7"),
            (Value::Real(2.0), "2.0"),
            (Value::List(vec![Value::Whole(1), Value::text("x")]), "[1, \"x\"]"),
            (Value::List(Vec::new()), "[]"),
            (Value::Table(inside), "{ on = true, share = 1.0 }"),
            (Value::Named(vec![("b c".to_owned(), Value::Whole(4))]), "{ \"b c\" = 4 }"),
        ] {
            assert_eq!(value.to_string(), expected);
        }
    }
}
