//! The lab's trials as people run them.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::process::{Command, Output};

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell-lab")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `quell-lab arena --list | head -1`, where the reader is gone before the first line.
#[test]
fn a_reader_who_has_seen_enough_ends_the_lab_without_a_word() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = command.args(["arena", "--list"]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(141), String::new()));
}

#[test]
fn mistakes_are_one_line_that_says_what_to_write() {
    for (args, expected) in [
        (&["arena", "--controller", "magic"][..], "write one of oracle, fixed-256"),
        (&["arena", "--filter", "moon"], "see quell-lab arena --list"),
        (&["arena", "--charts", "Cargo.toml"], "cannot write charts into Cargo.toml"),
    ] {
        let output = lab(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(message.starts_with("error: ") && message.contains(expected), "{message}");
        assert!(!message.contains("backtrace"), "{message}");
    }
}

#[test]
fn the_arena_shows_who_finds_the_limit() {
    let listed = text(&lab(&["arena", "--list", "--filter", "fifo/fail-10"]).stdout);
    assert!(listed.starts_with("rules: oracle, fixed-256, aimd"), "{listed}");
    assert!(listed.contains("\nfifo/fail-10 ") && !listed.contains("stall"), "{listed}");
    let mut args = vec!["arena", "--filter", "/fail-10/load-50", "--seeds", "5,6"];
    args.extend(["--controller", "vegas", "--controller", "oracle"]);
    let shown = text(&lab(&[&args[..], &["--verbose"]].concat()).stdout);
    for part in
        ["2 worlds, each by its median seed of 5, 6", "degrading-0.5/fail-10/load-50", "2 of 2"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let output = lab(&[&args[..], &["--json", "--threads", "1"]].concat());
    let lines = text(&output.stdout);
    let figures: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str, controller: &str| {
        let found = figures.iter().find(|f| f["figure"] == name && f["controller"] == controller);
        found.unwrap_or_else(|| panic!("{name} of {controller}"))["value"].clone()
    };
    assert_eq!((of("arena.worlds", "vegas"), of("arena.won", "oracle")), (2.0.into(), 2.0.into()));
    let beside = figures.iter().filter(|figure| figure["figure"] == "arena.goodput_vs_oracle");
    let kinds: Vec<_> = beside.map(|figure| figure["of"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["median", "worst", "median", "worst"], "the oracle beside itself too");
    let again = lab(&[&args[..], &["--json", "--threads", "2"]].concat());
    assert_eq!(text(&again.stdout), lines, "the same on any number of threads");
}
