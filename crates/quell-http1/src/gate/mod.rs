//! The gate: requests that two parsers could read differently are refused before anything else happens.
//!
//! **Why.** Where a front and the service behind it disagree about where a request ends, a caller can hide one
//! request in the body of another. Parsers that repair what they are given are how such disagreements begin: bare line
//! feeds, a `Content-Length` beside chunks, blanks in many places.
//!
//! **How.** Twice, because each place sees what the other cannot:
//!
//! 1. [`Gate`] looks at the bytes of HTTP/1 before anything else does (a [connection](crate::server::Connection) asks
//!    it). It follows the messages (`head`, then a body of known length, or `chunks`, or none, then the next head) and
//!    lets only whole, well-formed heads through. Each byte of a head is looked at once and not copied; bodies of known
//!    length are counted, not read.
//! 2. [`check()`] looks at the parsed request, of HTTP/2 too: which host it is for, what may not be in it.
//!
//! **Why the parser reads the same bytes again.** What has passed is parsed a second time, by httparse for heads and by
//! the decoder for chunks, for three reasons. The gate runs ahead: a caller may send many small requests and chunks
//! before the first of them is wanted, and to remember where each of their parts stands would take memory for every
//! connection, without a bound that is smaller than the bytes themselves. The gate keeps no bytes and no positions, so a
//! resting connection holds only a few words of it. The two readers were written apart and have to agree: the fuzz
//! targets and the tests hold each against the other, which is how a mistake in either of them is found.

mod check;
mod chunks;
mod class;
mod head;
mod malformed;

pub use check::check;
pub(crate) use malformed::LATE;
pub use malformed::Malformed;

use chunks::Chunks;
use head::{Follows, Head};

/// Follows one connection of HTTP/1 from message to message. The first refusal is the last word.
///
/// It keeps no bytes: what belongs to a head that is not complete is left over, and shown to it again with more.
#[derive(Debug)]
pub struct Gate {
    state: State,
    /// Whether nothing has passed yet.
    is_first: bool,
}

#[derive(Debug)]
enum State {
    Head(Head),
    Length(u64),
    Chunks(Chunks),
    /// Not HTTP/1 any more.
    Open,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Between requests.
    Rest,
    /// Within a head.
    Head,
    /// Within the body of a request.
    Body,
    /// The gate is open: whatever this is, it is no longer HTTP/1.
    Open,
}

/// What came of a look at some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// So many of them may go on.
    pub pass: usize,
    /// What is wrong with those that follow them; they go no further.
    pub refused: Option<Refused>,
}

/// What is wrong with the bytes after those that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A request of which nothing has passed: it can be answered here.
    Request(Malformed),
    /// The body of a request whose head has passed: it ends here, and whoever reads it answers.
    Body(Malformed),
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A gate before the first byte of a connection.
    pub fn new() -> Self {
        Self { state: State::Head(Head::default()), is_first: true }
    }

    /// Lets everything through from now on.
    pub fn open(&mut self) {
        self.state = State::Open;
    }

    /// Where the connection stands.
    pub fn phase(&self) -> Phase {
        match &self.state {
            State::Head(head) if head.has_begun() => Phase::Head,
            State::Head(_) => Phase::Rest,
            State::Length(_) | State::Chunks(_) => Phase::Body,
            State::Open => Phase::Open,
        }
    }

    /// Looks at bytes that came, behind those that were left over the last time.
    pub fn look(&mut self, bytes: &[u8]) -> Look {
        let mut pass = 0;
        let mut begun_at = None;
        let refused = loop {
            let rest = &bytes[pass..];
            match &mut self.state {
                State::Open => {
                    pass = bytes.len();
                    break None;
                }
                State::Head(head) => match head.read(rest, self.is_first) {
                    Ok(None) => break None,
                    Ok(Some((length, follows))) => {
                        self.is_first = false;
                        begun_at = Some(pass);
                        pass += length;
                        self.state = follows.into();
                    }
                    Err(malformed) => break Some(Refused::Request(malformed)),
                },
                State::Length(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    pass += here;
                    *left -= here as u64;
                    if *left > 0 {
                        break None;
                    }
                    self.state = Follows::Nothing.into();
                }
                State::Chunks(chunks) => match chunks.read(rest) {
                    Ok((length, true)) => {
                        pass += length;
                        self.state = Follows::Nothing.into();
                    }
                    Ok((length, false)) => {
                        pass += length;
                        break None;
                    }
                    Err((well, malformed)) => match begun_at {
                        Some(start) => {
                            pass = start;
                            break Some(Refused::Request(malformed));
                        }
                        None => {
                            pass += well;
                            break Some(Refused::Body(malformed));
                        }
                    },
                },
            }
        };
        Look { pass, refused }
    }
}

impl From<Follows> for State {
    fn from(follows: Follows) -> Self {
        match follows {
            Follows::Nothing => Self::Head(Head::default()),
            Follows::Length(length) => Self::Length(length),
            Follows::Chunks => Self::Chunks(Chunks::default()),
            Follows::Another => Self::Open,
        }
    }
}

#[cfg(test)]
mod tests;
