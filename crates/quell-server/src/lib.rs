//! Serves: everything behind the `quell` command.

mod admin;
pub mod check;
pub mod config;
pub mod ctl;
pub mod demo;
pub mod explain;
pub mod figures;
pub mod gateway;
pub mod host;
pub mod init;
pub mod key;
pub mod schema;
pub mod sim;
mod terminal;
