use super::*;

const MS: Duration = Duration::from_millis(1);

fn plain() -> Kind {
    Kind::new("plain", 100.0, 20 * MS)
}

fn message(kind: Kind) -> String {
    let scenario = Scenario::of_kinds(10, vec![plain(), kind]);
    scenario.check().map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn a_plain_kind_can_be_run() {
    assert_eq!(message(plain()), "");
}

#[test]
fn what_makes_no_sense_is_told_by_field_and_fix() {
    let none = Duration::ZERO;
    for (kind, told) in [
        (Kind { load: 0.0, ..plain() }, "kind.load is out of range"),
        (Kind { time: none.into(), ..plain() }, "kind.time is 0s: write how long"),
        (Kind { patience: none.into(), ..plain() }, "kind.patience is 0s"),
        (Kind { fails: 1.5, ..plain() }, "kind.fails is out of range"),
        (Kind { callers: 0, ..plain() }, "kind.callers is 0"),
        (Kind { drift: Curve(vec![(1.0, 1.0), (0.0, 1.0)]), ..plain() }, "kind.drift is no curve"),
        (
            Kind { hang_ups: Some(HangUps { share: 2.0, after: MS.into() }), ..plain() },
            "kind.hang_ups.share is out of range",
        ),
        (
            Kind { together: Some(Together { every: none, most: 1 }), ..plain() },
            "kind.together.every is 0s",
        ),
        (
            Kind { arrivals: Arrivals::Bursts { users: 1, within: 2 * MS, every: MS }, ..plain() },
            "arrivals.every is too short",
        ),
    ] {
        assert!(message(kind).starts_with(told), "{told}");
    }
}

#[test]
fn what_befalls_a_whole_service_cannot_befall_one_kind() {
    let halved = OutageKind::Partial { share: 0.5 };
    let fault = Outage { kind: halved, at: Duration::ZERO, length: MS };
    assert!(message(Kind { faults: vec![fault], ..plain() }).starts_with("kind.faults has what"));
}

#[test]
fn kinds_need_callers_who_wait_and_one_service() {
    let mut scenario = Scenario::of_kinds(10, vec![plain()]);
    scenario.callers = Callers::quell(MS);
    assert!(scenario.check().unwrap_err().to_string().starts_with("kinds need callers who wait"));
    let mut scenario = Scenario::of_kinds(10, vec![plain()]);
    scenario.service.shards = Some(crate::scenario::Shards::new(2));
    assert!(scenario.check().unwrap_err().to_string().starts_with("kinds go with one service"));
}

#[test]
fn the_service_takes_as_long_as_its_kinds_do_together_but_for_those_that_only_wait() {
    let polls = Kind { waits: true, ..Kind::new("polls", 50.0, 1_000 * MS) };
    let scenario = Scenario::of_kinds(10, vec![plain(), Kind::new("slow", 300.0, 60 * MS), polls]);
    assert_eq!(scenario.load, 450.0);
    assert_eq!(scenario.service.mean(), 50 * MS);
}
