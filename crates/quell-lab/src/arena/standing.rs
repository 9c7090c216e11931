//! Standing: how a rule did in all worlds.
//!
//! Every world is run with several seeds, and the median seed says what came of it: by whether it was won, then by its worst window.
//! Figures are medians over the seeds. Who is stuck is looked for in every one of them, as once is too often; and beside what the median
//! says stands what every seed says: a median hides the bad day.

use super::{Judged, Rule};

/// What a rule came to in one world, over all seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The run of the median seed.
    pub run: Judged,
    /// Whether it was stuck with any seed.
    pub stuck: bool,
    /// Whether it was won with every seed.
    pub every: bool,
    /// The most that was refused with any seed.
    pub most_refused: f64,
    /// In health: by how much the slowest kind was too slow with any seed; above 1 is too slow.
    pub slower: f64,
    /// The median share of what was achievable, from a second after the trouble on.
    pub goodput: f64,
    /// The median share of requests that were refused before the trouble.
    pub refused: f64,
    /// The median of the 99th percentiles of latency before the trouble, in milliseconds.
    pub p99_before: f64,
    /// The median of attempts that reached the service ÷ users' requests, from the trouble on.
    pub sent: f64,
    /// The median of good answers lost from the trouble's end on.
    pub lost: f64,
}

impl Cell {
    /// Of the runs of all seeds; `None` without any.
    pub fn of(runs: &[Judged]) -> Option<Self> {
        let mut ordered: Vec<_> = runs.iter().collect();
        ordered.sort_by(|a, b| a.won.cmp(&b.won).then(a.worst_window.total_cmp(&b.worst_window)));
        let of = |figure: fn(&Judged) -> f64| median(runs.iter().map(figure).collect());
        Some(Self {
            run: (*ordered.get(ordered.len() / 2)?).clone(),
            stuck: runs.iter().any(Judged::is_stuck),
            every: runs.iter().all(|run| run.won),
            most_refused: runs.iter().map(|run| run.refused).fold(0.0, f64::max),
            slower: runs.iter().map(|run| run.slower).fold(0.0, f64::max),
            goodput: of(|run| run.goodput),
            refused: of(|run| run.refused),
            p99_before: of(|run| run.p99_before),
            sent: of(|run| run.sent),
            lost: of(|run| run.lost),
        })
    }
}

/// How a rule did, world by world.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Which.
    pub rule: Rule,
    /// One per world, in their order.
    pub cells: Vec<Cell>,
}

/// A rule beside the one that knows the number of workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// The median over those worlds that the oracle wins of goodput ÷ the oracle's.
    pub median: f64,
    /// The worst of them.
    pub worst: f64,
    /// In which world that was.
    pub worst_world: usize,
}

impl Standing {
    /// Worlds that it won.
    pub fn won(&self) -> usize {
        self.cells.iter().filter(|cell| cell.run.won).count()
    }

    /// Worlds that it won with every seed: by the worst of them.
    pub fn won_by_worst(&self) -> usize {
        self.cells.iter().filter(|cell| cell.every).count()
    }

    /// The most that was refused in any world with any seed, and in which.
    pub fn most_refused(&self) -> Option<(f64, usize)> {
        let all = self.cells.iter().map(|cell| cell.most_refused).zip(0..);
        all.max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Worlds in which it was stuck with any seed.
    pub fn stuck(&self) -> usize {
        self.cells.iter().filter(|cell| cell.stuck).count()
    }

    /// Goodput against the oracle's where that wins; `None` where it never does.
    pub fn beside(&self, oracle: &Self) -> Option<Beside> {
        let both = self.cells.iter().zip(&oracle.cells).enumerate();
        let mut ratios: Vec<_> = both
            .filter(|(_, (_, oracle))| oracle.run.won)
            .map(|(world, (own, oracle))| (own.goodput / oracle.goodput, world))
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (&(worst, worst_world), &(median, _)) =
            (ratios.first()?, ratios.get(ratios.len() / 2)?);
        Some(Beside { median, worst, worst_world })
    }

    /// The mean over all worlds of the share that was refused before the trouble.
    pub fn refused(&self) -> f64 {
        self.mean(|cell| cell.refused)
    }

    /// The mean over all worlds of attempts that reached the service ÷ users' requests, from the trouble on.
    pub fn sent(&self) -> f64 {
        self.mean(|cell| cell.sent)
    }

    /// Good answers lost in all worlds, from their troubles' ends on.
    pub fn lost(&self) -> f64 {
        self.cells.iter().map(|cell| cell.lost).sum()
    }

    /// How much longer than under the oracle the 99th percentile is before the trouble, in milliseconds: the median and the most
    /// over all worlds.
    pub fn p99_added(&self, oracle: &Self) -> (f64, f64) {
        let both = self.cells.iter().zip(&oracle.cells);
        let added: Vec<_> = both.map(|(own, oracle)| own.p99_before - oracle.p99_before).collect();
        let most = added.iter().copied().fold(f64::MIN, f64::max);
        (median(added), most)
    }

    fn mean(&self, figure: impl Fn(&Cell) -> f64) -> f64 {
        self.cells.iter().map(figure).sum::<f64>() / self.cells.len().max(1) as f64
    }
}

/// The middle one, the upper of two; 0 of nothing.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(won: bool, goodput: f64) -> Judged {
        Judged { won, goodput, worst_window: goodput, last: goodput, ..Judged::default() }
    }

    fn standing(runs: &[(bool, f64)]) -> Standing {
        let cells = runs.iter().map(|&(won, goodput)| Cell::of(&[run(won, goodput)]).unwrap());
        Standing { rule: Rule::Ours, cells: cells.collect() }
    }

    #[test]
    fn the_median_seed_says_whether_a_world_is_won() {
        let of =
            |runs: [(bool, f64); 3]| Cell::of(&runs.map(|(won, good)| run(won, good))).unwrap();
        assert!(of([(true, 0.9), (false, 0.99), (true, 0.96)]).run.won);
        assert!(!of([(false, 0.9), (false, 0.99), (true, 0.96)]).run.won);
        let once = of([(true, 1.0), (true, 1.0), (false, 0.4)]);
        assert!(once.run.won && once.stuck, "being stuck once is too often");
        assert!(!once.every && of([(true, 0.96); 3]).every, "and so is being lost once");
        assert_eq!(once.goodput, 1.0);
        assert_eq!(Cell::of(&[]), None);
    }

    #[test]
    fn goodput_counts_where_the_oracle_wins() {
        let oracle = standing(&[(true, 1.0), (true, 0.8), (false, 0.1), (true, 1.0)]);
        let own = standing(&[(true, 0.9), (true, 0.8), (true, 1.0), (false, 0.5)]);
        assert_eq!((own.won(), own.stuck(), oracle.stuck()), (3, 0, 1));
        let beside = Beside { median: 0.9, worst: 0.5, worst_world: 3 };
        assert_eq!(own.beside(&oracle), Some(beside));
        assert_eq!(own.beside(&standing(&[(false, 0.1)])), None);
    }
}
