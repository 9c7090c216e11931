//! `cargo xtask health`: services that are well, behind Quell with nothing set and behind nginx.
//!
//! **Why.** A gateway that refuses people while the service behind it is well is switched off on its first day. Nothing but
//! real sockets and callers of many kinds shows whether it does, and nothing but a proxy that leaves everybody in peace,
//! in the same minute on the same machine, shows what was possible.
//!
//! **How.** Every world has fresh proxies, each before a service of its own; `quell-lab health` is the services and the
//! callers. Light worlds run several at a time, the others alone. A machine that stops for a tenth of a second, or is so busy
//! that it may be why calls are slow, is not what is measured: such a world is repeated, up to three times in all. `--short` runs a few light worlds at once, for
//! CI, and fails if one breaks the promise. Everything that was started ends with this process.

mod judge;
mod proxies;

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};

use self::judge::{Outcome, Report, World};
use self::proxies::{Ports, Wants};
use crate::{
    figure,
    folder::Folder,
    lab, program,
    runs::{self, TRIES},
    workspace::Workspace,
};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Only these worlds
    #[arg(long, num_args = 1.., value_name = "NAME")]
    world: Vec<String>,
    /// For how long callers come, in seconds, instead of what each world says
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of the callers
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// A few light worlds at once, in less than a minute; fails where the promise is broken
    #[arg(long)]
    short: bool,
    /// Name all worlds and end
    #[arg(long)]
    list: bool,
    /// Print one JSON line per figure instead of tables
    #[arg(long)]
    json: bool,
    /// Use the profile of the tests, which is already built, instead of a release build
    #[arg(long)]
    dev: bool,
    /// Try this gateway instead of building one
    #[arg(long, value_name = "PATH")]
    quell: Option<PathBuf>,
    /// How many light worlds run at the same time
    #[arg(long, default_value_t = TOGETHER)]
    together: usize,
}

const SEED: u64 = 11;
const TOGETHER: usize = 3;
/// For how long callers come in the short form, in seconds.
const SHORT: u64 = 10;

impl Args {
    /// What CI runs.
    pub(crate) fn gate() -> Self {
        Self { short: true, dev: true, seed: SEED, together: TOGETHER, ..Self::default() }
    }
}

/// What every world needs.
struct Stand<'a> {
    workspace: &'a Workspace,
    args: &'a Args,
    quell: PathBuf,
    lab: PathBuf,
    folder: Folder,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let (quell, lab) = build(workspace, args)?;
    let stand = Stand { workspace, args, quell, lab, folder: Folder::new()? };
    let worlds = stand.worlds()?;
    if args.list {
        for world in worlds {
            println!("{:<18} {:>3} s  {}", world.name, world.seconds, world.about);
        }
        return Ok(());
    }
    program::find("nginx", "nginx")?;
    let mut outcomes = Vec::new();
    for group in groups(worlds, if args.short { usize::MAX } else { args.together }) {
        for outcome in stand.undisturbed(group)? {
            if args.json {
                for line in outcome.lines() {
                    println!("{}", serde_json::to_string(&line)?);
                }
            } else {
                println!("{}", outcome.table());
            }
            outcomes.push(outcome);
        }
    }
    figure::print(&judge::sums(&outcomes), args.json)?;
    let broken = outcomes.iter().filter(|outcome| !outcome.broken().is_empty());
    let broken: Vec<_> = broken.map(|outcome| outcome.world.name.as_str()).collect();
    ensure!(!args.short || broken.is_empty(), "the promise was broken in {}", broken.join(", "));
    Ok(())
}

fn build(workspace: &Workspace, args: &Args) -> Result<(PathBuf, PathBuf)> {
    let Some(quell) = &args.quell else {
        let [quell, lab] = runs::build_all(workspace, args.dev, ["quell", "quell-lab"])?;
        return Ok((quell, lab));
    };
    ensure!(quell.is_file(), "there is no gateway at {}", quell.display());
    Ok((quell.clone(), lab::build(workspace, args.dev)?))
}

