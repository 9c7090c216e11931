//! The gate on the wire: which of the bytes that came may go on to the parser.

use super::Malformed;
use super::chunks::Chunks;
use super::head::{Framing, Head};

/// Follows one connection of HTTP/1 from message to message. The first refusal is the last word.
///
/// It keeps no bytes: what belongs to a head that is not complete is left over, and shown to it again with more.
#[derive(Debug)]
pub(in crate::gateway) struct Gate {
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
pub(in crate::gateway) enum Phase {
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
pub(in crate::gateway) struct Look {
    /// So many of them may go on.
    pub(in crate::gateway) pass: usize,
    pub(in crate::gateway) refused: Option<Refused>,
}

/// What is wrong with the bytes after those that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Refused {
    /// A request of which nothing has passed: it can be answered here.
    Request(Malformed),
    /// The body of a request whose head has passed: it ends here, and whoever reads it answers.
    Body(Malformed),
}

impl Gate {
    pub(in crate::gateway) fn new() -> Self {
        Self { state: State::Head(Head::default()), is_first: true }
    }

    /// Lets everything through from now on.
    pub(in crate::gateway) fn open(&mut self) {
        self.state = State::Open;
    }

    pub(in crate::gateway) fn phase(&self) -> Phase {
        match &self.state {
            State::Head(head) if head.has_begun() => Phase::Head,
            State::Head(_) => Phase::Rest,
            State::Length(_) | State::Chunks(_) => Phase::Body,
            State::Open => Phase::Open,
        }
    }

    /// Looks at bytes that came, behind those that were left over the last time.
    pub(in crate::gateway) fn look(&mut self, bytes: &[u8]) -> Look {
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
                    Ok(Some((length, framing))) => {
                        self.is_first = false;
                        begun_at = Some(pass);
                        pass += length;
                        self.state = framing.into();
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
                    self.state = Framing::Nothing.into();
                }
                State::Chunks(chunks) => match chunks.read(rest) {
                    Ok((length, true)) => {
                        pass += length;
                        self.state = Framing::Nothing.into();
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

impl From<Framing> for State {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::Nothing => Self::Head(Head::default()),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunks => Self::Chunks(Chunks::default()),
            Framing::Another => Self::Open,
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
