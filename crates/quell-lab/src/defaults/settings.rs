//! The settings: what is tried, and by which rule it is judged.

use core::time::Duration;

use quell_core::{
    backoff::Jitter,
    budget::{self, tokens},
    in_flight::Limit,
};

use super::{Figure, Must, Rule, Side, Then, worlds::Specs};

/// A default, its candidates and its rule.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// As in the config file.
    pub name: &'static str,
    /// Whose default it is.
    pub sides: &'static [Side],
    /// What is tried, in the order that the rule's last word goes by.
    pub values: &'static [f64],
    /// A value for people.
    pub says: fn(f64) -> String,
    /// Writes a value into the specs.
    pub set: fn(&mut Specs, f64),
    /// How one of them is chosen.
    pub rule: Rule,
    /// Why these bounds.
    pub why: &'static str,
    /// Why something else ships, where it does.
    pub ships: &'static str,
}

const BOTH: &[Side] = &Side::ALL;
const LIBRARY: &[Side] = &[Side::Library];
const GATEWAY: &[Side] = &[Side::Gateway];

fn ms(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6) as u64)
}

fn number(value: f64) -> String {
    value.to_string()
}

fn time(ms: f64) -> String {
    if ms >= 1_000.0 { format!("{} s", ms / 1e3) } else { format!("{ms} ms") }
}

