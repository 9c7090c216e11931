//! What a whole file means, and what a wrong one is told.

use proptest::prelude::*;

use super::*;

/// The file of the documentation, which has something of everything.
const SAMPLE: &str = include_str!("sample.toml");
const GATEWAY: &str = include_str!("gateway.toml");

pub(super) fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse("quell.toml", text, &[])
}

/// A file with these lines after the version.
pub(super) fn with(lines: &str) -> Result<Config, Problems> {
    parse(&format!("version = 1\n{lines}"))
}

/// `line:column message`, one for each problem.
pub(super) fn told(result: Result<Config, Problems>) -> Vec<String> {
    let problems = result.unwrap_err();
    let told = problems.iter().map(|problem| match &problem.place {
        Place::File { line, column, .. } => format!("{line}:{column} {}", problem.message),
        Place::Setting(name) => format!("{name} {}", problem.message),
    });
    told.collect()
}

/// Every preset, of policies and upstreams, of budgets and of breakers.
/// The line, the column and the message of each, as people see them; and all but what is no TOML come with a fix.
pub(super) fn check(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (lines, expected) in cases {
        let problems = with(lines).unwrap_err();
        let has_help = problems.to_string().contains(" = help: ");
        let told = told(Err(problems)).join("\n");
        if told != *expected || has_help == told.contains("this is not TOML") {
            wrong.push(format!("{lines}\n  expected {expected}\n  told     {told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_sample_means_what_it_says() {
    let config = parse(SAMPLE).unwrap();
    assert_eq!(config.policies["payments"].spec.attempts, 3);
    assert_eq!(config.upstreams["payments"].endpoints.len(), 2);
    assert_eq!(config.routes[0].name, "POST /pay");
    assert_eq!(config.tenants["shop"].keys[0].to_string(), "env:SHOP_KEY_HASH");
    assert_eq!(config.workers["payment_events"].tiers.len(), 3);
    assert_eq!(config.scenarios, ["stall"]);
}

#[test]
fn the_samples_of_the_documentation_load() {
    let pages = [include_str!("../../../../docs/config.md"), include_str!("../../../../README.md")];
    for page in pages {
        for sample in page.split("```toml\n").skip(1) {
            let sample = sample.split("```").next().unwrap();
            parse(sample).unwrap_or_else(|problems| panic!("{problems}\n{sample}"));
        }
    }
}

#[test]
fn what_nothing_acts_on_is_told() {
    let config = parse(SAMPLE).unwrap();
    let idle: Vec<_> = config.idle.iter().map(|idle| idle.path.as_str()).collect();
    assert_eq!(idle, ["store", "worker.payment_events"]);
    assert_eq!(config.idle[0].place.to_string(), "quell.toml:30:2");
}

#[test]
fn an_empty_file_has_the_defaults() {
    assert_eq!(with("").unwrap(), Config::default());
}

#[test]
fn a_flag_reaches_a_route_by_its_place() {
    let route = "version = 1\n[upstream.a]\n[upstream.b]\n[[route]]\nupstream = \"a\"";
    let first = Override::flag("--set", "route.0.upstream=b").unwrap();
    assert_eq!(Config::parse("f", route, &[first]).unwrap().routes[0].upstream, "b");
}

/// O5.
#[test]
fn a_secret_is_never_printed() {
    for lines in [
        "[tenant.shop]\nkeys = [\"hunter2\"]",
        "[tenant.shop]\nkeys = \"hunter2\"",
        "[tenant]\nshop = \"hunter2\"",
        "store = \"redis://:hunter2@db\"",
        "[tenant.shop]\nkyes = [\"hunter2\"]",
        "[tenant]\nshop = { keys = [\"hunter2\"], priorty = \"default\" }",
        "[tenant]\nshop = { keys = [\"hunter2\"] priority",
        "[tenant.shop]\nkeys = [\"hunter2",
        "[store]\nkind = \"redis\"\nurl = \"redis://:hunter2@db\"",
        "[gateway]\nadmin_token = \"hunter2\"",
        "[gateway]\notlp = \"http://admin:hunter2@traces\"",
        "[gateway]\ntls = { cert = \"c\", key = \"-----BEGIN KEY-----\\nhunter2\" }",
        "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { headers = { Authorization = \"hunter2\" } }",
    ] {
        let problems = with(lines).unwrap_err();
        let printed = format!("{problems} {problems:?} {problems:#?}");
        assert!(!printed.contains("hunter2"), "{lines}: {printed}");
    }
    let token = Override::flag("--set", "tenant.shop.keys=[\"hunter2\"]").unwrap();
    let problems = Config::parse("f", "version = 1", std::slice::from_ref(&token)).unwrap_err();
    assert!(!format!("{problems} {problems:?} {token:?}").contains("hunter2"));
}

#[test]
fn what_is_in_force_reads_back_the_same() {
    for text in [SAMPLE, GATEWAY] {
        let plain = |config: Config| Config { idle: Vec::new(), scenarios: Vec::new(), ..config };
        let config = plain(parse(text).unwrap());
        let printed = config.effective();
        let again = parse(&printed).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
        assert_eq!(plain(again), config, "{printed}");
    }
}

#[test]
fn a_table_that_no_host_has_is_told_with_all_that_there_are() {
    check(&[(
        "x = 1",
        "2:1 x is not known here: write version, gateway, policy, upstream, tenant, route, store, worker or scenario",
    )]);
}

proptest! {
    /// A file with a piece cut out is told off or understood, and never more than that.
    #[test]
    fn no_cut_breaks_it(from in 0..2_000usize, length in 0..40usize) {
        let chars: Vec<char> = SAMPLE.chars().collect();
        let cut: String = chars.iter().take(from).chain(chars.iter().skip(from + length)).collect();
        let _ = parse(&cut).map_err(|problems| format!("{problems}{problems:?}"));
    }
}
