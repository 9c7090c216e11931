//! `[upstream.*]`: what everybody who calls it shares.

use std::{collections::BTreeMap, time::Duration};

use quell_core::{
    endpoints::Ejection,
    in_flight::Limit,
    pools,
    queue::Order,
    spec::{Gate, UpstreamSpec},
    throttle,
};

use super::{
    backoff::strip,
    breaker::Breaker,
    budget::{self, Budget},
    fields::Fields,
    limit::{mode, rate_limit},
    preset::Preset,
    reach::{ClientTls, HostField, Protocol},
    read::{Raw, Read},
    setting::{Settings, Value, Write},
    shape::Shape,
    table::{self, Table},
    target::Target,
};

/// An upstream as written, and as the core takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// What it starts from.
    pub preset: Preset,
    /// As the core takes it, with one process's part of the budget; it is valid.
    pub spec: UpstreamSpec,
    /// Where it is.
    pub endpoints: Vec<Target>,
    /// What retries may cost, as written.
    pub budget: Budget,
    /// The breaker, as written.
    pub breaker: Breaker,
    /// How many slots each kind of calls may hold, by name.
    pub pools: Vec<(String, u32)>,
    /// What it speaks.
    pub protocol: Protocol,
    /// How often names are looked up again.
    pub resolve: Duration,
    /// The longest that a connection may take, TLS included.
    pub connect_timeout: Duration,
    /// Which `Host` it sees.
    pub host: HostField,
    /// What it is shown, and what it must show, where it speaks TLS.
    pub tls: ClientTls,
}

/// The orders, by the words for them.
const ORDERS: [(&str, Order); 3] =
    [("fifo", Order::Fifo), ("lifo", Order::Lifo), ("adaptive-lifo", Order::AdaptiveLifo)];

/// Whom a hint holds back, by the words for it.
const GATES: [(&str, Gate); 2] = [("retries", Gate::Retries), ("all", Gate::All)];

impl Upstream {
    /// The defaults of a preset, nowhere.
    pub fn of(preset: Preset) -> Self {
        let spec = preset.upstream();
        Self {
            preset,
            spec,
            endpoints: Vec::new(),
            budget: Budget::of(spec.budget),
            breaker: Breaker::of(spec.breaker),
            pools: Vec::new(),
            protocol: Protocol::Auto,
            resolve: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(2),
            host: HostField::Keep,
            tls: ClientTls::default(),
        }
    }

    /// All upstreams of a file, by name.
    pub fn all(root: &Fields<'_>) -> BTreeMap<String, Self> {
        root.means("upstream", "what everybody who calls a service shares, by name");
        let read = |(name, fields): (String, Fields<'_>)| {
            let mut upstream = Self::of(Preset::default());
            upstream.settings(&Table::reading(&fields));
            upstream.check(&fields);
            (name, upstream)
        };
        root.named("upstream").into_iter().map(read).collect()
    }

    /// All of it, as it stands in a file.
    pub fn written(&self) -> Settings {
        table::written(|table| self.clone().settings(table))
    }

    fn settings(&mut self, table: &Table<'_>) {
        table.written_last(&["gate", "protocol", "resolve", "connect_timeout", "host", "tls"]);
        if table.word("preset", &mut self.preset, &Preset::WORDS, "what the defaults are") {
            *self = Self::of(self.preset);
        }
        self.endpoints(table);
        self.reach(table);
        self.budget(table);
        self.children(table);
        let means = "when nobody is let through, and how calls return";
        table.inside("breaker", means, |inside| {
            if inside.reads() {
                // What is written goes over the breaker's own preset, not over the upstream's.
                self.breaker = Breaker::of(Default::default());
            }
            self.breaker.settings(inside);
            if self.breaker.keys.is_some() {
                inside.idle("keys", "no host tells keys apart, so all calls share one breaker");
            }
        });
        self.spec.breaker = self.breaker.spec;
        self.spec.breaker_keys = self.breaker.keys;
        let means = "how many calls may be under way, and who waits";
        table.inside("in_flight", means, |inside| self.in_flight(inside));
        let means =
            "whom a hint of the upstream holds back: retries and hedges, or first attempts too";
        table.word("gate", &mut self.spec.gate, &GATES, means);
        self.curbs(table);
    }

    fn endpoints(&mut self, table: &Table<'_>) {
        let means = "where it is: http://host:port or https://host:port, without a path";
        if !table.parsed("endpoints", &mut self.endpoints, means) {
            return;
        }
        match u16::try_from(self.endpoints.len()) {
            Ok(count) => self.spec.endpoints = count,
            Err(_) => table.wrong("endpoints", "has too many: write at most 65535"),
        }
    }

    fn budget(&mut self, table: &Table<'_>) {
        let modes = &mut self.spec.modes;
        let means = "what retries cost, so that they stay few when much fails";
        table.inside("budget", means, |inside| {
            mode(inside, &mut modes.budget);
            self.budget.settings(inside);
        });
        // The whole one is looked at: what is divided may be rounded to something that is right.
        match budget::check(self.budget.whole).and_then(|()| self.budget.part()) {
            Ok(part) => self.spec.budget = part,
            Err(error) => table.invalid(&error),
        }
    }

    fn children(&mut self, table: &Table<'_>) {
        let means = "a budget for each route or tenant within the upstream's";
        table.maybe("children", &mut self.spec.children, means, |inside, written| {
            let mut budget = Budget::of(written.unwrap_or_default());
            budget.settings(inside);
            let part = budget.part().and_then(|part| budget::check(part).map(|()| part));
            part.map_err(|error| inside.invalid(&strip("budget.", &error))).ok()
        });
    }

