//! Settings: what a file would say of one route, every default written out, as JSON.
//!
//! What is shown here is what `/config` and `quell check --effective` print: both are the values that the tables write.

use quell_config::setting::{Settings, Value as Written};
use serde_json::{Map, Value};

use crate::config::{self, Config};

/// The tables of a route, of how its calls behave, and of what all callers of its upstream share.
pub(super) fn of(file: &Config, route: &config::Route) -> Value {
    let upstream = file.upstreams.get(&route.upstream);
    let tables = [
        ("route", Some(route.written())),
        // With what the route says of times.
        ("policy", Some(file.policy_of(route).written())),
        ("upstream", upstream.map(config::Upstream::written)),
    ];
    let shown = |(table, settings): (&str, Option<Settings>)| {
        (table.to_owned(), settings.as_ref().map_or(Value::Null, json))
    };
    Value::Object(tables.into_iter().map(shown).collect())
}

fn json(settings: &Settings) -> Value {
    let member = |(name, written): (&str, &Written)| (name.to_owned(), value(written));
    Value::Object(settings.iter().map(member).collect::<Map<_, _>>())
}

fn value(written: &Written) -> Value {
    match written {
        Written::Text(text) => text.as_str().into(),
        Written::Whole(number) => (*number).into(),
        Written::Real(number) => (*number).into(),
        Written::Bool(yes) => (*yes).into(),
        Written::List(parts) => parts.iter().map(value).collect(),
        Written::Table(inside) => json(inside),
        Written::Named(values) => {
            values.iter().map(|(name, inside)| (name.clone(), value(inside))).collect()
        }
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
