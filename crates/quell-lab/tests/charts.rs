//! The arena's charts: pictures that need nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::process::Command;

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

/// The charts of the arena, by file name.
fn charts(seeds: &str, more: &[&str]) -> Vec<(String, String)> {
    let folder = std::env::temp_dir().join(format!("quell-charts-{seeds}-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_quell-lab"))
        .args(["arena", "--seeds", seeds, "--charts", folder.to_str().unwrap()])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap());
    let read = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(file.path()).unwrap())
    };
    let mut charts: Vec<_> = files.map(read).collect();
    charts.sort();
    std::fs::remove_dir_all(&folder).unwrap();
    charts
}

#[test]
fn the_limit_is_shown_in_six_worlds_each_a_picture_that_needs_nothing_else() {
    let all = charts("11", &[]);
    let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "degrading-0.5-stall-10.svg",
            "degrading-0.5-step-100.00.svg",
            "degrading-1-overload-3.svg",
            "fifo-larger-20.svg",
            "fifo-stall-10.svg",
            "sharing-halved.svg",
        ]
    );
    for (name, svg) in &all {
        is_well_formed(svg);
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" "));
        for outside in ["https:", "href", "src=", "@import", "url(", "<script", "NaN", "inf"] {
            assert!(!svg.contains(outside), "{outside} in {name}");
        }
        assert!(svg.contains("prefers-color-scheme: dark"));
        for line in ["good", "former", "achievable", "used", "limit", "workers"] {
            let class = format!("<path class=\"line c-{line}\" d=\"");
            assert!(svg.contains(&class), "no {line} in {name}");
        }
        assert_eq!(svg.matches("class=\"outage\"").count(), 2, "{name}");
    }
}

#[test]
fn the_same_seed_draws_the_same_chart_and_another_seed_another() {
    let halved = |seeds, threads| charts(seeds, &["--filter", "/halved", "--threads", threads]);
    let first = halved("5,6", "1");
    assert_eq!(first.len(), 5, "every world that is named has one");
    assert!(first == halved("5,7", "3"), "the first seed counts");
    assert!(first != halved("6,5", "1"));
}
