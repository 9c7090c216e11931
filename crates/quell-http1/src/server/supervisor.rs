//! Supervisor: who minds a caller's connection, and what its host wants to know of it.

use std::fmt::Debug;
use std::task::Context;

use crate::gate::{Malformed, Phase};

/// What a connection is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Go on.
    Continue,
    /// Finish what is under way, then close.
    Finish,
    /// Close now.
    Close,
}

/// Minds one caller's connection. The connection tells it what it waits for; it tells the connection when to end.
///
/// Timers are its business: the connection has none for heads, bodies and idle callers.
pub trait Supervisor: Debug {
    /// What to do now. Called whenever the connection is polled; remembers whom to wake when the order changes.
    fn order(&self, cx: &Context<'_>) -> Order;

    /// So many bytes came in from the caller, and now the connection stands here.
    fn came(&self, bytes: usize, phase: Phase);

    /// The caller takes no more bytes (or does again).
    fn writing(&self, waits: bool);

    /// Our half is closed, and the caller is given a moment to close its own.
    fn lingering(&self);

    /// Whether the caller's body comes too slowly. If so, an order to close is explained to the caller with a 408.
    fn is_behind(&self) -> bool;

    /// Whether what comes from now on is not HTTP/1 any more: a 101 is about to go out.
    fn is_tunnel(&self) -> bool;

    /// A request was refused by the gate. Its caller is answered here.
    fn refused(&self, malformed: &Malformed);

    /// Fields for the replies that are written here.
    fn fields_of_refusal(&self) -> &[(&'static str, &'static str)];
}
