//! `quell init`: a config file to start from.
//!
//! **Why.** Whoever starts with an empty file has to know the settings before they can find out what they do. A file that works
//! as it is, and says of each setting what it is for, is changed line by line.
//!
//! **How.** One text, with the service's address put in. What is not a setting yet stands in it as a comment; the tests read
//! it with and without those. A file that is there already is left alone unless one says `--force`.

use std::{fs::OpenOptions, io::Write, path::PathBuf, process::ExitCode};

use crate::config::Target;
use anyhow::{Context, bail};

const STARTER: &str = include_str!("starter.toml");
/// The service in the text.
const SERVICE: &str = "http://127.0.0.1:9000";

/// Writes a config file to start from.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to
    #[arg(default_value = "quell.toml")]
    path: PathBuf,
    /// Where requests go: http://host:port or https://host:port
    #[arg(long, value_name = "URL", default_value = SERVICE)]
    to: Target,
    /// Write it even if there is a file already
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { path, to, force } = args;
    let shown = path.display();
    let mut options = OpenOptions::new();
    options.write(true).create_new(!force).create(*force).truncate(*force);
    let mut file = match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{shown} is there already: name another file, or write over it with --force")
        }
        opened => opened.with_context(|| format!("cannot write {shown}"))?,
    };
    let text = starter(to, &shown.to_string());
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
    println!("wrote {shown}\nnext: quell gateway --config {shown}");
    Ok(ExitCode::SUCCESS)
}

/// The text for this service, in a file of that name.
fn starter(to: &Target, name: &str) -> String {
    // What stands in a comment must not end it.
    let name = name.replace(char::is_control, "?");
    STARTER.replace(SERVICE, &to.to_string()).replace("quell.toml", &name)
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Policy, Preset};

    use super::*;

    fn read(text: &str) -> Config {
        Config::parse("quell.toml", text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn the_text_means_what_holds_without_it() {
        let config = read(STARTER);
        let usual = Policy::of(Preset::Gateway);
        assert_eq!(config.policies["service"], usual);
        let upstream = &config.upstreams["service"];
        assert_eq!(upstream.spec.budget, Preset::Gateway.upstream().budget);
        assert_eq!(config.gateway, Config::default().gateway);
        assert!(config.idle.is_empty(), "{:?}", config.idle);
    }

    #[test]
    fn every_setting_that_is_commented_out_is_right_as_well() {
        let is_setting =
            |line: &str| line.starts_with('#') && !line.starts_with("# ") && line != "#";
        let all: Vec<_> =
            STARTER.lines().map(|line| if is_setting(line) { &line[1..] } else { line }).collect();
        let config = read(&all.join("\n"));
        assert_eq!(config.tenants["shop"].keys[0].to_string(), "env:SHOP_KEY_HASH");
        assert!(config.gateway.admin_token.is_some() && config.gateway.tls.is_some());
        assert!(config.routes[0].rate_limit.is_some() && config.routes[0].fallback.is_some());
    }

    #[test]
    fn the_service_and_the_file_that_were_named_are_in_it() {
        let to = "https://shop.internal:8443".parse().unwrap();
        let text = starter(&to, "my.toml");
        assert!(text.contains("quell gateway --config my.toml "), "{text}");
        assert_eq!(read(&text).upstreams["service"].endpoints, [to]);
        read(&starter(&SERVICE.parse().unwrap(), "odd\nname = 1"));
    }
}
