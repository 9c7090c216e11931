//! The simulator's HTML report, as a file that opens without a network.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::process::Command;

/// The report of a command line that writes one.
fn report(name: &str, args: &[&str]) -> String {
    let file = std::env::temp_dir().join(format!("quell-{name}-{}.html", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(args)
        .args(["--report", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    html
}

/// Every element that is opened is closed, in order.
fn is_well_formed(html: &str) {
    let mut open = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if tag.starts_with('!') || tag.ends_with('/') || name == "meta" {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in another order");
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

#[test]
fn a_report_is_one_file_with_every_chart_and_asks_nobody_for_anything() {
    let html = report("demo", &["sim", "demo"]);
    is_well_formed(&html);
    for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("prefers-color-scheme: dark"));
    // Every scenario with two policies: one small chart each, three lanes without Quell and six with it.
    let scenarios = html.matches("<section").count();
    assert!(scenarios >= 3);
    assert_eq!(html.matches("<svg").count(), scenarios * (2 + 3 + 6));
    assert_eq!(html.matches("class=\"outage\"").count(), scenarios * (2 + 3 + 5));
    assert!(!html.contains("NaN") && !html.contains("inf\""), "a number that no browser draws");
}

#[test]
fn a_map_has_a_cell_for_every_run_and_the_line_of_theory() {
    let (x, y) = ("utilisation=0.1..0.7:4", "attempts=1..3:3");
    let html = report("sweep", &["sim", "sweep", "demo", "--name", "stall", "--x", x, "--y", y]);
    is_well_formed(&html);
    assert_eq!(html.matches("class=\"cell heat").count(), 12);
    assert!(html.contains("class=\"theory\""));
    assert!(!html.contains("NaN"));
}
