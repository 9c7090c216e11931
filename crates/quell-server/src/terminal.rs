//! Terminal: what standard output can show.

use std::io::{IsTerminal, stdout};

use quell_charts::Ink;

/// With colours on a terminal; plainly in a file, a pipe, or where `NO_COLOR` asks for it.
pub(crate) fn ink() -> Ink {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if stdout().is_terminal() && !plain { Ink::Rich } else { Ink::Plain }
}
