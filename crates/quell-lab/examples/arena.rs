//! The arena, one line per world: `cargo run -p quell-lab --example arena -- --edition health --seeds 1,2,3`.
//!
//! One line per world: won by seed (`+` or `-`, `!` if stuck), what was refused, and why. What may be said: `--edition
//! old|health|mixed|all`, `--controller ours|oracle|off|…`, `--seeds 1,2,3`, `--filter TEXT`, `--lost` (only worlds that are not won
//! with every seed), `--list`.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use quell_lab::arena::{Edition, Judged, Rule, judge, worlds::World};

#[derive(Debug)]
struct Args {
    editions: Vec<Edition>,
    rules: Vec<Rule>,
    seeds: Vec<u64>,
    filter: String,
    lost: bool,
    list: bool,
}

fn args() -> Result<Args, Box<dyn Error>> {
    let mut args = Args {
        editions: Edition::ALL.to_vec(),
        rules: vec![Rule::Ours],
        seeds: vec![1, 2, 3],
        filter: String::new(),
        lost: false,
        list: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--edition" => {
                let names = value()?;
                args.editions = Edition::ALL
                    .into_iter()
                    .filter(|edition| {
                        names == "all" || names.split(',').any(|n| n == edition.as_str())
                    })
                    .collect();
            }
            "--controller" => {
                let names = value()?;
                let named = |rule: &Rule| names.split(',').any(|name| name == rule.as_str());
                args.rules = Rule::ALL.into_iter().filter(named).collect();
            }
            "--seeds" => {
                args.seeds = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--filter" => args.filter = value()?,
            "--lost" => args.lost = true,
            "--list" => args.list = true,
            _ => {
                return Err(
                    format!("{word} is not known here: see the top of examples/arena.rs").into()
                );
            }
        }
    }
    Ok(args)
}

/// Every job on all cores; results in their order.
fn all<J: Sync, R: Send>(jobs: &[J], run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let cores = thread::available_parallelism().map_or(2, |cores| cores.get());
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let worker = || {
            let mut own = Vec::new();
            while let at = next.fetch_add(1, Ordering::Relaxed)
                && let Some(job) = jobs.get(at)
            {
                own.push((at, run(job)));
            }
            own
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn line(world: &World, runs: &[Judged]) -> String {
    let sign = |run: &Judged| match () {
        () if run.won => '+',
        () if run.is_stuck() => '!',
        () => '-',
    };
    let signs: String = runs.iter().map(sign).collect();
    let worst = |of: fn(&Judged) -> f64| runs.iter().map(of).fold(f64::MIN, f64::max);
    let mut reasons = BTreeMap::new();
    for (reason, count) in runs.iter().flat_map(|run| &run.reasons) {
        *reasons.entry(reason.as_str()).or_insert(0) += count;
    }
    let left: u64 = runs.iter().map(|run| run.left_queued).sum();
    if left > 0 {
        reasons.insert("left_queued", left);
    }
    let reasons: Vec<_> =
        reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let refused = worst(|run| run.refused) * 100.0;
    let window = -worst(|run| -run.worst_window);
    let slower = runs.iter().max_by(|a, b| a.slower.total_cmp(&b.slower));
    let slower = slower
        .filter(|run| run.slower > 0.0)
        .map_or(String::new(), |run| format!("p99 {:.2} of allowed ({})", run.slower, run.slowest));
    let name = &world.name;
    format!(
        "{name:34} {signs}  refused {refused:7.3} %  worst window {window:.3}  {slower}  {}",
        reasons.join(", ")
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = args()?;
    for edition in args.editions {
        let mut worlds = edition.worlds();
        worlds.retain(|world| world.name.contains(&args.filter));
        if args.list {
            worlds.iter().for_each(|world| println!("{}", world.name));
            continue;
        }
        for &rule in &args.rules {
            let jobs: Vec<_> = worlds
                .iter()
                .flat_map(|world| args.seeds.iter().map(move |&seed| (world, seed)))
                .collect();
            let runs = all(&jobs, |(world, seed)| judge(world, rule, *seed));
            let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
            let runs: Vec<_> = runs.chunks(args.seeds.len().max(1)).collect();
            for (world, runs) in worlds.iter().zip(&runs) {
                if !args.lost || runs.iter().any(|run| !run.won) {
                    println!("{}", line(world, runs));
                }
            }
            let won = |run: &&Judged| run.won;
            let median =
                runs.iter().filter(|runs| 2 * runs.iter().filter(won).count() > runs.len()).count();
            let every = runs.iter().filter(|runs| runs.iter().all(|run| run.won)).count();
            let stuck = runs.iter().filter(|runs| runs.iter().any(Judged::is_stuck)).count();
            let refused: f64 =
                runs.iter().flat_map(|runs| runs.iter()).map(|run| run.refused).sum();
            let refused = 100.0 * refused / (runs.len() * args.seeds.len()).max(1) as f64;
            println!(
                "{} {}: won {median} of {} by the median, {every} with every seed, stuck {stuck}, refused {refused:.3} %\n",
                edition.as_str(),
                rule.as_str(),
                worlds.len(),
            );
        }
    }
    Ok(())
}
