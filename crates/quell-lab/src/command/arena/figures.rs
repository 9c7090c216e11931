//! What a rule came to, for machines: the fields that every measurement has.

use quell_lab::arena::{Edition, Rule, Standing, worlds::World};
use serde::Serialize;

/// One figure of one rule.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    /// A stable name, such as `arena.won`.
    figure: &'static str,
    controller: &'static str,
    edition: &'static str,
    /// Which of several worlds it is of, where that matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    world: Option<&'a str>,
    value: f64,
    unit: &'static str,
    /// The oracle's.
    against: Option<f64>,
    ratio: Option<f64>,
    goal: Option<&'static str>,
    met: Option<bool>,
}

/// All figures of a rule. Only ours has goals.
pub(super) fn lines<'a>(
    edition: Edition,
    standing: &Standing,
    oracle: &Standing,
    worlds: &'a [World],
) -> Vec<Line<'a>> {
    let ours = standing.rule == Rule::Ours;
    let line = |figure, value: f64, unit, against: Option<f64>, goal: Option<(_, bool)>| {
        let goal = goal.filter(|_| ours);
        Line {
            figure,
            controller: standing.rule.as_str(),
            edition: edition.as_str(),
            of: None,
            world: None,
            value,
            unit,
            against,
            ratio: against.filter(|against| *against != 0.0).map(|against| value / against),
            goal: goal.map(|(goal, _)| goal),
            met: goal.map(|(_, met)| met),
        }
    };
    let (won, every, stuck) = (standing.won(), standing.won_by_worst(), standing.stuck());
    let all = worlds.len();
    let (name, goal) = match edition {
        Edition::Old => ("arena.won", ("≥ 90 % of all", won * 10 >= all * 9)),
        Edition::Mixed => ("arena.mixed_won", ("≥ the oracle's", won >= oracle.won())),
        Edition::Health => ("arena.health_clean", ("all", won == all)),
    };
    let worst = oracle.won_by_worst() as f64;
    let mut lines = vec![
        line(name, won as f64, "worlds", Some(oracle.won() as f64), Some(goal)),
        Line { of: Some("every seed"), ..line(name, every as f64, "worlds", Some(worst), None) },
        line("arena.worlds", all as f64, "worlds", None, None),
    ];
    if edition == Edition::Health {
        lines.extend(health(standing, worlds, line));
        return lines;
    }
    lines.push(line(
        "arena.stuck",
        stuck as f64,
        "worlds",
        Some(oracle.stuck() as f64),
        Some(("0", stuck == 0)),
    ));
    if let Some(beside) = standing.beside(oracle) {
        let goodput = |of, value, goal| Line {
            of: Some(of),
            ..line("arena.goodput_vs_oracle", value, "share", Some(1.0), Some(goal))
        };
        lines.push(goodput("median", beside.median, ("≥ 0.99", beside.median >= 0.99)));
        let worst = goodput("worst", beside.worst, ("≥ 0.9", beside.worst >= 0.9));
        let world = worlds.get(beside.worst_world).map(|world| world.name.as_str());
        lines.push(Line { world, ..worst });
    }
    let (median, most) = standing.p99_added(oracle);
    let p99 = |of, value| Line { of: Some(of), ..line("arena.p99_added", value, "ms", None, None) };
    lines.extend([
        line("arena.refused_healthy", standing.refused(), "share", Some(oracle.refused()), None),
        p99("median", median),
        p99("worst", most),
        line("arena.sent_per_user", standing.sent(), "attempts", Some(oracle.sent()), None),
        line("arena.answers_lost", standing.lost(), "answers", Some(oracle.lost()), None),
    ]);
    lines
}

/// What healthy worlds came to beyond how many are clean.
fn health<'a>(
    standing: &Standing,
    worlds: &'a [World],
    line: impl Fn(
        &'static str,
        f64,
        &'static str,
        Option<f64>,
        Option<(&'static str, bool)>,
    ) -> Line<'a>,
) -> Vec<Line<'a>> {
    let name = |world: usize| worlds.get(world).map(|world| world.name.as_str());
    let slower = standing.cells.iter().map(|cell| cell.slower).zip(0..);
    let slower = slower.max_by(|a, b| a.0.total_cmp(&b.0));
    let mut lines = vec![line("arena.refused_healthy", standing.refused(), "share", None, None)];
    if let Some((most, world)) = standing.most_refused() {
        let most = line("arena.refused_healthy", most, "share", None, None);
        lines.push(Line { of: Some("worst"), world: name(world), ..most });
    }
    if let Some((slower, world)) = slower {
        let goal = Some(("≤ 1", slower <= 1.0));
        let p99 = line("arena.health_p99", slower, "of allowed", None, goal);
        lines.push(Line { of: Some("worst"), world: name(world), ..p99 });
    }
    lines
}

#[cfg(test)]
mod tests {
    use quell_lab::arena::{Cell, Judged, worlds};

    use super::*;

    #[test]
    fn figures_have_stable_names_and_only_ours_has_goals() {
        let worlds: Vec<_> = worlds::all().into_iter().take(1).collect();
        let run = Judged { won: true, goodput: 1.0, last: 1.0, ..Judged::default() };
        let cells = vec![Cell::of(&[run]).unwrap()];
        let oracle = Standing { rule: Rule::Oracle, cells: cells.clone() };
        let ours = Standing { rule: Rule::Ours, cells };
        let text = |standing| {
            let lines = lines(Edition::Old, standing, &oracle, &worlds);
            lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            text(&ours)[..5],
            [
                r#"{"figure":"arena.won","controller":"ours","edition":"old","value":1.0,"unit":"worlds","against":1.0,"ratio":1.0,"goal":"≥ 90 % of all","met":true}"#,
                r#"{"figure":"arena.won","controller":"ours","edition":"old","of":"every seed","value":1.0,"unit":"worlds","against":1.0,"ratio":1.0,"goal":null,"met":null}"#,
                r#"{"figure":"arena.worlds","controller":"ours","edition":"old","value":1.0,"unit":"worlds","against":null,"ratio":null,"goal":null,"met":null}"#,
                r#"{"figure":"arena.stuck","controller":"ours","edition":"old","value":0.0,"unit":"worlds","against":0.0,"ratio":null,"goal":"0","met":true}"#,
                r#"{"figure":"arena.goodput_vs_oracle","controller":"ours","edition":"old","of":"median","value":1.0,"unit":"share","against":1.0,"ratio":1.0,"goal":"≥ 0.99","met":true}"#,
            ]
        );
        assert!(text(&oracle).iter().all(|line| line.contains(r#""goal":null"#)));
    }
}
