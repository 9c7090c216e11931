//! Every scenario file that ships: it can be read, says what it is about, and keeps what it promises.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use quell_server::sim::file::{self, SHIPPED, Shipped};

/// Those with a test of their own, at 10,000 requests per second.
const LARGE: [&str; 2] = ["storm", "ladder"];

fn small() -> impl Iterator<Item = &'static Shipped> {
    SHIPPED.iter().filter(|shipped| !LARGE.contains(&shipped.name))
}

#[test]
fn all_files_ship() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../quell-sim/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let mut names: Vec<_> = SHIPPED.iter().map(|shipped| shipped.name.to_owned()).collect();
    names.sort();
    assert_eq!(files, names);
}

#[test]
fn every_file_says_what_it_is_about_and_promises_something() {
    for shipped in SHIPPED {
        assert!(shipped.text.starts_with("# ") && shipped.about().len() > 40, "{}", shipped.name);
        assert!(shipped.text.lines().nth(1).unwrap().starts_with("# "), "{}", shipped.name);
        for plan in file::parse(shipped.text).unwrap() {
            assert!(!plan.promises.is_empty(), "{}: {}", shipped.name, plan.name);
        }
    }
}

#[test]
fn every_file_keeps_its_promises() {
    let mut broken = Vec::new();
    for shipped in small() {
        for plan in file::parse(shipped.text).unwrap() {
            for way in &plan.against {
                let run = quell_sim::run(&way.scenario, 1).unwrap();
                for what in plan.promises.iter().flat_map(|it| it.broken(way.word(), &run)) {
                    let name = (shipped.name, &plan.name, way.word());
                    broken.push(format!("{name:?}: {what}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
