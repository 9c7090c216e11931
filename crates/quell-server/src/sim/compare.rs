//! Compare: the same users, two ways to serve them.
//!
//! **Why.** Two runs differ by what was changed and by chance. With the same seed the same users arrive at the same instants whatever serves
//! them, so that the difference of a pair of runs is the change and little else.

use std::path::PathBuf;

use anyhow::ensure;
use quell_charts::Table;
use quell_sim::Run;
use serde::Serialize;

use super::{
    Job,
    figures::millis,
    read, run,
    runs::{How, Spread},
};

/// Runs two files with the same users and shows what differs.
///
/// Scenarios are paired by name, and within them by who faces them. Write --seeds 20 to tell a difference from chance.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Before
    a: PathBuf,
    /// After
    b: PathBuf,
    #[command(flatten)]
    how: How,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// A figure on both sides.
#[derive(Debug, Serialize)]
struct Figure {
    figure: &'static str,
    a: Option<Spread>,
    b: Option<Spread>,
    /// Of the pairs, seed by seed.
    difference: Option<Spread>,
}

#[derive(Debug, Serialize)]
struct Pair {
    scenario: String,
    a: String,
    b: String,
    figures: Vec<Figure>,
}

type Of = fn(&Run) -> Option<f64>;

/// What is compared, with the digits that matter.
const FIGURES: [(&str, usize, Of); 7] = [
    ("healed in s", 1, |run| match run.summary.verdict {
        quell_sim::verdict::Verdict::Healed { after } => Some(after.as_secs_f64()),
        _ => None,
    }),
    ("amplification", 2, |run| Some(run.summary.amplification)),
    ("sends/user", 2, |run| Some(run.summary.attempts_per_user)),
    ("wasted %", 0, |run| Some(run.summary.wasted * 100.0)),
    ("goodput after %", 0, |run| Some(run.summary.goodput_after * 100.0)),
    ("p99 ms after", 0, |run| run.summary.phases[2].p99.map(millis)),
    ("work ms/answer", 0, |run| run.cost(0..run.timing.end).work_per_answer.map(millis)),
];

fn pair(a: &Job<'_>, b: &Job<'_>) -> Pair {
    let figures = FIGURES.map(|(figure, _, of)| Figure {
        figure,
        a: Spread::of(a.runs.iter().map(of)),
        b: Spread::of(b.runs.iter().map(of)),
        difference: Spread::of(a.runs.iter().zip(&b.runs).map(|(a, b)| Some(of(b)? - of(a)?))),
    });
    Pair {
        scenario: a.plan.name.clone(),
        a: a.who.word.clone(),
        b: b.who.word.clone(),
        figures: figures.into(),
    }
}

impl Figure {
    fn difference(&self, digits: usize) -> String {
        match (self.difference, self.b) {
            (Some(by), _) => {
                format!("{}{}", if by.median > 0.0 { "+" } else { "" }, by.says(digits))
            }
            // Without a pair there is only where it came to.
            (None, Some(b)) => format!("→ {}", b.says(digits)),
            (None, None) => "–".to_owned(),
        }
    }
}

/// What the others do to the users of the first, scenario by scenario.
pub(super) fn print_against_first(jobs: &[Job<'_>]) {
    for jobs in jobs.chunk_by(|a, b| a.plan.name == b.plan.name) {
        let [first, others @ ..] = jobs else { continue };
        let label = first.who.label();
        let heading = format!("{}: the same users, difference from {label}", first.plan.name);
        let mut table = Table::new(&heading, FIGURES.map(|(name, ..)| name));
        for job in others {
            let figures = pair(first, job).figures;
            let cells = figures
                .iter()
                .zip(FIGURES)
                .map(|(figure, (_, digits, _))| figure.difference(digits));
            table.row(job.who.label(), cells.collect());
        }
        println!("{table}");
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> anyhow::Result<()> {
    let (a, b) = (read(&args.a, &args.how)?, read(&args.b, &args.how)?);
    let (a, b) = (run(&a, &args.how, true)?, run(&b, &args.how, true)?);
    let twin = |job: &Job<'_>| {
        b.iter().find(|twin| twin.plan.name == job.plan.name && twin.who.word == job.who.word)
    };
    let pairs: Vec<_> = a.iter().filter_map(|job| Some((job, pair(job, twin(job)?)))).collect();
    let files = [&args.a, &args.b].map(|path| path.display().to_string());
    ensure!(
        !pairs.is_empty(),
        "{} and {} share no scenario: write the same name and the same against in both",
        files[0],
        files[1]
    );
    if args.json {
        let pairs: Vec<_> = pairs.iter().map(|(_, pair)| pair).collect();
        println!("{}", serde_json::to_string(&pairs)?);
        return Ok(());
    }
    for (job, pair) in pairs {
        let heading = format!("{}, {}", pair.scenario, job.who.label());
        let mut table = Table::new(&heading, [files[0].as_str(), &files[1], "difference"]);
        for (figure, (name, digits, _)) in pair.figures.iter().zip(FIGURES) {
            let says = |spread: Option<Spread>| {
                spread.map_or("–".to_owned(), |spread| spread.says(digits))
            };
            table.row(name, vec![says(figure.a), says(figure.b), figure.difference(digits)]);
        }
        println!("{table}");
    }
    println!("{}; differences are of pairs with the same users", args.how.says());
    Ok(())
}
