//! The kinds of requests of a scenario, each by its name.

use quell::core::Priority;
use quell_sim::{
    dist::Dist,
    scenario::{Arrivals, HangUps, Kind, Side, Together},
};

use super::{
    faults,
    scenario::{arrivals, arriving},
    time::{curve, needed, spread},
};
use crate::config::{fields::Fields, read::Rate};

/// Reads `[scenario.NAME.kind.*]`; shares are of `load`. Whatever is wrong was told to the fields.
pub(super) fn read(fields: &Fields<'_>, load: Option<f64>) -> Vec<Kind> {
    let named = fields.named("kind");
    if named.is_empty() && fields.has("kind") {
        fields
            .wrong("kind", "has no kind in it: write one such as [scenario.x.kind.quick], or none");
    }
    let names: Vec<_> = named.iter().map(|(name, _)| name.clone()).collect();
    named.iter().filter_map(|(name, inside)| kind(name, inside, load, &names)).collect()
}

fn kind(name: &str, fields: &Fields<'_>, whole: Option<f64>, names: &[String]) -> Option<Kind> {
    let time = spread(fields, "time");
    if !fields.has("time") {
        fields.wrong("time", "is missing: write how long a request takes, such as \"100ms\"");
    }
    let mut kind = Kind::new(name, 1.0, time.clone().unwrap_or(Dist::Constant(FALLBACK)));
    kind.arrivals = arrivals(fields).unwrap_or(Arrivals::Random);
    let load = load(fields, &kind, whole);
    kind.load = load.unwrap_or(1.0);
    kind.drift = curve(fields, "drift").unwrap_or_default();
    kind.upload = spread(fields, "upload");
    kind.patience = spread(fields, "patience").unwrap_or(kind.patience);
    fields.set("waits", &mut kind.waits);
    fields.set("fails", &mut kind.fails);
    fields.set("throttled", &mut kind.throttled);
    kind.faults = faults::all(fields);
    kind.hang_ups = fields.table("hang_ups").and_then(|table| hang_ups(&table));
    kind.together = fields.table("together").and_then(|table| together(&table));
    fields.set("retries", &mut kind.retries);
    let sides = [("good", Side::Good), ("other", Side::Other), ("hostile", Side::Hostile)];
    kind.side = fields.word("side", &sides).unwrap_or_default();
    fields.set("callers", &mut kind.callers);
    kind.credential = fields.get::<u32>("credential").map_or(0, u64::from);
    let priorities = [
        ("sheddable", Priority::Sheddable),
        ("default", Priority::Default),
        ("critical", Priority::Critical),
    ];
    kind.priority = fields.word("priority", &priorities).unwrap_or_default();
    // By the number that the other has if it says nothing itself.
    let alike = fields.reference("like", "kind", names.iter());
    let place = alike.and_then(|alike| names.iter().position(|name| *name == alike));
    kind.class = place.map(|place| place as u64 + 1);
    time?;
    load?;
    if let Err(error) = kind.check() {
        fields.invalid(&error.to_string().trim_start_matches("kind."));
    }
    Some(kind)
}

/// What stands in for a time that is wrong, until that is told.
const FALLBACK: core::time::Duration = core::time::Duration::from_millis(100);

/// Requests per second: as written, as a share of the scenario's, or as they arrive.
fn load(fields: &Fields<'_>, kind: &Kind, whole: Option<f64>) -> Option<f64> {
    let share = fields.get::<f64>("share");
    let written = fields.get::<Rate>("load").map(|Rate(load)| load);
    if fields.has("share") {
        if fields.has("load") {
            fields.wrong("share", "says again what load says: write one of them");
            return None;
        }
        let Some(whole) = whole else {
            fields.wrong("share", "is a share of nothing: write load in the scenario too");
            return None;
        };
        return share.map(|share| share * whole);
    }
    match arriving(&kind.arrivals, kind.mean()) {
        _ if fields.has("load") => written,
        Some(load) => Some(load),
        None => {
            let fix = "is missing: write requests per second, such as \"300/s\", or share = 0.1";
            fields.wrong("load", fix);
            None
        }
    }
}

fn hang_ups(fields: &Fields<'_>) -> Option<HangUps> {
    let (share, after) = (needed(fields, "share"), spread(fields, "after"));
    if !fields.has("after") {
        fields.wrong("after", "is missing: write how long after they asked, such as \"100ms\"");
    }
    Some(HangUps { share: share?, after: after? })
}

