//! The arena: its worlds are a committed list, and one of every kind is run.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::{collections::BTreeSet, thread, time::Duration};

use quell_lab::arena::{Cell, Edition, Judged, Rule, judge, worlds, worlds::World};
use quell_sim::run;

/// One name per line, in their order. A world that comes, goes or changes its name changes what every figure is about.
const COMMITTED: &str = include_str!("arena_worlds.txt");
/// The same for the second edition.
const HEALTH: &str = include_str!("arena_health.txt");
const MIXED: &str = include_str!("arena_mixed.txt");

fn world(name: &str) -> World {
    let mut all = Edition::ALL.into_iter().flat_map(Edition::worlds);
    let world = all.find(|world| world.name == name);
    world.unwrap_or_else(|| panic!("{name} is not there"))
}

fn judged(name: &str, rule: Rule) -> Judged {
    judge(&world(name), rule, 11).unwrap()
}

#[test]
fn the_worlds_are_the_committed_ones() {
    let worlds = worlds::all();
    let names: Vec<_> = worlds.iter().map(|world| world.name.as_str()).collect();
    assert_eq!(names, COMMITTED.lines().collect::<Vec<_>>());
    assert_eq!(names.len(), 119);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "no name twice");
    for world in worlds {
        world.scenario.check().unwrap_or_else(|error| panic!("{}: {error}", world.name));
        let least = world.scenario.service.mean() * 29 / 10; // a spread's mean is not exact
        assert!(world.scenario.patience >= least, "{}: callers leave too early", world.name);
    }
}

#[test]
fn the_second_editions_worlds_are_the_committed_ones() {
    for (edition, committed, count) in [(Edition::Health, HEALTH, 67), (Edition::Mixed, MIXED, 72)]
    {
        let worlds = edition.worlds();
        let names: Vec<_> = worlds.iter().map(|world| world.name.as_str()).collect();
        assert_eq!(names, committed.lines().collect::<Vec<_>>());
        assert_eq!(names.len(), count);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), count, "no name twice");
        for world in worlds {
            world.scenario.check().unwrap_or_else(|error| panic!("{}: {error}", world.name));
            assert_eq!(world.edition, edition);
        }
    }
}

/// Healthy is what everybody is served in who is not held back; only whoever asks for too much may be in the way.
#[test]
fn healthy_worlds_are_healthy_without_a_limit() {
    for name in
        ["mixed/3-400ms", "polls/2-5s", "uploads/50", "bursts/400-every-10s", "hang-ups/200"]
    {
        let judged = judged(name, Rule::Off);
        assert!(judged.won && judged.refused == 0.0 && judged.slower < 1.0, "{name}: {judged:?}");
    }
    let flooded = judged("hostile/99-percent", Rule::Off);
    assert!(!flooded.won && flooded.goodput < 0.5, "{flooded:?}");
}

/// The rule before kinds was made for requests that are all alike.
#[test]
fn the_former_rule_refuses_healthy_callers_beside_long_polls() {
    let judged = judged("polls/2-5s", Rule::Shipped);
    assert!(!judged.won && judged.refused > 0.01, "{judged:?}");
    assert!(!judged.reasons.is_empty(), "and says why");
}

#[test]
fn the_oracle_wins_a_mixed_storm_of_every_kind() {
    for name in [
        "ten/fifo/stall-10",
        "hundred/fifo/fail-10",
        "three/fifo/hole-10",
        "polls/fifo/stall-10",
        "hang-ups-500/degrading-0.5/stall-10",
        "together-40/sharing/fail-10",
    ] {
        let judged = judged(name, Rule::Oracle);
        assert!(judged.won && !judged.is_stuck(), "{name}: {judged:?}");
    }
}

#[test]
fn rules_have_names_of_their_own() {
    let names: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
}

/// Whoever knows the number of workers wins where a limit is all it takes.
#[test]
fn the_oracle_wins_one_world_of_every_service_and_trouble() {
    for name in [
        "fifo/stall-10",
        "sharing/hole-10",
        "degrading-0.2/fail-10",
        "degrading-0.5/slow-10",
        "degrading-1/step-1.15",
        "fifo/step-10.00",
    ] {
        let judged = judged(name, Rule::Oracle);
        assert!(judged.won && !judged.is_stuck(), "{name}: {judged:?}");
        assert_eq!(judged.limit.last(), Some(&36), "{name}");
    }
}

/// Why there is an arena: what is harmless before a queue is ruin where crowds cost.
#[test]
fn a_limit_that_is_too_high_ruins_a_service_that_degrades() {
    let name = "degrading-1/overload-1.5";
    let (oracle, fixed) = (judged(name, Rule::Oracle), judged(name, Rule::Fixed));
    assert!(oracle.goodput > 0.9, "{oracle:?}");
    assert!(fixed.goodput < 0.5 * oracle.goodput, "{fixed:?}");
}

