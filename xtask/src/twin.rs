//! `cargo xtask twin`: the same outage simulated and on real sockets, side by side.
//!
//! **Why.** A simulator is believed because it was right before. This runs `quell demo` for real and `quell sim
//! demo` on virtual time, with the same scenario file, and lays what they say next to each other.
//!
//! **How.** Verdicts must be equal, recoveries within a tenth or half a second, and within a tenth: amplification, the
//! goodput during and after the outage, and wasted work (of shares, one point in a hundred is always allowed: that
//! is a few dozen requests). Of three gateways in a row, one of the kinds, what reached the last service counts. The same seed brings the same users at the same instants to both. Runs take 50 seconds
//! each and are mostly waiting, so two kinds of outage run at once. A machine that stops for a tenth of a second spoils
//! a window and is not what is measured: such a run is repeated, up to three times in all. It reports and exits with 0;
//! `--gate` repeats runs that broke a promise (verdict, recovery, amplification) instead, and fails if one stays broken.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{
    figure::{self, Figure},
    runs::{self, LATE, TRIES, ask},
    workspace::Workspace,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this kind of outage; may be given more than once
    #[arg(long, value_parser = KINDS)]
    kind: Vec<String>,
    /// How many kinds run at once: as many as this machine can run without delaying any
    #[arg(long, default_value_t = AT_ONCE)]
    at_once: usize,
    /// Seed of the users, in both
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON line per figure instead of a table
    #[arg(long)]
    json: bool,
    /// Fail if a promise of Quell's is not kept on real sockets
    #[arg(long)]
    gate: bool,
    /// Use the profile of the tests, which is already built, instead of a release build
    #[arg(long)]
    dev: bool,
}

impl Args {
    /// As CI runs it.
    pub(crate) fn gate() -> Self {
        Self { kind: vec![], at_once: AT_ONCE, seed: 1, json: false, gate: true, dev: true }
    }
}

/// Ends of the names of figures that are promises.
const PROMISES: [&str; 3] = [".verdict", ".recovery_promise", ".amplification_promise"];
/// And of the one that says whether the machine let it be measured.
const DISTURBED: [&str; 1] = [".late"];

/// The scenarios of the demo: a storm in three kinds, ten times slower, a part of it slower, and three gateways in a row.
const KINDS: [&str; 6] = ["stall", "hole", "fail", "slow", "partial", "chain"];
/// The files that have them for the simulator.
const FILES: [&str; 2] = ["demo", "gateways"];
/// Two thirds of one core, as CI builds it.
const AT_ONCE: usize = 2;
/// How far shares may differ that are near 0.
const POINTS: f64 = 0.01;

/// What both programs say of one run.
#[derive(Debug, Clone, Deserialize)]
struct Seen {
    verdict: String,
    recovered_s: Option<f64>,
    amplification: f64,
    wasted: f64,
    during: Part,
    after: Part,
}

#[derive(Debug, Clone, Deserialize)]
struct Part {
    goodput: f64,
}

#[derive(Deserialize)]
struct Real {
    late_s: f64,
    /// There are no naive callers in front of a chain: who hands on for them would have to be naive, too.
    naive: Option<Seen>,
    front: Seen,
}

#[derive(Deserialize)]
struct Simulated {
    runs: Vec<SimulatedRun>,
}

#[derive(Deserialize)]
struct SimulatedRun {
    scenario: String,
    against: String,
    #[serde(flatten)]
    seen: Seen,
    layers: Vec<Layer>,
}

/// One service of a chain, from the top down.
#[derive(Deserialize)]
struct Layer {
    sends_per_user: f64,
    timeline: Work,
}

/// What it did in each second.
#[derive(Deserialize)]
struct Work {
    served: Vec<u64>,
    wasted: Vec<u64>,
}

