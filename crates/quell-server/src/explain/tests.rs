//! Facts about what is explained, from the words of the command to the report.

use clap::Parser;
use quell_charts::Ink;

use super::*;

const FILE: &str = r#"
version = 1
[policy.payments]
attempts = 3
timeout = "4s"
per_try_timeout = "1200ms"
backoff = { base = "100ms", cap = "2s" }
[upstream.payments]
endpoints = ["http://10.0.0.5:9000"]
budget = { max = 100, ratio = 0.1, instances = 50 }
[upstream.stock]
endpoints = ["http://10.0.0.6:9000"]
budget = { kind = "none" }
[[route]]
name = "pay"
match = { path = "/pay", methods = ["POST"] }
upstream = "payments"
[[route]]
name = "paid"
match = { path = "/pay" }
upstream = "payments"
[[route]]
name = "stock"
match = { path = "/stock", host = "*.example.com" }
upstream = "stock"
"#;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn explain(line: &str) -> Report {
    told(line).unwrap()
}

fn told(line: &str) -> anyhow::Result<Report> {
    let words = format!("explain --config quell.toml {line}");
    let line = Line::try_parse_from(words.split(' ')).unwrap();
    let config = Config::parse("quell.toml", FILE, &[]).unwrap();
    line.args.report(&config)
}

#[test]
fn a_503_to_a_get_is_retried_with_waits_between_nothing_and_the_backoff() {
    let report = explain("--path /pay/7 --status 503");
    assert_eq!((report.route.as_str(), report.policy.as_str()), ("paid", "payments"));
    assert_eq!((report.retried, report.reason), (Some(1.0), None));
    assert_eq!(report.after.len(), 3);
    for (after, most) in report.after.iter().zip([100.0, 200.0]) {
        let wait = after.wait.as_ref().unwrap();
        assert!(wait.shortest_ms < most / 20.0 && wait.longest_ms > most * 0.95, "{wait:?}");
        assert!((most * 0.4..most * 0.6).contains(&wait.median_ms), "{wait:?}");
    }
    assert_eq!(report.after[2].reason(), Some(core::Reason::AttemptsSpent));
    assert_eq!(report.deadline.fit, (3, 3));
}

/// H10.
#[test]
fn what_was_never_sent_needs_no_body_that_is_kept() {
    assert_eq!(explain("--route paid --fault connect --body-bytes 100KiB").retried, Some(1.0));
}

#[test]
fn every_reason_not_to_retry_is_told_with_what_to_change() {
    let cases = [
        ("--path /pay --method POST --status 500", "not_safe", "send an Idempotency-Key"),
        ("--route paid --status 404", "not_retryable", "404 is not in retry_on of payments"),
        ("--route paid --status 503 --attempt 3", "attempts_spent", "attempts = 3"),
        ("--route paid --fault reset --body-bytes 100KiB", "not_replayable", "64 KiB"),
        ("--route paid --status 503 --retry-after 60", "hint_too_long", "asks for 1m"),
        ("--route paid --fault timeout --deadline 1s", "deadline", "left of 1s"),
        ("--route stock --status 503", "retries_off", "switched off"),
    ];
    for (line, reason, says) in cases {
        let report = explain(line);
        assert_eq!((report.retried, report.reason), (Some(0.0), Some(reason)), "{line}");
        assert!(report.why.contains(says), "{line}: {}", report.why);
    }
}

#[test]
fn what_is_safe_is_retried_whatever_the_method() {
    for line in [
        "--route pay --method POST --status 503 --key",
        "--route pay --method POST --fault connect",
        "--route pay --method POST --fault connect --body-bytes 1000000",
        "--route paid --status 503 --retry-after 2",
    ] {
        assert_eq!(explain(line).retried, Some(1.0), "{line}");
    }
    let hinted = explain("--route paid --status 503 --retry-after 2");
    assert!(hinted.after[0].waits[0] >= Duration::from_secs(2), "never before the hint");
    let done = explain("--route paid --status 200");
    assert_eq!((done.retried, done.reason, done.why.as_str()), (Some(0.0), None, "it succeeded"));
}

#[test]
fn an_attempt_that_is_never_made_is_told_with_the_last_one() {
    let report = explain("--route paid --status 404 --attempt 2");
    assert_eq!(report.retried, None);
    assert!(report.why.starts_with("attempt 1 is the last: 404"), "{}", report.why);
}

#[test]
fn a_request_that_no_route_takes_is_told_so_and_so_is_a_choice_that_is_missing() {
    let message = |line| told(line).unwrap_err().to_string();
    assert!(
        message("--path /other --status 503").starts_with("no_route: nothing takes GET /other")
    );
    assert!(message("--path /payments --status 503").starts_with("no_route"), "whole segments");
    assert!(message("--path /stock --status 503").starts_with("no_route"), "for a host only");
    assert_eq!(
        message("--route refund --status 503"),
        "no route is called refund: there are pay, paid, stock"
    );
    assert!(message("--status 503").contains("name one with --route"));
    let found = explain("--path /stock --host eu.example.com --status 503");
    assert_eq!(found.route, "stock");
}

#[test]
fn a_path_that_walks_is_told_to_be_refused_as_the_gateway_refuses_it() {
    for path in ["/pay/../stock", "/pay/%2e%2E/x", "/pay/."] {
        let refused = told(&format!("--path {path} --status 503")).unwrap_err().to_string();
        let says = "is answered with a 400 target: the path has . or .. in it";
        assert!(refused.starts_with(&format!("GET {path} {says}")), "{refused}");
    }
    assert_eq!(explain("--path /%70ay//7?next=/../x --status 503").route, "paid");
    let one = "version = 1\nupstream.x.endpoints = [\"http://10.0.0.5:9000\"]";
    let one = Config::parse("quell.toml", one, &[]).unwrap();
    let words = "explain --config quell.toml --path /a/../b --status 503".split(' ');
    let report = Line::try_parse_from(words).unwrap().args.report(&one).unwrap();
    assert_eq!(report.route, "default", "nothing is chosen by its path");
}

/// G11.
#[test]
fn what_all_processes_allow_together_is_said() {
    let report = explain("--route paid --status 503");
    let fleet =
        |report: &Report| (report.fleet.instances, report.fleet.together, report.fleet.overshoot);
    assert_eq!(fleet(&report), (50, Some(100), Some(0)));
    let more = explain("--route paid --status 503 --instances 70");
    assert_eq!(fleet(&more), (70, Some(140), Some(40)));
    assert_eq!(more.fleet.fix.as_deref(), Some("write instances = 70 in the budget"));
}

#[test]
fn the_budget_over_a_sequence_is_that_of_one_process() {
    let words = "explain --config quell.toml --route paid --status 503 --sequence".split(' ');
    let line = Line::try_parse_from(words.chain(["ok*10 fail*5 ok*10"])).unwrap();
    let config = Config::parse("quell.toml", FILE, &[]).unwrap();
    let report = line.args.report(&config).unwrap();
    let parts = &report.sequence.as_ref().unwrap().parts;
    assert_eq!((parts[1].allowed, parts[1].level, parts[2].level), (2, Some(0.0), Some(1.0)));
    let text = show::text(&report, Ink::Plain);
    for part in [
        "is retried\n",
        "from 0 to 200ms",
        "3 of 3 attempts can begin within 4.0s",
        "2 per process × 50 = 100",
        "fail*5",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
