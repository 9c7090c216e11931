//! The `quell` command as people run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

fn quell(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_same_seed_prints_the_same_bytes() {
    let run = |seed| quell(&["sim", "demo", "--json", "--seed", seed]);
    let first = run("7");
    assert!(first.status.success());
    assert_eq!(first.stdout, run("7").stdout);
    assert_ne!(first.stdout, run("8").stdout);
    let report: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(report["runs"].as_array().unwrap().len(), 10);
}

/// `quell schema | head -1`, where the reader is gone before the first line.
#[test]
fn a_reader_who_has_seen_enough_ends_the_command_without_a_word() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = command.args(["schema"]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(141), String::new()));
}

#[test]
fn many_seeds_print_the_same_bytes_on_any_number_of_threads() {
    let run = |threads| {
        let output = quell(&["sim", "demo", "--json", "--seeds", "3", "--threads", threads]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    };
    let one = run("1");
    assert!(one == run("3"), "another number of threads gave other bytes");
    let report: serde_json::Value = serde_json::from_slice(&one).unwrap();
    assert_eq!(report["runs"].as_array().unwrap().len(), 30);
    for row in report["over_seeds"].as_array().unwrap() {
        let healed = if row["against"] == "front" { 3 } else { 0 };
        assert_eq!(row["healed"], healed, "{row}");
    }
    let run = &report["runs"][0];
    assert_eq!(run["timeline"]["backlog"].as_array().unwrap().len(), 50);
    assert!(run["after"]["wasted"].as_f64().unwrap() > 0.5, "{}", run["after"]);
}

#[test]
fn the_pre_check_and_a_plain_sparkline_are_shown() {
    let output = quell(&["sim", "demo"]);
    let (table, said) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("naive retries: w·ρ = 4.00 × 0.83 = 3.33 ≥ 1"), "{said}");
    assert!(table.contains("#####______"), "{table}");
    assert!(!table.contains('█') && !table.contains('\x1b'), "{table}");
}

