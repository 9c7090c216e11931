//! Changes: how two files differ, as they are in force.
//!
//! **Why.** An operator who reloads in an outage wants to see that the one number has changed, and that nothing else has.

use std::collections::BTreeMap;

/// The settings that differ, a line each. Both texts are what [`crate::config::Config::effective`] writes.
pub(crate) fn diff(before: &str, after: &str) -> Vec<String> {
    let (before, after) = (settings(before), settings(after));
    let mut changes = Vec::new();
    for (name, value) in &before {
        match after.get(name) {
            None => changes.push(format!("{name} is gone, was {value}")),
            Some(now) if now != value => changes.push(format!("{name} is {now}, was {value}")),
            Some(_) => {}
        }
    }
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    changes.extend(new.map(|(name, value)| format!("{name} is {value}, is new")));
    changes
}

/// Every setting with its table. Routes are told apart by their place.
fn settings(text: &str) -> BTreeMap<String, String> {
    let (mut table, mut routes) = (String::new(), 0);
    let mut settings = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("[[").and_then(|line| line.strip_suffix("]]")) {
            routes += 1;
            table = format!("{name} {routes}: ");
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((name, value)) = line.split_once(" = ") {
            settings.insert(format!("{table}{name}"), value.to_owned());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_with_what_was() {
        let before =
            "version = 1\n[upstream.x]\nbudget = { max = 100 }\nqueue = 1\n[[route]]\nname = \"a\"";
        let after = "version = 1\n[upstream.x]\nbudget = { max = 50 }\n[[route]]\nname = \"a\"\n[policy.y]\nattempts = 2";
        assert_eq!(
            diff(before, after),
            [
                "upstream.x.budget is { max = 50 }, was { max = 100 }",
                "upstream.x.queue is gone, was 1",
                "policy.y.attempts is 2, is new",
            ]
        );
        assert!(diff(after, after).is_empty());
    }
}
