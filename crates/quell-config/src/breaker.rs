//! `breaker = { … }`: when to stop asking.

use quell_core::{
    Fault,
    breaker::{
        Mode, Over, Spec,
        record::{self, List},
    },
};

use super::{
    preset::word,
    read::{Raw, Read},
    setting::{Value, Write},
    shape::Shape,
    table::Table,
};

/// A breaker as written, and as the core takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Breaker {
    /// As the core takes it.
    pub spec: Spec,
    /// How many keys have a breaker of their own.
    pub keys: Option<usize>,
    /// Failures that it counts, whatever they are elsewhere.
    pub record: Vec<Counted>,
    /// Failures that it does not.
    pub ignore: Vec<Counted>,
}

/// A failure by its status, or by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// This status.
    Code(u16),
    /// Every failure of this kind.
    Fault(Fault),
}

impl Counted {
    const FAULTS: [(&'static str, Fault); 5] = [
        ("connect", Fault::Connect),
        ("timeout", Fault::Timeout),
        ("overload", Fault::Overload),
        ("server", Fault::Server),
        ("fatal", Fault::Fatal),
    ];
}

impl Read for Counted {
    fn expected() -> String {
        "a status such as 503, or \"connect\", \"timeout\", \"overload\", \"server\" or \"fatal\""
            .to_owned()
    }

    fn shape() -> Shape {
        Shape::Either(vec![
            Shape::words(Self::FAULTS.map(|(word, _)| word)),
            Shape::Between(400, 599),
        ])
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        match value.text() {
            Some(text) => {
                let fault = Self::FAULTS.iter().find(|(word, _)| *word == text);
                fault.map(|(_, fault)| Self::Fault(*fault))
            }
            None => {
                let code = u16::try_from(value.whole()?).ok()?;
                (400..600).contains(&code).then_some(Self::Code(code))
            }
        }
    }
}

impl Write for Counted {
    fn write(&self) -> Option<Value> {
        Some(match self {
            Self::Code(code) => Value::Whole((*code).into()),
            Self::Fault(fault) => Value::text(word(&Self::FAULTS, *fault)),
        })
    }
}

/// The modes, by the words for them.
const MODES: [(&str, Mode); 5] = [
    ("enforce", Mode::Enforce),
    ("report", Mode::Report),
    ("disabled", Mode::Disabled),
    ("forced-open", Mode::ForcedOpen),
    ("forced-closed", Mode::ForcedClosed),
];

/// What rates can be taken over, by the words for it.
#[derive(Clone, Copy)]
enum Rates {
    Time,
    Calls,
    Either,
    Off,
}

impl Breaker {
    /// As the core has it.
    pub fn of(spec: Spec) -> Self {
        Self { spec, keys: None, record: Vec::new(), ignore: Vec::new() }
    }

    pub(super) fn settings(&mut self, table: &Table<'_>) {
        table.written_last(&["keys"]);
        let presets = [
            ("default", Spec::default()),
            ("classic", Spec::classic()),
            ("hardened", Spec::hardened()),
            ("consecutive", Spec::consecutive()),
        ];
        if let Some(preset) = table.preset("preset", &presets, "what the defaults are") {
            *self = Self::of(preset);
        }
        let spec = &mut self.spec;
        let means =
            "enforce; report: decides and counts, and changes nothing; or held in one state";
        table.word("mode", &mut spec.mode, &MODES, means);
        rates(table, spec);
        table.set("min_calls", &mut spec.min_calls, "nothing is decided on fewer calls");
        let means = "the share of failures at which it opens";
        table.set("failure_rate", &mut spec.failure_rate, means);
        table.set("slow", &mut spec.slow, "an answer that takes longer is slow");
        let means = "the share of slow answers at which it opens";
        table.set("slow_rate", &mut spec.slow_rate, means);
        let means = "failures in a row at which it opens; 0 for never";
        table.set("consecutive", &mut spec.consecutive, means);
        opens(table, spec);
        let means = "how many keys, such as shards, have a breaker of their own";
        table.set("keys", &mut self.keys, means);
        self.lists(table);
    }

    fn lists(&mut self, table: &Table<'_>) {
        let means = "statuses and faults that count as failures, whatever they are elsewhere";
        table.list("record", &mut self.record, means);
        table.list("ignore", &mut self.ignore, "statuses and faults that do not count");
        for (name, listed, list) in [
            ("record", &self.record, &mut self.spec.record.record),
            ("ignore", &self.ignore, &mut self.spec.record.ignore),
        ] {
            match list_of(listed) {
                Ok(right) => *list = right,
                Err(record::Invalid::TooMany(count)) => {
                    table.wrong(
                        name,
                        format_args!("has {count} codes: write at most 16, or kinds of fault"),
                    );
                }
                Err(error) => table.wrong(name, format_args!("is wrong: {error}")),
            }
        }
    }
}

/// For how long it is open, and how calls return.
fn opens(table: &Table<'_>, spec: &mut Spec) {
    let means = "how long it stays open: drawn from half to all of this";
    table.set("open", &mut spec.open, means);
    let means = "by how much the open time grows with each failed return; 1 for not at all";
    table.set("growth", &mut spec.growth, means);
    table.set("growth_after", &mut spec.growth_after, "after how many failed returns it grows");
    table.set("open_max", &mut spec.open_max, "the longest open time");
    let means = "calls at a time that may find out whether it is well again";
    table.set("probes", &mut spec.probes, means);
    table.set("successes", &mut spec.successes, "successes of them that close it");
    table.set("failures", &mut spec.failures, "failures of them that open it again");
    table.set("ramp", &mut spec.ramp, "over which time all calls return once it closes");
}

fn list_of(listed: &[Counted]) -> Result<List, record::Invalid> {
    let (mut codes, mut faults) = (Vec::new(), Vec::new());
    for counted in listed {
        match counted {
            Counted::Code(code) => codes.push(*code),
            Counted::Fault(fault) => faults.push(*fault),
        }
    }
    List::of(&codes, &faults)
}

fn rates(table: &Table<'_>, spec: &mut Spec) {
    let words = [
        ("time", Rates::Time),
        ("calls", Rates::Calls),
        ("either", Rates::Either),
        ("off", Rates::Off),
    ];
    let (over, count) = match spec.over {
        Over::Time => ("time", None),
        Over::Calls(calls) => ("calls", Some(calls)),
        Over::Either(calls) => ("either", Some(calls)),
        Over::Off => ("off", None),
    };
    let written = table.setting(
        "over",
        "what the rates are taken over",
        |fields| fields.word("over", &words),
        || Some(Value::text(over)),
    );
    let calls = table.setting(
        "calls",
        "how many calls, for calls and either",
        |fields| fields.get("calls"),
        || count.write(),
    );
    table.set("window", &mut spec.window, "how long, for time and either");
    spec.over = match (written.flatten(), calls.flatten()) {
        (None, None) => spec.over,
        (None | Some(Rates::Calls), Some(calls)) => Over::Calls(calls),
        (Some(Rates::Calls), None) => Over::Calls(100),
        (Some(Rates::Either), calls) => Over::Either(calls.unwrap_or(100)),
        (Some(Rates::Time), None) => Over::Time,
        (Some(Rates::Off), None) => Over::Off,
        (Some(Rates::Time | Rates::Off), Some(_)) => {
            table.wrong("calls", "is written, and over says not to count them: write over = \"calls\" or \"either\", or leave it out");
            spec.over
        }
    };
}