    fn in_flight(&mut self, table: &Table<'_>) {
        table.written_last(&["order", "pools", "mode"]);
        let spec = &mut self.spec;
        mode(table, &mut spec.modes.in_flight);
        let mut slots = Slots::of(spec.in_flight);
        let means = "how many at once: a number, \"adaptive\" or \"off\"";
        if table.set("limit", &mut slots, means) {
            spec.in_flight = match slots {
                Slots::Off => Limit::Off,
                Slots::Fixed(slots) => Limit::Fixed(slots),
                Slots::Adaptive => Limit::Adaptive { ceiling: CEILING },
            };
        }
        if let Limit::Adaptive { ceiling } = &mut spec.in_flight {
            table.set("ceiling", ceiling, "the most that adaptive goes up to");
        } else if table.has("ceiling") {
            table.wrong(
                "ceiling",
                "is for a limit that finds itself: write limit = \"adaptive\", or leave it out",
            );
        }
        table.set("queue", &mut spec.queue, "how many may wait for a slot");
        if spec.queue > MOST_QUEUED {
            table.wrong(
                "queue",
                format_args!("is {}: write at most {MOST_QUEUED}, such as 64", spec.queue),
            );
            spec.queue = 0;
        }
        table.word("order", &mut spec.order, &ORDERS, "who of those who wait is next");
        let means = "the longest wait; half the callers' patience less the time an answer takes if not written";
        table.set("queue_wait", &mut spec.queue_wait, means);
        self.pools(table);
    }

    fn pools(&mut self, table: &Table<'_>) {
        let pools = &self.pools;
        let written = || {
            let cap = |(name, cap): &(String, u32)| (name.clone(), Value::Whole((*cap).into()));
            (!pools.is_empty()).then(|| Value::Named(pools.iter().map(cap).collect()))
        };
        let means = "slots that each kind of calls may hold, by name";
        let Some(pools) = table.setting("pools", means, |fields| fields.values("pools"), written)
        else {
            return;
        };
        self.pools = pools;
        let caps: Vec<_> = self.pools.iter().map(|(_, cap)| *cap).collect();
        match pools::Spec::of(&caps) {
            Ok(pools) => self.spec.pools = pools,
            Err(error) => table.invalid(&strip("in_flight.", &error)),
        }
        if !caps.is_empty() {
            table.idle("pools", "no host tells kinds of calls apart, so all share the limit");
        }
    }

    /// What most upstreams do without.
    fn curbs(&mut self, table: &Table<'_>) {
        let spec = &mut self.spec;
        let modes = &mut spec.modes;
        let means = "how many calls per second are let through, or \"off\"";
        table.switch("rate_limit", &mut spec.rate_limit, means, |inside, written| {
            inside.written_last(&["mode"]);
            mode(inside, &mut modes.rate_limit);
            rate_limit(inside, written)
        });
        let means = "spares the upstream what it would turn down, or \"off\"";
        table.switch("throttle", &mut spec.throttle, means, |inside, written| {
            inside.written_last(&["mode"]);
            mode(inside, &mut modes.throttle);
            let mut throttle = written.unwrap_or_else(throttle::Spec::default);
            let means = "how many requests it may see for each that it accepts";
            inside.set("k", &mut throttle.k, means);
            inside.set("window", &mut throttle.window, "how far back it looks");
            inside.set("most", &mut throttle.most, "the largest share that is refused");
            Some(throttle)
        });
        let means =
            "leaves one of several endpoints alone after so many failures in a row, or \"off\"";
        table.switch("ejection", &mut spec.ejection, means, |inside, written| {
            inside.written_last(&["mode"]);
            mode(inside, &mut modes.ejection);
            let mut ejection = written.unwrap_or_else(Ejection::default);
            inside.set("after", &mut ejection.after, "failures in a row");
            inside.set("base", &mut ejection.base, "for how long, the first time");
            inside.set("most", &mut ejection.most, "for how long at most");
            Some(ejection)
        });
    }

    /// Asks the core, with the attempts' timeout of whoever calls it.
    fn check(&self, fields: &Fields<'_>) {
        let per_try = Duration::from_secs(10); // every one is as good to the check
        if let Err(error) = quell_core::Upstream::new(self.spec, per_try, 0, quell_core::Time::ZERO)
        {
            fields.invalid(&error);
        }
    }
}

/// The most a limit that finds itself may find, unless written.
const CEILING: u32 = 4_096;
/// Most that may wait: a longer queue is no place to wait in.
const MOST_QUEUED: usize = 65_536;

#[derive(Clone, Copy)]
enum Slots {
    Off,
    Fixed(u32),
    Adaptive,
}

impl Slots {
    fn of(limit: Limit) -> Self {
        match limit {
            Limit::Off => Self::Off,
            Limit::Fixed(slots) => Self::Fixed(slots),
            Limit::Adaptive { .. } => Self::Adaptive,
        }
    }
}

impl Write for Slots {
    fn write(&self) -> Option<Value> {
        Some(match self {
            Self::Off => Value::text("off"),
            Self::Fixed(slots) => Value::Whole((*slots).into()),
            Self::Adaptive => Value::text("adaptive"),
        })
    }
}

impl Read for Slots {
    fn expected() -> String {
        "\"adaptive\", \"off\" or a whole number".to_owned()
    }

    fn shape() -> Shape {
        Shape::Either(vec![Shape::words(["adaptive", "off"]), u32::shape()])
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        match value.text() {
            Some("adaptive") => Some(Self::Adaptive),
            Some("off") => Some(Self::Off),
            Some(_) => None,
            None => u32::try_from(value.whole()?).ok().map(Self::Fixed),
        }
    }
}
