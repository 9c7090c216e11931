//! The schema and the reader say the same.

use serde_json::{Map, Value, json};

use toml::de::{DeTable, DeValue};

use super::{schema, tests::parse};

const FILES: [&str; 2] = [include_str!("sample.toml"), include_str!("gateway.toml")];

fn the_schema() -> Value {
    serde_json::from_str(&schema()).unwrap()
}

/// As much of JSON Schema as ours uses; what it does not know it refuses.
fn fits(schema: &Value, value: &Value) -> bool {
    schema.as_object().unwrap().iter().all(|(word, said)| match word.as_str() {
        "$schema" | "title" | "description" => true,
        "type" => match said.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            "integer" => value.is_i64(),
            other => panic!("{other}"),
        },
        "enum" => said.as_array().unwrap().contains(value),
        "anyOf" => said.as_array().unwrap().iter().any(|each| fits(each, value)),
        "minimum" => value.as_i64() >= said.as_i64(),
        "maximum" => value.as_i64() <= said.as_i64(),
        "items" => value.as_array().unwrap().iter().all(|each| fits(said, each)),
        "required" => {
            said.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
        }
        "properties" => members(value)
            .all(|(name, value)| said.get(name).is_none_or(|schema| fits(schema, value))),
        "additionalProperties" => members(value).all(|(name, value)| {
            let is_known = schema.get("properties").is_some_and(|all| all.get(name).is_some());
            is_known || (said != &json!(false) && fits(said, value))
        }),
        // Patterns are for readers that know them; here they are only looked at.
        "pattern" => value.is_string() && said.as_str().unwrap().starts_with('^'),
        "propertyNames" => members(value).all(|(name, _)| !name.contains(' ')),
        other => panic!("{other} is not known to this test"),
    })
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn json_of_table(table: &DeTable<'_>) -> Map<String, Value> {
    let member = |(name, each): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        (AsRef::<str>::as_ref(name.get_ref()).to_owned(), json_of(each.get_ref()))
    };
    table.iter().map(member).collect()
}

fn json_of(written: &DeValue<'_>) -> Value {
    match written {
        DeValue::String(text) => json!(text),
        DeValue::Boolean(yes) => json!(yes),
        DeValue::Integer(number) => json!(number.as_str().parse::<i64>().unwrap()),
        DeValue::Float(number) => json!(number.as_str().parse::<f64>().unwrap()),
        DeValue::Datetime(date) => panic!("no setting is {date}"),
        DeValue::Array(parts) => parts.iter().map(|part| json_of(part.get_ref())).collect(),
        DeValue::Table(inside) => Value::Object(json_of_table(inside)),
    }
}

fn file_fits(schema: &Value, text: &str) -> bool {
    let table = DeTable::parse(text).unwrap();
    fits(schema, &Value::Object(json_of_table(table.get_ref())))
}

#[test]
fn files_that_are_right_fit_the_schema_and_so_does_what_is_in_force() {
    let schema = the_schema();
    for text in FILES {
        assert!(file_fits(&schema, text), "{text}");
        let effective = parse(text).unwrap().effective();
        assert!(file_fits(&schema, &effective), "{effective}");
    }
}

#[test]
fn files_that_are_wrong_do_not_fit_it() {
    let schema = the_schema();
    for lines in [
        "",
        "version = \"1\"",
        "version = 1\nx = 1",
        "version = 1\n[policy.x]\nattemps = 3",
        "version = 1\n[policy.x]\nattempts = -1",
        "version = 1\n[policy.x]\ntimeout = 4",
        "version = 1\n[policy.x]\nretry_on = [200]",
        "version = 1\n[policy.\"a b\"]",
        "version = 1\n[upstream.x]\nprotocol = \"h2\"",
        "version = 1\n[upstream.x]\nejection = \"on\"",
        "version = 1\n[upstream.x]\nin_flight = { pools = { a = \"b\" } }",
        "version = 1\n[tenant.x]\npriority = \"default\"",
        "version = 1\n[[route]]\npolicy = \"x\"",
        "version = 1\n[[route]]\nupstream = \"x\"\nmatch = { headers = { a = 1 } }",
        "version = 1\n[gateway]\ntls = { cert = \"x\" }",
    ] {
        assert!(!file_fits(&schema, lines), "{lines}");
    }
}

/// Every property below a schema, by its place.
fn properties(schema: &Value, place: &str, into: &mut Vec<(String, Value)>) {
    for (name, inside) in members(&schema["properties"]) {
        let at = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        into.push((at.clone(), inside.clone()));
        properties(inside, &at, into);
    }
    properties_in(&schema["additionalProperties"], &format!("{place}.*"), into);
    properties_in(&schema["items"], &format!("{place}[]"), into);
    schema["anyOf"].as_array().into_iter().flatten().for_each(|each| properties(each, place, into));
}

