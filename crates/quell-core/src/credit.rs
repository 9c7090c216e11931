//! Credit: how often one user's request may be repeated, along its whole chain of calls.
//!
//! **Why.** Three attempts at each of four hops are eighty-one calls to the last one, just when it can bear least.
//! Each hop alone behaves well; the product is nobody's decision. So the hop where the request enters, the edge,
//! starts with a credit of `attempts − 1` retries, and all hops below it draw on that one credit.
//!
//! **How.** Every attempt carries what is left (`quell-retry-credit`); every reply says how many sends it took there
//! and below (`quell-attempts`), and all but the first of them are debited here. The reply also hands back what was
//! provably not spent (`quell-retry-credit` again). What was lent and did not come back, for the reply or its header
//! was lost, may have been spent: our own retries go on, but those units are not lent a second time. So the
//! extra load of one path is a sum: the edge's credit, once more per silent wire at the very worst, and never a
//! power. Repeating what was never sent costs nothing, for it reached nobody.
//!
//! Strangers may only tighten, and what cannot be read allows nothing.
//!
//! ```
//! use quell_core::{Delivery, Reason, credit::{Credit, Received, Role}};
//!
//! let mut edge = Credit::new(Role::Auto, 3, None);
//! let header = edge.lend(false);                       // the first attempt
//! assert_eq!(header.to_string(), "2");
//!
//! let told = Received::stranger("2".parse()?);
//! let interior = Credit::new(Role::Auto, 3, Some(told));
//! assert_eq!(interior.left(), 2);
//!
//! edge.settle(header, "3".parse()?, "0".parse()?);      // two retries were made below, none came back
//! assert_eq!(edge.allows(Delivery::Unknown), Err(Reason::CreditSpent));
//! assert_eq!(edge.allows(Delivery::NeverSent), Ok(()));
//! # Ok::<_, quell_core::credit::Unreadable>(())
//! ```

use core::{fmt, str::FromStr};

use crate::{Delivery, Reason};

/// The most that is believed, in either direction.
const MOST: u16 = 100;
/// More text than this is no number.
const LONGEST_NUMBER: usize = 40;
/// A longer `baggage` is not searched; W3C asks nobody to forward more.
const LONGEST_BAGGAGE: usize = 8_192;
/// The key of the `baggage` member.
const MEMBER: &str = "quell-retry-credit";

/// Where in a chain this hop stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Interior if the request carries credit, else the edge.
    #[default]
    Auto,
    /// Chains begin here: what the request carries may only tighten.
    Edge,
    /// Chains never begin here: a request without credit has none.
    Interior,
}

/// Retries that a hop hands on: the value of `quell-retry-credit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Retries(u16);

/// Sends made at a hop and below: the value of `quell-attempts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Sends(u16);

/// The text is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a quell header holds no number: write decimal digits only, such as \"2\"")]
pub struct Unreadable;

/// Credit that came with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    retries: Retries,
    trusted: bool,
}

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// Retries that may still be made here or below.
    left: u16,
    /// How many of them may be handed on; what is out, or never came back, is not in it.
    lendable: u16,
    /// Sends made here and below.
    sends: u16,
    /// By how much it was [raised](Credit::raise).
    raised: u8,
    whose: Whose,
}

/// Who decides how much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// We do: the chain begins here.
    Ours,
    /// Whoever called.
    Theirs,
    /// Whoever called, and there is nothing: retrying is left to others.
    Nothing,
}

impl Retries {
    /// So many retries; more than a hundred are a hundred.
    pub const fn new(retries: u32) -> Self {
        Self(clamp(retries))
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The header's value as it came. What cannot be read allows nothing, and of several the smallest counts.
    pub fn read(value: &[u8]) -> Self {
        let numbers = value.split(|&byte| byte == b',').map(number);
        let smallest = numbers.map(|found| found.unwrap_or(0)).min();
        Self(if value.len() > LONGEST_NUMBER { 0 } else { smallest.unwrap_or(0) })
    }

    /// Finds our member in a `baggage` header; of several the smallest counts.
    pub fn in_baggage(baggage: &[u8]) -> Option<Self> {
        let searched = (baggage.len() <= LONGEST_BAGGAGE).then_some(baggage)?;
        members(searched)
            .filter_map(|member| {
                let (key, value) = split_once(member, b'=')?;
                let value = value.split(|&byte| byte == b';').next().unwrap_or_default();
                is_ours(key).then(|| Self::read(value))
            })
            .min()
    }

    /// The `baggage` header with our member in it, once, and everybody else's as it was.
    pub fn write_baggage(self, baggage: &[u8]) -> Vec<u8> {
        let foreign = |member: &&[u8]| {
            let key = split_once(member, b'=').map_or(*member, |(key, _)| key);
            !member.trim_ascii().is_empty() && !is_ours(key)
        };
        let mut written = Vec::with_capacity(baggage.len() + MEMBER.len() + 8);
        for member in members(baggage).filter(foreign) {
            written.extend_from_slice(member.trim_ascii());
            written.push(b',');
        }
        written.extend_from_slice(format!("{MEMBER}={self}").as_bytes());
        written
    }
}

impl Sends {
    /// So many sends; more than a hundred are a hundred.
    pub const fn new(sends: u32) -> Self {
        Self(clamp(sends))
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The header's value as it came: `None` if it cannot be read, and of several the largest counts.
    pub fn read(value: &[u8]) -> Option<Self> {
        let readable = (value.len() <= LONGEST_NUMBER).then_some(value)?;
        let mut numbers = readable.split(|&byte| byte == b',').map(number);
        numbers.try_fold(0, |most, found| Some(found?.max(most))).map(Self)
    }
}

impl Received {
    /// From somebody we do not know: it can lower what we would do on our own, and nothing else.
    pub const fn stranger(retries: Retries) -> Self {
        Self { retries, trusted: false }
    }

