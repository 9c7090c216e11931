//! What a gateway answers, for people.

use serde_json::Value;

use super::{Command, classes, routes};

/// How the answer to a command is shown.
pub(super) fn of(command: &Command) -> fn(&Value) -> String {
    match command {
        Command::State => state,
        Command::Classes => classes::text,
        Command::Routes => routes::text,
        Command::Levers => levers,
        Command::Audit => audit,
        _ => done,
    }
}

fn state(reply: &Value) -> String {
    let upstreams = rows(&reply["upstreams"]);
    let mut text = columns(
        [
            "upstream",
            "breaker",
            "budget",
            "in flight",
            "limit",
            "trouble",
            "queued",
            "ghosts",
            "retrying",
            "patience",
            "p50",
            "margin",
            "levers",
        ],
        upstreams.iter().map(|up| {
            let budget = &up["budget"];
            [
                word(&up["name"]),
                word(&up["breaker"]),
                format!("{}/{}", number(&budget["tokens"]), number(&budget["max"])),
                number(&up["in_flight"]),
                number(&up["limit"]),
                up["trouble"].as_str().unwrap_or("–").to_owned(),
                number(&up["queued"]),
                number(&up["ghosts"]),
                number(&up["retrying"]),
                seconds(&up["patience_seconds"]),
                seconds(&up["p50_seconds"]),
                number(&up["margin"]),
                rows(&up["levers"]).len().to_string(),
            ]
        }),
    );
    text.push('\n');
    text += &columns(
        ["endpoint", "of", "in flight", "ghosts", "failures", "ejected for"],
        upstreams.iter().flat_map(|up| {
            rows(&up["endpoints"]).iter().map(|each| {
                [
                    word(&each["address"]),
                    word(&up["name"]),
                    number(&each["in_flight"]),
                    number(&each["ghosts"]),
                    number(&each["failures_in_a_row"]),
                    seconds(&each["ejected_for_seconds"]),
                ]
            })
        }),
    );
    if reply["ready"] == Value::Bool(false) {
        text += "\nit drains and takes no more callers\n";
    }
    text
}

fn levers(reply: &Value) -> String {
    if rows(reply).is_empty() {
        return "no lever is pulled\n".to_owned();
    }
    columns(
        ["id", "lever", "upstream", "route", "ends in", "by", "why"],
        rows(reply).iter().map(|held| {
            [
                number(&held["id"]),
                lever(held),
                word(&held["upstream"]),
                word(&held["route"]),
                seconds(&held["left_seconds"]),
                word(&held["by"]),
                word(&held["why"]),
            ]
        }),
    )
}

fn audit(reply: &Value) -> String {
    let records = rows(&reply["records"]).iter();
    columns(
        ["at", "by", "what", "why"],
        records.map(|each| ["at", "by", "what", "why"].map(|name| word(&each[name]))),
    )
}

fn done(reply: &Value) -> String {
    let undo =
        reply["id"].as_u64().map_or_else(String::new, |id| format!(" (quell ctl undo {id})"));
    format!("{}{undo}\n", word(&reply["done"]))
}

pub(super) fn lever(held: &Value) -> String {
    match held["value"].as_u64() {
        Some(value) => format!("{} {value}", word(&held["lever"])),
        None => word(&held["lever"]),
    }
}

pub(super) fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What people wrote may hold anything; a terminal is to obey none of it.
pub(super) fn word(value: &Value) -> String {
    let text = value.as_str().unwrap_or("–");
    text.chars().filter(|c| !c.is_control()).collect()
}

pub(super) fn number(value: &Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (_, Some(number)) => format!("{number:.2}"),
        _ => "–".to_owned(),
    }
}

pub(super) fn seconds(value: &Value) -> String {
    match value.as_f64() {
        None => "–".to_owned(),
        Some(seconds) if seconds >= 60.0 => {
            format!("{:.0}m {:.0}s", (seconds / 60.0).floor(), (seconds % 60.0).floor())
        }
        Some(seconds) if seconds >= 1.0 => format!("{seconds:.1}s"),
        Some(seconds) => format!("{:.0}ms", seconds * 1e3),
    }
}

/// Left-aligned columns, each as wide as its longest cell.
pub(super) fn columns<const N: usize>(
    names: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut all = vec![names.map(str::to_owned)];
    all.extend(rows);
    let widths: [usize; N] =
        std::array::from_fn(|i| all.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &all {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levers_are_shown_with_the_number_that_undoes_them() {
        assert_eq!(levers(&json!([])), "no lever is pulled\n");
        let reply = json!([
            { "id": 3, "lever": "limit", "value": 20, "upstream": "pay", "route": null, "left_seconds": 599.9, "by": "ann", "why": "deploy\u{1b}[2J" },
            { "id": 12, "lever": "retries-off", "value": null, "upstream": "pay", "route": "card", "left_seconds": null, "by": "", "why": "" },
        ]);
        let expected = "\
id  lever        upstream  route  ends in  by   why
3   limit 20     pay       –      9m 59s   ann  deploy[2J
12  retries-off  pay       card   –
";
        assert_eq!(levers(&reply), expected);
    }

    #[test]
    fn what_is_not_known_or_without_bound_is_a_dash() {
        let up = json!({
            "name": "pay", "breaker": "closed", "budget": { "tokens": 99.5, "max": 100.0 }, "in_flight": 3, "limit": null, "trouble": "crowding",
            "queued": 0, "ghosts": 0, "retrying": 1, "patience_seconds": 5.0, "p50_seconds": 0.02, "margin": -0.25,
            "levers": [], "endpoints": [{ "address": "http://10.0.0.5:9000", "in_flight": 3, "ghosts": 0, "failures_in_a_row": 0, "ejected_for_seconds": null }],
        });
        let text = state(&json!({ "ready": false, "upstreams": [up] }));
        let rows: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[1],
            [
                "pay",
                "closed",
                "99.50/100.00",
                "3",
                "–",
                "crowding",
                "0",
                "0",
                "1",
                "5.0s",
                "20ms",
                "-0.25",
                "0"
            ]
        );
        assert_eq!(rows[4], ["http://10.0.0.5:9000", "pay", "3", "0", "0", "–"]);
        assert!(text.ends_with("takes no more callers\n"));
    }

    #[test]
    fn what_was_done_is_said_with_how_to_undo_it() {
        assert_eq!(done(&json!({ "done": "draining" })), "draining\n");
        assert_eq!(done(&json!({ "done": "x", "id": 7 })), "x (quell ctl undo 7)\n");
    }
}
