//! What a file means, and what a wrong one is told.

use std::{collections::BTreeMap, ffi::OsString, time::Duration};

use proptest::prelude::*;
use quell_core::{
    Policy as CorePolicy,
    backoff::{Jitter, Shape},
    breaker, budget,
    in_flight::Limit,
    lint,
    mode::Mode,
};

use super::*;

/// A file with the tables of this crate, and one that another host reads.
const SAMPLE: &str = include_str!("sample.toml");

/// What a host makes of a file that has no tables of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    policies: BTreeMap<String, Policy>,
    upstreams: BTreeMap<String, Upstream>,
    idle: Vec<Idle>,
}

impl Config {
    fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, Problems> {
        let (config, idle) = super::parse(name, text, overrides, Self::read)?;
        Ok(Self { idle, ..config })
    }

    fn read(root: &fields::Fields<'_>) -> Self {
        version(root);
        root.leave_to_others("gateway");
        let config =
            Self { policies: Policy::all(root), upstreams: Upstream::all(root), idle: Vec::new() };
        for table in ["tenant", "route", "store", "worker", "scenario"] {
            root.leave_to_others(table);
        }
        config
    }

    fn effective(&self) -> String {
        let mut text = String::from("version = 1\n");
        for (name, policy) in &self.policies {
            policy.written().section(&format!("[policy.{name}]"), &mut text);
        }
        for (name, upstream) in &self.upstreams {
            upstream.written().section(&format!("[upstream.{name}]"), &mut text);
        }
        text
    }
}

pub(super) fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse("quell.toml", text, &[])
}

/// A file with these lines after the version.
pub(super) fn with(lines: &str) -> Result<Config, Problems> {
    parse(&format!("version = 1\n{lines}"))
}

pub(super) fn upstream(lines: &str) -> Upstream {
    with(&format!("[upstream.x]\n{lines}")).unwrap().upstreams["x"].clone()
}

