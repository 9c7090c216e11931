//! The schema and the reader say the same.

use super::{
    document::Document,
    schema::{Record, listen, record},
    shape::Shape,
};

const FILES: [&str; 1] = [include_str!("sample.toml")];
/// Every table of this crate.
const TABLES: &str = "version = 1
[policy.x]
backoff = { waits = [] }
hint = {}
hedge = {}
[upstream.x]
budget = { cost = {}, inner = { cost = {} } }
children = { cost = {}, inner = { cost = {} } }
breaker = {}
in_flight = { pools = {} }
rate_limit = {}
throttle = {}
ejection = {}
tls = {}
";

fn read(root: &super::fields::Fields<'_>) {
    super::version(root);
    super::Policy::all(root);
    super::Upstream::all(root);
}

/// Nothing is only half known: every setting has a shape, and every table has been looked into.
#[test]
fn the_schema_says_what_every_setting_can_be() {
    let Record { tables, .. } = record(TABLES, &read);
    for (place, table) in &tables {
        for (name, setting) in &table.settings {
            let at = if place.is_empty() { (*name).to_owned() } else { format!("{place}.{name}") };
            let is_described = setting.means.is_some_and(|means| means.len() > 3);
            assert!(is_described, "{at} is not described");
            assert!(!setting.shapes.is_empty(), "{at} has no shape");
            for shape in &setting.shapes {
                let inside = match shape {
                    Shape::Any => panic!("{at} can be anything"),
                    Shape::Table => at.clone(),
                    Shape::Named => format!("{at}.*"),
                    Shape::Rows => format!("{at}[]"),
                    _ => continue,
                };
                // A budget that samples another is no budget that can be sampled.
                let is_opened = tables.contains_key(&inside) || inside.ends_with(".inner.inner");
                assert!(is_opened, "nobody has looked into {inside}");
            }
        }
    }
}

/// What a file makes the reader ask for, whatever its kinds and words, is in the schema.
#[test]
fn the_schema_has_all_that_is_asked_for() {
    let known = record(TABLES, &read);
    let budgets = ["tokens", "grpc", "failed-retry", "ratio", "window", "adaptive", "sampled"];
    let made = budgets.map(|kind| {
        format!("[upstream.x]\nbudget = {{ kind = \"{kind}\", inner = {{ kind = \"ratio\" }} }}")
    });
    for text in FILES.iter().copied().chain(made.iter().map(String::as_str)) {
        let heard = listen(Document::parse("f", text, &[]).unwrap(), Record::default(), &read);
        for (place, table) in &heard.tables {
            for (name, _) in &table.settings {
                let is_known = known
                    .tables
                    .get(place)
                    .is_some_and(|table| table.settings.iter().any(|(known, _)| known == name));
                assert!(is_known, "{place}.{name}");
            }
        }
    }
}