impl SimulatedRun {
    /// As somebody sees it who stands at the last service, which is where the real one counts.
    fn at_the_last(&self) -> Seen {
        let mut seen = self.seen.clone();
        if let [first, .., last] = &self.layers[..] {
            let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
            seen.amplification *= last.sends_per_user / first.sends_per_user;
            seen.wasted = sum(&last.timeline.wasted) / sum(&last.timeline.served);
        }
        seen
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let quell = runs::build(workspace, args.dev)?;
    let seed = args.seed.to_string();
    let mut simulated = Vec::new();
    for file in FILES {
        let args = ["sim", file, "--json", "--seed", &seed];
        let Simulated { runs } = ask(workspace, Command::new(&quell).args(args))?;
        simulated.extend(runs);
    }
    let measure = |kind: &&'static str| measure(workspace, &quell, kind, &seed, &simulated);
    let wanted = |kind: &&str| args.kind.is_empty() || args.kind.iter().any(|only| only == kind);
    let kinds: Vec<_> = KINDS.into_iter().filter(wanted).collect();
    let mut figures = Vec::new();
    for kinds in kinds.chunks(args.at_once.max(1)) {
        eprintln!("{}: 50 s on real sockets", kinds.join(", "));
        for (kind, seen) in kinds.iter().zip(runs::all(kinds, measure)) {
            let mut seen = seen?;
            for again in 2..=TRIES {
                let spoilt = missed(&seen, if args.gate { &PROMISES } else { &DISTURBED });
                if spoilt.is_empty() {
                    break;
                }
                eprintln!("{}: missed; try {again} of {TRIES}", spoilt.join(", "));
                seen = measure(kind)?;
            }
            figures.extend(seen);
        }
    }
    figure::print(&figures, args.json)?;
    let broken = missed(&figures, &PROMISES);
    if args.gate && !broken.is_empty() {
        bail!("not as promised: {}", broken.join(", "));
    }
    Ok(())
}

/// Those of these figures that missed their goal. How close the twins are is reported and no promise.
fn missed(figures: &[Figure], ends: &[&str]) -> Vec<String> {
    let missed = figures.iter().filter(|figure| figure.met == Some(false));
    let names = missed.map(|figure| figure.figure.clone());
    names.filter(|name| ends.iter().any(|end| name.ends_with(end))).collect()
}

/// One kind of outage for real, beside what was simulated.
fn measure(
    workspace: &Workspace,
    quell: &Path,
    kind: &str,
    seed: &str,
    simulated: &[SimulatedRun],
) -> Result<Vec<Figure>> {
    let args = ["demo", "--json", "--kind", kind, "--seed", seed];
    let real: Real = ask(workspace, Command::new(quell).args(args))?;
    let mut figures = vec![most(format!("twin.{kind}.late"), real.late_s, "s", LATE)];
    let naive = real.naive.iter().map(|naive| ("naive", naive));
    for (against, real) in naive.chain([("front", &real.front)]) {
        let run = simulated.iter().find(|run| run.scenario == kind && run.against == against);
        let run = run.with_context(|| format!("no simulated {kind} {against}"))?;
        let simulated = &run.at_the_last();
        let name = format!("twin.{kind}.{against}");
        if against == "front" {
            figures.extend(promises(&name, real));
        }
        // What becomes of naive callers is for the simulator to say.
        let verdict = if against == "front" { "healed" } else { &simulated.verdict };
        figures.extend(compare(&name, real, simulated, verdict));
    }
    Ok(figures)
}

/// What Quell in front of a service promises, whatever the simulator says.
fn promises(name: &str, real: &Seen) -> [Figure; 2] {
    let recovery = real.recovered_s.unwrap_or(f64::MAX);
    [
        most(format!("{name}.recovery_promise"), recovery, "s", 1.0),
        most(format!("{name}.amplification_promise"), real.amplification, "sent ÷ received", 1.1),
    ]
}

fn most(figure: String, value: f64, unit: &str, most: f64) -> Figure {
    let (goal, met) = (Some(format!("at most {most}")), Some(value <= most));
    Figure { figure, value, unit: unit.into(), goal, met, ..Figure::default() }
}

/// Real against simulated.
fn compare(name: &str, real: &Seen, simulated: &Seen, verdict: &str) -> Vec<Figure> {
    let healed = |seen: &Seen| f64::from(u8::from(seen.verdict == "healed"));
    let mut figures = vec![Figure {
        figure: format!("{name}.verdict"),
        value: healed(real),
        unit: "healed".into(),
        against: Some(healed(simulated)),
        goal: Some(format!("both {verdict}")),
        met: Some(real.verdict == verdict && simulated.verdict == verdict),
        ..Figure::default()
    }];
    let mut close = |of: &str, unit: &str, (value, against): (f64, f64), least: f64, goal: &str| {
        figures.push(Figure {
            figure: format!("{name}.{of}"),
            value,
            unit: unit.into(),
            against: Some(against),
            ratio: (against != 0.0).then(|| value / against),
            goal: Some(goal.into()),
            met: Some((value - against).abs() <= (0.1 * against).max(least) + 1e-9),
        });
    };
    if let (Some(real), Some(simulated)) = (real.recovered_s, simulated.recovered_s) {
        close("recovery", "s", (real, simulated), 0.5, "within 10 % or 0.5 s");
    }
    let sent = (real.amplification, simulated.amplification);
    close("amplification", "sent ÷ received", sent, 0.0, "within 10 %");
    for (of, unit, both) in [
        ("goodput_during", "of achievable", (real.during.goodput, simulated.during.goodput)),
        ("goodput_after", "of achievable", (real.after.goodput, simulated.after.goodput)),
        ("wasted", "of work", (real.wasted, simulated.wasted)),
    ] {
        close(of, unit, both, POINTS, "within 10 % or 1 point");
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(verdict: &str, recovered_s: Option<f64>, amplification: f64, share: f64) -> Seen {
        let part = || Part { goodput: share };
        let (during, after) = (part(), part());
        Seen { verdict: verdict.into(), recovered_s, amplification, wasted: share, during, after }
    }

    fn met(figures: impl IntoIterator<Item = Figure>) -> Vec<bool> {
        figures.into_iter().map(|figure| figure.met.unwrap()).collect()
    }

    #[test]
    fn twins_that_agree_meet_every_goal() {
        let (real, simulated) =
            (seen("healed", Some(0.6), 0.5, 0.97), seen("healed", Some(0.1), 0.52, 1.0));
        assert_eq!(met(compare("a", &real, &simulated, "healed")), [true; 6]);
        assert_eq!(met(promises("a", &real)), [true; 2]);
    }

    #[test]
    fn each_difference_misses_its_own_goal() {
        let simulated = seen("healed", Some(0.1), 0.5, 1.0);
        let cases = [
            (seen("metastable", None, 0.5, 1.0), vec![false, true, true, true, true]),
            (seen("healed", Some(0.7), 0.5, 1.0), vec![true, false, true, true, true, true]),
            (seen("healed", Some(0.1), 0.6, 1.0), vec![true, true, false, true, true, true]),
            (seen("healed", Some(0.1), 0.5, 0.8), vec![true, true, true, false, false, false]),
        ];
        for (real, expected) in cases {
            assert_eq!(met(compare("a", &real, &simulated, "healed")), expected, "{real:?}");
        }
    }

    #[test]
    fn of_a_chain_what_reached_the_last_service_counts() {
        let layer = |sends_per_user, wasted| Layer {
            sends_per_user,
            timeline: Work { served: vec![10, 30], wasted: vec![0, wasted] },
        };
        let run = |layers| SimulatedRun {
            scenario: "chain".into(),
            against: "front".into(),
            seen: seen("healed", Some(0.1), 0.5, 0.9),
            layers,
        };
        let last = run(vec![layer(0.8, 0), layer(1.2, 9), layer(1.6, 4)]).at_the_last();
        assert_eq!((last.amplification, last.wasted), (1.0, 0.1));
        let alone = run(vec![layer(0.8, 4)]).at_the_last();
        assert_eq!((alone.amplification, alone.wasted), (0.5, 0.9));
    }

    #[test]
    fn shares_near_nothing_may_be_a_point_apart() {
        let naive = |share| seen("metastable", None, 3.7, share);
        assert_eq!(met(compare("a", &naive(0.01), &naive(0.0), "metastable")), [true; 5]);
        assert!(met(compare("a", &naive(0.02), &naive(0.0), "metastable")).contains(&false));
    }

    #[test]
    fn promises_are_kept_by_real_sockets_alone() {
        assert_eq!(met(promises("a", &seen("healed", Some(1.1), 1.2, 1.0))), [false; 2]);
        assert_eq!(met(promises("a", &seen("metastable", None, 1.1, 0.0))), [false, true]);
    }
}
