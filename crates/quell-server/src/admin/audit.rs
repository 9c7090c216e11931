//! Audit: who changed what by hand, when and why. The last thousand, in memory, and a line in the log for each.

use std::collections::VecDeque;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::Serialize;

use crate::host::log;

/// Records that are kept; the oldest go first and are counted.
const MOST: usize = 1_000;
/// Characters of what people write that are kept.
const LONGEST: usize = 200;

/// One change.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Record {
    /// When, as in RFC 3339.
    pub(super) at: String,
    /// What was done.
    pub(super) what: String,
    /// Who says that it was them.
    pub(super) by: String,
    /// Why.
    pub(super) why: String,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Audit(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Record>,
    forgotten: u64,
}

/// What is kept, the oldest first.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    records: Vec<Record>,
    /// Records that are no longer kept.
    forgotten: u64,
}

impl Audit {
    /// Writes a change down. What people wrote is cut, and cannot begin a line of its own in the log.
    pub(super) fn note(&self, what: String, by: &str, why: &str) {
        let [by, why] = [by, why].map(clean);
        let by = if by.is_empty() { "somebody".to_owned() } else { by };
        let because = if why.is_empty() { String::new() } else { format!(": {why}") };
        log::line(format_args!("{what}, by {by}{because}"));
        self.keep(Record { at: now(), what, by, why });
    }

    fn keep(&self, record: Record) {
        let mut kept = self.0.lock();
        if kept.records.len() == MOST {
            kept.records.pop_front();
            kept.forgotten += 1;
        }
        kept.records.push_back(record);
    }

    pub(super) fn show(&self) -> Shown {
        let kept = self.0.lock();
        Shown { records: kept.records.iter().cloned().collect(), forgotten: kept.forgotten }
    }
}

fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

/// The time of day, as people write it.
pub(super) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thousand_are_kept_and_those_before_counted() {
        let audit = Audit::default();
        for i in 0..MOST + 3 {
            let [what, by, why] = [format!("change {i}"), String::new(), String::new()];
            audit.keep(Record { at: String::new(), what, by, why });
        }
        let shown = audit.show();
        assert_eq!((shown.records.len(), shown.forgotten), (MOST, 3));
        assert_eq!(shown.records[0].what, "change 3");
    }

    #[test]
    fn what_people_write_is_cut_and_stays_on_its_line() {
        let audit = Audit::default();
        audit.note("x".to_owned(), &"é".repeat(1_000), "a\nquell: forged\u{1b}[2J");
        let record = &audit.show().records[0];
        assert_eq!((record.by.chars().count(), &*record.why), (LONGEST, "aquell: forged[2J"));
    }
}