fn together(fields: &Fields<'_>) -> Option<Together> {
    let (every, mut most) = (needed(fields, "every"), u32::MAX);
    fields.set("most", &mut most);
    Some(Together { every: every?, most })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quell_sim::scenario::{Curve, OutageKind};

    use super::*;
    use crate::sim::file::{Plan, parse};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn one(kinds: &str) -> Plan {
        let text = format!("version = 1\n[scenario.x]\nload = \"100/s\"\n{kinds}");
        parse(&text).unwrap().remove(0)
    }

    fn message(kinds: &str) -> String {
        let text = format!("version = 1\n[scenario.x]\n{kinds}");
        parse(&text).unwrap_err().to_string()
    }

    #[test]
    fn every_setting_of_a_kind_can_be_written() {
        let plan = one(r#"
            service = { workers = 64 }
            [scenario.x.kind.quick]
            share = 0.9
            time = "3ms"
            [scenario.x.kind.odd]
            load = "10/s"
            arrivals = { users = 40, within = "50ms", every = "10s" }
            time = { p50 = "20ms", p99 = "800ms" }
            drift = [[0, 1], [30, 8]]
            waits = true
            upload = { from = "1s", to = "2s" }
            fails = 0.5
            throttled = "30s"
            faults = { kind = "stall", at = "9s", length = "1s" }
            patience = "5s"
            hang_ups = { share = 0.3, after = "100ms" }
            together = { every = "2s", most = 20 }
            retries = true
            side = "hostile"
            callers = 1
            credential = 7
            priority = "sheddable"
            like = "quick"
        "#);
        let [quick, odd] = &plan.scenario.kinds[..] else { panic!("{:?}", plan.scenario.kinds) };
        assert_eq!(*quick, Kind::new("quick", 90.0, ms(3)));
        let [fault] = odd.faults[..] else { panic!("{odd:?}") };
        assert_eq!(fault.kind, OutageKind::Stall);
        let time = Dist::Lognormal { p50: ms(20), p99: ms(800) };
        let users = 40;
        let expected = Kind {
            arrivals: Arrivals::Bursts { users, within: ms(50), every: ms(10_000) },
            drift: Curve(vec![(0.0, 1.0), (30.0, 8.0)]),
            waits: true,
            upload: Some(Dist::Uniform { from: ms(1_000), to: ms(2_000) }),
            fails: 0.5,
            throttled: Some(ms(30_000)),
            faults: vec![fault],
            patience: ms(5_000).into(),
            hang_ups: Some(HangUps { share: 0.3, after: ms(100).into() }),
            together: Some(Together { every: ms(2_000), most: 20 }),
            retries: true,
            side: Side::Hostile,
            callers: 1,
            credential: 7,
            priority: Priority::Sheddable,
            class: Some(1),
            ..Kind::new("odd", 10.0, time)
        };
        assert_eq!(*odd, expected);
        assert_eq!((plan.scenario.load, plan.scenario.service.workers), (100.0, 64));
        let ways: Vec<_> = plan.against.iter().map(|way| way.word()).collect();
        assert_eq!(ways, ["naive", "front"]);
    }

    #[test]
    fn a_service_of_which_nothing_is_said_has_plenty_of_workers_and_loads_add_up() {
        let plan = one("[scenario.x.kind.a]\nload = \"5/s\"\ntime = \"1s\"");
        assert_eq!((plan.scenario.load, plan.scenario.service.workers), (5.0, 100_000));
        let polls = one(
            "[scenario.x.kind.a]\ntime = \"900ms\"\narrivals = { users = 20, think = \"100ms\" }",
        );
        assert_eq!(polls.scenario.load, 20.0, "as they come");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field_and_what_to_write() {
        for (kind, told) in [
            ("load = \"5/s\"", "scenario.x.kind.a.time is missing"),
            ("time = \"1s\"", "scenario.x.kind.a.load is missing"),
            ("time = \"1s\"\nshare = 0.5", "share is a share of nothing"),
            ("time = \"1s\"\nload = \"5/s\"\nshare = 0.5", "share says again what load says"),
            ("time = \"1s\"\nload = \"5/s\"\nfails = 2", "scenario.x.kind.a.fails is out of range"),
            ("time = \"1s\"\nload = \"5/s\"\nlike = \"b\"", "scenario.x.kind.a.like"),
            (
                "time = \"1s\"\nload = \"5/s\"\nhang_ups = { share = 0.5 }",
                "hang_ups.after is missing",
            ),
            ("time = \"1s\"\nload = \"5/s\"\nside = \"bad\"", "scenario.x.kind.a.side"),
        ] {
            let message = message(&format!("[scenario.x.kind.a]\n{kind}"));
            assert!(message.contains(told), "{told}: {message}");
        }
        let twice = "service = { workers = 3, time = \"1s\" }\n[scenario.x.kind.a]\nload = \"5/s\"\ntime = \"1s\"";
        assert!(message(twice).contains("service.time is what each kind of request says here"));
    }
}