pub(super) fn policy(lines: &str) -> Policy {
    with(&format!("[policy.x]\n{lines}")).unwrap().policies["x"].clone()
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

#[test]
fn the_sample_means_what_it_says() {
    let config = parse(SAMPLE).unwrap();
    let policy = &config.policies["payments"];
    assert_eq!((policy.spec.attempts, policy.spec.timeout), (3, Duration::from_secs(4)));
    assert_eq!(policy.spec.per_try_timeout, Some(Duration::from_millis(1_200)));
    assert_eq!(policy.spec.backoff.jitter, Jitter::Full);
    assert_eq!(policy.codes(), [429, 502, 503, 504]);
    let upstream = &config.upstreams["payments"];
    assert_eq!(upstream.endpoints.len(), 2);
    assert_eq!(upstream.spec.endpoints, 2);
    assert_eq!(upstream.budget.instances, Some(50));
    assert_eq!(upstream.spec.budget.bucket().unwrap().max, 2); // of a hundred
    assert_eq!(upstream.spec.breaker.slow, Some(Duration::from_secs(2)));
    assert_eq!(upstream.spec.in_flight, Limit::Adaptive { ceiling: 4096 });
    assert_eq!(upstream.spec.rate_limit.unwrap().burst, 10_000);
}

#[test]
fn what_nothing_acts_on_is_told() {
    let config =
        with("[policy.x]\nretry_on = [503]\n[upstream.x]\nbreaker = { keys = 4 }").unwrap();
    let idle: Vec<_> = config.idle.iter().map(|idle| idle.path.as_str()).collect();
    assert_eq!(idle, ["policy.x.retry_on", "upstream.x.breaker.keys"]);
    assert_eq!(config.idle[0].place.to_string(), "quell.toml:3:12");
    for policy in ["attempts = 2", "hedge = { after = 0.9 }"] {
        let text = format!("[upstream.x]\nbudget = {{ max = 50 }}\n[policy.x]\n{policy}");
        assert_eq!(with(&text).unwrap().idle, [], "a host acts on {policy}");
    }
}

#[test]
fn an_empty_file_has_the_defaults_of_the_gateway() {
    let config = with("[upstream.x]\n[policy.x]").unwrap();
    assert_eq!(config.policies["x"].spec, Preset::Gateway.policy());
    assert_eq!(config.upstreams["x"].spec, Preset::Gateway.upstream());
}

/// Every preset, of policies and upstreams, of budgets and of breakers.
#[test]
fn every_preset_loads_and_passes_the_lints() {
    for (word, preset) in Preset::WORDS {
        let text = format!("[policy.x]\npreset = \"{word}\"\n[upstream.x]\npreset = \"{word}\"");
        let config = with(&text).unwrap();
        let (policy, upstream) = (&config.policies["x"], &config.upstreams["x"]);
        assert_eq!((policy.spec, upstream.spec), (preset.policy(), preset.upstream()));
        assert_eq!(lint::lint(&policy.spec, &upstream.spec, policy.kind()), []);
        assert!(CorePolicy::new(policy.spec).is_ok());
    }
    let presets = [
        ("budget", "llm"),
        ("budget", "time-only"),
        ("budget", "finagle"),
        ("breaker", "default"),
        ("breaker", "classic"),
        ("breaker", "hardened"),
        ("breaker", "consecutive"),
    ];
    for (control, word) in presets {
        let upstream = upstream(&format!("{control} = {{ preset = \"{word}\" }}"));
        let lints = lint::lint(&Preset::Gateway.policy(), &upstream.spec, lint::Kind::Online);
        assert_eq!(lints, [], "{word}");
    }
    assert_eq!(
        upstream("breaker = { preset = \"hardened\" }").spec.breaker,
        breaker::Spec::hardened()
    );
    let llm = Preset::Llm.retry_on();
    assert!(llm.contains(&RetryOn::Status(529)) && !llm.contains(&RetryOn::Status(502)));
}

#[test]
fn a_number_of_ones_own_goes_over_the_preset() {
    let policy = policy("preset = \"llm\"\nattempts = 2");
    assert_eq!((policy.spec.attempts, policy.spec.timeout), (2, Duration::from_secs(600)));
    let upstream = upstream("preset = \"llm\"\nbudget = { kind = \"tokens\", max = 50 }");
    let budget::Spec::Tokens(tokens) = upstream.spec.budget else { panic!() };
    assert_eq!((tokens.max, tokens.pause_below), (50, 0.5));
}

#[test]
fn an_attempts_time_that_is_not_written_is_all_there_is_in_front_of_a_service_and_else_at_most_an_equal_share()
 {
    let per_try = |lines| policy(lines).spec.per_try_timeout.unwrap().as_secs();
    assert_eq!((per_try(""), per_try("attempts = 3")), (60, 60));
    assert_eq!((per_try("timeout = \"4s\""), per_try("timeout = \"5m\"")), (4, 300));
    assert_eq!(per_try("preset = \"strict\""), 5);
    assert_eq!(per_try("preset = \"strict\"\ntimeout = \"4s\""), 2);
    assert_eq!(per_try("preset = \"strict\"\ntimeout = \"60s\""), 5);
    assert_eq!(per_try("preset = \"llm\"\ntimeout = \"90s\""), 30);
}

#[test]
fn every_backoff_and_jitter_can_be_written() {
    let backoff = |inside: &str| policy(&format!("backoff = {{ {inside} }}")).spec.backoff;
    assert_eq!(backoff("kind = \"none\"").shape, Shape::None);
    assert_eq!(backoff("kind = \"fixed\", base = \"1s\"").shape, Shape::Fixed);
    assert_eq!(backoff("kind = \"linear\"").shape, Shape::Linear);
    assert_eq!(backoff("factor = 3").shape, Shape::Exponential { factor: 3.0 });
    let list = backoff("waits = [\"1s\", \"30s\"]");
    let Shape::List(waits) = list.shape else { panic!() };
    assert!(waits.iter().eq([1, 30].map(Duration::from_secs)));
    assert_eq!(list.cap, Duration::from_secs(30));
    for (word, jitter) in [
        ("none", Jitter::None),
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("decorrelated", Jitter::Decorrelated),
        ("proportional\", share = 0.5, kind = \"exponential", Jitter::Proportional(0.5)),
    ] {
        assert_eq!(backoff(&format!("jitter = \"{word}\"")).jitter, jitter);
    }
}

#[test]
fn every_kind_of_budget_can_be_written() {
    for (inside, kind) in [
        (
            "kind = \"tokens\", max = 10, ratio = 0.5, start = 1, refill = \"1s\", pause_below = 0.5, cost = { timeout = 2 }",
            "tokens",
        ),
        ("kind = \"grpc\", max = 20", "grpc"),
        ("kind = \"failed-retry\", ratio = 0.2", "failed-retry"),
        ("kind = \"ratio\", ratio = 0.2, window = \"5s\", floor = 1", "ratio"),
        ("kind = \"window\", bootstrap = 1", "window"),
        ("kind = \"adaptive\", alpha = 0.2, success_floor = 0.2", "adaptive"),
        (
            "kind = \"probabilistic\", target = 0.2, unknown = 0.1, half_life = \"1s\"",
            "probabilistic",
        ),
        ("kind = \"sampled\", fraction = 0.5, inner = { kind = \"grpc\" }", "sampled"),
        ("kind = \"unlimited\"", "unlimited"),
        ("kind = \"none\"", "none"),
    ] {
        let upstream = upstream(&format!("budget = {{ {inside} }}"));
        assert_eq!(upstream.spec.budget.kind(), kind);
    }
    let functions = upstream("budget = { instances = 10, ephemeral = true }");
    assert_eq!(functions.spec.budget.bucket().unwrap().starts_at(), 0);
}

#[test]
fn every_control_can_try_itself_out() {
    let report = "{ mode = \"report\" }";
    let text = format!(
        "budget = {report}\nbreaker = {report}\nin_flight = {report}\nthrottle = {report}\nejection = {report}\n\
         rate_limit = {{ per_second = 10, mode = \"report\" }}"
    );
    let spec = upstream(&text).spec;
    assert_eq!(spec.modes, quell_core::mode::Modes::REPORT);
    assert_eq!(spec.breaker.mode, breaker::Mode::Report);
    assert_eq!(upstream("").spec.modes.budget, Mode::Enforce);
}

#[test]
fn limits_pools_and_switches_can_be_written() {
    let spec = upstream(
        "in_flight = { limit = 200, queue = 10, order = \"lifo\", pools = { b = 30, a = 50 } }\nejection = \"off\"",
    );
    assert_eq!(spec.pools, [("b".to_owned(), 30), ("a".to_owned(), 50)]);
    assert_eq!((spec.spec.in_flight, spec.spec.queue), (Limit::Fixed(200), 10));
    assert_eq!(spec.spec.ejection, None);
    assert_eq!(upstream("in_flight = { limit = \"off\" }").spec.in_flight, Limit::Off);
    assert_eq!(upstream("rate_limit = { per_second = 2.5 }").spec.rate_limit.unwrap().burst, 3);
    let policy = policy("hedge = { after = 0.9, at_least = \"20ms\" }");
    assert!(policy.spec.hedge.is_some());
}

#[test]
fn a_mistake_in_the_environment_is_told_with_its_name() {
    let told = |name: &str, value: &str| {
        let text = "version = 1\n[upstream.x]\nbudget = { max = 10 }\nejection = \"off\"";
        told(Config::parse("f", text, &Override::in_env([(name.into(), value.into())]))).join("; ")
    };
    assert_eq!(
        told("QUELL__UPSTREAM__X__BUDGET__MAXX", "1"),
        "QUELL__UPSTREAM__X__BUDGET__MAXX upstream.x.budget.maxx is not known here: did you mean `max`?"
    );
    assert!(told("QUELL__UPSTREAM__X__BUDGET__MAX", "0").contains("upstream.x.budget.max is 0"));
    assert_eq!(
        told("QUELL__UPSTREAM__X__EJECTION__AFTER", "1"),
        "QUELL__UPSTREAM__X__EJECTION__AFTER upstream.x.ejection.after ejection is text, so there is no after in it"
    );
    assert!(told("QUELL__UPSTREAM____MAX", "1").contains("does not name a setting"));
}

#[test]
fn a_flag_goes_over_the_environment_and_that_over_the_file() {
    let text = "version = 1\n[upstream.Pay-Ments]\nbudget = { max = 10 }";
    let env = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
    let environment = [
        env("QUELL__UPSTREAM__PAY_MENTS__BUDGET__MAX", "50"),
        env("QUELL__UPSTREAM__PAY_MENTS__BUDGET__RATIO", "0.2"),
        env("QUELL__POLICY__PAY__TIMEOUT", "4s"),
        env("QUELL__POLICY__PAY__RETRY_ON", "[\"connect\", 503]"),
        env("HOME", "/"),
    ];
    let mut overrides = Override::in_env(environment);
    let max = |overrides: &[Override]| {
        let config = Config::parse("f", text, overrides).unwrap();
        config.upstreams["Pay-Ments"].spec.budget.bucket().unwrap().max
    };
    assert_eq!((max(&[]), max(&overrides)), (10, 50));
    let config = Config::parse("f", text, &overrides).unwrap();
    assert_eq!(config.upstreams["Pay-Ments"].spec.budget.ratio(), Some(0.2));
    assert_eq!(config.policies["pay"].spec.timeout, Duration::from_secs(4));
    assert_eq!(config.policies["pay"].retry_on, [RetryOn::Connect, RetryOn::Status(503)]);
    overrides.extend(Override::flag("--set", "upstream.Pay-Ments.budget.max=70"));
    assert_eq!(max(&overrides), 70);
}

/// O5.
#[test]
fn a_secret_is_never_printed() {
    for lines in [
        "[upstream.x]\nendpoints = [\"http://admin:hunter2@db\"]",
        "[upstream.x]\ntls = { cert = \"c\", key = \"-----BEGIN KEY-----\\nhunter2\" }",
    ] {
        let problems = with(lines).unwrap_err();
        let printed = format!("{problems} {problems:?} {problems:#?}");
        assert!(!printed.contains("hunter2"), "{lines}: {printed}");
    }
}

#[test]
fn what_is_in_force_reads_back_the_same() {
    let everything = [
        SAMPLE.to_owned(),
        "version = 1\n[policy.x]\nhedge = {}\nbackoff = { waits = [\"1s\", \"90s\"], jitter = \"proportional\", share = 0.3 }".to_owned(),
        "version = 1\n[upstream.x]\nbreaker = { preset = \"hardened\", record = [404, \"fatal\"], ignore = [500], keys = 4, over = \"either\" }\nthrottle = { most = 0.5 }\nejection = \"off\"\nchildren = { max = 5 }\nin_flight = { limit = 99, pools = { a = 3, \"b c\" = 4 } }".to_owned(),
        "version = 1\n[upstream.x]\nbudget = { kind = \"sampled\", inner = { kind = \"adaptive\" }, ephemeral = true }\n[upstream.y]\nbudget = { cost = { timeout = 2.5 }, refill = \"1s\" }".to_owned(),
    ];
    let presets = Preset::WORDS.map(|(word, _)| {
        format!("version = 1\n[policy.x]\npreset = \"{word}\"\n[upstream.x]\npreset = \"{word}\"")
    });
    for text in everything.iter().chain(&presets) {
        let plain = |config: Config| Config { idle: Vec::new(), ..config };
        let config = plain(parse(text).unwrap());
        let printed = config.effective();
        let again = parse(&printed).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
        assert_eq!(plain(again), config, "{printed}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_it(text: String, value: String) {
        let flag = Override::flag("--set", &format!("upstream.x.budget.max={value}"));
        let _ = Config::parse("f", &text, &flag.into_iter().collect::<Vec<_>>()).map_err(|e| e.to_string());
        let _ = with(&format!("[upstream.x]\nbudget = {{ max = {value} }}")).map_err(|e| e.to_string());
    }

    /// A file with a piece cut out is told off or understood, and never more than that.
    #[test]
    fn no_cut_breaks_it(from in 0..2_000usize, length in 0..40usize) {
        let chars: Vec<char> = SAMPLE.chars().collect();
        let cut: String = chars.iter().take(from).chain(chars.iter().skip(from + length)).collect();
        let _ = parse(&cut).map_err(|problems| format!("{problems}{problems:?}"));
    }
}
