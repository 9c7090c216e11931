//! `quell ctl`: looks at a gateway that runs and pulls its levers, through its admin side.
//!
//! **Why.** In an incident nobody composes JSON for curl. Each lever is one line that says what, for how long and why; it is
//! written down at the gateway and ends by itself.

mod classes;
mod client;
mod routes;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args as ClapArgs, Subcommand};
use http::Method;
use serde_json::{Value, json};

use self::client::Client;
use crate::admin::wanted::Wanted;

/// Where the token is looked for if no file is named.
const TOKEN: &str = "QUELL_ADMIN_TOKEN";

/// Looks at a gateway that runs, and changes it for a while: for incidents.
///
/// What changes something needs the token of gateway.admin_token: in a file named by --token-file, or in QUELL_ADMIN_TOKEN.
/// Ends with 2 if the gateway cannot be reached or refuses.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Where the gateway's admin side is
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:9901")]
    admin: String,
    /// A file that holds the admin token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Who asks, for the audit; as the system says if not given ($SUDO_USER, $USER or $LOGNAME)
    #[arg(long, global = true, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    by: Option<String>,
    /// Why, for the audit
    #[arg(long, global = true, value_name = "TEXT")]
    why: Option<String>,
    /// Print the gateway's JSON as it is
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows budgets, breakers, limits, queues, ghosts and endpoints
    State,
    /// Shows what is usual for each kind of call, and how each fares
    Classes,
    /// Shows each route and all that is in force for its calls
    Routes,
    /// Prints all settings in force, as a file
    Config,
    /// Shows the levers that are pulled, with their numbers
    Levers,
    /// Shows who changed what, when and why
    Audit,
    /// Reads the config file again
    Reload,
    /// Retries nothing
    RetriesOff(Whose),
    /// Makes so many attempts per call, the first included
    Attempts(Many),
    /// Lets so many calls be under way at once
    Limit(Many),
    /// Opens the breaker: nobody gets through
    Open(Whose),
    /// Closes the breaker: everybody gets through
    Close(Whose),
    /// Refuses whoever waits, and ends the retries that sleep
    Drop(Whose),
    /// Fills the retry budget
    ResetBudget(Whose),
    /// Lets go of a lever
    Undo {
        /// Its number, as `levers` shows it
        id: u64,
    },
    /// Takes no more callers, finishes what is under way and ends the gateway
    Drain,
}

#[derive(Debug, ClapArgs)]
struct Whose {
    /// For the calls of this upstream; can be left out where there is only one
    #[arg(long, value_name = "NAME", conflicts_with = "route")]
    upstream: Option<String>,
    /// For the calls of this route
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// For how long, such as 10m, or forever; an hour if not given
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
}

#[derive(Debug, ClapArgs)]
struct Many {
    /// How many
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    value: u32,
    #[command(flatten)]
    whose: Whose,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.admin, args.token()?)?;
    let (says, show) = (args.says(), show::of(&args.command));
    let reply = match &args.command {
        Command::State => client.get("/state"),
        Command::Classes => client.get("/classes"),
        Command::Routes => client.get("/routes"),
        Command::Config => client.get("/config"),
        Command::Levers => client.get("/levers"),
        Command::Audit => client.get("/audit"),
        Command::Reload => client.change(Method::POST, "/reload", &says),
        Command::Drain => client.change(Method::POST, "/drain", &says),
        Command::Undo { id } => client.change(Method::DELETE, &format!("/levers/{id}"), &says),
        Command::RetriesOff(whose) => args.pull(&client, "retries-off", None, whose),
        Command::Attempts(many) => args.pull(&client, "attempts", Some(many.value), &many.whose),
        Command::Limit(many) => args.pull(&client, "limit", Some(many.value), &many.whose),
        Command::Open(whose) => args.pull(&client, "open", None, whose),
        Command::Close(whose) => args.pull(&client, "close", None, whose),
        Command::Drop(whose) => args.pull(&client, "drop", None, whose),
        Command::ResetBudget(whose) => args.pull(&client, "reset-budget", None, whose),
    }?;
    if args.json || matches!(args.command, Command::Config) {
        print!("{reply}{}", if reply.ends_with('\n') { "" } else { "\n" });
        return Ok(ExitCode::SUCCESS);
    }
    let reply: Value = serde_json::from_str(&reply).context("this is no gateway's admin side")?;
    print!("{}", show(&reply));
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn pull(
        &self,
        client: &Client,
        lever: &str,
        value: Option<u32>,
        whose: &Whose,
    ) -> anyhow::Result<String> {
        let Whose { upstream, route, length } = whose;
        let wanted = Wanted {
            upstream: upstream.clone(),
            route: route.clone(),
            lever: lever.to_owned(),
            value,
            length: length.clone(),
            by: Some(self.by()),
            why: self.why.clone(),
        };
        client.change(Method::POST, "/levers", &serde_json::to_value(wanted)?)
    }

    fn says(&self) -> Value {
        json!({ "by": self.by(), "why": self.why.as_deref().unwrap_or_default() })
    }

    fn by(&self) -> String {
        self.by.clone().unwrap_or_else(who)
    }

    fn token(&self) -> anyhow::Result<Option<String>> {
        let told = match &self.token_file {
            Some(path) => Some(
                std::fs::read_to_string(path)
                    .with_context(|| format!("--token-file {} cannot be read", path.display()))?,
            ),
            None => std::env::var(TOKEN).ok(),
        };
        Ok(told.map(|token| token.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

/// Who sits here, as far as the system says so.
fn who() -> String {
    ["SUDO_USER", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_default()
}
