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
    breaker::Breaker,
    budget::{self, Budget},
    fields::{Fields, Switch},
    limit::{mode, rate_limit},
    policy::strip,
    preset::Preset,
    reach::{ClientTls, HostField, Protocol},
    read::{Raw, Read},
    shape::Shape,
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
pub(super) const ORDERS: [(&str, Order); 3] =
    [("fifo", Order::Fifo), ("lifo", Order::Lifo), ("adaptive-lifo", Order::AdaptiveLifo)];

/// Whom a hint holds back, by the words for it.
pub(super) const GATES: [(&str, Gate); 2] = [("retries", Gate::Retries), ("all", Gate::All)];

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
        let read = |(name, fields): (String, Fields<'_>)| {
            let upstream = Self::read(&fields);
            upstream.check(&fields);
            (name, upstream)
        };
        root.named("upstream").into_iter().map(read).collect()
    }

    fn read(fields: &Fields<'_>) -> Self {
        let mut upstream = Self::of(Preset::read(fields));
        upstream.endpoints(fields);
        upstream.reach(fields);
        upstream.budget(fields);
        if let Some(inside) = fields.table("breaker") {
            upstream.breaker = Breaker::read(&inside);
            if upstream.breaker.keys.is_some() {
                inside.idle("keys", "no host tells keys apart, so all calls share one breaker");
            }
        }
        upstream.spec.breaker = upstream.breaker.spec;
        upstream.spec.breaker_keys = upstream.breaker.keys;
        if let Some(inside) = fields.table("in_flight") {
            upstream.in_flight(&inside);
        }
        upstream.curbs(fields);
        upstream
    }

    fn endpoints(&mut self, fields: &Fields<'_>) {
        let Some(endpoints) = fields.parsed("endpoints") else { return };
        self.endpoints = endpoints;
        match u16::try_from(self.endpoints.len()) {
            Ok(count) => self.spec.endpoints = count,
            Err(_) => fields.wrong("endpoints", "has too many: write at most 65535"),
        }
    }

    fn budget(&mut self, fields: &Fields<'_>) {
        let modes = &mut self.spec.modes;
        if let Some(inside) = fields.table("budget") {
            mode(&inside, &mut modes.budget);
            self.budget = Budget::read(&inside, self.budget);
        }
        // The whole one is looked at: what is divided may be rounded to something that is right.
        match budget::check(self.budget.whole).and_then(|()| self.budget.part()) {
            Ok(part) => self.spec.budget = part,
            Err(error) => fields.invalid(&error),
        }
        if let Some(inside) = fields.table("children") {
            let children = Budget::read(&inside, Budget::of(Default::default()));
            let part = children.part().and_then(|part| budget::check(part).map(|()| part));
            match part {
                Ok(part) => self.spec.children = Some(part),
                Err(error) => inside.invalid(&strip("budget.", &error)),
            }
        }
    }

    fn in_flight(&mut self, fields: &Fields<'_>) {
        let spec = &mut self.spec;
        mode(fields, &mut spec.modes.in_flight);
        if let Some(written) = fields.get("limit") {
            spec.in_flight = match written {
                Slots::Off => Limit::Off,
                Slots::Fixed(slots) => Limit::Fixed(slots),
                Slots::Adaptive => Limit::Adaptive { ceiling: CEILING },
            };
        }
        if let Limit::Adaptive { ceiling } = &mut spec.in_flight {
            fields.set("ceiling", ceiling);
        } else if fields.has("ceiling") {
            fields.wrong(
                "ceiling",
                "is for a limit that finds itself: write limit = \"adaptive\", or leave it out",
            );
        }
        fields.set("queue", &mut spec.queue);
        if spec.queue > MOST_QUEUED {
            fields.wrong(
                "queue",
                format_args!("is {}: write at most {MOST_QUEUED}, such as 64", spec.queue),
            );
            spec.queue = 0;
        }
        if let Some(order) = fields.word("order", &ORDERS) {
            spec.order = order;
        }
        fields.set("queue_wait", &mut spec.queue_wait);
        self.pools = fields.values("pools");
        let caps: Vec<_> = self.pools.iter().map(|(_, cap)| *cap).collect();
        match pools::Spec::of(&caps) {
            Ok(pools) => self.spec.pools = pools,
            Err(error) => fields.invalid(&strip("in_flight.", &error)),
        }
        if !caps.is_empty() {
            fields.idle("pools", "no host tells kinds of calls apart, so all share the limit");
        }
    }

    /// What most upstreams do without.
    fn curbs(&mut self, fields: &Fields<'_>) {
        let spec = &mut self.spec;
        if let Some(gate) = fields.word("gate", &GATES) {
            spec.gate = gate;
        }
        match fields.switch("rate_limit") {
            Switch::Absent => {}
            Switch::Off => spec.rate_limit = None,
            Switch::On(inside) => {
                mode(&inside, &mut spec.modes.rate_limit);
                spec.rate_limit = rate_limit(&inside);
            }
        }
        match fields.switch("throttle") {
            Switch::Absent => {}
            Switch::Off => spec.throttle = None,
            Switch::On(inside) => {
                mode(&inside, &mut spec.modes.throttle);
                let mut throttle = throttle::Spec::default();
                inside.set("k", &mut throttle.k);
                inside.set("window", &mut throttle.window);
                inside.set("most", &mut throttle.most);
                spec.throttle = Some(throttle);
            }
        }
        match fields.switch("ejection") {
            Switch::Absent => {}
            Switch::Off => spec.ejection = None,
            Switch::On(inside) => {
                mode(&inside, &mut spec.modes.ejection);
                let mut ejection = Ejection::default();
                inside.set("after", &mut ejection.after);
                inside.set("base", &mut ejection.base);
                inside.set("most", &mut ejection.most);
                spec.ejection = Some(ejection);
            }
        }
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

enum Slots {
    Off,
    Fixed(u32),
    Adaptive,
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
