//! Services with nothing wrong, as they are met in the wild.
//!
//! Everybody here would be served without any limit, so everybody has to be served with one. Where a caller is hostile the service has
//! too much to do, and the good callers have to be served all the same.

use core::time::Duration;

use super::{Edition, World};
use quell_sim::{
    dist::Dist,
    scenario::{
        Arrivals, Curve, Gateway, HangUps, Kind, Outage, OutageKind, Scenario, Sharing, Side,
        Together,
    },
};

/// More workers than anybody needs.
const PLENTY: u32 = 100_000;
/// The share of good callers who may go without.
const ALLOWED: f64 = 1e-4;
/// The same beside a hostile caller.
const BESIDE_HOSTILE: f64 = 1e-3;
/// How long a world lasts.
const LASTS: Duration = Duration::from_secs(60);
/// What a gateway waits for at most: as long as others do by default.
const TIMEOUT: Duration = Duration::from_secs(60);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn between(from: Duration, to: Duration) -> Dist {
    Dist::Uniform { from, to }
}

fn shaped(points: &[(f64, f64)]) -> Arrivals {
    Arrivals::Shaped(Curve(points.to_vec()))
}

fn quick(load: f64, time: u64) -> Kind {
    Kind::new("quick", load, ms(time))
}

/// So many callers who come again as soon as they are served.
fn always(name: &str, users: u32, time: impl Into<Dist>) -> Kind {
    let kind = Kind::new(name, 1.0, time);
    let think = Dist::Exponential { mean: ms(20) };
    let load = f64::from(users) / (kind.mean() + ms(20)).as_secs_f64();
    Kind { load, arrivals: Arrivals::Closed { users, think }, ..kind }
}

fn polls(users: u32, from: u64, to: u64) -> Kind {
    Kind { waits: true, ..always("polls", users, between(s(from), s(to))) }
}

fn uploads(users: u32, upload: Dist) -> Kind {
    Kind { upload: Some(upload), patience: TIMEOUT.into(), ..always("uploads", users, ms(5)) }
}

fn fails_at_once(load: f64) -> Kind {
    let all = Outage { kind: OutageKind::Fail, at: Duration::ZERO, length: s(1_000) };
    Kind { faults: vec![all], side: Side::Other, ..Kind::new("failing", load, ms(5)) }
}

/// So many per second who leave after 1 to 10 ms what takes 20.
fn hang_ups(rate: f64, class: Option<u64>) -> Kind {
    let kind = Kind::new("hang-ups", rate, ms(20));
    Kind { patience: between(ms(1), ms(10)), side: Side::Other, class, ..kind }
}

/// So many who come at once and leave at once, again and again.
fn together(users: u32, every: Duration, after: Duration, time: impl Into<Dist>) -> Kind {
    let load = f64::from(users) / every.as_secs_f64();
    Kind {
        arrivals: Arrivals::Bursts { users, within: Duration::ZERO, every },
        patience: after.into(),
        side: Side::Other,
        ..Kind::new("together", load, time)
    }
}

fn bursts(users: u32, within: Duration, every: Duration, time: u64) -> Kind {
    let load = f64::from(users) / every.as_secs_f64();
    let arrivals = Arrivals::Bursts { users, within, every };
    Kind { arrivals, ..Kind::new("bursts", load, ms(time)) }
}

fn hostile(kind: Kind) -> Kind {
    Kind { side: Side::Hostile, callers: 1, name: "hostile".to_owned(), ..kind }
}

/// Two kinds of one class, of which one is slow and begins after 20 s.
fn hidden_later(rate: f64) -> Vec<Kind> {
    let arrivals = shaped(&[(0.0, 0.0), (20.0, 0.0), (20.0, 1.0), (1e6, 1.0)]);
    let slow = Kind { arrivals, ..Kind::new("slow", rate, s(2)) };
    [quick(60.0, 3), slow].map(|kind| Kind { class: Some(1), ..kind }).into()
}

/// A hundred quick kinds with so much load together, and one more.
fn names(load: f64, more: Kind) -> Vec<Kind> {
    let name = |i| Kind { name: format!("name-{i}"), ..quick(load / 100.0, 3) };
    (0..100).map(name).chain([more]).collect()
}

fn pauses(length: Duration, every: Duration) -> Vec<Outage> {
    Outage { kind: OutageKind::Stall, at: every, length: LASTS }.flapping(length, every - length)
}

