//! Several kinds of requests in trouble, and callers who hang up in trouble.
//!
//! Two or three kinds that differ a hundredfold, or one whose times do; long polls that hold no worker; callers who leave long before an
//! answer is due, one by one and together. Whatever befalls one kind of request befalls them too, and one thing more: a trouble that is
//! one kind's alone.

use core::time::Duration;

use super::{AT, Edition, WATCH, World};
use quell_sim::{
    dist::Dist,
    scenario::{
        Arrivals, Callers, Curve, Gateway, Kind, Outage, OutageKind, Scenario, Service, Sharing,
        Side,
    },
};

const WORKERS: u32 = 36;
const SERVICES: [(&str, Option<f64>); 3] =
    [("fifo", None), ("sharing", Some(0.0)), ("degrading-0.5", Some(0.5))];

/// What is asked for: shares of the load and times in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Mix {
    /// Kinds that Quell can tell apart.
    Kinds(&'static str, &'static [(f64, u64)]),
    /// Two that it cannot.
    Hidden,
    /// Two, and a hundred long polls beside.
    Polls,
    /// One, and so many callers per second who hang up at once on what takes so many milliseconds, alone or eight at a time.
    HangUps(u32, u64, bool),
}

const TEN: &[(f64, u64)] = &[(0.8, 20), (0.2, 200)];
const HUNDRED: &[(f64, u64)] = &[(0.95, 5), (0.05, 500)];
const THREE: &[(f64, u64)] = &[(0.7, 10), (0.25, 100), (0.05, 1_000)];

