//! `quell-lab validate`: the simulator against what is known.

use std::fmt::Write as _;

use anyhow::Context;
use quell_lab::validate::{Row, Size, all};
use serde::Serialize;

/// Where `--write` puts the page.
const PAGE: &str = "docs/validation.md";

/// Simulates what theory and others' experiments have answers for, and compares.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A shorter run with wider tolerances, as the tests do it
    #[arg(long)]
    quick: bool,
    /// Print one JSON line per row
    #[arg(long)]
    json: bool,
    /// Write the table to docs/validation.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

/// A row for machines, with the fields that every measurement has.
#[derive(Serialize)]
struct Figure<'a> {
    figure: String,
    value: f64,
    unit: &'static str,
    against: Option<f64>,
    ratio: Option<f64>,
    goal: &'a str,
    met: bool,
    tolerance: &'a str,
    source: &'a str,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> anyhow::Result<()> {
    let rows = all(if args.quick { Size::Quick } else { Size::Full })?;
    if args.write {
        std::fs::write(PAGE, page(&rows)).with_context(|| format!("cannot write {PAGE}"))?;
    }
    if args.json {
        for row in &rows {
            println!("{}", serde_json::to_string(&figure(row))?);
        }
    } else {
        print!("{}", table(&rows));
    }
    Ok(())
}

fn figure(row: &Row) -> Figure<'_> {
    let words =
        row.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(str::to_lowercase).collect();
    let right = row.expected.parse().ok();
    Figure {
        figure: format!("sim.validation.{}", words.join("_")),
        value: row.got,
        unit: "",
        against: right,
        ratio: right.filter(|right| *right != 0.0).map(|right: f64| row.got / right),
        goal: &row.expected,
        met: row.ok,
        tolerance: &row.tolerance,
        source: row.source,
    }
}

fn table(rows: &[Row]) -> String {
    let widest = |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).chars().count()).max();
    let (name, right) = (widest(|row| &row.name), widest(|row| &row.expected));
    let (name, right) = (name.unwrap_or(0), right.unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let (got, ok) = (short(row.got), verdict(row));
        let _ = writeln!(
            text,
            "{:<name$}  {:>right$}  {got:>9}  {:>6}  {ok}",
            row.name, row.expected, row.tolerance
        );
    }
    let good = rows.iter().filter(|row| row.ok).count();
    let _ = writeln!(text, "\n{good} of {} as expected", rows.len());
    text
}

fn page(rows: &[Row]) -> String {
    let mut text = String::from(
        "# Validation\n\nWhat the simulator says where the right answer is known. Made by `cargo xtask lab validate --write`; do not edit. The same on every \
         machine; a cut-down size runs with the tests.\n\n| case | source | expected | got | tolerance | |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (got, ok) = (short(row.got), verdict(row));
        let Row { name, source, expected, tolerance, .. } = row;
        let _ = writeln!(text, "| {name} | {source} | {expected} | {got} | {tolerance} | {ok} |");
    }
    let remarks: Vec<_> = rows.iter().filter(|row| !row.remark.is_empty()).collect();
    if !remarks.is_empty() {
        text.push_str("\n## Where a text and its code differ\n\n");
    }
    for row in remarks {
        let _ = writeln!(text, "- {}: {}.", row.name, row.remark);
    }
    text
}

fn verdict(row: &Row) -> &'static str {
    if row.ok { "ok" } else { "WRONG" }
}

/// Four figures that matter, or a whole number.
fn short(number: f64) -> String {
    if number.fract() == 0.0 || number.abs() >= 1_000.0 {
        return format!("{number:.0}");
    }
    let digits = 3 - (number.abs().log10().floor() as i32).clamp(-6, 3);
    format!("{number:.*}", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ok: bool) -> Row {
        Row {
            name: "M/M/1 at ρ = 0.5: wait".into(),
            source: "Erlang",
            expected: "10".into(),
            got: 10.25,
            tolerance: "2 %".into(),
            ok,
            remark: "the code differs",
        }
    }

    #[test]
    fn the_page_shows_every_row_and_where_texts_differ() {
        let page = page(&[row(true), row(false)]);
        assert!(
            page.contains("| M/M/1 at ρ = 0.5: wait | Erlang | 10 | 10.25 | 2 % | ok |"),
            "{page}"
        );
        assert!(page.contains("| WRONG |"), "{page}");
        assert!(page.contains("- M/M/1 at ρ = 0.5: wait: the code differs."), "{page}");
    }

    #[test]
    fn a_row_for_machines_has_a_stable_name() {
        let row = row(true);
        let figure = figure(&row);
        assert_eq!(figure.figure, "sim.validation.m_m_1_at_0_5_wait");
        assert_eq!(figure.ratio, Some(1.025));
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.40918, 1.0526, 12.345, 8_603.466].map(short);
        assert_eq!(shown, ["0", "0.4092", "1.053", "12.35", "8603"]);
    }
}
