//! What the library makes of a file that other hosts read as well.

use super::*;

const FILE: &str = r#"version = 1
[gateway]
listen = "unix:/run/quell.sock"
nonsense = "is for the gateway to tell"
[policy.payments]
attempts = 3
[upstream.payments]
budget = { max = 50 }
[tenant.shop]
[[route]]
upstream = "nowhere"
[store]
[worker.payment_events]
[scenario.stall]
"#;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse("quell.toml", text, &[])
}

#[test]
fn a_file_with_a_gateways_tables_loads_and_the_gateway_reads_those() {
    let config = parse(FILE).unwrap();
    assert_eq!(config.policies["payments"].spec.attempts, 3);
    assert_eq!(config.idle, []);
    let printed = config.effective();
    assert!(printed.contains("[upstream.payments]") && !printed.contains("[gateway]"), "{printed}");
    assert_eq!(parse(&printed).unwrap(), config);
}

#[test]
fn a_misspelt_table_is_told_with_all_that_a_file_may_hold() {
    let told = parse(&FILE.replace("gateway]", "gatway]")).unwrap_err().to_string();
    assert!(told.starts_with("gatway is not known here\n  --> quell.toml:2:2"), "{told}");
    assert!(told.ends_with("= help: did you mean `gateway`?"), "{told}");
    let told = parse("version = 1\nx = 1").unwrap_err().to_string();
    let tables =
        "write version, gateway, policy, upstream, tenant, route, store, worker or scenario";
    assert!(told.ends_with(tables), "{told}");
}

#[test]
fn a_file_gives_a_handle_to_call_with() {
    let config = parse(FILE).unwrap();
    assert_eq!(config.quell("payments").unwrap().name(), "payments");
    let message = config.quell("reports").unwrap_err().to_string();
    assert_eq!(message, "no upstream is called \"reports\": write [upstream.reports]");
}

#[test]
fn what_is_worth_another_attempt_is_what_the_policy_says() {
    let statuses = |lines: &str| {
        let text = format!("version = 1\n[policy.x]\n{lines}");
        Statuses::from(&parse(&text).unwrap().policies["x"])
    };
    let written = statuses("retry_on = [\"connect\", \"timeout\", 429, 503]");
    assert!(written.contains(503) && !written.contains(500));
    assert!(statuses("").contains(500));
}
