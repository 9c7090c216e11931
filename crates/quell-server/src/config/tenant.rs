//! `[tenant.*]`: who calls, and how much.

use quell::core::{Priority, limiter, mode::Mode};

use quell_config::limit::limited;

use super::{Secret, fields::Fields};

/// Who calls, and how much.
#[derive(Debug, Clone, PartialEq)]
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
pub(super) const PRIORITIES: [(&str, Priority); 3] = [
    ("critical", Priority::Critical),
    ("default", Priority::Default),
    ("sheddable", Priority::Sheddable),
];

/// What to write where there are none.
const KEYS: &str =
    "where the hash of a key is, such as \"env:SHOP_KEY_HASH\"; `quell key new` makes both";

impl Tenant {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let keys = fields.secrets("keys");
        fields.needs("keys", KEYS);
        if fields.has("keys") && fields.is_empty("keys") {
            fields.wrong("keys", format_args!("is empty: write {KEYS}"));
        }
        let limit = limited(fields, |_| ());
        let priority = fields.word("priority", &PRIORITIES).unwrap_or_default();
        let mode = limit.map_or_else(Mode::default, |(_, mode, ())| mode);
        Self { keys, rate_limit: limit.map(|(spec, ..)| spec), mode, priority }
    }
}
