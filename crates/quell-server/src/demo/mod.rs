//! The demo: an outage on real sockets, and callers who make it worse.
//!
//! What the simulator claims on virtual time is shown here with a real service and real connections. The
//! parts are plain enough to serve as test kit too: only `side` and `show`, which bring them together, know of Quell.

pub mod callers;
pub mod files;
pub mod offer;
pub mod scripted;
pub mod show;
mod side;
pub mod tally;