#[derive(Debug, Clone, Copy)]
enum Trouble {
    Down(&'static str, OutageKind),
    /// The last kind alone.
    Part(&'static str, OutageKind),
    Step,
    Overload(f64),
    Halved,
}

const STALL: Trouble = Trouble::Down("stall-10", OutageKind::Stall);
const HOLE: Trouble = Trouble::Down("hole-10", OutageKind::Hole);
const FAIL: Trouble = Trouble::Down("fail-10", OutageKind::Fail);
const SLOW: Trouble = Trouble::Down("slow-10", OutageKind::Latency { factor: 10.0 });
const PART_STALLS: Trouble = Trouble::Part("part-stalls-10", OutageKind::Stall);
const PART_FAILS: Trouble = Trouble::Part("part-fails-10", OutageKind::Fail);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Callers who wait a second, or three times as long as it takes, and try again.
fn patient(name: &str, load: f64, time: impl Into<Dist>) -> Kind {
    let kind = Kind::new(name, load, time);
    let patience = ms(1_000).max(kind.mean() * 3);
    Kind { patience: patience.into(), retries: true, ..kind }
}

impl Mix {
    /// Its kinds, where the service is busy to this share.
    fn kinds(self, busy: f64) -> Vec<Kind> {
        let work = f64::from(WORKERS) * busy;
        match self {
            Self::Kinds(_, parts) => {
                let mean: f64 = parts.iter().map(|(share, ms)| share * *ms as f64 / 1e3).sum();
                let kind =
                    |&(share, time)| patient(&format!("{time}ms"), work / mean * share, ms(time));
                parts.iter().map(kind).collect()
            }
            Self::Hidden => {
                let time = Dist::Bimodal { fast: ms(20), slow: ms(820), share: 0.1 };
                let patience = ms(2_460).into();
                vec![Kind { patience, ..patient("hidden", work / 0.1, time) }]
            }
            Self::Polls => {
                let mut kinds = Self::Kinds("", TEN).kinds(busy);
                let time = Dist::Uniform { from: ms(2_000), to: ms(4_500) };
                let think = Dist::Exponential { mean: ms(50) };
                kinds.insert(
                    0,
                    Kind {
                        arrivals: Arrivals::Closed { users: 100, think },
                        waits: true,
                        retries: false,
                        ..patient("polls", 30.0, time)
                    },
                );
                kinds
            }
            Self::HangUps(rate, time, together) => {
                let time = ms(time);
                let their_work = f64::from(rate) * time.as_secs_f64();
                let good = patient("good", (work - their_work) / time.as_secs_f64(), time);
                let arrivals = if together {
                    let every = ms(8_000 / u64::from(rate));
                    Arrivals::Bursts { users: 8, within: Duration::ZERO, every }
                } else {
                    Arrivals::Random
                };
                let patience = Dist::Uniform { from: ms(1), to: time / 5 };
                let gone = Kind {
                    arrivals,
                    patience: if together { ms(5).into() } else { patience },
                    side: Side::Other,
                    class: Some(1),
                    ..Kind::new("hang-ups", f64::from(rate), time)
                };
                vec![good, gone]
            }
        }
    }

    fn name(self) -> String {
        match self {
            Self::Kinds(name, _) => name.to_owned(),
            Self::Hidden => "hidden".to_owned(),
            Self::Polls => "polls".to_owned(),
            Self::HangUps(rate, _, false) => format!("hang-ups-{rate}"),
            Self::HangUps(rate, _, true) => format!("together-{rate}"),
        }
    }
}

fn world(service: (&str, Option<f64>), mix: Mix, trouble: Trouble) -> World {
    let s = Duration::from_secs;
    let (at, none) = (AT as f64, OutageKind::Latency { factor: 1.0 });
    // Where one kind holds workers and does nothing, the others need some too.
    // And where one request in twenty takes a hundred times as long, chance alone fills all workers above that.
    let busy = match (trouble, mix) {
        (Trouble::Part(..), _) => 0.6,
        (_, Mix::Kinds("hundred", _)) => 0.7,
        _ => 0.83,
    };
    let mut kinds = mix.kinds(busy);
    let mut workers = f64::from(WORKERS);
    let (mut faults, mut hit) = (vec![], None);
    let mut shaped = |before: f64, factor: f64| {
        for kind in &mut kinds {
            if kind.arrivals == Arrivals::Random {
                let steps = vec![(0.0, before), (at, before), (at, 1.0), (at + 1e6, 1.0)];
                kind.arrivals = Arrivals::Shaped(Curve(steps));
                kind.load *= factor;
            }
        }
    };
    let (kind, length) = match trouble {
        Trouble::Down(_, kind) => (kind, 10),
        Trouble::Part(_, fault) => {
            let last = kinds.len() - 1;
            kinds[last].faults.push(Outage { kind: fault, at: s(AT), length: s(10) });
            hit = Some(last);
            (none, 10)
        }
        Trouble::Step => {
            shaped(0.1, 1.0);
            (none, 0)
        }
        Trouble::Overload(times) => {
            shaped(1.0 / times, times);
            (none, 0)
        }
        Trouble::Halved => {
            workers /= 2.0;
            let kind = OutageKind::Partial { share: 0.5 };
            faults.push(Outage { kind, at: s(AT), length: s(100_000) });
            (none, 0)
        }
    };
    let worked = kinds.iter().filter(|kind| !kind.waits);
    let work: f64 = worked.map(|kind| kind.load * kind.mean().as_secs_f64()).sum();
    let good = kinds.iter().filter(|kind| kind.side == Side::Good);
    let good: f64 = good.map(|kind| kind.load).sum();
    let mut scenario = Scenario {
        instances: 1,
        callers: Callers::NAIVE,
        service: Service::new(WORKERS, ms(100)),
        outage: Outage { kind, at: s(AT), length: s(length) },
        faults,
        watch: s(WATCH),
        ..Scenario::storm(OutageKind::Stall)
    };
    scenario.service.sharing = service.1.map(|loss| Sharing { loss });
    scenario.set_kinds(kinds);
    let what = match trouble {
        Trouble::Down(name, _) | Trouble::Part(name, _) => name.to_owned(),
        Trouble::Step => "step-10".to_owned(),
        Trouble::Overload(times) => format!("overload-{times}"),
        Trouble::Halved => "halved".to_owned(),
    };
    World {
        name: format!("{}/{}/{what}", mix.name(), service.0),
        time_after: scenario.service.mean(),
        scenario,
        capacity_after: good * workers / work,
        edition: Edition::Mixed,
        gateway: Gateway::default(),
        allowed: 0.0,
        hit,
    }
}

/// All of them.
pub fn all() -> Vec<World> {
    let every = [
        STALL,
        HOLE,
        FAIL,
        SLOW,
        Trouble::Step,
        Trouble::Overload(1.5),
        Trouble::Overload(3.0),
        Trouble::Halved,
        PART_STALLS,
        PART_FAILS,
    ];
    let [fifo, sharing, degrading] = SERVICES;
    let mut worlds = Vec::new();
    let mut add = |service, mix, troubles: &[Trouble]| {
        worlds.extend(troubles.iter().map(|&trouble| world(service, mix, trouble)));
    };
    for service in SERVICES {
        add(service, Mix::Kinds("ten", TEN), &every);
    }
    // Not ten times slower: what takes a second would be in the way for ten, whoever decides.
    let some = [STALL, FAIL, HOLE, Trouble::Overload(3.0), PART_STALLS];
    add(fifo, Mix::Kinds("hundred", HUNDRED), &some);
    add(fifo, Mix::Kinds("three", THREE), &some);
    add(fifo, Mix::Hidden, &some[..4]);
    for service in [fifo, sharing] {
        add(service, Mix::Polls, &[STALL, HOLE, FAIL, PART_STALLS, PART_FAILS]);
    }
    add(fifo, Mix::HangUps(40, 100, false), &every[..8]);
    add(degrading, Mix::HangUps(500, 20, false), &every[..8]);
    add(sharing, Mix::HangUps(40, 100, true), &[STALL, FAIL]);
    worlds
}
