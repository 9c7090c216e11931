//! `[policy.*]`: how one call behaves.

use std::{collections::BTreeMap, time::Duration};

use quell_core::{
    backoff::{self, Jitter, Shape, Waits},
    hedge::Hedge,
    lint::Kind,
    spec::PolicySpec,
};

use super::{
    fields::{Fields, Switch},
    preset::Preset,
    read::{Raw, Read},
    shape,
    upstream::Upstream,
};

/// A policy as written, and as the core takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// What it starts from.
    pub preset: Preset,
    /// As the core takes it; it is valid.
    pub spec: PolicySpec,
    /// When to hedge, as written: [`PolicySpec::hedge`] keeps it to itself.
    pub hedge: Option<Hedged>,
    /// What is worth another attempt.
    pub retry_on: Vec<RetryOn>,
    /// Whether requests that are not safe to repeat are repeated.
    pub unsafe_methods: Repeats,
}

/// When to send a second attempt beside the first, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedged {
    /// The share of attempts that are quicker.
    pub after: f64,
    /// And not before this.
    pub at_least: Duration,
}

/// What is worth another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetryOn {
    /// No connection: nothing was sent.
    Connect,
    /// No answer in time.
    Timeout,
    /// A status.
    Status(u16),
}

/// Whether requests are repeated whose method does not allow it by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// They are not.
    Never,
    /// If they carry an `Idempotency-Key`.
    #[default]
    WithKey,
    /// They are.
    Always,
}

pub(super) const UNSAFE_METHODS: [(&str, Repeats); 3] =
    [("never", Repeats::Never), ("with-key", Repeats::WithKey), ("always", Repeats::Always)];

impl Policy {
    /// The defaults of a preset.
    pub fn of(preset: Preset) -> Self {
        Self {
            preset,
            spec: preset.policy(),
            hedge: None,
            retry_on: preset.retry_on(),
            unsafe_methods: Repeats::default(),
        }
    }

    /// All policies of a file, by name.
    pub fn all(root: &Fields<'_>) -> BTreeMap<String, Self> {
        let policies = root.named("policy").into_iter();
        policies.map(|(name, fields)| (name, Self::read(&fields))).collect()
    }

    /// The policy of calls to an upstream, where nothing names one: that of the same name, or the defaults of its preset.
    pub fn for_upstream(
        name: &str,
        policies: &BTreeMap<String, Self>,
        upstreams: &BTreeMap<String, Upstream>,
    ) -> Self {
        let preset = || upstreams.get(name).map_or_else(Preset::default, |found| found.preset);
        policies.get(name).cloned().unwrap_or_else(|| Self::of(preset()))
    }

    /// The statuses that are worth another attempt.
    pub fn codes(&self) -> Vec<u16> {
        let status = |on: &RetryOn| match on {
            RetryOn::Status(code) => Some(*code),
            RetryOn::Connect | RetryOn::Timeout => None,
        };
        self.retry_on.iter().filter_map(status).collect()
    }

    /// Another timeout for the whole call. One attempt may take all of it where it might before, or else an equal share at most.
    pub fn set_timeout(&mut self, timeout: Duration) {
        within(timeout, &mut self.spec);
    }

    /// Who waits for its calls, for [`quell_core::lint`].
    pub fn kind(&self) -> Kind {
        if self.preset == Preset::Background { Kind::Background } else { Kind::Online }
    }

    fn read(fields: &Fields<'_>) -> Self {
        let mut policy = Self::of(Preset::read(fields));
        let spec = &mut policy.spec;
        fields.set("attempts", &mut spec.attempts);
        within(fields.get("timeout").unwrap_or(spec.timeout), spec);
        fields.set("per_try_timeout", &mut spec.per_try_timeout);
        if let Some(fields) = fields.table("backoff") {
            backoff(&fields, &mut spec.backoff);
        }
        if let Some(hint) = fields.table("hint") {
            hint.set("cap", &mut spec.hint_cap);
        }
        policy.hedge(fields);
        if let Some(retry_on) = fields.list("retry_on") {
            policy.retry_on = retry_on;
            policy.retry_on.sort_unstable();
            policy.retry_on.dedup();
        }
        if !policy.retry_on.starts_with(&[RetryOn::Connect, RetryOn::Timeout]) {
            let instead = "connect failures and timeouts are retried whether or not they are in it";
            fields.idle("retry_on", instead);
        }
        if let Some(word) = fields.word("unsafe_methods", &UNSAFE_METHODS) {
            policy.unsafe_methods = word;
        }
        if let Err(error) = quell_core::Policy::new(policy.spec) {
            fields.invalid(&error);
        }
        policy
    }

