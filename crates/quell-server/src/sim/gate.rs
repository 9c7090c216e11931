//! Gate: what a scenario promises, held against what came out.
//!
//! **How.** Every figure of a run can be promised: exactly (`retries = 60000`), within a range (`goodput = [0.9, 1.0]`), or on
//! one side (`max_wasted = 0.1`). Besides there are the verdict, how soon a run recovered, and what reached the services behind.
//!
//! ```
//! use quell_server::sim::file;
//!
//! let plans = file::parse(file::DEMO)?;
//! assert_eq!(plans[0].promises.len(), 2);
//! # Ok::<_, quell_server::config::Problems>(())
//! ```

mod figures;

use std::time::Duration;

use crate::config::{
    fields::Fields,
    read::{Raw, Read},
    value,
};
use quell_sim::{
    Run,
    verdict::{Count, Verdict},
};

use self::figures::{FIGURES, Figure};

/// What must hold, as written in `assert`.
#[derive(Debug, Clone, PartialEq)]
pub struct Promises {
    /// Whom it holds for, by their words.
    of: Vec<String>,
    /// Healed, and so soon after the outage.
    recovered_within: Option<Duration>,
    /// The word that must come out.
    verdict: Option<&'static str>,
    /// Figures by their places in [`FIGURES`], each with what it must lie within.
    figures: Vec<(usize, Limits)>,
    /// Attempts that reached a service behind the first ÷ users' requests, by its name and place.
    behind: Vec<(String, usize, Limits)>,
}

/// The least and the most, both allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Limits {
    least: f64,
    most: f64,
}

/// The verdicts.
const VERDICTS: [(&str, &str); 5] = [
    ("healed", "healed"),
    ("draining", "draining"),
    ("sheds", "sheds"),
    ("metastable", "metastable"),
    ("unclear", "unclear"),
];

impl Promises {
    /// Reads them: `ways` are the words of those who face the scenario, `usual` those who are meant if nobody is named, `behind` the
    /// services behind the first.
    pub(super) fn read(
        fields: &Fields<'_>,
        ways: &[&str],
        usual: &[&str],
        behind: &[String],
    ) -> Self {
        let of = fields.words("of", ways).map(|of| of.into_iter().map(|i| ways[i]).collect());
        let of: Vec<_> = of.unwrap_or_else(|| usual.to_vec());
        let mut promised = Vec::new();
        for (i, figure) in FIGURES.iter().enumerate() {
            promised.extend(figure.read(fields).map(|limits| (i, limits)));
        }
        let mut reached = Vec::new();
        for (name, Within::<false>(limits)) in fields.values("behind") {
            match behind.iter().position(|known| *known == name) {
                Some(place) => reached.push((name, place, limits)),
                None => fields.wrong(
                    "behind",
                    format_args!(
                        "names \"{}\", which is no service in behind: write one that is",
                        name.escape_debug()
                    ),
                ),
            }
        }
        let promises = Self {
            of: of.into_iter().map(str::to_owned).collect(),
            recovered_within: fields.get("recovered_within"),
            verdict: fields.word("verdict", &VERDICTS),
            figures: promised,
            behind: reached,
        };
        let any = ["recovered_within", "verdict", "behind"].iter().any(|key| fields.has(key));
        if !any && promises.figures.is_empty() {
            fields.wrong("recovered_within", "and all else is missing, so nothing is promised: write what must hold, such as recovered_within = \"1s\"");
        }
        promises
    }

    /// What a run broke, in words.
    pub fn broken(&self, who: &str, run: &Run) -> Vec<String> {
        let mut broken = Vec::new();
        if !self.of.iter().any(|of| of == who) {
            return broken;
        }
        let verdict = run.summary.verdict;
        if let Some(within) = self.recovered_within
            && !matches!(verdict, Verdict::Healed { after } if after <= within)
        {
            broken.push(format!("{verdict}, and recovered_within is {within:?}"));
        }
        if let Some(word) = self.verdict.filter(|word| *word != verdict.as_str()) {
            broken.push(format!("{verdict}, and verdict is \"{word}\""));
        }
        for (i, limits) in &self.figures {
            let Figure { name, of, .. } = FIGURES[*i];
            let is = of(run);
            broken.extend(limits.broken(is, name));
        }
        let demand = run.series.sum(Count::Demand, 0..usize::MAX) as f64;
        for (name, place, limits) in &self.behind {
            let sent = run.below.get(*place).map_or(0, |below| below.sent);
            broken.extend(limits.broken(sent as f64 / demand.max(1.0), &format!("behind.{name}")));
        }
        broken
    }
}

impl Limits {
    const NONE: Self = Self { least: f64::NEG_INFINITY, most: f64::INFINITY };

    fn broken(&self, is: f64, name: &str) -> Option<String> {
        let Self { least, most } = *self;
        // What was read as a decimal may be a hair off.
        let hair = 1e-9 * is.abs().max(1.0);
        let fits = is >= least - hair && is <= most + hair;
        let promised = match (least.is_finite(), most.is_finite()) {
            (true, true) if least == most => format!("{least}"),
            (true, true) => format!("{least} to {most}"),
            (true, false) => format!("at least {least}"),
            _ => format!("at most {most}"),
        };
        (!fits).then(|| format!("{name} is {:.4}, and promised is {promised}", is))
    }
}

/// One value or a range of them; `TIMED` ones are durations, kept in milliseconds.
struct Within<const TIMED: bool>(Limits);

impl<const TIMED: bool> Read for Within<TIMED> {
    fn expected() -> String {
        match TIMED {
            true => "the least and the most, such as [\"90ms\", \"110ms\"]".to_owned(),
            false => "a number, or the least and the most, such as [0.9, 1.1]".to_owned(),
        }
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        let one = |value: &Raw<'_>| match TIMED {
            true => value::duration(value.text()?).map(|time| time.as_secs_f64() * 1e3),
            false => value.number(),
        };
        let (least, most) = match value.parts() {
            Some([least, most]) => (one(&least)?, one(&most)?),
            None => (one(value)?, one(value)?),
        };
        (least <= most).then_some(Self(Limits { least, most }))
    }
}
