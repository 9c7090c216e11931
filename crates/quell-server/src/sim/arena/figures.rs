//! What a rule came to, for machines: the fields that every measurement has.

use quell_sim::arena::{Rule, Standing, worlds::World};
use serde::Serialize;

/// One figure of one rule.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    /// A stable name, such as `arena.won`.
    figure: &'static str,
    controller: &'static str,
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
    let (won, stuck, all) = (standing.won(), standing.stuck(), worlds.len());
    let mut lines = vec![
        line(
            "arena.won",
            won as f64,
            "worlds",
            Some(oracle.won() as f64),
            Some(("≥ 90 % of all", won * 10 >= all * 9)),
        ),
        line("arena.worlds", all as f64, "worlds", None, None),
        line(
            "arena.stuck",
            stuck as f64,
            "worlds",
            Some(oracle.stuck() as f64),
            Some(("0", stuck == 0)),
        ),
    ];
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

#[cfg(test)]
mod tests {
    use quell_sim::arena::{Cell, Judged, worlds};

    use super::*;

    #[test]
    fn figures_have_stable_names_and_only_ours_has_goals() {
        let worlds: Vec<_> = worlds::all().into_iter().take(1).collect();
        let run = Judged { won: true, goodput: 1.0, last: 1.0, ..Judged::default() };
        let cells = vec![Cell::of(&[run]).unwrap()];
        let oracle = Standing { rule: Rule::Oracle, cells: cells.clone() };
        let ours = Standing { rule: Rule::Ours, cells };
        let text = |standing| {
            let lines = lines(standing, &oracle, &worlds);
            lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            text(&ours)[..4],
            [
                r#"{"figure":"arena.won","controller":"ours","value":1.0,"unit":"worlds","against":1.0,"ratio":1.0,"goal":"≥ 90 % of all","met":true}"#,
                r#"{"figure":"arena.worlds","controller":"ours","value":1.0,"unit":"worlds","against":null,"ratio":null,"goal":null,"met":null}"#,
                r#"{"figure":"arena.stuck","controller":"ours","value":0.0,"unit":"worlds","against":0.0,"ratio":null,"goal":"0","met":true}"#,
                r#"{"figure":"arena.goodput_vs_oracle","controller":"ours","of":"median","value":1.0,"unit":"share","against":1.0,"ratio":1.0,"goal":"≥ 0.99","met":true}"#,
            ]
        );
        assert!(text(&oracle).iter().all(|line| line.contains(r#""goal":null"#)));
    }
}