#[test]
fn every_rule_can_be_run_and_only_the_rule_differs() {
    let mut limits = BTreeSet::new();
    for rule in Rule::ALL {
        let judged = judged("degrading-0.5/fail-10/load-50", rule);
        assert!(judged.goodput > 0.0 && judged.events > 10_000, "{rule:?}: {judged:?}");
        assert_eq!(judged.limit.len(), 86, "{rule:?}");
        limits.insert(judged.limit);
    }
    // What shipped before may well do the same as what ships now.
    assert!(limits.len() + 1 >= Rule::ALL.len(), "no two rules do the same");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let name = "degrading-0.5/stall-10/bimodal";
    for rule in [Rule::Vegas, Rule::Envoy, Rule::Ours] {
        assert_eq!(judged(name, rule), judged(name, rule), "{rule:?}");
    }
}

/// A service that becomes slower and as many times larger can do as much as before.
#[test]
fn capacity_after_the_trouble_is_what_the_service_then_can_do() {
    for name in ["fifo/larger-5", "sharing/larger-20"] {
        let world = world(name);
        let run = run(&world.scenario, 11).unwrap();
        let good = run.series.sum(quell_sim::verdict::Count::Good, 60..76) as f64 / 16.0;
        assert!(good > 0.95 * world.scenario.load, "{name}: {good} of {}", world.scenario.load);
        assert!(world.capacity_after > world.scenario.load);
    }
    assert_eq!(world("fifo/halved").capacity_after, 180.0);
}

/// How a rule did in all worlds of an edition, and which of them are lost or stuck.
fn lost_and_stuck(edition: Edition, seeds: &[u64]) -> (usize, Vec<String>, Vec<String>) {
    let worlds = edition.worlds();
    let cells: Vec<Cell> = thread::scope(|scope| {
        let judge_all = |worlds: &[World]| -> Vec<Cell> {
            let runs = |world| -> Vec<_> {
                seeds.iter().map(|seed| judge(world, Rule::Ours, *seed).unwrap()).collect()
            };
            worlds.iter().map(|world| Cell::of(&runs(world)).unwrap()).collect()
        };
        let (some, others) = worlds.split_at(worlds.len() / 2);
        let others = scope.spawn(move || judge_all(others));
        judge_all(some).into_iter().chain(others.join().unwrap()).collect()
    });
    let names = |is: fn(&Cell) -> bool| -> Vec<_> {
        let both = worlds.iter().zip(&cells).filter(|(_, cell)| is(cell));
        both.map(|(world, _)| world.name.clone()).collect()
    };
    (worlds.len(), names(|cell| !cell.run.won), names(|cell| cell.stuck))
}

#[test]
fn the_limit_that_ships_wins_nine_of_ten_old_worlds_and_is_stuck_in_none() {
    let (all, lost, stuck) = lost_and_stuck(Edition::Old, &[11, 12, 13, 14, 15]);
    assert!(10 * lost.len() <= all, "lost {lost:?}");
    assert!(stuck.is_empty(), "stuck in {stuck:?}");
}

/// Lost are: a thousand calls at once, which wait behind each other for longer than behind a service without a limit; a service that
/// is five times slower at once, which looks like a part that hangs; and long calls of somebody hostile that take all workers.
#[test]
fn the_limit_that_ships_refuses_nobody_in_health() {
    let (_, lost, stuck) = lost_and_stuck(Edition::Health, &[11, 12, 13]);
    let known =
        ["bursts/1000-at-once", "slower/5x", "hostile/slow-calls-at-start", "hostile/slow-calls"];
    assert!(lost.iter().all(|name| known.contains(&name.as_str())), "lost {lost:?}");
    assert!(stuck.is_empty(), "stuck in {stuck:?}");
}

/// A limit fixed by hand at the worker count wins 59.
#[test]
fn the_limit_that_ships_wins_as_many_mixed_storms_as_one_set_by_hand() {
    let (all, lost, stuck) = lost_and_stuck(Edition::Mixed, &[11, 12, 13]);
    assert!(all - lost.len() >= 59, "lost {lost:?}");
    assert!(stuck.is_empty(), "stuck in {stuck:?}");
}

/// What is judged is the limit: with workers in abundance and no trouble, everything is won, however long work takes.
#[test]
fn without_trouble_slow_services_are_won() {
    for mut world in worlds::all().into_iter().filter(|world| world.name.ends_with("/1000ms")) {
        world.scenario.service.workers = 2_000;
        world.scenario.outage.length = Duration::ZERO;
        for seed in 11..=16 {
            let judged = judge(&world, Rule::Fixed, seed).unwrap();
            assert!(judged.won, "{} with seed {seed}: {judged:?}", world.name);
        }
    }
}
