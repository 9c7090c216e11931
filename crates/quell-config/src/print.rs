//! Print: all that is in force, as a file that means the same.
//!
//! Whoever asks what a default is, or what came of a file and its environment, reads it here. Secrets are shown as the
//! places they are in.

use std::{
    fmt::{self, Display, Write},
    time::Duration,
};

use quell_core::{
    backoff::{self, Jitter, Shape},
    breaker::Over,
    budget::{Bucket, Spec, tokens::Cost},
    in_flight::Limit,
    mode::Mode,
};

use super::{
    Breaker, Budget, ClientTls, Counted, Policy, RetryOn, Upstream,
    breaker::MODES as BREAKER_MODES,
    budget::in_tokens,
    limit::MODES,
    policy::UNSAFE_METHODS,
    preset::word,
    reach::{HOSTS, PROTOCOLS},
    upstream::{GATES, ORDERS},
    value::Written,
};

pub fn section(text: &mut String, heading: &str, settings: Settings) {
    let _ = write!(text, "\n{heading}\n");
    for (name, value) in settings.0 {
        let _ = writeln!(text, "{name} = {value}");
    }
}

/// Names and values as they stand in the file.
#[derive(Default)]
pub struct Settings(Vec<(&'static str, String)>);

impl Settings {
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    pub fn maybe(self, name: &'static str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub fn time(self, name: &'static str, time: Duration) -> Self {
        self.with(name, Text(&Written(time).to_string()))
    }

    pub fn maybe_time(self, name: &'static str, time: Option<Duration>) -> Self {
        match time {
            Some(time) => self.time(name, time),
            None => self,
        }
    }

    pub fn word(self, name: &'static str, word: &str) -> Self {
        self.with(name, Text(word))
    }

    pub fn maybe_word(self, name: &'static str, word: Option<impl Display>) -> Self {
        match word {
            Some(word) => self.word(name, &word.to_string()),
            None => self,
        }
    }

    pub fn number(self, name: &'static str, number: f64) -> Self {
        self.with(name, format_args!("{number:?}")) // with a point, so that it reads as one
    }

    pub fn inside(self, name: &'static str, settings: Self) -> Self {
        self.with(name, settings)
    }

    pub fn mode(self, mode: Mode) -> Self {
        self.word("mode", word(&MODES, mode))
    }
}

/// As a table in one line.
impl Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<_> =
            self.0.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        write!(f, "{{ {} }}", settings.join(", "))
    }
}

/// Text in quotes.
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

fn list<T>(parts: &[T], shown: impl Fn(&T) -> String) -> String {
    format!("[{}]", parts.iter().map(shown).collect::<Vec<_>>().join(", "))
}

pub fn texts<T: Display>(parts: &[T]) -> String {
    list(parts, |part| Text(&part.to_string()).to_string())
}

pub fn policy(policy: &Policy) -> Settings {
    let spec = &policy.spec;
    let hedge = policy.hedge.map(|hedge| {
        let inside = Settings::default().number("after", hedge.after);
        inside.time("at_least", hedge.at_least).to_string()
    });
    Settings::default()
        .word("preset", policy.preset.word())
        .with("attempts", spec.attempts)
        .time("timeout", spec.timeout)
        .maybe_time("per_try_timeout", spec.per_try_timeout)
        .inside("backoff", backoff(&spec.backoff))
        .with("retry_on", list(&policy.retry_on, retry_on))
        .word("unsafe_methods", word(&UNSAFE_METHODS, policy.unsafe_methods))
        .inside("hint", Settings::default().time("cap", spec.hint_cap))
        .with("hedge", hedge.unwrap_or_else(|| "\"off\"".to_owned()))
}

fn retry_on(on: &RetryOn) -> String {
    match on {
        RetryOn::Connect => "\"connect\"".to_owned(),
        RetryOn::Timeout => "\"timeout\"".to_owned(),
        RetryOn::Status(code) => code.to_string(),
    }
}

fn backoff(spec: &backoff::Spec) -> Settings {
    let kind = Settings::default().word("kind", spec.shape.as_str());
    let shape = match spec.shape {
        Shape::None => kind,
        Shape::Fixed | Shape::Linear => kind.time("base", spec.base),
        Shape::Exponential { factor } => kind.time("base", spec.base).number("factor", factor),
        Shape::List(waits) => {
            let waits: Vec<_> = waits.iter().map(Written).collect();
            kind.with("waits", texts(&waits))
        }
    };
    let jitter = shape.time("cap", spec.cap).word("jitter", spec.jitter.as_str());
    match spec.jitter {
        Jitter::Proportional(share) => jitter.number("share", share),
        _ => jitter,
    }
}

pub fn upstream(upstream: &Upstream) -> Settings {
    let (spec, modes) = (&upstream.spec, &upstream.spec.modes);
    let endpoints = &upstream.endpoints;
    let off = || Text("off").to_string();
    let rate_limit =
        spec.rate_limit.map_or_else(off, |spec| limit(&spec).mode(modes.rate_limit).to_string());
    let throttle = spec.throttle.map_or_else(off, |spec| {
        let inside = Settings::default().number("k", spec.k).time("window", spec.window);
        inside.number("most", spec.most).mode(modes.throttle).to_string()
    });
    let ejection = spec.ejection.map_or_else(off, |spec| {
        let inside = Settings::default().with("after", spec.after).time("base", spec.base);
        inside.time("most", spec.most).mode(modes.ejection).to_string()
    });
    Settings::default()
        .word("preset", upstream.preset.word())
        .maybe("endpoints", (!endpoints.is_empty()).then(|| texts(endpoints)))
        .inside("budget", budget(&upstream.budget).mode(modes.budget))
        .maybe("children", spec.children.map(|children| budget(&Budget::of(children))))
        .inside("breaker", breaker(&upstream.breaker))
        .inside("in_flight", in_flight(upstream))
        .with("rate_limit", rate_limit)
        .with("throttle", throttle)
        .with("ejection", ejection)
        .word("gate", word(&GATES, spec.gate))
        .word("protocol", word(&PROTOCOLS, upstream.protocol))
        .time("resolve", upstream.resolve)
        .time("connect_timeout", upstream.connect_timeout)
        .word("host", word(&HOSTS, upstream.host))
        .maybe("tls", (upstream.tls != ClientTls::default()).then(|| client_tls(&upstream.tls)))
}

