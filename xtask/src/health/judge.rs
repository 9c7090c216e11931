//! What the worlds say, and whether the promise was kept.
//!
//! **How.** In a world that keeps the promise, of a million good calls at most a hundred are lost (a thousand beside somebody
//! hostile), and in every class the slowest of a hundred good calls takes at most a tenth and 5 ms longer than through nginx.
//! What the machine itself has one wake-up in a hundred wait is granted as well. Where it stood still, latencies are its own
//! and not judged; who was lost is lost all the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{figure::Figure, runs::LATE};

/// Of a million good calls, how many may be lost.
const LOST: f64 = 100.0;
/// The same beside somebody who is hostile.
const LOST_BESIDE_HOSTILE: f64 = 1_000.0;
/// How much slower than nginx the slowest of a hundred may be: times so much, and milliseconds more.
const SLOWER: f64 = 1.1;
const MORE_MS: f64 = 5.0;
/// A machine that is as busy as this may be why calls are slow.
const BUSY_MS: f64 = 2.0;

/// A world, as the lab lists it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct World {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) seconds: u64,
    pub(super) endpoints: usize,
    pub(super) h2c: bool,
    pub(super) light: bool,
    pub(super) short: bool,
    pub(super) saturated: bool,
    pub(super) hostile: bool,
}

/// What the lab says of a run.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) late_s: f64,
    /// What one in a hundred wake-ups was late, beyond what timers are late by themselves.
    busy_ms: f64,
    pub(super) sides: Vec<Side>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Side {
    proxy: String,
    classes: Vec<Class>,
}

/// The callers of one kind.
#[derive(Debug, Deserialize)]
pub(super) struct Class {
    class: String,
    who: String,
    requests: u64,
    left: u64,
    lost: u64,
    reasons: BTreeMap<String, u64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// A world that was run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) world: World,
    pub(super) report: Report,
}

/// A figure of a world, or of one class in it.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    #[serde(flatten)]
    pub(super) figure: Figure,
    pub(super) world: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<&'a str>,
    /// Why good calls were lost.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) reasons: BTreeMap<&'a str, u64>,
}

/// Good calls, and how many of them were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Good {
    requests: u64,
    lost: u64,
}

impl Good {
    fn per_million(self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.lost as f64 * 1e6 / self.requests as f64 }
    }

    fn and(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, lost: self.lost + other.lost }
    }
}

impl Side {
    fn good(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().filter(|class| class.who == "good")
    }

    fn sum(&self) -> Good {
        self.good().fold(Good::default(), |sum, class| {
            sum.and(Good { requests: class.requests, lost: class.lost })
        })
    }
}

/// The 99th percentiles of one class, through Quell and through nginx.
#[derive(Debug, Clone, Copy)]
struct Pair {
    ours: f64,
    theirs: f64,
    /// The middle ones of both.
    middle: Option<(f64, f64)>,
    /// What the machine had them wait for.
    busy: f64,
}

impl Pair {
    fn most(self) -> f64 {
        SLOWER * self.theirs + MORE_MS + self.busy
    }

    fn kept(self) -> bool {
        self.ours <= self.most()
    }

    /// Ours, less what is granted in any case, ÷ theirs: the promise is kept up to 1.1.
    fn ratio(self) -> f64 {
        (self.ours - MORE_MS - self.busy).max(0.0) / self.theirs.max(0.001)
    }
}

impl Outcome {
    fn side(&self, name: &str) -> Option<&Side> {
        self.report.sides.iter().find(|side| side.proxy == name)
    }

    fn good(&self, proxy: &str) -> Good {
        self.side(proxy).map_or(Good::default(), Side::sum)
    }

    /// Whether latencies are those of the proxies, and not of a machine that had too much to do.
    fn in_time(&self) -> bool {
        !self.world.saturated && self.report.late_s <= LATE
    }

    fn most_lost(&self) -> f64 {
        if self.world.hostile { LOST_BESIDE_HOSTILE } else { LOST }
    }