    /// From a hop that we trust: its word is the chain's, though we repeat no more than our own policy allows.
    pub const fn trusted(retries: Retries) -> Self {
        Self { retries, trusted: true }
    }
}

impl Credit {
    /// The credit of one request at a hop whose policy makes up to `attempts` sends.
    pub fn new(role: Role, attempts: u32, received: Option<Received>) -> Self {
        let own = clamp(attempts.saturating_sub(1));
        let left = match (role, received) {
            (Role::Auto | Role::Interior, Some(Received { retries, trusted: true })) => retries.0,
            (_, Some(received)) => received.retries.0.min(own),
            (Role::Auto | Role::Edge, None) => own,
            (Role::Interior, None) => 0,
        };
        let interior = role == Role::Interior || (role == Role::Auto && received.is_some());
        let whose = match received {
            _ if interior && left == 0 => Whose::Nothing,
            None if !interior => Whose::Ours,
            _ => Whose::Theirs,
        };
        Self { left, lendable: left, sends: 0, raised: 0, whose }
    }

    /// So many more retries than the policy has written were allowed by hand. What came with a request is not ours to raise.
    pub(crate) fn raise(&mut self, by: u32) {
        let by = clamp(by);
        if self.whose == Whose::Ours && by > u16::from(self.raised) {
            let more = by - u16::from(self.raised);
            self.left = self.left.saturating_add(more).min(MOST);
            self.lendable = self.lendable.saturating_add(more).min(MOST);
            self.raised = by as u8; // at most a hundred
        }
    }

    /// By how much it was.
    pub(crate) fn raised(&self) -> u32 {
        self.raised.into()
    }

    /// Retries that may still be made here or below.
    pub fn left(&self) -> u16 {
        self.left
    }

    /// Sends made here and below, for the reply's `quell-attempts`.
    pub fn sends(&self) -> Sends {
        Sends(self.sends.min(MOST))
    }

    /// Whether the chain can bear another attempt after a failure with this delivery.
    #[inline]
    pub fn allows(&self, delivery: Delivery) -> Result<(), Reason> {
        match (delivery, self.left) {
            (Delivery::NeverSent, _) | (_, 1..) => Ok(()),
            _ if self.whose == Whose::Nothing => Err(Reason::Interior),
            _ => Err(Reason::CreditSpent),
        }
    }

    /// A retry follows a failure with this delivery: it costs one, unless the attempt before reached nobody.
    pub fn spend(&mut self, delivery: Delivery) {
        if delivery != Delivery::NeverSent {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Whether the chain can bear a second attempt beside one that is out, and may be spending what it was lent.
    pub fn allows_hedge(&self) -> bool {
        self.left > 0 && self.lendable > 0
    }

    /// A hedge goes out, for what is not lent.
    pub fn spend_on_hedge(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.lendable = self.lendable.saturating_sub(1);
    }

    /// What provably nobody spent: the reply's own `quell-retry-credit`.
    pub fn returned(&self) -> Retries {
        Retries(self.left.min(self.lendable))
    }

    /// An attempt goes out: what it may hand on. A loan comes back through [`Credit::settle`] or [`Credit::unsent`],
    /// or not at all. One that may be hedged leaves the price of its hedge here.
    pub fn lend(&mut self, may_be_hedged: bool) -> Retries {
        let lent = self.left.min(self.lendable).saturating_sub(u16::from(may_be_hedged));
        self.lendable -= lent;
        self.sends = self.sends.saturating_add(1);
        Retries(lent)
    }

    /// A reply came. All sends below but the first are debited, and what is handed back may be lent again. A reply
    /// that says nothing counts as one send and hands nothing back, so it needs no word.
    pub fn settle(&mut self, loan: Retries, below: Sends, returned: Retries) {
        let spent = below.0.saturating_sub(1);
        let unspent = loan.0.saturating_sub(spent).min(returned.0);
        self.left = self.left.saturating_sub(spent);
        self.lendable = self.lendable.saturating_add(unspent);
        self.sends = self.sends.saturating_add(spent);
    }

    /// The attempt never went out: it was no send, and nobody can have spent the loan.
    pub fn unsent(&mut self, loan: Retries) {
        self.lendable = self.lendable.saturating_add(loan.0);
        self.sends = self.sends.saturating_sub(1);
    }
}

macro_rules! as_text {
    ($($name:ident)+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Unreadable;

            fn from_str(text: &str) -> Result<Self, Unreadable> {
                number(text.as_bytes()).map(Self).ok_or(Unreadable)
            }
        }
    )+};
}
as_text!(Retries Sends);

const fn clamp(number: u32) -> u16 {
    if number < MOST as u32 { number as u16 } else { MOST }
}

/// Digits only, blanks around them; as large as you like, but never more than is believed.
fn number(text: &[u8]) -> Option<u16> {
    let digits = text.trim_ascii();
    let readable = (1..=LONGEST_NUMBER).contains(&digits.len());
    if !readable || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| MOST.min(sum * 10 + u16::from(digit - b'0'))))
}

fn members(baggage: &[u8]) -> impl Iterator<Item = &[u8]> {
    baggage.split(|&byte| byte == b',')
}

fn is_ours(key: &[u8]) -> bool {
    key.trim_ascii() == MEMBER.as_bytes()
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|&byte| byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

#[cfg(test)]
#[path = "credit_tests.rs"]
mod tests;