fn world(name: &str, workers: u32, kinds: Vec<Kind>) -> World {
    let mut scenario = Scenario::of_kinds(workers, kinds);
    scenario.watch = LASTS;
    let mut gateway = Gateway::default();
    (gateway.policy.timeout, gateway.policy.per_try_timeout) = (TIMEOUT, Some(TIMEOUT));
    World {
        name: name.to_owned(),
        capacity_after: scenario.service.capacity(),
        time_after: scenario.service.mean(),
        scenario,
        edition: Edition::Health,
        gateway,
        allowed: ALLOWED,
        hit: None,
    }
}

fn with(world: World, change: impl FnOnce(&mut World)) -> World {
    let mut world = world;
    change(&mut world);
    world
}

fn mixes() -> Vec<World> {
    let two = || vec![quick(270.0, 3), Kind::new("slow", 30.0, ms(400))];
    let bimodal = Dist::Bimodal { fast: ms(3), slow: ms(400), share: 0.1 };
    let lognormal = Dist::Lognormal { p50: ms(20), p99: ms(800) };
    let from_to = |from: f64, to: f64| shaped(&[(0.0, from), (30.0, from), (30.0, to), (1e6, to)]);
    let third = HangUps { share: 1.0 / 3.0, after: between(ms(100), ms(250)) };
    let many = (0..30_u64).map(|i| {
        let time = Duration::from_millis(1 + i * i);
        Kind {
            time: Dist::Exponential { mean: time },
            ..Kind::new(&format!("path-{i}"), 10.0, time)
        }
    });
    vec![
        world("mixed/3-400ms", PLENTY, two()),
        world("mixed/3-400ms-64-workers", 64, two()),
        world("mixed/hidden", PLENTY, vec![Kind::new("both", 300.0, bimodal)]),
        // A kind that nobody can tell from others begins later.
        world("mixed/hidden-later", PLENTY, hidden_later(20.0)),
        world("mixed/hidden-later-few", PLENTY, hidden_later(5.0)),
        // More kinds than there are classes.
        world("names/hundred", PLENTY, names(60.0, Kind::new("slow", 20.0, s(2)))),
        world("names/hundred-one-fails", PLENTY, names(30.0, fails_at_once(20.0))),
        world("names/hundred-one-hangs", PLENTY, {
            let left = Kind { patience: s(2).into(), ..Kind::new("hangs", 20.0, s(100)) };
            names(60.0, Kind { side: Side::Other, ..left })
        }),
        world("mixed/hang-ups", PLENTY, {
            let [quick, slow] = [two().remove(0), two().remove(1)];
            vec![quick, Kind { hang_ups: Some(third), ..slow }]
        }),
        world("mixed/three", PLENTY, {
            let middle = Kind::new("middle", 50.0, ms(30));
            vec![quick(300.0, 1), middle, Kind::new("slow", 5.0, s(3))]
        }),
        world("mixed/rare-slow", PLENTY, vec![quick(300.0, 2), Kind::new("slow", 0.3, s(8))]),
        world("mixed/few-slow", PLENTY, vec![quick(100.0, 1), always("slow", 5, s(3))]),
        world("mixed/thirty-paths", PLENTY, many.collect()),
        world("mixed/step-to-half", PLENTY, {
            let slow = Kind { arrivals: from_to(0.2, 1.0), ..Kind::new("slow", 150.0, ms(400)) };
            vec![Kind { arrivals: from_to(1.0, 0.5), ..quick(270.0, 3) }, slow]
        }),
        world("mixed/flips", PLENTY, {
            let slow = Kind { arrivals: from_to(0.02, 1.0), ..Kind::new("slow", 300.0, ms(400)) };
            vec![Kind { arrivals: from_to(1.0, 0.02), ..quick(300.0, 3) }, slow]
        }),
        world("lognormal/64-workers", 64, vec![Kind::new("all", 300.0, lognormal.clone())]),
        world("lognormal/plenty", PLENTY, vec![Kind::new("all", 300.0, lognormal)]),
        world("exponential/36-workers", 36, {
            let time = Dist::Exponential { mean: ms(100) };
            vec![Kind::new("all", 252.0, time)]
        }),
        world("constant/4-workers", 4, vec![Kind::new("all", 20.0, ms(100))]),
    ]
}

