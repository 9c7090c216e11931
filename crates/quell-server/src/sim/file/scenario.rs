//! One scenario, from its table.

use std::time::Duration;

use crate::config::{
    Config,
    fields::Fields,
    read::{Rate, Raw, Read},
};
use quell::core::spec::UpstreamSpec;
use quell_sim::{
    Scenario,
    dist::Draw,
    scenario::{Arrivals, Callers, OutageKind, Restart, Resubmit, Service},
};

use super::{
    faults::{self, Trouble},
    graph, kinds,
    plan::Plan,
    policies, service, store,
    time::{curve, needed, spread},
    topic, way,
};
use crate::sim::gate::Promises;

/// How long a recovery must be watched to be believed.
const WATCH: Duration = Duration::from_secs(25);
/// The longest run: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Each has a state of its own.
const MOST_INSTANCES: u32 = 100_000;
/// All are there at once.
const MOST_USERS: u32 = 10_000_000;
/// What a service of which nothing is said takes for a request, and how much more it can do than is asked of it.
const USUAL: (Duration, f64) = (Duration::from_millis(100), 1.2);
/// Workers of a service of which nothing is said, where there are kinds: more than anybody needs.
const PLENTY: u32 = 100_000;

/// Reads a scenario; `None` if there is not enough of it left to be run. Whatever is wrong was told to the fields.
pub(super) fn read(config: &Config, name: &str, fields: &Fields<'_>) -> Option<Plan> {
    let named = policies::read(config, fields, UpstreamSpec::gateway());
    let (calls, below, behind) = graph::read(config, fields);
    let arrivals = arrivals(fields);
    let described = fields.has("service");
    let mixed = fields.has("kind");
    let service = fields.table("service").map(|table| service::read(&table, mixed));
    let kinds = kinds::read(fields, fields.get::<Rate>("load").map(|Rate(load)| load));
    let load = match mixed {
        true if kinds.is_empty() => None, // which was told, kind by kind
        true => Some(kinds.iter().map(|kind| kind.load).sum()),
        false => load(fields, arrivals.as_ref(), service.as_ref().and_then(Option::as_ref)),
    };
    let trouble = match fields.table("outage") {
        Some(table) => faults::read(&table),
        None if fields.has("outage") => None,
        None => Some(Trouble::NONE),
    };
    let (word, outage, parts) = match trouble {
        Some(Trouble { word, whole, parts }) => (Some(word), whole, parts),
        None => (None, Trouble::NONE.whole, vec![]),
    };
    let service = match (described, mixed) {
        (true, _) => service.flatten(),
        (false, true) => Some(Service::constant(PLENTY, USUAL.0)),
        (false, false) => load.map(usual_service),
    };
    let mut scenario = Scenario {
        load: load.unwrap_or(1.0),
        arrivals: arrivals.unwrap_or(Arrivals::Random),
        resubmit: resubmit(fields),
        restarts: restarts(fields),
        instances: named.and_then(|named| named.instances).unwrap_or(1),
        callers: Callers::NAIVE,
        service: service.clone().unwrap_or_else(|| usual_service(1.0)),
        calls,
        below,
        outage,
        faults: parts.into_iter().chain(faults::all(fields)).collect(),
        ..Scenario::storm(OutageKind::Fail)
    };
    if mixed {
        scenario.set_kinds(kinds);
    }
    fields.set("instances", &mut scenario.instances);
    fields.set("patience", &mut scenario.patience);
    fields.set("writes", &mut scenario.writes);
    fields.set("credit", &mut scenario.credit);
    fields.set("watch", &mut scenario.watch);
    scenario.store = fields.table("store").map(|table| store::read(&table));
    if let Some(table) = fields.table("topic") {
        scenario = topic::read(config, &table, scenario);
    }
    if let Err(error) = scenario.check() {
        fields.invalid(&error);
    }
    limits(fields, &scenario);
    let (against, others) = way::read(config, fields, &scenario, named);
    let words: Vec<_> = against.iter().map(|way| way.word.as_str()).collect();
    let promises = fields.tables("assert");
    // What a file promises, it promises of what it says, unless it says nothing.
    let own: Vec<_> = words.iter().copied().filter(|word| !way::is_compared_with(word)).collect();
    let usual = if own.is_empty() { &words } else { &own };
    let read = |table: &Fields<'_>| Promises::read(table, &words, usual, &behind);
    let promises = promises.iter().map(read).collect();
    if load.is_none() || service.is_none() {
        return None;
    }
    let (name, trouble) = (name.to_owned(), word?.to_owned());
    Some(Plan { name, trouble, scenario, behind, against, others, promises })
}

/// A service with a fifth to spare.
fn usual_service(load: f64) -> Service {
    let (time, spare) = USUAL;
    let workers = (load * spare * time.as_secs_f64()).ceil().clamp(1.0, 1e9);
    Service::constant(workers as u32, time)
}