    /// The percentiles of good classes that both answered.
    fn pairs(&self) -> Vec<(&Class, Pair)> {
        let busy = self.report.busy_ms;
        let pair = |class: &Class| {
            let mut others = self.side("nginx")?.good();
            let other = others.find(|other| other.class == class.class)?;
            let (ours, theirs) = (class.p99_ms?, other.p99_ms?);
            Some(Pair { ours, theirs, middle: class.p50_ms.zip(other.p50_ms), busy })
        };
        let good = self.side("quell").into_iter().flat_map(Side::good);
        good.filter_map(|class| Some((class, pair(class)?))).collect()
    }

    /// Whether the machine may be to blame: it stood still, or it was busy and calls were slow, but none too many lost.
    pub(super) fn spoiled(&self) -> bool {
        let Report { late_s, busy_ms, .. } = self.report;
        let slow = || self.loss().is_none() && !self.slow().is_empty();
        !self.world.saturated && (late_s > LATE || busy_ms > BUSY_MS && slow())
    }

    /// Where the promise was not kept, in words.
    pub(super) fn broken(&self) -> Vec<String> {
        self.loss().into_iter().chain(self.slow()).collect()
    }

    /// More were lost than may be.
    fn loss(&self) -> Option<String> {
        let good = self.good("quell");
        match good.requests {
            0 => Some("nobody called".into()),
            requests => (good.per_million() > self.most_lost())
                .then(|| format!("{} of {requests} good calls lost", good.lost)),
        }
    }

    /// Classes that took longer than they may, where that can be said.
    fn slow(&self) -> Vec<String> {
        let judged = if self.in_time() { self.pairs() } else { Vec::new() };
        let slow = judged.into_iter().filter(|(_, pair)| !pair.kept());
        slow.map(|(Class { class, .. }, pair)| {
            let Pair { ours, .. } = pair;
            format!("p99 of {class} is {ours:.1} ms, and {:.1} ms is the most", pair.most())
        })
        .collect()
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let World { name, about, .. } = &self.world;
        let mut text = format!("{name}: {about}\n");
        text += &format!(
            "  {:<10} {:<7} {:<6} {:>8} {:>7} {:>7} {:>9} {:>9}  why lost\n",
            "class", "who", "proxy", "requests", "left", "lost", "p50 ms", "p99 ms"
        );
        let number = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.1}"));
        let classes = |side: &Side| side.classes.len();
        for row in 0..self.report.sides.iter().map(classes).max().unwrap_or(0) {
            for side in &self.report.sides {
                let Some(class) = side.classes.get(row) else { continue };
                let why: Vec<_> =
                    class.reasons.iter().map(|(why, n)| format!("{why} {n}")).collect();
                text += &format!(
                    "  {:<10} {:<7} {:<6} {:>8} {:>7} {:>7} {:>9} {:>9}  {}\n",
                    class.class,
                    class.who,
                    side.proxy,
                    class.requests,
                    class.left,
                    class.lost,
                    number(class.p50_ms),
                    number(class.p99_ms),
                    why.join(", ")
                );
            }
        }
        let broken = self.broken();
        text += &match broken.is_empty() {
            true => "  the promise was KEPT\n".to_owned(),
            false => format!("  the promise was BROKEN: {}\n", broken.join("; ")),
        };
        let Report { late_s, busy_ms, .. } = self.report;
        if self.world.saturated {
            text += "  the machine is what is slow here: nothing is said of latencies\n";
        } else if !self.in_time() {
            text +=
                &format!("  the machine was {late_s:.2} s late: nothing is said of latencies\n");
        } else if busy_ms > BUSY_MS {
            text += &format!("  the machine was busy: {busy_ms:.1} ms are granted for that\n");
        }
        text
    }

    /// For machines.
    pub(super) fn lines(&self) -> Vec<Line<'_>> {
        let mut reasons = BTreeMap::new();
        for class in self.side("quell").into_iter().flat_map(Side::good) {
            for (why, count) in &class.reasons {
                *reasons.entry(why.as_str()).or_default() += count;
            }
        }
        let (ours, theirs) = (self.good("quell"), self.good("nginx"));
        let line =
            |figure, class, reasons| Line { figure, world: &self.world.name, class, reasons };
        let most = self.most_lost();
        let mut lines = vec![line(
            Figure {
                figure: "health.world.refused_per_million".into(),
                value: ours.per_million(),
                unit: format!("of {} good calls", ours.requests),
                against: Some(theirs.per_million()),
                ratio: None,
                goal: Some(format!("at most {most:.0}")),
                met: Some(ours.requests > 0 && ours.per_million() <= most),
            },
            None,
            reasons,
        )];
        for (name, value, unit) in
            [("late_s", self.report.late_s, "s"), ("busy_ms", self.report.busy_ms, "ms")]
        {
            let figure = format!("health.world.{name}");
            let figure = Figure { figure, value, unit: unit.into(), ..Figure::default() };
            lines.push(line(figure, None, BTreeMap::new()));
        }
        for (class, pair) in self.pairs() {
            let judged = self.in_time();
            let figure = Figure {
                figure: "health.world.p99_ms".into(),
                value: pair.ours,
                unit: "ms".into(),
                against: Some(pair.theirs),
                ratio: (pair.theirs > 0.0).then(|| pair.ours / pair.theirs),
                goal: judged.then(|| format!("at most {:.1}", pair.most())),
                met: judged.then(|| pair.kept()),
            };
            lines.push(line(figure, Some(&class.class), BTreeMap::new()));
            let middle = pair.middle.map(|(ours, theirs)| Figure {
                figure: "health.world.p50_ms".into(),
                value: ours,
                unit: "ms".into(),
                against: Some(theirs),
                ratio: (theirs > 0.0).then(|| ours / theirs),
                ..Figure::default()
            });
            lines.extend(middle.map(|figure| line(figure, Some(&class.class), BTreeMap::new())));
        }
        lines
    }
}