fn properties_in(schema: &Value, place: &str, into: &mut Vec<(String, Value)>) {
    if schema.is_object() {
        properties(schema, place, into);
    }
}

/// Nothing is only half known: every setting has a shape, and every table has been looked into.
#[test]
fn the_schema_says_what_every_setting_can_be() {
    let mut all = Vec::new();
    properties(&the_schema(), "", &mut all);
    for (at, schema) in &all {
        let said = ["type", "enum", "anyOf"].iter().any(|word| schema.get(word).is_some());
        assert!(said, "{at} can be anything");
        let is_table = schema["type"] == "object";
        // A budget that samples another is no budget that can be sampled.
        let is_free = at == "scenario" || at.ends_with(".inner.inner");
        let is_open = schema.get("additionalProperties").is_some();
        assert!(!is_table || is_open || is_free, "nobody has looked into {at}");
    }
}

#[test]
fn every_setting_is_described() {
    let mut all = Vec::new();
    properties(&the_schema(), "", &mut all);
    assert!(all.len() > 200, "{}", all.len());
    for (at, schema) in &all {
        let description = schema["description"].as_str();
        assert!(description.is_some_and(|text| text.len() > 3), "{at} is not described");
    }
}

const PAGE: &str = include_str!("../../../../docs/config.md");

/// What stands below a heading, up to the next one that begins with this.
fn below(heading: &str, next: &str) -> std::str::Lines<'static> {
    let (_, below) = PAGE.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    below.split(&format!("\n{next}")).next().unwrap().lines()
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

const HEADINGS: [(&str, &str); 7] = [
    ("gateway", "## `[gateway]`"),
    ("policy", "## `[policy.NAME]`"),
    ("upstream", "## `[upstream.NAME]`"),
    ("route", "## `[[route]]`"),
    ("tenant", "## `[tenant.NAME]`"),
    ("store", "## `[store]`"),
    ("worker", "## `[store]`"),
];

#[test]
fn every_setting_has_a_row_in_the_documentation() {
    let mut all = Vec::new();
    properties(&the_schema(), "", &mut all);
    for (at, _) in &all {
        let Some((table, inside)) = at.split_once(['.', '[']) else { continue };
        let (_, heading) = HEADINGS.iter().find(|(known, _)| *known == table).unwrap();
        let name = inside.rsplit(['.', ']']).next().unwrap();
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let names = |row| code(row).flat_map(move |code| code.split(move |c| !is_name(c)));
        // A table may have a heading of its own.
        let rows = below(heading, "## ").filter(|line| line.starts_with(['|', '#']));
        let has_row = rows.into_iter().any(|row| names(row).any(|word| word == name));
        assert!(has_row, "{at} has no row below {heading} in docs/config.md");
    }
}

/// Written into a file, a default of the documentation changes nothing.
#[test]
fn the_defaults_of_the_documentation_are_those_in_force() {
    let mut compared = 0;
    for (heading, table, prefix) in [
        ("## `[gateway]`", "gateway", ""),
        ("## `[policy.NAME]`", "policy.x", ""),
        ("## `[upstream.NAME]`", "upstream.x", ""),
        ("### `budget`", "upstream.x", "budget."),
        ("### `breaker`", "upstream.x", "breaker."),
        ("### `in_flight`", "upstream.x", "in_flight."),
    ] {
        let usual = parse(&format!("version = 1\n[{table}]")).unwrap();
        for row in below(heading, "#").filter(|line| line.starts_with('|')) {
            let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
            let (Some(name), Some(default)) = (cells.next(), cells.next()) else { continue };
            let name = name.trim_matches('`');
            let is_one = name.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '.'));
            let default = match default.strip_prefix('`') {
                Some(default) => default.split('`').next().unwrap(),
                None => default.split([';', ' ']).next().unwrap(),
            };
            let is_toml = default.starts_with(['"', '[', '{']) || default.parse::<f64>().is_ok();
            // The count of calls says at once that calls are counted.
            if !is_one || !is_toml || (prefix, name) == ("breaker.", "calls") {
                continue;
            }
            let text = format!("version = 1\n[{table}]\n{prefix}{name} = {default}\n");
            match parse(&text) {
                Ok(config) => assert_eq!(config, usual, "{name} = {default}"),
                // It belongs to another kind than the usual one.
                Err(told) => assert!(told.to_string().contains("is not known here"), "{told}"),
            }
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}
