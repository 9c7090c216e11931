//! `[policy.*]`: how one call behaves.

use std::{collections::BTreeMap, time::Duration};

use quell_core::{hedge::Hedge, lint::Kind, spec::PolicySpec};

use super::{
    backoff::waits,
    fields::Fields,
    preset::Preset,
    read::{Raw, Read},
    setting::{Settings, Value, Write},
    shape,
    table::{self, Table},
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
        root.means("policy", "how calls behave, by name");
        let read = |(name, fields): (String, Fields<'_>)| {
            let mut policy = Self::of(Preset::default());
            policy.settings(&Table::reading(&fields));
            (name, policy)
        };
        root.named("policy").into_iter().map(read).collect()
    }

    /// All of it, as it stands in a file.
    pub fn written(&self) -> Settings {
        table::written(|table| self.clone().settings(table))
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

    fn settings(&mut self, table: &Table<'_>) {
        table.written_last(&["hint", "hedge"]);
        if table.word("preset", &mut self.preset, &Preset::WORDS, "what the defaults are") {
            *self = Self::of(self.preset);
        }
        let spec = &mut self.spec;
        table.set(
            "attempts",
            &mut spec.attempts,
            "how often a call is sent at most, the first time included",
        );
        let mut timeout = spec.timeout;
        table.set("timeout", &mut timeout, "the longest that a call takes, waits included");
        if table.reads() {
            within(timeout, spec);
        }
        table.set(
            "per_try_timeout",
            &mut spec.per_try_timeout,
            "the longest that one attempt takes; not written, at most an equal share of timeout",
        );
        table.inside("backoff", "how long to wait before another attempt", |inside| {
            waits(inside, &mut spec.backoff);
        });
        table.inside("hint", "what is done with a wait that the upstream asks for", |inside| {
            let means = "a longer wait asked for by the upstream ends the call";
            inside.set("cap", &mut spec.hint_cap, means);
        });
        self.hedge(table);
        self.repeats(table);
        if let Err(error) = quell_core::Policy::new(self.spec) {
            table.invalid(&error);
        }
    }

    /// What is repeated at all.
    fn repeats(&mut self, table: &Table<'_>) {
        let means = "what is worth another attempt: statuses, connect and timeout, of which the last two hold in any case";
        if table.list("retry_on", &mut self.retry_on, means) {
            self.retry_on.sort_unstable();
            self.retry_on.dedup();
        }
        if !self.retry_on.starts_with(&[RetryOn::Connect, RetryOn::Timeout]) {
            let instead = "connect failures and timeouts are retried whether or not they are in it";
            table.idle("retry_on", instead);
        }
        table.word(
            "unsafe_methods",
            &mut self.unsafe_methods,
            &UNSAFE_METHODS,
            "whether requests whose method does not allow a repeat by itself are repeated",
        );
    }

    fn hedge(&mut self, table: &Table<'_>) {
        let (spec, means) =
            (&mut self.spec, "a second attempt beside one that is slow, or \"off\"");
        table.switch("hedge", &mut self.hedge, means, |inside, written| {
            let usual = Hedged { after: 0.95, at_least: Duration::from_millis(10) };
            let mut hedged = written.unwrap_or(usual);
            let means = "the share of attempts that are quicker than what is hedged";
            inside.set("after", &mut hedged.after, means);
            inside.set("at_least", &mut hedged.at_least, "no hedge before this");
            match Hedge::new(hedged.after, hedged.at_least) {
                Ok(hedge) => spec.hedge = Some(hedge),
                Err(error) => {
                    table.invalid(&error);
                    return None;
                }
            }
            Some(hedged)
        });
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

impl Write for RetryOn {
    fn write(&self) -> Option<Value> {
        Some(match self {
            Self::Connect => Value::text("connect"),
            Self::Timeout => Value::text("timeout"),
            Self::Status(code) => Value::Whole((*code).into()),
        })
    }
}