/// What all worlds say together.
pub(super) fn sums(outcomes: &[Outcome]) -> Vec<Figure> {
    let kept = outcomes.iter().filter(|outcome| outcome.broken().is_empty()).count();
    let figure = |name: &str, value: f64, unit: &str, goal: String, met: bool| Figure {
        figure: format!("health.{name}"),
        value,
        unit: unit.into(),
        goal: Some(goal),
        met: Some(met),
        ..Figure::default()
    };
    let all = outcomes.len();
    let mut worlds =
        figure("worlds", kept as f64, "worlds kept", format!("all {all}"), kept == all);
    worlds.against = Some(all as f64);
    let sum = |proxy: &str| {
        outcomes.iter().map(|outcome| outcome.good(proxy)).fold(Good::default(), Good::and)
    };
    let lost = sum("quell").per_million();
    let mut refused = figure(
        "refused_per_million",
        lost,
        "of good calls",
        format!("at most {LOST:.0}"),
        lost <= LOST,
    );
    refused.against = Some(sum("nginx").per_million());
    let mut figures = vec![worlds, refused];
    let judged = outcomes.iter().filter(|outcome| outcome.in_time());
    let pairs = judged.flat_map(Outcome::pairs);
    let mut ratios: Vec<_> = pairs.map(|(_, pair)| pair.ratio()).collect();
    ratios.sort_by(f64::total_cmp);
    let goal = || format!("at most {SLOWER}");
    let unit = "p99 less 5 ms, of nginx's";
    if let (Some(worst), Some(median)) = (ratios.last(), ratios.get(ratios.len() / 2)) {
        figures.push(figure("p99_vs_nginx", *worst, unit, goal(), *worst <= SLOWER));
        figures.push(figure("p99_vs_nginx_median", *median, unit, goal(), *median <= SLOWER));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world with one class of good calls: (lost, p99) through Quell and through nginx.
    fn outcome(hostile: bool, late_s: f64, [ours, theirs]: [(u64, f64); 2]) -> Outcome {
        let side = |proxy: &str, (lost, p99): (u64, f64)| {
            let class = |name: &str, who: &str, lost| Class {
                class: name.into(),
                who: who.into(),
                requests: 10_000,
                left: 0,
                lost,
                reasons: BTreeMap::from([("queue_full".into(), lost)]),
                p50_ms: Some(5.0),
                p99_ms: Some(p99),
            };
            let classes = vec![class("fast", "good", lost), class("gone", "other", 9_000)];
            Side { proxy: proxy.into(), classes }
        };
        let world = World {
            name: "mixed".into(),
            about: String::new(),
            seconds: 20,
            endpoints: 1,
            h2c: false,
            light: true,
            short: false,
            saturated: false,
            hostile,
        };
        let sides = vec![side("quell", ours), side("nginx", theirs)];
        Outcome { world, report: Report { late_s, busy_ms: 0.0, sides } }
    }

    #[test]
    fn one_in_ten_thousand_may_be_lost_and_ten_beside_somebody_hostile() {
        let lost = |hostile, lost| outcome(hostile, 0.0, [(lost, 8.0), (0, 8.0)]).broken();
        assert_eq!(lost(false, 1), [""; 0]);
        assert_eq!(lost(false, 2), ["2 of 10000 good calls lost"]);
        assert_eq!(lost(true, 10), [""; 0]);
        assert_eq!(lost(true, 11).len(), 1);
    }

    #[test]
    fn a_tenth_and_five_milliseconds_more_than_nginx_is_kept_and_more_is_not() {
        let at = |late, ours| outcome(false, late, [(0, ours), (0, 100.0)]).broken();
        assert_eq!(at(0.0, 115.0), [""; 0]);
        assert_eq!(at(0.0, 115.2), ["p99 of fast is 115.2 ms, and 115.0 ms is the most"]);
        assert_eq!(at(LATE + 0.01, 500.0), [""; 0], "the machine's own latency");
    }

    #[test]
    fn a_busy_machine_is_granted_its_time_and_only_slow_calls_are_tried_again() {
        let busy = |ms, lost, ours| {
            let mut outcome = outcome(false, 0.0, [(lost, ours), (0, 100.0)]);
            outcome.report.busy_ms = ms;
            (outcome.broken().len(), outcome.spoiled())
        };
        assert_eq!(busy(10.0, 0, 125.0), (0, false));
        assert_eq!(busy(10.0, 0, 126.0), (1, true));
        assert_eq!(busy(1.0, 0, 126.0), (1, false), "not the machine");
        assert_eq!(busy(10.0, 50, 126.0), (2, false), "the lost are not the machine's");
        assert!(outcome(false, LATE + 0.01, [(50, 8.0), (0, 8.0)]).spoiled());
    }

    #[test]
    fn figures_name_world_class_and_reasons_of_good_callers_only() {
        let outcome = outcome(false, 0.0, [(20, 8.0), (0, 10.0)]);
        let lines: Vec<_> =
            outcome.lines().iter().map(|line| serde_json::to_value(line).unwrap()).collect();
        assert_eq!(lines[0]["figure"], "health.world.refused_per_million");
        assert_eq!((&lines[0]["value"], &lines[0]["met"]), (&2_000.0.into(), &false.into()));
        assert_eq!(lines[0]["reasons"], serde_json::json!({ "queue_full": 20 }));
        assert_eq!((&lines[3]["class"], &lines[3]["ratio"]), (&"fast".into(), &0.8.into()));
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn sums_are_of_all_worlds() {
        let outcomes = [
            outcome(false, 0.0, [(0, 105.0), (0, 100.0)]),
            outcome(false, 0.0, [(1, 25.0), (0, 10.0)]),
            outcome(false, 1.0, [(8, 900.0), (0, 10.0)]),
        ];
        let sums = sums(&outcomes);
        let values: Vec<_> = sums.iter().map(|sum| (sum.value, sum.met)).collect();
        let (kept, lost) = ((1.0, Some(false)), (300.0, Some(false)));
        assert_eq!(values, [kept, lost, (2.0, Some(false)), (2.0, Some(false))]);
        assert_eq!(sums[0].against, Some(3.0));
    }
}
