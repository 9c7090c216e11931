//! The schema and the reader say the same.

use serde_json::{Map, Value, json};

use super::{
    described,
    document::Document,
    node::{self, Node},
    schema::{Record, listen, record},
    shape::Shape,
    tests::parse,
    *,
};

const FILES: [&str; 2] = [include_str!("sample.toml"), include_str!("gateway.toml")];

fn the_schema() -> Value {
    serde_json::from_str(&schema()).unwrap()
}

fn json_of(node: &Node) -> Value {
    match &node.value {
        node::Value::Text(text) | node::Value::Other(text) => json!(text),
        node::Value::Whole(number) => json!(number),
        node::Value::Real(number) => json!(number),
        node::Value::Bool(yes) => json!(yes),
        node::Value::List(list) => list.iter().map(json_of).collect(),
        node::Value::Table(table) => json_of_table(table),
    }
}

fn json_of_table(table: &node::Table) -> Value {
    let member = |entry: &node::Entry| (entry.name.clone(), json_of(&entry.node));
    Value::Object(table.0.iter().map(member).collect::<Map<_, _>>())
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

fn file_fits(schema: &Value, text: &str) -> bool {
    let table = toml::de::DeTable::parse(text).unwrap();
    fits(schema, &json_of_table(&node::Table::of(table.get_ref(), &node::At::File)))
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

/// Nothing is only half known: every setting has a shape, and every table has been looked into.
#[test]
fn the_schema_says_what_every_setting_can_be() {
    let Record { tables, .. } = record();
    for (place, table) in &tables {
        for (name, setting) in &table.settings {
            let at = if place.is_empty() { (*name).to_owned() } else { format!("{place}.{name}") };
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
    let known = record();
    let budgets = ["tokens", "grpc", "failed-retry", "ratio", "window", "adaptive", "sampled"];
    let made = budgets.map(|kind| {
        format!("[upstream.x]\nbudget = {{ kind = \"{kind}\", inner = {{ kind = \"ratio\" }} }}")
    });
    for text in FILES.iter().copied().chain(made.iter().map(String::as_str)) {
        let heard = listen(Document::parse("f", text, &[]).unwrap(), Record::default());
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

#[test]
fn every_setting_is_described_and_nothing_else_is() {
    let mut all = Vec::new();
    properties(&the_schema(), "", &mut all);
    assert!(all.len() > 200, "{}", all.len());
    for (at, schema) in &all {
        let description = schema["description"].as_str();
        assert!(description.is_some_and(|text| text.len() > 3), "{at} is not described");
    }
    let page = include_str!("../../../../docs/config.md");
    assert_eq!(
        described::lines().count(),
        described::LINES.lines().count(),
        "a line without colon"
    );
    for (place, meaning) in described::lines() {
        let is_used = all.iter().any(|(at, _)| described::meaning(at) == Some(meaning));
        assert!(is_used, "{place} is described, and is no setting");
        let name = place.rsplit(['.', ']']).find(|part| !part.is_empty()).unwrap();
        assert!(page.contains(name), "{place} is not in docs/config.md");
    }
}