fn waits() -> Vec<World> {
    vec![
        world("polls/2-5s", PLENTY, vec![quick(200.0, 5), polls(100, 2, 5)]),
        world("polls/20-30s", PLENTY, {
            let polls = polls(100, 20, 30);
            vec![quick(200.0, 5), Kind { patience: TIMEOUT.into(), ..polls }]
        }),
        world("polls/36-workers", 36, vec![quick(1_000.0, 20), polls(200, 2, 5)]),
        world("uploads/50", PLENTY, vec![quick(200.0, 5), uploads(50, between(s(10), s(20)))]),
        world("uploads/5-slow", PLENTY, vec![quick(200.0, 5), uploads(5, s(32).into())]),
        world("uploads/36-workers", 36, {
            vec![quick(1_000.0, 20), uploads(100, between(s(1), s(8)))]
        }),
    ]
}

fn bursty() -> Vec<World> {
    let drift = |peak: f64| Curve(vec![(0.0, 1.0), (30.0, peak), (60.0, 1.0)]);
    let wave = (0..=12).map(|i| (f64::from(i) * 5.0, if i % 2 == 0 { 0.05 } else { 1.0 }));
    let wave: Vec<_> = wave.collect();
    let slower = |factor: f64| {
        let kinds = vec![quick(270.0, 3), Kind::new("slow", 30.0, ms(400))];
        let kind = OutageKind::Latency { factor };
        with(world(&format!("slower/{factor}x"), PLENTY, kinds), |world| {
            world.scenario.faults.push(Outage { kind, at: s(30), length: s(1_000) });
        })
    };
    let paused = |name: &str, workers, length, every, kinds: Vec<Kind>| {
        with(world(name, workers, kinds), |world| world.scenario.faults = pauses(length, every))
    };
    let patient = Kind { patience: s(5).into(), ..quick(200.0, 20) };
    vec![
        world("bursts/400-every-10s", 200, vec![bursts(400, ms(50), s(10), 50)]),
        world("bursts/400-every-30s", 200, vec![bursts(400, ms(50), s(30), 50)]),
        world("bursts/beside-100", 200, {
            let base = Kind { class: Some(1), ..Kind::new("base", 100.0, ms(50)) };
            vec![bursts(400, ms(50), s(10), 50), base]
        }),
        world("bursts/1000-at-once", PLENTY, {
            vec![quick(200.0, 20), bursts(1_000, Duration::ZERO, s(5), 20)]
        }),
        world("quiet/then-100-at-once", PLENTY, {
            let burst = Arrivals::Burst { users: 100, at: s(30) };
            vec![quick(3.0, 50), Kind { arrivals: burst, ..Kind::new("burst", 3.0, ms(50)) }]
        }),
        world("quiet/then-500", PLENTY, {
            let shape = shaped(&[(0.0, 0.006), (30.0, 0.006), (30.0, 1.0), (1e6, 1.0)]);
            vec![Kind { arrivals: shape, ..quick(500.0, 50) }]
        }),
        world("cold-start/2000", PLENTY, vec![quick(2_000.0, 50)]),
        world("cold-start/mixed", PLENTY, {
            vec![quick(1_000.0, 3), Kind::new("slow", 100.0, s(1))]
        }),
        world("load/rises-tenfold", PLENTY, {
            vec![Kind { arrivals: shaped(&[(0.0, 0.1), (60.0, 1.0)]), ..quick(500.0, 20) }]
        }),
        world("load/waves", PLENTY, vec![Kind { arrivals: shaped(&wave), ..quick(400.0, 20) }]),
        world("drift/10-80ms", PLENTY, vec![Kind { drift: drift(8.0), ..quick(200.0, 10) }]),
        world("drift/of-one-kind", PLENTY, {
            let slow = Kind { drift: drift(5.0), ..Kind::new("slow", 30.0, ms(200)) };
            vec![quick(270.0, 3), slow]
        }),
        paused("pauses/600ms-every-8s", PLENTY, ms(600), s(8), vec![patient.clone()]),
        paused("pauses/64-workers", 64, ms(600), s(8), vec![patient]),
        paused(
            "pauses/200ms-every-2s",
            PLENTY,
            ms(200),
            s(2),
            vec![quick(270.0, 3), Kind::new("slow", 30.0, ms(400))],
        ),
        slower(2.0),
        slower(3.0),
        slower(5.0),
    ]
}

