//! The `quell` command.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use quell_server::check;
use quell_server::config::{self, HostField, Listen, Override};
use quell_server::demo::show;
use quell_server::gateway::{self, Config, To};
use quell_server::host::Process;
use quell_server::{ctl, explain, init, key, schema, sim};

/// A request makes and frees about twenty pieces of memory, some of them beyond what the system's own keeps at hand:
/// docs/decisions/0015-an-allocator.md.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Retry infrastructure that cannot cause a retry storm.
#[derive(Debug, Parser)]
#[command(name = "quell", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Stands in front of a service: retries what is safe, refuses what would make an outage worse.
    Gateway(GatewayArgs),
    Check(check::Args),
    Ctl(ctl::Args),
    Explain(explain::Args),
    Init(init::Args),
    Key(key::Args),
    Schema(schema::Args),
    Sim(sim::Args),
    Demo(show::Args),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).args(["to", "config"]))]
struct GatewayArgs {
    /// Where requests go: http://host:port, https://host:port, or h2c://host:port for HTTP/2 without TLS
    #[arg(long, value_name = "URL")]
    to: Option<To>,
    /// A config file, which says all of it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where callers come in: an address, or unix:/path; 127.0.0.1:8080 if neither this nor the file says so
    #[arg(long, value_name = "ADDR")]
    listen: Option<Listen>,
    /// Where health, metrics, state and levers are served, on loopback; 127.0.0.1:9901 if neither this nor the file says so
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Which Host field the upstream sees: the caller's, or its own; with --to
    #[arg(long, value_enum, conflicts_with = "config")]
    host: Option<Host>,
    /// A setting that goes over file and environment; may be given more than once. With --to the upstream and its policy
    /// are called default
    #[arg(long, value_name = "KEY=VALUE", value_parser = check::set)]
    set: Vec<Override>,
    /// Threads that serve callers; one per core if not given
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroUsize>,
}

/// Which `Host` the upstream sees.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Host {
    Keep,
    Rewrite,
}

/// What a shell shows for a command that a closed pipe ended.
const CLOSED_PIPE: i32 = 128 + 13;

fn main() -> ExitCode {
    end_with_the_pipe();
    let ended = match Cli::parse().command {
        Command::Gateway(args) => serve(args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::main(&args),
        Command::Ctl(args) => ctl::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Init(args) => init::main(&args),
        Command::Key(args) => key::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Demo(args) => show::main(&args),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

/// A reader of standard output who has seen enough (`quell schema | head`) ends the command, without a word, as it ends others.
fn end_with_the_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(CLOSED_PIPE);
        }
        usual(panic);
    }));
}

/// The gateway that a file describes.
fn from_file(path: &Path, set: Vec<Override>) -> anyhow::Result<Config> {
    let file = config::Config::load(path, &set)?;
    Ok(Config { path: Some(path.to_owned()), set, ..Config::of(file) })
}

/// Runs until asked to end, then drains.
fn serve(args: GatewayArgs) -> anyhow::Result<()> {
    let GatewayArgs { to, config, listen, admin, host, set, cores } = args;
    let mut config = match (to, config) {
        (Some(to), _) => Config::told(&to, &set)?,
        (None, file) => from_file(&file.unwrap_or_default(), set)?,
    };
    for idle in &config.file.idle {
        eprintln!("quell: {} does not do all it says: {}", idle.path, idle.instead);
    }
    let told = &mut config.file.gateway;
    told.listen = listen.unwrap_or(told.listen.clone());
    told.admin = admin.unwrap_or(told.admin);
    config.cores = cores.map_or(config.cores, NonZeroUsize::get);
    if let Some(Host::Rewrite) = host {
        config.file.upstreams.values_mut().for_each(|up| up.host = HostField::Rewrite);
    }
    // Before anything is served, so that no signal finds us without an answer.
    let process = Process::new()?;
    let gateway = gateway::start(config).context("the gateway cannot start")?;
    eprintln!("{}", gateway.describe());
    process.run(gateway);
    Ok(())
}