pub fn limit(spec: &quell_core::limiter::Spec) -> Settings {
    Settings::default().number("per_second", spec.per_second).with("burst", spec.burst)
}

fn in_flight(upstream: &Upstream) -> Settings {
    let spec = &upstream.spec;
    let limit = match spec.in_flight {
        Limit::Off => Settings::default().word("limit", "off"),
        Limit::Fixed(slots) => Settings::default().with("limit", slots),
        Limit::Adaptive { ceiling } => {
            Settings::default().word("limit", "adaptive").with("ceiling", ceiling)
        }
    };
    let pools: Vec<_> =
        upstream.pools.iter().map(|(name, cap)| format!("{} = {cap}", Text(name))).collect();
    limit
        .with("queue", spec.queue)
        .maybe_time("queue_wait", spec.queue_wait)
        .word("order", word(&ORDERS, spec.order))
        .maybe("pools", (!pools.is_empty()).then(|| format!("{{ {} }}", pools.join(", "))))
        .mode(spec.modes.in_flight)
}

fn budget(budget: &Budget) -> Settings {
    let whole = spec(&budget.whole).maybe("instances", budget.instances);
    if budget.ephemeral { whole.with("ephemeral", true) } else { whole }
}

fn spec(spec: &Spec) -> Settings {
    let kind = Settings::default().word("kind", spec.kind());
    let bucket = |kind: Settings, bucket: Bucket| {
        kind.with("max", bucket.max).number("ratio", bucket.ratio).maybe("start", bucket.start)
    };
    match spec {
        Spec::Tokens(spec) => bucket(kind, spec.bucket())
            .maybe_time("refill", spec.refill)
            .number("pause_below", spec.pause_below)
            .inside("cost", cost(&spec.cost)),
        Spec::Grpc(spec) => bucket(kind, spec.bucket),
        Spec::FailedRetry(spec) => bucket(kind, spec.bucket),
        Spec::Adaptive(spec) => bucket(kind, spec.bucket)
            .number("alpha", spec.alpha)
            .number("success_floor", spec.success_floor),
        Spec::Ratio(spec) => {
            kind.number("ratio", spec.ratio).time("window", spec.window).number("floor", spec.floor)
        }
        Spec::Window(spec) => kind
            .number("ratio", spec.ratio)
            .time("window", spec.window)
            .with("bootstrap", spec.bootstrap),
        Spec::Probabilistic(spec) => kind
            .number("target", spec.target)
            .number("unknown", spec.unknown)
            .time("half_life", spec.half_life),
        Spec::Sampled(sampled) => kind
            .number("fraction", sampled.fraction)
            .inside("inner", self::spec(&sampled.inner.into())),
        Spec::Unlimited | Spec::None => kind,
    }
}

fn cost(cost: &Cost) -> Settings {
    Settings::default()
        .number("connect", in_tokens(cost.connect))
        .number("timeout", in_tokens(cost.timeout))
        .number("overload", in_tokens(cost.overload))
        .number("server", in_tokens(cost.server))
}

fn breaker(breaker: &Breaker) -> Settings {
    let spec = &breaker.spec;
    let (over, calls) = match spec.over {
        Over::Time => ("time", None),
        Over::Calls(calls) => ("calls", Some(calls)),
        Over::Either(calls) => ("either", Some(calls)),
        Over::Off => ("off", None),
    };
    Settings::default()
        .word("mode", word(&BREAKER_MODES, spec.mode))
        .word("over", over)
        .maybe("calls", calls)
        .time("window", spec.window)
        .with("min_calls", spec.min_calls)
        .number("failure_rate", spec.failure_rate)
        .maybe_time("slow", spec.slow)
        .number("slow_rate", spec.slow_rate)
        .with("consecutive", spec.consecutive)
        .time("open", spec.open)
        .number("growth", spec.growth)
        .with("growth_after", spec.growth_after)
        .time("open_max", spec.open_max)
        .with("probes", spec.probes)
        .with("successes", spec.successes)
        .with("failures", spec.failures)
        .time("ramp", spec.ramp)
        .with("record", list(&breaker.record, counted))
        .with("ignore", list(&breaker.ignore, counted))
        .maybe("keys", breaker.keys)
}

fn counted(counted: &Counted) -> String {
    match counted {
        Counted::Code(code) => code.to_string(),
        Counted::Fault(fault) => Text(word(&Counted::FAULTS, *fault)).to_string(),
    }
}

fn client_tls(tls: &ClientTls) -> Settings {
    Settings::default()
        .maybe_word("ca", tls.ca.as_ref().map(|path| path.display()))
        .maybe_word("cert", tls.cert.as_ref().map(|path| path.display()))
        .maybe_word("key", tls.key.as_ref().map(|path| path.display()))
        .maybe_word("server_name", tls.server_name.as_ref())
}
