//! Changes: what differs between two files, setting by setting, for the operator who reloads one.

use std::collections::BTreeMap;

use quell_config::setting::Value;

use super::Config;

impl Config {
    /// The settings that are other than before, a line each. Values are compared, and told as they stand in a file.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let (before, after) = (before.settings(), self.settings());
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
    fn settings(&self) -> BTreeMap<String, Value> {
        let mut settings = BTreeMap::new();
        for part in self.parts() {
            let table = match part.place {
                Some(place) => format!("{} {place}: ", part.table),
                None => format!("{}.", part.table),
            };
            let named = |(name, value): (&str, &Value)| (format!("{table}{name}"), value.clone());
            settings.extend(part.settings.iter().map(named));
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::with;

    #[test]
    fn a_change_is_told_with_what_was() {
        let shared = "[[route]]\nname = \"a\"\nupstream = \"x\"\n";
        let before = format!(
            "[upstream.x]\nbudget = {{ max = 100, kind = \"grpc\" }}\nendpoints = [\"http://a\"]\n{shared}timeout = \"1s\"\n"
        );
        let after = format!(
            "[upstream.x]\nbudget = {{ max = 50, kind = \"grpc\" }}\n{shared}timeout = \"2s\"\n[store]\nkind = \"memory\"\n"
        );
        let (before, after) = (with(&before).unwrap(), with(&after).unwrap());
        assert_eq!(
            after.changes_since(&before),
            [
                "route 1: timeout is \"2s\", was \"1s\"",
                "upstream.x.budget is { kind = \"grpc\", max = 50, ratio = 0.1, mode = \"enforce\" }, was { kind = \"grpc\", max = 100, ratio = 0.1, mode = \"enforce\" }",
                "upstream.x.endpoints is gone, was [\"http://a\"]",
                "store.kind is \"memory\", is new",
            ]
        );
        assert!(after.changes_since(&after).is_empty());
    }
}