fn leavers() -> Vec<World> {
    let alone = |rate: f64| {
        let kinds = vec![quick(200.0, 20), hang_ups(rate, None)];
        world(&format!("hang-ups/{rate}"), PLENTY, kinds)
    };
    let same = |rate: f64| {
        let kinds = vec![quick(200.0, 20), hang_ups(rate, Some(1))];
        world(&format!("hang-ups/{rate}-alike"), PLENTY, kinds)
    };
    let at_once = |users: u32| {
        let kinds = vec![quick(200.0, 20), together(users, s(1), ms(5), ms(20))];
        world(&format!("together/{users}-every-1s"), PLENTY, kinds)
    };
    vec![
        alone(40.0),
        alone(200.0),
        alone(1_000.0),
        alone(2_000.0),
        same(40.0),
        same(500.0),
        same(2_000.0),
        world("hang-ups/probes", PLENTY, {
            let probes = Kind { patience: ms(5).into(), ..hang_ups(25.0, None) };
            vec![quick(100.0, 100), Kind { time: ms(100).into(), ..probes }]
        }),
        world("together/8-every-200ms", PLENTY, {
            vec![quick(100.0, 5), together(8, ms(200), ms(1), ms(5))]
        }),
        at_once(40),
        at_once(200),
        at_once(2_000),
        world("together/pages", PLENTY, {
            vec![quick(200.0, 5), together(30, s(1), ms(200), between(ms(50), ms(500)))]
        }),
        world("together/connection-breaks", PLENTY, {
            let slow = Kind::new("slow", 60.0, between(ms(50), ms(500)));
            let breaks = Some(Together { every: s(2), most: 20 });
            vec![quick(200.0, 5), Kind { together: breaks, side: Side::Other, ..slow }]
        }),
        with(
            world("together/64-then-5000", PLENTY, {
                let burst = Arrivals::Burst { users: 64, at: s(1) };
                let gone = Kind { arrivals: burst, ..together(64, s(1), ms(1), ms(5)) };
                let later = shaped(&[(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (1e6, 1.0)]);
                let time = Duration::from_micros(200);
                vec![gone, Kind { arrivals: later, ..Kind::new("quick", 5_000.0, time) }]
            }),
            |world| world.scenario.watch = s(15),
        ),
    ]
}

fn parts() -> Vec<World> {
    let allows = |world| with(world, |world: &mut World| world.allowed = BESIDE_HOSTILE);
    let good = |load: f64, time: u64| Kind { patience: s(2).into(), ..quick(load, time) };
    vec![
        world("failing/40-percent", PLENTY, vec![quick(120.0, 20), fails_at_once(80.0)]),
        world("failing/60-percent", PLENTY, vec![quick(80.0, 20), fails_at_once(120.0)]),
        world("failing/after-its-work", PLENTY, {
            let failing =
                Kind { fails: 1.0, side: Side::Other, ..Kind::new("failing", 120.0, ms(50)) };
            vec![quick(80.0, 20), failing]
        }),
        world("credential/429", PLENTY, {
            let luck = OutageKind::Brownout { share: 0.02 };
            let luck = Outage { kind: luck, at: Duration::ZERO, length: s(1_000) };
            let told = Kind::new("throttled", 10.0, ms(5));
            vec![
                Kind { faults: vec![luck], ..quick(200.0, 20) },
                Kind { throttled: Some(s(30)), credential: 7, side: Side::Other, ..told },
            ]
        }),
        with(
            world("saturated/100-at-once", 2, {
                let think = Dist::Exponential { mean: ms(1) };
                let arrivals = Arrivals::Closed { users: 100, think };
                vec![Kind { arrivals, ..Kind::new("all", 1_800.0, ms(1)) }]
            }),
            |world| world.scenario.service.sharing = Some(Sharing { loss: 0.0 }),
        ),
        allows(world("hostile/99-percent", 10, {
            vec![good(20.0, 10), hostile(quick(1_980.0, 10))]
        })),
        allows(world("hostile/200-at-once", 36, {
            vec![good(100.0, 20), hostile(always("", 200, ms(100)))]
        })),
        // From the beginning: nothing is known of anybody yet.
        allows(world("hostile/slow-calls-at-start", 36, {
            vec![good(200.0, 20), hostile(Kind::new("", 100.0, s(1)))]
        })),
        allows(world("hostile/slow-calls", 36, {
            let arrivals = shaped(&[(0.0, 0.0), (20.0, 0.0), (20.0, 1.0), (1e6, 1.0)]);
            let slow = Kind { arrivals, ..Kind::new("", 100.0, s(1)) };
            vec![good(200.0, 20), hostile(slow)]
        })),
    ]
}

/// All of them.
pub fn all() -> Vec<World> {
    [mixes(), waits(), bursty(), leavers(), parts()].concat()
}