#[test]
fn a_scenario_of_ones_own_is_read_from_its_file_and_shown_as_a_table() {
    let mut file = std::env::temp_dir();
    file.push(format!("quell-scenario-{}.toml", std::process::id()));
    let scenario = "version = 1\n[scenario.mine]\nload = \"100/s\"\npatience = \"1s\"\nwatch = \"30s\"\n\
        service = { workers = 12, time = \"100ms\" }\n\
        outage = { kind = \"stall\", at = \"20s\", length = \"10s\" }\nagainst = [\"naive\", \"front\"]\n";
    std::fs::File::create(&file).unwrap().write_all(scenario.as_bytes()).unwrap();
    let output = quell(&["sim", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(table.contains("mine: load 100/s, capacity 120/s"), "{table}");
    let line = |label: &str| table.lines().find(|line| line.contains(label)).unwrap().to_owned();
    assert!(line("naive retries").contains("metastable"), "{table}");
    assert!(line("Quell in front").contains("healed in"), "{table}");
}

/// The demo's scenarios, changed, in a file that is gone afterwards.
fn with_demo(name: &str, change: (&str, &str), does: impl Fn(&str)) {
    let file = std::env::temp_dir().join(format!("quell-{name}-{}.toml", std::process::id()));
    let demo = include_str!("../../quell-sim/scenarios/demo.toml").replace(change.0, change.1);
    std::fs::write(&file, demo).unwrap();
    does(file.to_str().unwrap());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_gate_passes_what_holds_and_names_what_does_not() {
    let output = quell(&["sim", "demo", "--gate"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let most = ("max_amplification = 1.1", "max_amplification = 0.1");
    with_demo("broken", most, |file| {
        let output = quell(&["sim", file, "--gate"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("broken: stall, Quell in front, seed 1: amplification is "),
            "{said}"
        );
        assert!(said.contains("and promised is at most 0.1"), "{said}");
        assert!(!said.contains("recovered_within"), "{said}");
        assert!(quell(&["sim", file]).status.success(), "only --gate holds a run to anything");
    });
    with_demo("nothing", ("assert =", "# assert ="), |file| {
        let nothing = quell(&["sim", file, "--gate"]);
        assert!(text(&nothing.stderr).contains("write assert ="), "{}", text(&nothing.stderr));
    });
}

#[test]
fn two_files_are_compared_with_the_same_users() {
    with_demo("same", ("", ""), |same| {
        with_demo("larger", ("workers = 36", "workers = 72"), |larger| {
            let output = quell(&["sim", "compare", same, larger, "--seeds", "2", "--json"]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            let pairs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(pairs.as_array().unwrap().len(), 10);
            // What the second file does more of is above zero.
            let one = quell(&["sim", "compare", same, larger, "--json"]);
            let one: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
            let mut differ = 0;
            for figure in
                one.as_array().unwrap().iter().flat_map(|pair| pair["figures"].as_array().unwrap())
            {
                let [a, b, by] = ["a", "b", "difference"].map(|of| figure[of]["median"].as_f64());
                let Some(((a, b), by)) = a.zip(b).zip(by) else { continue };
                assert!((b - a - by).abs() < 1e-9, "{figure}");
                differ += usize::from(by != 0.0);
            }
            assert!(differ > 10, "{one}");
            let itself = quell(&["sim", "compare", same, same, "--json"]);
            let itself: serde_json::Value = serde_json::from_slice(&itself.stdout).unwrap();
            for figure in itself[0]["figures"].as_array().unwrap() {
                let by = &figure["difference"];
                assert!(by.is_null() || by["median"] == 0.0, "{figure}");
            }
        });
    });
}

#[test]
fn the_tipping_point_and_the_map_agree_with_theory() {
    let output = quell(&["sim", "tip", "demo", "--over", "load", "--against", "naive", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in found.as_array().unwrap() {
        let falls = row["falls"].as_f64().unwrap();
        // Beyond 1/4 a stalled queue never drains; short of it there may not be time enough.
        assert!(row["scenario"] != "stall" || falls <= 0.26, "{row}");
    }
    let (x, y) = ("utilisation=0.1..0.5:5", "attempts=1..4:4");
    let output = quell(&["sim", "sweep", "demo", "--name", "stall", "--x", x, "--y", y, "--json"]);
    let map: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for cell in map["cells"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()) {
        let beyond = cell["w_rho"].as_f64().unwrap() >= 1.0;
        assert_eq!(cell["verdict"] == "metastable", beyond, "{cell}");
    }
}

#[test]
fn mistakes_are_one_line_that_says_what_to_write() {
    for (args, expected) in [
        (&["sim", "no-such-file.toml"][..], "name a file, or one that `quell sim --list` shows"),
        (&["sim", "storn"], "name a file, or write storm"),
        (&["gateway", "--to", "ftp://x"], "write http://host:port or https://host:port"),
        (
            &["gateway", "--to", "http://127.0.0.1:1", "--admin", "0.0.0.0:1"],
            "only listen on loopback",
        ),
        (&["gateway", "--config", "no-such-file.toml"], "cannot read no-such-file.toml"),
        (&["gateway"], "--to <URL>"),
        (&["demo", "--service", "lifo"], "write fifo, sharing or degrading=0.5"),
        (&["demo", "--world", "moon"], "write one that is down for a while, such as fifo/stall-10"),
        (
            &["demo", "--world", "fifo/halved"],
            "there is no world fifo/halved: write one that is down",
        ),
        (&["demo", "--through", "127.0.0.1:1"], "--serve <ADDR>"),
        (&["demo", "--kind", "flood"], "possible values: stall, hole, fail, slow, partial"),
    ] {
        let output = quell(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(message.starts_with("error: ") && message.contains(expected), "{message}");
        assert!(!message.contains("backtrace"), "{message}");
    }
}

#[test]
fn a_mistake_in_a_scenario_is_told_once_with_its_place() {
    let file = std::env::temp_dir().join(format!("quell-mistake-{}.toml", std::process::id()));
    std::fs::write(&file, "version = 1\n[scenario.x]\nlaod = \"1/s\"\n").unwrap();
    let output = quell(&["sim", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let message = text(&output.stderr);
    for told in ["error: scenario.x.laod is not known here", "help: did you mean `load`?"] {
        assert_eq!(message.matches(told).count(), 1, "{message}");
    }
    assert!(message.contains(".toml:3:1"), "{message}");
}

#[test]
fn ctrl_c_ends_the_demo_at_once() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_quell"))
        .arg("demo")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Its first words say that both worlds are up.
    let mut words = [0; 16];
    std::io::Read::read_exact(demo.stdout.as_mut().unwrap(), &mut words).unwrap();
    let asked = Instant::now();
    assert!(
        Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
}

#[test]
fn what_ships_is_listed_and_settings_go_over_it() {
    let listed = text(&quell(&["sim", "--list"]).stdout);
    assert!(listed.starts_with("storm  ") && listed.contains("\nqueues  "), "{listed}");
    let args = ["sim", "hotos", "--set", "scenario.vulnerable.load=140/s", "--json"];
    let report: serde_json::Value = serde_json::from_slice(&quell(&args).stdout).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert!(runs.iter().all(|run| run["verdict"] != "metastable"), "{report}");
    let wrong = quell(&["sim", "hotos", "--set", "scenario.vulnerable.load=140"]);
    assert!(text(&wrong.stderr).contains("write a rate"), "{}", text(&wrong.stderr));
}

/// What `quell sim --json` says of a scenario that nobody retries, in a file that is gone afterwards.
fn first_run(name: &str, scenario: &str) -> serde_json::Value {
    let file = std::env::temp_dir().join(format!("quell-{name}-{}.toml", std::process::id()));
    std::fs::write(&file, format!("version = 1\n[scenario.{name}]\n{scenario}")).unwrap();
    let output = quell(&["sim", file.to_str().unwrap(), "--json"]);
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["runs"][0].clone()
}

#[test]
fn a_service_that_flaps_is_down_first_and_up_after_that() {
    let run = first_run(
        "flaps",
        "load = \"100/s\"\npatience = \"1s\"\nwatch = \"30s\"\nservice = { workers = 36, time = \"100ms\" }\n\
         outage = { kind = \"fail\", at = \"10s\", length = \"8s\", flapping = { down = \"3s\", up = \"1s\" } }\n\
         against = [\"no-retries\"]\n",
    );
    let served = |second: usize| run["timeline"]["good"][second].as_u64().unwrap() > 20;
    assert_eq!([10, 11, 12, 13].map(served), [false, false, false, true]);
    assert_eq!([14, 15, 16, 17, 18].map(served), [false, false, false, true, true]);
}

#[test]
fn what_waits_in_a_topic_and_what_a_store_granted_is_told_second_by_second_and_in_all() {
    let run = first_run(
        "records",
        "load = \"100/s\"\npatience = \"1s\"\nwatch = \"30s\"\nservice = { workers = 36, time = \"100ms\" }\n\
         against = [\"worker\"]\ntopic = { tiers = [\"3s\", \"5s\"] }\nstore = { budget = { per_second = 17, burst = 100 } }\n\
         outage = { kind = \"brownout\", share = 0.5, at = \"10s\", length = \"5s\" }\n",
    );
    let (records, by_second) = (&run["records"], &run["records"]["timeline"]);
    for of in ["lag", "due", "dead"] {
        let seconds = by_second[of].as_array().unwrap();
        assert_eq!((seconds.len(), &seconds[44]), (45, &records[of]), "{of}: {records}");
    }
    for tier in [0, 1] {
        assert_eq!(by_second["tiers"][tier].as_array().unwrap().len(), 45);
        assert_eq!(by_second["tiers"][tier][44], records["tiers"][tier]);
    }
    assert!(by_second["tiers"][0][13].as_u64().unwrap() > 100, "{records}");
    assert!(run["leased"]["granted"].as_u64().unwrap() > 0, "{}", run["leased"]);
}

/// What the command prints when it is given this to read.
fn quell_reading(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn every_key_is_another_and_its_hash_is_the_one_that_key_hash_finds() {
    let new = || -> serde_json::Value {
        let output = quell(&["key", "new", "--tenant", "my-shop", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (one, other) = (new(), new());
    assert_ne!(one["key"], other["key"]);
    let key = one["key"].as_str().unwrap();
    assert!(key.len() == 67 && key.starts_with("qk_"), "{one}");
    let found = text(&quell_reading(&["key", "hash"], &format!("{key}\n")).stdout);
    assert_eq!(Some(found.trim_end()), one["hash"].as_str());
    assert_eq!(one["env"], "MY_SHOP_KEY_HASH");
    let guessed = quell_reading(&["key", "hash"], "hunter2\n");
    assert_eq!(guessed.status.code(), Some(2));
    assert!(!text(&guessed.stderr).contains("hunter2"), "{}", text(&guessed.stderr));
    let shown = text(&quell(&["key", "new"]).stdout);
    assert!(shown.contains("keys = [\"env:CALLER_KEY_HASH\"]"), "{shown}");
}

#[test]
fn the_schema_is_one_document() {
    let output = quell(&["schema"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["version"]));
    let route = &schema["properties"]["route"]["items"]["properties"];
    assert!(route["fallback"]["properties"]["status"].is_object(), "{route}");
}

#[test]
fn a_file_to_start_from_passes_the_check_starts_a_gateway_and_is_not_written_over() {
    let dir = std::env::temp_dir().join(format!("quell-init-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("quell.toml");
    let path = file.to_str().unwrap();
    let made = quell(&["init", path, "--to", "http://127.0.0.1:9"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let checked = quell(&["check", path, "--strict"]);
    let said = text(&checked.stdout);
    assert!(checked.status.success(), "{said}{}", text(&checked.stderr));
    assert!(said.contains("1 route, 0 lints, 0 settings not used"), "{said}");

    let again = quell(&["init", path]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is there already"), "{}", text(&again.stderr));
    assert!(std::fs::read_to_string(&file).unwrap().contains("http://127.0.0.1:9\""));
    assert!(quell(&["init", path, "--force"]).status.success());

    let free = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args([&["gateway", "--config", path][..], &free].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = [0; 6];
    std::io::Read::read_exact(gateway.stderr.as_mut().unwrap(), &mut words).unwrap();
    assert_eq!(&words, b"quell:", "it says where it listens");
    assert!(gateway.try_wait().unwrap().is_none(), "it did not start");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn why_a_request_is_retried_is_explained_in_words_and_for_machines() {
    let file = std::env::temp_dir().join(format!("quell-explain-{}.toml", std::process::id()));
    std::fs::write(&file, "version = 1\n[upstream.stock]\nendpoints = [\"http://a:1\"]\n").unwrap();
    let explain =
        |more: &[&str]| quell(&[&["explain", "--config", file.to_str().unwrap()], more].concat());
    let shown = text(&explain(&["--status", "503", "--sequence", "ok*9 fail*200"]).stdout);
    for part in ["503, attempt 1: is retried\n", "(policy: defaults of gateway)", "fail*200", "##"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = explain(&["--fault", "reset", "--method", "POST", "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&report["retried"], &report["reason"]), (&0.0.into(), &"not_safe".into()));
    let wrong = explain(&["--status", "503", "--set", "policy.x.attemps=1"]);
    let neither = explain(&[]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(wrong.status.code(), Some(1), "as quell check ends on a wrong file");
    assert!(text(&neither.stderr).contains("--status"), "{}", text(&neither.stderr));
}
