//! What rules came to, for people: one row per rule, or one per world.

use quell_charts::{Table, number::thousands};
use quell_lab::arena::{Cell, Edition, Standing, worlds::World};

/// Not a number that says anything.
const NONE: &str = "–";

/// One row per rule.
pub(super) fn table(
    edition: Edition,
    shown: &[&Standing],
    oracle: &Standing,
    worlds: &[World],
) -> Table {
    let heading = format!("arena, {}", edition.as_str());
    if edition == Edition::Health {
        return health(&heading, shown, worlds);
    }
    let columns = [
        "won",
        "with every seed",
        "stuck",
        "goodput/oracle",
        "worst",
        "refused healthy",
        "p99 added ms",
        "sent/user",
        "answers lost",
        "worst in",
    ];
    let mut table = Table::new(&heading, columns);
    for standing in shown {
        let beside = standing.beside(oracle);
        let share = |share: Option<f64>| share.map_or(NONE.into(), |share| format!("{share:.3}"));
        let (p99, _) = standing.p99_added(oracle);
        let worst = beside.and_then(|beside| worlds.get(beside.worst_world));
        table.row(
            standing.rule.as_str(),
            vec![
                format!("{} of {}", standing.won(), worlds.len()),
                standing.won_by_worst().to_string(),
                standing.stuck().to_string(),
                share(beside.map(|beside| beside.median)),
                share(beside.map(|beside| beside.worst)),
                format!("{:.2} %", standing.refused() * 100.0),
                format!("{:.0}", p99 + 0.0), // no minus before a zero
                format!("{:.2}", standing.sent()),
                thousands(standing.lost()),
                worst.map_or(NONE.into(), |world| world.name.clone()),
            ],
        );
    }
    table
}

fn health(heading: &str, shown: &[&Standing], worlds: &[World]) -> Table {
    let columns =
        ["clean", "with every seed", "refused", "most refused", "in", "p99 of allowed", "in"];
    let mut table = Table::new(heading, columns);
    for standing in shown {
        let name = |world: usize| worlds.get(world).map_or(NONE.into(), |world| world.name.clone());
        let (most, most_in) = standing.most_refused().unwrap_or_default();
        let slower = standing.cells.iter().map(|cell| cell.slower).zip(0..);
        let (slower, slower_in) = slower.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        table.row(
            standing.rule.as_str(),
            vec![
                format!("{} of {}", standing.won(), worlds.len()),
                standing.won_by_worst().to_string(),
                format!("{:.3} %", standing.refused() * 100.0),
                format!("{:.2} %", most * 100.0),
                name(most_in),
                format!("{slower:.2}"),
                name(slower_in),
            ],
        );
    }
    table
}

/// One row per world.
pub(super) fn detail(edition: Edition, standing: &Standing, worlds: &[World]) -> Table {
    let columns = match edition {
        Edition::Health => {
            ["", "every", "goodput", "refused", "p99 ms", "p99 of allowed", "sent/user", "why"]
        }
        _ => ["", "every", "window", "goodput", "refused", "p99 ms", "sent/user", "why"],
    };
    let mut table = Table::new(standing.rule.as_str(), columns);
    for (world, cell) in worlds.iter().zip(&standing.cells) {
        let word = match (edition, cell.run.won, cell.stuck) {
            (Edition::Health, true, _) => "clean",
            (Edition::Health, false, _) => "REFUSES",
            (_, _, true) => "STUCK",
            (_, true, _) => "won",
            (_, false, _) => "lost",
        };
        let (goodput, refused) =
            (format!("{:.3}", cell.goodput), format!("{:.3} %", cell.refused * 100.0));
        let p99 = format!("{:.0}", cell.p99_before);
        let middle = match edition {
            Edition::Health => [goodput, refused, p99, format!("{:.2}", cell.slower)],
            _ => [format!("{:.3}", cell.run.worst_window), goodput, refused, p99],
        };
        let every = if cell.every { "yes" } else { "no" };
        let first = [word.to_owned(), every.to_owned()].into_iter();
        let last = [format!("{:.2}", cell.sent), why(cell)];
        table.row(&world.name, first.chain(middle).chain(last).collect());
    }
    table
}

/// Why callers were turned away, in the run of the median seed.
fn why(cell: &Cell) -> String {
    let left = ("left_queued", cell.run.left_queued);
    let reasons = cell.run.reasons.iter().map(|(reason, count)| (reason.as_str(), *count));
    let told = reasons.chain([left]).filter(|(_, count)| *count > 0);
    let told: Vec<_> = told.map(|(why, count)| format!("{why} {count}")).collect();
    if told.is_empty() { NONE.into() } else { told.join(", ") }
}
