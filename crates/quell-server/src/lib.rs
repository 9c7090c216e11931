//! Serves: everything behind the `quell` command.

pub mod demo;
