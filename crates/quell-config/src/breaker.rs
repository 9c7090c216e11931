//! `breaker = { … }`: when to stop asking.

use quell_core::{
    Fault,
    breaker::{
        Mode, Over, Spec,
        record::{self, List},
    },
};

use super::{
    fields::Fields,
    read::{Raw, Read},
    shape::Shape,
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
    pub(super) const FAULTS: [(&'static str, Fault); 5] = [
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

/// The modes, by the words for them.
pub(super) const MODES: [(&str, Mode); 5] = [
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

    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let presets = [
            ("default", Spec::default()),
            ("classic", Spec::classic()),
            ("hardened", Spec::hardened()),
            ("consecutive", Spec::consecutive()),
        ];
        let mut breaker = Self::of(fields.word("preset", &presets).unwrap_or_default());
        let spec = &mut breaker.spec;
        if let Some(mode) = fields.word("mode", &MODES) {
            spec.mode = mode;
        }
        rates(fields, spec);
        fields.set("min_calls", &mut spec.min_calls);
        fields.set("failure_rate", &mut spec.failure_rate);
        fields.set("slow", &mut spec.slow);
        fields.set("slow_rate", &mut spec.slow_rate);
        fields.set("consecutive", &mut spec.consecutive);
        fields.set("open", &mut spec.open);
        fields.set("growth", &mut spec.growth);
        fields.set("growth_after", &mut spec.growth_after);
        fields.set("open_max", &mut spec.open_max);
        fields.set("probes", &mut spec.probes);
        fields.set("successes", &mut spec.successes);
        fields.set("failures", &mut spec.failures);
        fields.set("ramp", &mut spec.ramp);
        fields.set("keys", &mut breaker.keys);
        breaker.lists(fields);
        breaker
    }

    fn lists(&mut self, fields: &Fields<'_>) {
        self.record = fields.list("record").unwrap_or_default();
        self.ignore = fields.list("ignore").unwrap_or_default();
        for (name, listed, list) in [
            ("record", &self.record, &mut self.spec.record.record),
            ("ignore", &self.ignore, &mut self.spec.record.ignore),
        ] {
            match list_of(listed) {
                Ok(right) => *list = right,
                Err(record::Invalid::TooMany(count)) => {
                    fields.wrong(
                        name,
                        format_args!("has {count} codes: write at most 16, or kinds of fault"),
                    );
                }
                Err(error) => fields.wrong(name, format_args!("is wrong: {error}")),
            }
        }
    }
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

fn rates(fields: &Fields<'_>, spec: &mut Spec) {
    let words = [
        ("time", Rates::Time),
        ("calls", Rates::Calls),
        ("either", Rates::Either),
        ("off", Rates::Off),
    ];
    let written = fields.word("over", &words);
    let calls = fields.get("calls");
    fields.set("window", &mut spec.window);
    spec.over = match (written, calls) {
        (None, None) => spec.over,
        (None | Some(Rates::Calls), Some(calls)) => Over::Calls(calls),
        (Some(Rates::Calls), None) => Over::Calls(100),
        (Some(Rates::Either), calls) => Over::Either(calls.unwrap_or(100)),
        (Some(Rates::Time), None) => Over::Time,
        (Some(Rates::Off), None) => Over::Off,
        (Some(Rates::Time | Rates::Off), Some(_)) => {
            fields.wrong("calls", "is written, and over says not to count them: write over = \"calls\" or \"either\", or leave it out");
            spec.over
        }
    };
}