/// Light worlds, so many at a time; then the others, one by one.
fn groups(worlds: Vec<World>, together: usize) -> Vec<Vec<World>> {
    let (mut light, heavy): (Vec<_>, Vec<_>) = worlds.into_iter().partition(|world| world.light);
    light.sort_by_key(|world| world.seconds); // those that take long wait for others that do, too
    let light = light.chunks(together.clamp(1, 64)).map(<[World]>::to_vec);
    light.chain(heavy.into_iter().map(|world| vec![world])).collect()
}

impl Stand<'_> {
    /// Those that were asked for.
    fn worlds(&self) -> Result<Vec<World>> {
        let listed = Command::new(&self.lab).args(["health", "--list"]).output();
        let listed = listed.context("cannot run quell-lab")?;
        let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
        let worlds: Vec<World> =
            lines.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>()?;
        if let Some(unknown) =
            self.args.world.iter().find(|name| worlds.iter().all(|world| world.name != **name))
        {
            bail!("no world is called {unknown}: see `cargo xtask health --list`");
        }
        let named = |world: &World| self.args.world.contains(&world.name);
        let wanted = |world: &World| match self.args.world.is_empty() {
            true => !self.args.short || world.short,
            false => named(world),
        };
        Ok(worlds.into_iter().filter(wanted).collect())
    }

    /// The first outcome of each in which the machine did not stand in the way, or the last.
    fn undisturbed(&self, group: Vec<World>) -> Result<Vec<Outcome>> {
        let mut outcomes = self.all(group)?;
        for again in 2..=TRIES {
            let (spoiled, fine): (Vec<_>, Vec<_>) =
                outcomes.into_iter().partition(Outcome::spoiled);
            outcomes = fine;
            if spoiled.is_empty() {
                break;
            }
            for Outcome { world, report } in &spoiled {
                let (name, late) = (&world.name, report.late_s);
                eprintln!(
                    "{name}: the machine was busy, and {late:.2} s late; try {again} of {TRIES}"
                );
            }
            outcomes.extend(self.all(spoiled.into_iter().map(|outcome| outcome.world).collect())?);
        }
        Ok(outcomes)
    }

    /// These worlds, all at once.
    fn all(&self, worlds: Vec<World>) -> Result<Vec<Outcome>> {
        for world in &worlds {
            eprintln!("{}: {} s of callers", world.name, self.seconds(world));
        }
        let reports = runs::all(&worlds, |world| self.measure(world));
        let pairs = worlds.into_iter().zip(reports);
        pairs.map(|(world, report)| Ok(Outcome { world, report: report? })).collect()
    }

    fn seconds(&self, world: &World) -> u64 {
        let short = self.args.short.then_some(SHORT);
        self.args.seconds.or(short).unwrap_or(world.seconds)
    }

    /// One world, behind both proxies at once.
    fn measure(&self, world: &World) -> Result<Report> {
        let folder = self.folder.0.join(&world.name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let wants = Wants { endpoints: world.endpoints, h2c: world.h2c };
        let [ours, theirs] = Ports::two()?;
        let _quell = proxies::quell(&self.quell, &folder, ours, wants)?;
        let _nginx = proxies::nginx(&folder, theirs, wants)?;
        let mut lab = Command::new(&self.lab);
        lab.args(["health", "--world", &world.name]);
        lab.args(["--seconds", &self.seconds(world).to_string()]);
        lab.args(["--seed", &self.args.seed.to_string()]);
        lab.args(["--side", &ours.side("quell"), "--side", &theirs.side("nginx")]);
        runs::ask(self.workspace, &lab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_worlds_go_together_with_those_that_take_as_long_and_the_others_alone() {
        let world = |name: &str, seconds: u64, light: bool| -> World {
            serde_json::from_value(serde_json::json!({
                "name": name, "about": "", "seconds": seconds, "endpoints": 1, "h2c": false,
                "light": light, "short": false, "saturated": false, "hostile": false,
            }))
            .unwrap()
        };
        let worlds = vec![
            world("long", 60, true),
            world("a", 20, true),
            world("heavy", 20, false),
            world("b", 20, true),
        ];
        let groups = groups(worlds, 2);
        let names = groups.iter().map(|group| group.iter().map(|w| w.name.as_str()).collect());
        let names: Vec<Vec<_>> = names.collect();
        assert_eq!(names, [vec!["a", "b"], vec!["long"], vec!["heavy"]]);
    }
}