fn share(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

const JITTERS: [Jitter; 5] =
    [Jitter::Full, Jitter::Equal, Jitter::Decorrelated, Jitter::Proportional(0.5), Jitter::None];

const LIMITS: [Limit; 7] = [
    Limit::Adaptive { ceiling: 4096 },
    Limit::Off,
    Limit::Fixed(36),
    Limit::Fixed(72),
    Limit::Fixed(144),
    Limit::Fixed(288),
    Limit::Fixed(720),
];

fn tokens(specs: &mut Specs, change: impl Fn(&mut tokens::Spec)) {
    if let budget::Spec::Tokens(spec) = &mut specs.1.budget {
        change(spec);
    }
}

const ATTEMPTS: Setting = Setting {
    name: "attempts",
    sides: LIBRARY,
    values: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    says: number,
    set: |specs, value| specs.0.attempts = value as u32,
    rule: Rule {
        must: &[Must(Figure::Unanswered, 0.001), Must(Figure::Load, 1.1)],
        best: None,
        then: Then::First("the fewest"),
    },
    why: "While 5 % of the attempts fail, one user in a thousand may go without; every further attempt is load on the worst day.",
    ships: "",
};

const BASE: Setting = Setting {
    name: "backoff.base",
    sides: LIBRARY,
    values: &[10.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1_000.0],
    says: time,
    set: |specs, value| specs.0.backoff.base = ms(value),
    rule: Rule {
        must: &[Must(Figure::P99, 500.0)],
        best: Some((Figure::Blips, 0.01)),
        then: Then::First("the shortest"),
    },
    why: "A wait should outlast the blip of a restart, and the slowest in a hundred should still be answered in half the time that callers wait.",
    ships: "200 ms outlasts a blip of 150 ms more often, and makes the slowest in a hundred wait half as long again while 5 % fail. 100 ms is kept for callers whose \
            own deadline is below a second: a choice, not a finding.",
};

const CAP: Setting = Setting {
    name: "backoff.cap",
    sides: LIBRARY,
    values: &[500.0, 1_000.0, 2_000.0, 5_000.0, 20_000.0, 60_000.0],
    says: time,
    set: |specs, value| specs.0.backoff.cap = ms(value),
    rule: Rule {
        must: &[Must(Figure::P99, 500.0)],
        best: Some((Figure::Blips, 0.01)),
        then: Then::First("the shortest"),
    },
    why: "As for the base.",
    ships: "With three attempts no wait is longer than 200 ms, so the cap never acts and the sweep cannot tell one from the other. 20 s is for whoever \
            raises the attempts: the waits of `background` work reach it, and a service that needs half a minute to start is not asked every second.",
};

/// All settings, in the order of the page.
pub fn settings() -> Vec<Setting> {
    let gateway = |setting: Setting, ships| Setting { sides: GATEWAY, ships, ..setting };
    vec![
        ATTEMPTS,
        gateway(
            ATTEMPTS,
            "Callers of a gateway often try again themselves, and attempts of two layers multiply; these callers try once, so the sweep does not see that. Whose callers \
             do not retry should write 3.",
        ),
        BASE,
        gateway(
            BASE,
            "The gateway has one wait, and while it lasts it holds its caller's connection and body. 50 ms is too short for a blip of 150 ms, as the table shows: such blips \
             are left to the callers' own retry. Whose callers do not retry should write 200 ms or more.",
        ),
        CAP,
        gateway(
            CAP,
            "With two attempts the only wait is at most the base, so the cap never acts and the sweep cannot tell one from the other.",
        ),
        Setting {
            name: "backoff.jitter",
            sides: BOTH,
            values: &[0.0, 1.0, 2.0, 3.0, 4.0],
            says: |value| JITTERS[value as usize].as_str().to_owned(),
            set: |specs, value| specs.0.backoff.jitter = JITTERS[value as usize],
            rule: Rule {
                must: &[Must(Figure::Load, 1.1), Must(Figure::P99, 500.0)],
                best: Some((Figure::Blips, 0.01)),
                then: Then::First("the one that spreads most"),
            },
            why: "Whoever failed together must not come back together. In the list the one that spreads most comes first.",
            ships: "Decorrelated waits longer, never less than the base, and that is what outlasts the blip; its slowest in a hundred wait twice as long. What jitter is for, callers \
                    in step, does not happen among random arrivals: there the sweep is blind, and the herd and AWS's experiment in [validation.md](validation.md) speak.",
        },
        Setting {
            name: "budget.ratio",
            sides: BOTH,
            values: &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0],
            says: number,
            set: |specs, value| tokens(specs, |spec| spec.ratio = value),
            rule: Rule {
                must: &[Must(Figure::Load, 1.1)],
                best: Some((Figure::Goodput, 0.005)),
                then: Then::First("the smallest"),
            },
            why: "A service heals by itself while load × utilisation stays below 1: with 1.1 up to 91 % utilisation.",
            ships: "",
        },
        Setting {
            name: "budget.max",
            sides: BOTH,
            values: &[10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0],
            says: number,
            set: |specs, value| tokens(specs, |spec| spec.max = value as u32),
            rule: Rule {
                must: &[Must(Figure::Load, 1.1)],
                best: Some((Figure::Blips, 0.005)),
                then: Then::First("the smallest"),
            },
            why: "What is saved up is for short trouble; long trouble is paid by the ratio. Every instance has it, and spends it on the worst day too.",
            ships: "",
        },
        Setting {
            name: "breaker.failure_rate",
            sides: LIBRARY,
            values: &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9],
            says: share,
            set: |specs, value| specs.1.breaker.failure_rate = value,
            rule: Rule {
                must: &[Must(Figure::Refused, 0.001)],
                best: Some((Figure::Goodput, 0.01)),
                then: Then::First("the lowest"),
            },
            why: "Refusing costs those who would have been served: not before more fail than are served.",
            ships: "",
        },
        Setting {
            name: "breaker.window",
            sides: LIBRARY,
            values: &[1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0, 30_000.0, 60_000.0],
            says: time,
            set: |specs, value| specs.1.breaker.window = ms(value),
            rule: Rule {
                must: &[Must(Figure::Recovery, 1.0), Must(Figure::Trickle, 1.0)],
                best: None,
                then: Then::First("the shortest"),
            },
            why: "A short window sees an outage soon; an instance that calls twice a second must see it too, and then send less than it is asked.",
            ships: "In these worlds 5 s is better wherever the two differ: half of the window has to fill with failures before the breaker opens. 10 s is kept because an \
                    instance with fewer than four attempts per second never has 20 of them in 5 s, and its breaker would never open. Busier instances should write 5 s.",
        },
        Setting {
            name: "breaker.min_calls",
            sides: LIBRARY,
            values: &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
            says: number,
            set: |specs, value| specs.1.breaker.min_calls = value as u32,
            rule: Rule {
                must: &[Must(Figure::Refused, 0.001), Must(Figure::Trickle, 1.0)],
                best: None,
                then: Then::First("the fewest"),
            },
            why: "Few calls are soon together, and soon wrong: in noise hardly anybody may be refused.",
            ships: "The bound does not tell them apart: below 20 up to nine users in ten thousand are refused in noise, from 20 on none. Fewer is a choice for those who call rarely.",
        },
        Setting {
            name: "breaker.open",
            sides: LIBRARY,
            values: &[100.0, 250.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 30_000.0],
            says: time,
            set: |specs, value| {
                specs.1.breaker.open = ms(value);
                specs.1.breaker.open_max = specs.1.breaker.open_max.max(ms(value));
            },
            rule: Rule {
                must: &[Must(Figure::Recovery, 1.0)],
                best: None,
                then: Then::Last("the longest"),
            },
            why: "The longer it stays open the less it asks a service that is down, and the longer users wait for one that is back.",
            ships: "",
        },
        Setting {
            name: "breaker.probes",
            sides: LIBRARY,
            values: &[1.0, 2.0, 3.0, 5.0, 10.0, 16.0],
            says: number,
            set: |specs, value| specs.1.breaker.probes = value as u8,
            rule: Rule {
                must: &[Must(Figure::Recovery, 1.0)],
                best: Some((Figure::RecoveryWorst, 0.5)),
                then: Then::First("the fewest"),
            },
            why: "Probes are users who are sent ahead: no more than it takes.",
            ships: "Two successes close a breaker: one probe at a time takes two rounds for that, and a lost one a third. Up to 5 the figures hardly differ.",
        },
        Setting {
            name: "breaker.ramp",
            sides: LIBRARY,
            values: &[0.0, 100.0, 250.0, 500.0, 1_000.0, 2_000.0, 5_000.0],
            says: time,
            set: |specs, value| specs.1.breaker.ramp = ms(value),
            rule: Rule {
                must: &[Must(Figure::Recovery, 1.0)],
                best: Some((Figure::Cold, 0.005)),
                then: Then::First("the shortest"),
            },
            why: "A service that comes back cold is spared by a slow return; one that does not need it waits for nothing.",
            ships: "Between 100 and 250 ms the sweep sees no more than chance. Without any ramp a cold start is a little worse, with 1 s and more everybody waits for it.",
        },
        Setting {
            name: "in_flight.limit",
            sides: GATEWAY,
            values: &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            says: |value| match LIMITS[value as usize] {
                Limit::Off => "off".to_owned(),
                Limit::Fixed(limit) => limit.to_string(),
                Limit::Adaptive { .. } => "adaptive".to_owned(),
            },
            set: |specs, value| specs.1.in_flight = LIMITS[value as usize],
            rule: Rule {
                must: &[Must(Figure::RecoveryWorst, 1.0), Must(Figure::Refused, 0.001)],
                best: Some((Figure::Goodput, 0.01)),
                then: Then::First("the first in the list"),
            },
            why: "The service has 72 workers. A number has to be known and kept right; so `adaptive` comes first in the list.",
            ships: "A number that is right for these 72 workers serves more users in the slow minute. Half of it refuses two in five of healthy traffic, ten times as much never heals, and \
                    it is wrong after the next deploy; `adaptive` is told nothing. Who knows the number and keeps it right should write it.",
        },
        Setting {
            name: "in_flight.queue",
            sides: GATEWAY,
            values: &[0.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1_024.0],
            says: number,
            set: |specs, value| specs.1.queue = value as usize,
            rule: Rule {
                must: &[Must(Figure::RecoveryWorst, 1.0), Must(Figure::Refused, 0.001)],
                best: Some((Figure::Goodput, 0.01)),
                then: Then::First("the shortest"),
            },
            why: "A queue carries a burst; one that is longer than patience carries the departed.",
            ships: "The adaptive limit lies close to what is used, so bursts wait in the queue. With 8 places few are refused in health, from 16 on nobody; 64 leaves room for larger \
                    bursts than these, and costs nothing while nobody waits.",
        },
        Setting {
            name: "in_flight.queue_wait",
            sides: GATEWAY,
            values: &[0.0, 50.0, 100.0, 200.0, 400.0, 800.0, 2_000.0],
            says: |value| if value == 0.0 { "half of patience".to_owned() } else { time(value) },
            set: |specs, value| specs.1.queue_wait = (value > 0.0).then(|| ms(value)),
            rule: Rule {
                must: &[Must(Figure::RecoveryWorst, 1.0), Must(Figure::Refused, 0.001)],
                best: Some((Figure::Goodput, 0.01)),
                then: Then::First("the first in the list"),
            },
            why: "Callers wait for a second here. Half of the patience that was learned, less the time an answer takes, needs nobody to know that; so it comes first in the list.",
            ships: "Half of the patience ships: 50 ms is right for the services of this page, which answer in 100 ms, and refuses in every pause of one that takes longer.",
        },
    ]
}

#[cfg(test)]
mod tests {
    use quell_core::{Policy, Time, Upstream};

    use super::*;

    #[test]
    fn every_candidate_can_be_written_and_one_of_them_ships() {
        for setting in settings() {
            for side in setting.sides {
                let with = |value: f64| {
                    let mut specs = side.specs();
                    (setting.set)(&mut specs, value);
                    specs
                };
                for &value in setting.values {
                    let (policy, upstream) = with(value);
                    let policy = Policy::new(policy).unwrap();
                    Upstream::new(upstream, policy.per_try(), 1, Time::ZERO).unwrap();
                }
                let ships = setting.values.iter().filter(|&&value| with(value) == side.specs());
                assert_eq!(ships.count(), 1, "{}", setting.name);
            }
        }
    }
}
