//! Serves: everything behind the `quell` command.

pub mod demo;
pub mod sim;
pub mod table;
