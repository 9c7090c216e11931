//! Read: what one value can be read as, and what to write where it cannot.

use std::{net::SocketAddr, time::Duration};

use super::{node::Value, shape::Shape, value};

/// What can be read from one value.
pub trait Read: Sized {
    /// What to write, where a value is none: the end of "write …".
    fn expected() -> String;
    /// The value, if it is one.
    fn read(value: &Raw<'_>) -> Option<Self>;
    /// What it looks like, for the [schema](super::schema()).
    fn shape() -> Shape {
        Shape::Any
    }
}

/// A value as it was written.
#[derive(Debug)]
pub struct Raw<'a>(pub(super) &'a Value);

impl Raw<'_> {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self.0 {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, if it is one.
    pub fn whole(&self) -> Option<i64> {
        match self.0 {
            Value::Whole(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, whole or not, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self.0 {
            Value::Whole(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }

    /// The parts, if it is a list of so many.
    pub fn parts<const N: usize>(&self) -> Option<[Raw<'_>; N]> {
        let Value::List(list) = self.0 else { return None };
        let parts: Vec<_> = list.iter().map(|node| Raw(&node.value)).collect();
        parts.try_into().ok()
    }
}

macro_rules! whole {
    ($($number:ty),+) => {$(
        impl Read for $number {
            fn expected() -> String {
                format!("a whole number from 0 to {}", Self::MAX)
            }
            fn shape() -> Shape {
                Shape::Whole(Self::MAX as u64)
            }
            fn read(value: &Raw<'_>) -> Option<Self> {
                value.whole()?.try_into().ok()
            }
        }
    )+};
}

whole!(u8, u16, u32, usize);

impl Read for f64 {
    fn expected() -> String {
        "a number".to_owned()
    }
    fn shape() -> Shape {
        Shape::Number
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        value.number()
    }
}

impl Read for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }
    fn shape() -> Shape {
        Shape::Bool
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        match value.0 {
            Value::Bool(yes) => Some(*yes),
            _ => None,
        }
    }
}

impl Read for String {
    fn expected() -> String {
        "text in quotes".to_owned()
    }
    fn shape() -> Shape {
        Shape::Text
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        value.text().map(str::to_owned)
    }
}

impl Read for Duration {
    fn expected() -> String {
        "a duration with its unit, such as \"4s\" or \"1200ms\"".to_owned()
    }
    fn shape() -> Shape {
        Shape::Like("^ *([0-9]+ *[a-zA-Zµ]+ *)+$")
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        value::duration(value.text()?)
    }
}

impl Read for SocketAddr {
    fn expected() -> String {
        "an address and a port, such as \"127.0.0.1:8080\"".to_owned()
    }
    fn shape() -> Shape {
        Shape::Text
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        value.text()?.parse().ok()
    }
}

impl<T: Read> Read for Option<T> {
    fn expected() -> String {
        T::expected()
    }
    fn shape() -> Shape {
        T::shape()
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        T::read(value).map(Some)
    }
}

/// A length of time, or the word `"off"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrOff(pub Option<Duration>);

impl Read for OrOff {
    fn expected() -> String {
        format!("{}, or \"off\"", Duration::expected())
    }
    fn shape() -> Shape {
        Shape::Either(vec![Duration::shape(), Shape::words(["off"])])
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        match value.text()? {
            "off" => Some(Self(None)),
            text => value::duration(text).map(|time| Self(Some(time))),
        }
    }
}

/// So many per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub f64);

impl Read for Rate {
    fn expected() -> String {
        "a rate, such as \"10000/s\"".to_owned()
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        value::rate(value.text()?).map(Self)
    }
}

/// So many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl Read for Size {
    fn expected() -> String {
        "a size with its unit, such as \"64KiB\"".to_owned()
    }
    fn read(value: &Raw<'_>) -> Option<Self> {
        value::size(value.text()?).map(Self)
    }
}
