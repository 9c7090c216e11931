//! Routes for people: a line for each, then all that is in force for each.

use std::fmt::Write;

use serde_json::Value;

use super::show::{columns, lever, number, rows, seconds, word};

/// Characters of a value that are shown.
const LONGEST: usize = 120;

pub(super) fn text(reply: &Value) -> String {
    let mut text = columns(
        [
            "route",
            "upstream",
            "attempts",
            "timeout",
            "per try",
            "worst wait",
            "worst load",
            "levers",
        ],
        rows(reply).iter().map(|route| {
            let worst = &route["worst"];
            [
                word(&route["name"]),
                word(&route["upstream"]),
                number(&route["attempts"]),
                seconds(&route["timeout_seconds"]),
                seconds(&route["per_try_seconds"]),
                seconds(&worst["latency_seconds"]),
                number(&worst["load"]),
                rows(&route["levers"]).iter().map(lever).collect::<Vec<_>>().join(", "),
            ]
        }),
    );
    for route in rows(reply) {
        let _ = writeln!(text, "\n{} → {}", word(&route["name"]), word(&route["upstream"]));
        line(&mut text, "role", &route["role"]);
        for (part, said) in
            ["route", "policy", "upstream"].map(|part| (part, &route["settings"][part]))
        {
            let known = |name: &str| part == "route" && matches!(name, "name" | "upstream");
            let settings = said.as_object().into_iter().flatten();
            for (name, value) in settings.filter(|(name, _)| !known(name)) {
                line(&mut text, name, value);
            }
        }
        for pulled in rows(&route["levers"]) {
            let left = match &pulled["left_seconds"] {
                Value::Null => "until undone".to_owned(),
                left => format!("for another {}", seconds(left)),
            };
            let _ = writeln!(text, "    {:<16} {} {left}", "lever", lever(pulled));
        }
    }
    text
}

fn line(text: &mut String, name: &str, value: &Value) {
    let shown = shown(value);
    let cut = shown.char_indices().nth(LONGEST);
    let shown = cut.map_or_else(|| shown.clone(), |(at, _)| format!("{}…", &shown[..at]));
    let _ = writeln!(text, "    {name:<16} {shown}");
}

/// A value without what only a parser needs.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match value {
                Value::Object(_) => format!("{name} ({})", shown(value)),
                _ => format!("{name} {}", shown(value)),
            })
            .collect::<Vec<_>>()
            .join(", "),
        Value::Array(parts) if parts.is_empty() => "[]".to_owned(),
        Value::Array(parts) => parts.iter().map(shown).collect::<Vec<_>>().join(" "),
        Value::String(_) => word(value),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_is_in_force_for_a_route_is_shown_line_by_line() {
        let route = json!({
            "name": "pay", "upstream": "payments", "role": "edge", "attempts": 3, "timeout_seconds": 4.0,
            "per_try_seconds": 1.2, "worst": { "latency_seconds": 3.9, "load": 1.1 },
            "levers": [{ "lever": "attempts", "value": 1, "left_seconds": 599.9 }],
            "settings": {
                "route": { "name": "pay", "match": { "path": "/pay\u{1b}[2J", "methods": ["POST", "PUT"] }, "fallback": { "body": "x".repeat(500) } },
                "policy": { "attempts": 3, "backoff": { "base": "50ms", "factor": 2.0 } },
                "upstream": { "budget": { "max": 100, "cost": { "connect": 1.0 } } },
            },
        });
        let text = text(&json!([route]));
        for line in [
            "pay → payments",
            "    role             edge",
            "    match            methods POST PUT, path /pay[2J",
            "    attempts         3",
            "    backoff          base 50ms, factor 2.0",
            "    budget           cost (connect 1.0), max 100",
            "    lever            attempts 1 for another 9m 59s",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() < 150), "{text}");
    }
}
