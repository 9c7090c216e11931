//! `[tenant.*]`: who calls, and how much.

use quell::core::{Priority, limiter, mode::Mode};
use quell_config::{
    limit::limited,
    setting::Settings,
    table::{self, Table},
};

use super::Secret;

/// Who calls, and how much.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tenant {
    /// Where the hashes of its keys are, at least one.
    pub keys: Vec<Secret>,
    /// How often it may ask.
    pub rate_limit: Option<limiter::Spec>,
    /// Whether that limit is obeyed or only counted.
    pub mode: Mode,
    /// How important it is under pressure.
    pub priority: Priority,
}

/// The priorities, by the words for them.
const PRIORITIES: [(&str, Priority); 3] = [
    ("critical", Priority::Critical),
    ("default", Priority::Default),
    ("sheddable", Priority::Sheddable),
];

/// What to write where there are none.
const KEYS: &str =
    "where the hash of a key is, such as \"env:SHOP_KEY_HASH\"; `quell key new` makes both";

impl Tenant {
    pub(super) fn settings(&mut self, table: &Table<'_>) {
        let means = "the places of the hashes of its keys, as quell key makes them";
        table.secrets("keys", &mut self.keys, means);
        table.needs("keys", KEYS);
        if table.fields().is_some_and(|fields| fields.has("keys") && fields.is_empty("keys")) {
            table.wrong("keys", format_args!("is empty: write {KEYS}"));
        }
        let means = "how often it may ask, or \"off\"";
        limited(table, &mut self.rate_limit, &mut self.mode, means, |_| ());
        let means = "who is given up last and first under pressure";
        table.word("priority", &mut self.priority, &PRIORITIES, means);
    }

    /// All of it, as it stands in a file.
    pub fn written(&self) -> Settings {
        table::written(|table| self.clone().settings(table))
    }
}
