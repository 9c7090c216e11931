//! Settings: what a file would say of one route, every default written out, as JSON.
//!
//! There is one place that knows how settings are written, and that is [`Config::effective`]: what it prints of a file with
//! only this route in it is read back, so what is shown here is what `/config` and `quell check --effective` show.

use std::collections::BTreeMap;

use crate::config::{self, Config};
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

/// The tables of a route, of how its calls behave, and of what all callers of its upstream share.
pub(super) fn of(file: &Config, route: &config::Route) -> Value {
    let upstream = file.upstreams.get(&route.upstream).cloned();
    let name = &route.upstream;
    let only = Config {
        // What it is called there does not matter: whatever the route says of times is in it.
        policies: BTreeMap::from([(name.clone(), file.policy_of(route))]),
        upstreams: upstream.into_iter().map(|upstream| (name.clone(), upstream)).collect(),
        routes: vec![route.clone()],
        ..Config::default()
    };
    let text = only.effective();
    let all = DeTable::parse(&text).map(|all| table(all.get_ref())).unwrap_or_default();
    let part = |table: &str, at: &str| {
        let part = all.get(table).and_then(|part| part.pointer(at));
        (table.to_owned(), part.cloned().unwrap_or_default())
    };
    let shared = format!("/{name}");
    [part("route", "/0"), part("policy", &shared), part("upstream", &shared)].into_iter().collect()
}

fn table(table: &DeTable<'_>) -> Map<String, Value> {
    let member = |(name, each): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        (AsRef::<str>::as_ref(name.get_ref()).to_owned(), value(each.get_ref()))
    };
    table.iter().map(member).collect()
}

fn value(written: &DeValue<'_>) -> Value {
    match written {
        DeValue::String(text) => Value::from(&**text),
        DeValue::Boolean(yes) => Value::from(*yes),
        DeValue::Integer(number) => number.as_str().parse::<i64>().map_or(Value::Null, Value::from),
        DeValue::Float(number) => {
            let number = number.as_str().parse().ok().and_then(Number::from_f64);
            number.map_or(Value::Null, Value::Number)
        }
        DeValue::Datetime(_) => Value::Null, // no setting is one
        DeValue::Array(parts) => parts.iter().map(|part| value(part.get_ref())).collect(),
        DeValue::Table(inside) => Value::Object(table(inside)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_route_is_what_the_file_comes_to() {
        let text = r#"
version = 1
[policy.careful]
attempts = 3
timeout = "9s"
[upstream.payments]
endpoints = ["http://10.0.0.5:9000", "http://10.0.0.6:9000"]
[[route]]
name = "pay"
match = { path = "/pay", methods = ["POST"], headers = { "x-v" = "2" } }
upstream = "payments"
policy = "careful"
timeout = "4s"
rate_limit = { per_second = 50, key = "ip" }
idempotency = { required = true }
fallback = { status = 203, body = "[]" }
"#;
        let file = Config::parse("quell.toml", text, &[]).unwrap();
        let shown = of(&file, &file.routes[0]);
        for (at, expected) in [
            ("/route/match/path", "/pay".into()),
            ("/route/match/headers/x-v", "2".into()),
            ("/route/policy", "careful".into()),
            ("/route/tenants", "off".into()),
            ("/route/rate_limit/key", "ip".into()),
            ("/route/idempotency/ttl", "24h".into()),
            ("/route/fallback/status", 203.into()),
            ("/policy/attempts", 3.into()),
            ("/policy/timeout", "4s".into()),
            ("/policy/backoff/factor", 2.0.into()),
            ("/policy/retry_on/2", 408.into()),
            ("/policy/hint/cap", "5s".into()),
            ("/policy/unsafe_methods", "with-key".into()),
            ("/upstream/endpoints/1", "http://10.0.0.6:9000".into()),
            ("/upstream/budget/max", 100.into()),
            ("/upstream/breaker/failure_rate", 0.5.into()),
            ("/upstream/in_flight/queue", 64.into()),
        ] {
            let expected: Value = expected;
            assert_eq!(shown.pointer(at), Some(&expected), "{at} in {shown:#}");
        }
    }
}
