//! Classes for people: a line for each kind of call.

use serde_json::Value;

use super::show::{columns, number, rows, word};

pub(super) fn text(reply: &Value) -> String {
    let upstreams = rows(&reply["upstreams"]);
    let mut text = columns(
        [
            "class",
            "of",
            "in flight",
            "peak",
            "per second",
            "mean",
            "p50",
            "p90",
            "late after",
            "patience",
            "breaker",
            "held apart",
        ],
        upstreams.iter().flat_map(|up| {
            rows(&up["classes"]).iter().map(|class| {
                [
                    word(&class["name"]),
                    word(&up["name"]),
                    number(&class["in_flight"]),
                    one(&class["peak"]),
                    one(&class["rate"]),
                    ms(&class["mean_ms"]),
                    ms(&class["p50_ms"]),
                    ms(&class["p90_ms"]),
                    ms(&class["late_ms"]),
                    ms(&class["patience_ms"]),
                    word(&class["breaker"]),
                    if class["in_trouble"] == Value::Bool(true) { "yes" } else { "no" }.to_owned(),
                ]
            })
        }),
    );
    if upstreams.iter().all(|up| rows(&up["classes"]).is_empty()) {
        text += "nothing is known yet: nobody has called\n";
    }
    text
}

/// With one digit after the point.
fn one(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |number| format!("{number:.1}"))
}

fn ms(value: &Value) -> String {
    match value.as_f64() {
        None => "–".to_owned(),
        Some(ms) if ms >= 1_000.0 => format!("{:.1}s", ms / 1e3),
        Some(ms) if ms >= 10.0 => format!("{ms:.0}ms"),
        Some(ms) => format!("{ms:.1}ms"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_class_has_a_line_and_what_is_not_known_is_a_dash() {
        let slow = json!({
            "name": "default GET /reports/*", "in_flight": 3, "peak": 4.25, "rate": 9.96, "mean_ms": 412.3, "p50_ms": 400.0, "p90_ms": 1_250.0,
            "late_ms": 2.5, "patience_ms": 60_000.0, "breaker": "closed", "in_trouble": true,
        });
        let new = json!({
            "name": "other", "in_flight": 0, "peak": 0.0, "rate": 0.0, "mean_ms": null, "p50_ms": null, "p90_ms": null, "late_ms": null,
            "patience_ms": 60_000.0, "breaker": "half_open", "in_trouble": false,
        });
        let reply = json!({ "upstreams": [{ "name": "shop", "classes": [slow, new] }] });
        let expected = "\
class                   of    in flight  peak  per second  mean   p50    p90   late after  patience  breaker    held apart
default GET /reports/*  shop  3          4.2   10.0        412ms  400ms  1.2s  2.5ms       60.0s     closed     yes
other                   shop  0          0.0   0.0         –      –      –     –           60.0s     half_open  no
";
        assert_eq!(text(&reply), expected);
    }

    #[test]
    fn where_nobody_has_called_that_is_said() {
        let reply = json!({ "upstreams": [{ "name": "shop", "classes": [] }] });
        assert!(text(&reply).ends_with("nobody has called\n"));
    }
}