    fn hedge(&mut self, fields: &Fields<'_>) {
        let Switch::On(hedge) = fields.switch("hedge") else { return };
        let mut hedged = Hedged { after: 0.95, at_least: Duration::from_millis(10) };
        hedge.set("after", &mut hedged.after);
        hedge.set("at_least", &mut hedged.at_least);
        match Hedge::new(hedged.after, hedged.at_least) {
            Ok(hedge) => (self.spec.hedge, self.hedge) = (Some(hedge), Some(hedged)),
            Err(error) => fields.invalid(&error),
        }
    }
}

/// See [`Policy::set_timeout`].
fn within(timeout: Duration, spec: &mut PolicySpec) {
    let share = timeout / spec.attempts.max(1);
    let may_take_all = spec.per_try_timeout == Some(spec.timeout);
    let fit = |usual: Duration| if may_take_all { timeout } else { usual.min(share) };
    (spec.timeout, spec.per_try_timeout) = (timeout, spec.per_try_timeout.map(fit));
}

impl Read for RetryOn {
    fn expected() -> String {
        "\"connect\", \"timeout\" or a status from 400 to 599, such as 503".to_owned()
    }

    fn shape() -> shape::Shape {
        let words = shape::Shape::words(["connect", "timeout"]);
        shape::Shape::Either(vec![words, shape::Shape::Between(400, 599)])
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        match value.text() {
            Some("connect") => Some(Self::Connect),
            Some("timeout") => Some(Self::Timeout),
            Some(_) => None,
            None => {
                let code = u16::try_from(value.whole()?).ok()?;
                (400..600).contains(&code).then_some(Self::Status(code))
            }
        }
    }
}

/// The kinds of backoff, by the words for them.
#[derive(Clone, Copy, PartialEq)]
enum Grows {
    Not,
    Fixed,
    Linear,
    Exponential,
    List,
}

/// Reads waits between attempts, as in `backoff = { base = "100ms", cap = "2s" }`, over what there is.
pub fn backoff(fields: &Fields<'_>, spec: &mut backoff::Spec) {
    let kinds = [
        ("exponential", Grows::Exponential),
        ("fixed", Grows::Fixed),
        ("linear", Grows::Linear),
        ("list", Grows::List),
        ("none", Grows::Not),
    ];
    let usual = if fields.has("waits") { Grows::List } else { Grows::Exponential };
    let grows = fields.word("kind", &kinds).unwrap_or(usual);
    match grows {
        Grows::Not => spec.shape = Shape::None,
        Grows::List => {
            let waits: Vec<Duration> = fields.list("waits").unwrap_or_default();
            match Waits::new(&waits) {
                Ok(waits) => {
                    spec.shape = Shape::List(waits);
                    spec.cap = spec.cap.max(waits.longest());
                }
                Err(error) => fields.invalid(&strip("backoff.", &error)),
            }
        }
        Grows::Fixed => spec.shape = Shape::Fixed,
        Grows::Linear => spec.shape = Shape::Linear,
        Grows::Exponential => {
            let mut factor = 2.0;
            fields.set("factor", &mut factor);
            spec.shape = Shape::Exponential { factor };
        }
    }
    if !matches!(grows, Grows::Not | Grows::List) {
        fields.set("base", &mut spec.base);
    }
    fields.set("cap", &mut spec.cap);
    jitter(fields, &mut spec.jitter);
    if grows != Grows::List && fields.has("waits") {
        fields.wrong("waits", "is a list of waits: write kind = \"list\", or leave it out");
    }
}

fn jitter(fields: &Fields<'_>, jitter: &mut Jitter) {
    let words = [
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("decorrelated", Jitter::Decorrelated),
        ("none", Jitter::None),
        ("proportional", Jitter::Proportional(0.2)),
    ];
    if let Some(word) = fields.word("jitter", &words) {
        *jitter = word;
    }
    if let Jitter::Proportional(share) = jitter {
        fields.set("share", share);
    }
}

/// A message of the core about a part of this table, seen from this table.
pub(super) fn strip(prefix: &str, error: &impl std::fmt::Display) -> String {
    let message = error.to_string();
    message.strip_prefix(prefix).map_or_else(|| message.clone(), str::to_owned)
}
