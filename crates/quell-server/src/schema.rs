//! `quell schema`: what the config file can hold, for editors and other programs.

use std::process::ExitCode;

/// Prints what the config file can hold, as a JSON Schema.
///
/// Editors that know TOML complete and check the file with it: write `#:schema quell.schema.json` in its first line.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn main(_: &Args) -> anyhow::Result<ExitCode> {
    print!("{}", crate::config::schema());
    Ok(ExitCode::SUCCESS)
}
