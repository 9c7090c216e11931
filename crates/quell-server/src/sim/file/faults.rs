//! What happens to a service.

use std::time::Duration;

use crate::config::fields::Fields;
use quell_sim::scenario::{Outage, OutageKind};

use super::time::needed;

/// Something that happens, as written.
pub(super) struct Trouble {
    /// In a word.
    pub(super) word: &'static str,
    /// From its start to its end. It does nothing by itself where it comes in parts.
    pub(super) whole: Outage,
    /// Its parts, if it has any.
    pub(super) parts: Vec<Outage>,
}

impl Trouble {
    /// Nothing happens.
    pub(super) const NONE: Self = Self {
        word: "nothing happens",
        whole: Outage { kind: NOTHING, at: Duration::ZERO, length: Duration::ZERO },
        parts: vec![],
    };

    /// All that happens, without what does nothing.
    pub(super) fn all(self) -> Vec<Outage> {
        if self.parts.is_empty() { vec![self.whole] } else { self.parts }
    }
}

/// Most instances that a deploy reaches one by one.
const MOST_DEPLOYED: u32 = 10_000;
const NOTHING: OutageKind = OutageKind::Brownout { share: 0.0 };

#[derive(Clone, Copy)]
enum Word {
    None,
    Known(OutageKind),
    Brownout,
    Fatal,
    Latency,
    Hang,
    Partial,
    Grown,
    BadDeploy,
}

const WORDS: [(&str, Word); 11] = [
    ("fail", Word::Known(OutageKind::Fail)),
    ("hole", Word::Known(OutageKind::Hole)),
    ("stall", Word::Known(OutageKind::Stall)),
    ("brownout", Word::Brownout),
    ("fatal", Word::Fatal),
    ("latency", Word::Latency),
    ("hang", Word::Hang),
    ("partial", Word::Partial),
    ("grown", Word::Grown),
    ("bad-deploy", Word::BadDeploy),
    ("none", Word::None),
];

/// Reads one; `None` if what it needs is not there.
pub(super) fn read(fields: &Fields<'_>) -> Option<Trouble> {
    let word = fields.word("kind", &WORDS);
    if !fields.has("kind") {
        fields.wrong("kind", "is missing: write such as kind = \"stall\"");
    }
    let (at, length) = (needed(fields, "at"), needed(fields, "length"));
    let kind = match word {
        Some(Word::None) => {
            let whole = Outage { kind: NOTHING, at: at?, length: length? };
            return Some(Trouble { word: "trouble elsewhere", whole, parts: vec![] });
        }
        Some(Word::Known(kind)) => Some(kind),
        Some(Word::Brownout) => needed(fields, "share").map(|share| OutageKind::Brownout { share }),
        Some(Word::Fatal) => {
            let (share, mut misread) = (needed(fields, "share"), false);
            fields.set("misread", &mut misread);
            share.map(|share| OutageKind::Fatal { share, misread })
        }
        Some(Word::Latency) => {
            needed(fields, "factor").map(|factor| OutageKind::Latency { factor })
        }
        Some(Word::Hang) => {
            let (share, time) = (needed(fields, "share"), needed(fields, "time"));
            share.zip(time).map(|(share, time)| OutageKind::Hang { share, time })
        }
        Some(Word::Grown) => needed(fields, "factor").map(|factor| OutageKind::Grown { factor }),
        Some(Word::Partial) => needed(fields, "share").map(|share| OutageKind::Partial { share }),
        Some(Word::BadDeploy) => {
            let (instances, step) = (needed(fields, "instances"), needed(fields, "step"));
            let instances = instances.filter(|&instances: &u32| {
                let few = instances <= MOST_DEPLOYED;
                if !few {
                    let fix = format_args!("is {instances}: write at most {MOST_DEPLOYED}");
                    fields.wrong("instances", fix);
                }
                few
            });
            let (at, length) = (at?, length?);
            return Some(Trouble {
                word: "bad-deploy",
                whole: Outage { kind: NOTHING, at, length },
                parts: Outage::bad_deploy(at, length, instances?, step?),
            });
        }
        None => {
            fields.leave();
            None
        }
    };
    let flaps =
        fields.table("flapping").map(|flaps| (needed(&flaps, "down"), needed(&flaps, "up")));
    let whole = Outage { kind: kind?, at: at?, length: length? };
    let word = whole.kind.as_str();
    Some(match flaps {
        Some((down, up)) => Trouble {
            word,
            parts: whole.flapping(down?, up?),
            whole: Outage { kind: NOTHING, ..whole },
        },
        None => Trouble { word, whole, parts: vec![] },
    })
}

/// Reads `faults`, one table or several.
pub(super) fn all(fields: &Fields<'_>) -> Vec<Outage> {
    let read = |row: Fields<'_>| read(&row).map_or_else(Vec::new, Trouble::all);
    fields.tables("faults").into_iter().flat_map(read).collect()
}