/// What the model itself does not mind, but a verdict does, or the machine it runs on.
fn limits(fields: &Fields<'_>, scenario: &Scenario) {
    if scenario.instances > MOST_INSTANCES {
        let is = scenario.instances;
        fields.wrong("instances", format_args!("is {is}: write at most {MOST_INSTANCES}"));
    }
    let all =
        std::iter::once(&scenario.arrivals).chain(scenario.kinds.iter().map(|kind| &kind.arrivals));
    for arrivals in all {
        if let Arrivals::Closed { users, .. }
        | Arrivals::Burst { users, .. }
        | Arrivals::Bursts { users, .. } = arrivals
            && *users > MOST_USERS
        {
            fields.wrong("arrivals", format_args!("has {users} users: write at most {MOST_USERS}"));
        }
    }
    if scenario.end() > LONGEST {
        fields.wrong(
            "watch",
            "ends more than a day after the start: write less, or a shorter outage",
        );
    }
    if scenario.patience.is_zero() {
        fields.wrong("patience", "is 0s, so everybody leaves at once: write such as \"1s\"");
    }
    let whole = |duration: Duration| duration.subsec_nanos() == 0;
    let outage = scenario.outage;
    if !whole(outage.at) || !whole(outage.length) {
        fields.wrong("outage", "is judged by whole seconds: write at and length as such");
    }
    if !whole(scenario.watch) || scenario.watch < WATCH {
        fields.wrong(
            "watch",
            "is too short to believe a recovery: write whole seconds, at least \"25s\"",
        );
    }
}

/// Users' requests per second: as written, or as they arrive.
fn load(
    fields: &Fields<'_>,
    arrivals: Option<&Arrivals>,
    service: Option<&Service>,
) -> Option<f64> {
    let written = fields.get::<Rate>("load").map(|Rate(load)| load);
    let mean = service.map_or(Duration::ZERO, Service::mean);
    match arrivals.and_then(|arrivals| arriving(arrivals, mean)) {
        _ if fields.has("load") => written,
        Some(load) => Some(load),
        None => {
            fields.wrong("load", "is missing: write users' requests per second, such as \"300/s\"");
            None
        }
    }
}

/// How many arrive per second, where the pattern alone says so and each is inside for so long.
pub(super) fn arriving(arrivals: &Arrivals, inside: Duration) -> Option<f64> {
    match arrivals {
        Arrivals::Recorded(counts) => {
            let sum: f64 = counts.iter().map(|&count| f64::from(count)).sum();
            Some((sum / counts.len().max(1) as f64).max(f64::MIN_POSITIVE))
        }
        Arrivals::Burst { users, .. } => Some(f64::from(*users)),
        Arrivals::Bursts { users, every, .. } => {
            Some(f64::from(*users) / every.as_secs_f64().max(1e-9))
        }
        Arrivals::Closed { users, think } => {
            let think = Draw::new(think).map_or(Duration::ZERO, |think| think.mean());
            let round = think.saturating_add(inside);
            Some(f64::from(*users) / round.as_secs_f64().max(1e-9))
        }
        Arrivals::Random | Arrivals::Even | Arrivals::Shaped(_) => None,
    }
}

/// `"random"`, `"even"`, `{ shape = … }`, `{ recorded = … }`, `{ users = …, at = … }`, `{ users = …, every = … }` or
/// `{ users = …, think = … }`.
pub(super) fn arrivals(fields: &Fields<'_>) -> Option<Arrivals> {
    if !fields.is_table("arrivals") {
        let even = fields.word("arrivals", &[("random", false), ("even", true)]);
        return Some(if even == Some(true) { Arrivals::Even } else { Arrivals::Random });
    }
    let inside = fields.table("arrivals")?;
    if inside.has("shape") {
        return curve(&inside, "shape").map(Arrivals::Shaped);
    }
    if inside.has("recorded") {
        let seconds = inside.list::<Seconds>("recorded")?;
        let count = |Seconds(count, times)| std::iter::repeat_n(count, times);
        // No run is longer.
        let counts = seconds.into_iter().flat_map(count).take(LONGEST.as_secs() as usize);
        return Some(Arrivals::Recorded(counts.collect()));
    }
    let users = needed(&inside, "users");
    if inside.has("at") {
        return Some(Arrivals::Burst { users: users?, at: inside.get("at")? });
    }
    if inside.has("every") {
        let (every, mut within) = (inside.get("every"), Duration::ZERO);
        inside.set("within", &mut within);
        return Some(Arrivals::Bursts { users: users?, within, every: every? });
    }
    let think = spread(&inside, "think");
    if !inside.has("think") {
        inside.wrong("think", "is missing: write how long a user thinks, such as \"1s\"; or write at, if they come once and together, or every, if again and again");
    }
    Some(Arrivals::Closed { users: users?, think: think? })
}

/// As many in a second, for so many seconds.
struct Seconds(u32, usize);

impl Read for Seconds {
    fn expected() -> String {
        "the requests of a second, such as 300, or of several, such as [300, 20]".to_owned()
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        let count = |value: &Raw<'_>| u32::try_from(value.whole()?).ok();
        if let Some(count) = count(value) {
            return Some(Self(count, 1));
        }
        let [each, seconds] = value.parts()?;
        let seconds = count(&seconds).filter(|seconds| *seconds <= 100_000)?;
        Some(Self(count(&each)?, seconds as usize))
    }
}

fn resubmit(fields: &Fields<'_>) -> Option<Resubmit> {
    let inside = fields.table("resubmit")?;
    let (share, after) = (needed(&inside, "share"), spread(&inside, "after"));
    if !inside.has("after") {
        inside.wrong("after", "is missing: write how much later, such as \"5s\"");
    }
    let mut times = 1;
    inside.set("times", &mut times);
    Some(Resubmit { share: share?, after: after?, times })
}

fn restarts(fields: &Fields<'_>) -> Vec<Restart> {
    fields.tables("restarts").iter().filter_map(restart).collect()
}

pub(super) fn restart(fields: &Fields<'_>) -> Option<Restart> {
    let (at, mut step) = (needed(fields, "at"), Duration::ZERO);
    fields.set("step", &mut step);
    Some(Restart { at: at?, step })
}
