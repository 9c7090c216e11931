//! `quell check` as people run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::{
    path::PathBuf,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

const SAMPLE: &str = include_str!("../src/config/sample.toml");

/// A file that is gone when the test ends.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("quell-check-{}-{number}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn check(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.arg("check").arg(&self.0).args(args).envs(env.iter().copied());
        command.output().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One without retries that hurt: an upstream with four attempts and no bound on retries.
const NAIVE: &str =
    "version = 1\n[policy.x]\nattempts = 4\n[upstream.x]\nbudget = { kind = \"unlimited\" }\n";

#[test]
fn a_right_file_is_told_what_it_does() {
    let output = File::new(SAMPLE).check(&["--load", "10000/s", "--capacity", "12000"], &[]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for expected in [
        "right; 1 route, 0 lints, 2 settings not used by any host yet",
        "POST /pay → payments (policy: payments)",
        "attempts         3 within 4s, 1200ms each",
        "one call         up to 3 sends, and 3.9 s for its caller",
        "load             1.10 × with 100 % failing",
        "w·ρ              0.92 at 10000/s of 12000/s: it heals by itself",
        "50 processes     100 retries in a minute without a success",
        "3 layers         up to 27 sends for one request",
        "  worker.payment_events  ",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
}

#[test]
fn a_hedge_is_told_together_with_who_does_not_do_it() {
    let file = "version = 1\n[policy.x]\nhedge = { after = 0.9 }\n[upstream.x]\n";
    let told = text(&File::new(file).check(&[], &[]).stdout);
    assert!(told.contains("0 settings not used by any host yet"), "{told}");
    assert!(told.contains("beside what is slower than 90 %"), "{told}");
}

#[test]
fn a_wrong_file_is_told_where_and_ends_with_1() {
    let file = File::new("version = 1\n[policy.x]\nattemps = 3\ntimeout = 4\n");
    let output = file.check(&[], &[]);
    assert_eq!(output.status.code(), Some(1));
    let name = file.0.display();
    let expected = format!(
        "error: policy.x.attemps is not known here\n  --> {name}:3:1\n   |\n 3 | attemps = 3\n   | ^^^^^^^\n   |\n   = help: did you mean `attempts`?\n\n\
         error: policy.x.timeout is 4\n  --> {name}:4:11\n   |\n 4 | timeout = 4\n   |           ^\n   |\n   = help: write a duration with its unit, such as \"4s\" or \"1200ms\"\n"
    );
    assert_eq!(text(&output.stderr), expected);
    assert!(output.stdout.is_empty());
    let output = file.check(&["--json"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["problems"][1]["line"], &json["problems"][1]["column"]),
        (&4.into(), &11.into())
    );
}

#[test]
fn lints_end_with_0_and_with_2_where_they_are_not_wanted() {
    let file = File::new(NAIVE);
    let output = file.check(&[], &[]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(told.contains("budget_unlimited budget.kind is unlimited: nothing bounds"), "{told}");
    assert!(told.contains("no bound on retries") && told.contains("4.00 × with 100 %"), "{told}");
    assert_eq!(file.check(&["--strict"], &[]).status.code(), Some(2));
    let right = File::new("version = 1\n[upstream.x]\n");
    assert_eq!(right.check(&["--strict"], &[]).status.code(), Some(0));
    let overloaded = ["--strict", "--load", "950/s", "--capacity", "1000/s"];
    assert_eq!(right.check(&overloaded, &[]).status.code(), Some(2)); // 1.1 × 0.95
}

#[test]
fn for_machines_it_is_one_document() {
    let file = File::new(NAIVE);
    let args = ["--json", "--load", "3/s", "--capacity", "10/s", "--failure-rate", "0.5"];
    let output = file.check(&args, &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let route = &json["routes"][0];
    assert_eq!(route["worst"]["sends_per_call"], 1.875); // 1 + ½ + ¼ + ⅛
    assert_eq!((&route["worst"]["w_rho"], &route["worst"]["heals"]), (&1.2.into(), &false.into()));
    assert_eq!(route["lints"][0]["code"], "budget_unlimited");
}

#[test]
fn a_flag_goes_over_the_environment_and_that_over_the_file() {
    let file = File::new("version = 1\n[upstream.x]\nbudget = { max = 10 }\n");
    let env = [("QUELL__UPSTREAM__X__BUDGET__MAX", "50")];
    let max = |args: &[&str], env: &[_]| {
        let printed = text(&file.check(&[&["--effective"], args].concat(), env).stdout);
        printed.split("max = ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(max(&[], &[]), "10");
    assert_eq!(max(&[], &env), "50");
    assert_eq!(max(&["--set", "upstream.x.budget.max=70"], &env), "70");
}

#[test]
fn what_is_in_force_can_be_checked_again() {
    let file = File::new(SAMPLE);
    let printed = file.check(&["--effective"], &[]).stdout;
    let again = File::new(&text(&printed));
    assert_eq!(text(&again.check(&["--effective"], &[]).stdout), text(&printed));
}

#[test]
fn a_file_that_is_not_there_ends_with_1_and_says_so() {
    let output = File(PathBuf::from("no-such-file.toml")).check(&[], &[]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.starts_with("error: cannot read no-such-file.toml"), "{told}");
}

#[test]
fn scenarios_are_checked_with_the_rest() {
    let file = File::new("version = 1\n[scenario.x]\nlaod = \"300/s\"\n[policy.y]\nattempts = 0\n");
    let output = file.check(&[], &[]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    for expected in [
        "error: scenario.x.laod is not known here\n",
        "= help: did you mean `load`?",
        "error: scenario.x.load is missing\n",
        "= help: write users' requests per second",
        "error: policy.y.attempts is 0",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
}

#[test]
fn a_secret_that_cannot_be_used_is_wrong_and_one_that_is_not_here_is_only_told() {
    let file =
        File::new("version = 1\n[tenant.shop]\nkeys = [\"env:QUELL_TEST_HASH\"]\n[upstream.x]\n");
    let output = file.check(&["--strict"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let away = "tenant.shop.keys: env:QUELL_TEST_HASH is not there";
    assert!(
        text(&output.stdout)
            .contains(&format!("not looked at (--here if they should be):\n  {away}"))
    );
    let output = file.check(&["--here"], &[]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), format!("error: {away}\n")));

    let pasted = [("QUELL_TEST_HASH", "sha256:hunter2")];
    for args in [&["--json"][..], &["--json", "--here"]] {
        let output = file.check(args, &pasted);
        assert_eq!(output.status.code(), Some(1));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = json["problems"][0]["message"].as_str().unwrap();
        assert!(message.starts_with("tenant.shop.keys: what is in env:QUELL_TEST_HASH is no hash"));
        assert!(!message.contains("hunter2"), "{message}");
    }
    let hash = format!("sha256:{}", "5a".repeat(32));
    let output = file.check(&["--here"], &[("QUELL_TEST_HASH", &hash)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("QUELL_TEST_HASH"));
}
