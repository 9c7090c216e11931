//! A store through which a fleet shares one budget of retries.

use crate::config::fields::Fields;
use quell_sim::scenario::{Away, Store};

use super::time::needed;

/// Reads `{ budget = { per_second = 17, burst = 1000 }, round_trip = "1ms", away = { at = "30s", length = "10s" } }`.
pub(super) fn read(fields: &Fields<'_>) -> Store {
    let mut store = Store::default();
    if let Some(budget) = fields.table("budget") {
        budget.set("per_second", &mut store.budget.per_second);
        budget.set("burst", &mut store.budget.burst);
        budget.set("valid_for", &mut store.budget.valid_for);
        budget.set("timeout", &mut store.budget.timeout);
        budget.set("probe", &mut store.budget.probe);
    }
    fields.set("round_trip", &mut store.round_trip);
    let away = |row: &Fields<'_>| {
        let (at, length) = (needed(row, "at"), needed(row, "length"));
        Some(Away { at: at?, length: length? })
    };
    store.away = fields.tables("away").iter().filter_map(away).collect();
    store
}
