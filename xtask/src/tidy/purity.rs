//! The rooms that decide, pretend, draw and judge touch nothing of the world.
//!
//! **Why.** The core and the simulator promise the same trace for the same seed on every machine. One look at the
//! clock, one thread, one random number from the system, and the promise is void without a test failing.
//! Clippy bans the calls too; this also sees imports, and code that a feature or target hides from clippy.
//!
//! **How.** A list of paths and what to do instead, looked for in the code of these crates, tests included:
//! a test that sleeps or reads the clock is one that fails on a busy machine. Comments may say what they like.

use super::source::{Source, words};
use crate::violation::{Violation, line_at};
use crate::workspace::File;

const ROOMS: &[&str] = &[
    "crates/quell-charts/src/",
    "crates/quell-core/src/",
    "crates/quell-lab/src/arena/",
    "crates/quell-lab/src/defaults/",
    "crates/quell-lab/src/validate/",
    "crates/quell-sim/src/",
];

const TIME: &str = "take `now` as an argument; the host asks the clock, once per verb";
const PRINT: &str = "return data; the host shows it";
const EVENT: &str = "hand out an event; hosts observe, log and count";
const LOCK: &str = "keep plain data behind `&mut`; quell alone locks";
const WORLD: &str = "take parsed data as an argument; hosts talk to the world";
const DICE: &str = "draw from the seeded generator of the core";

const BANNED: &[(&str, &str)] = &[
    ("std::time::Instant", TIME),
    ("std::time::SystemTime", TIME),
    ("Instant::now", TIME),
    ("SystemTime::now", TIME),
    ("tokio", "decide here and wait in quell"),
    ("rand::", DICE),
    ("println!", PRINT),
    ("eprintln!", PRINT),
    ("print!", PRINT),
    ("eprint!", PRINT),
    ("log::", EVENT),
    ("tracing::", EVENT),
    ("std::thread", "decide here and wait in quell"),
    ("std::sync", LOCK),
    ("core::sync", LOCK),
    ("Mutex", LOCK),
    ("RwLock", LOCK),
    ("std::fs", WORLD),
    ("std::net", WORLD),
    ("std::env", WORLD),
    ("std::io", WORLD),
    ("std::process", WORLD),
];

/// The same, as words inside braces: `use std::{fs, time::{Duration, Instant}};`.
const IN_BRACES: &[(&str, &str)] = &[
    ("Instant", TIME),
    ("SystemTime", TIME),
    ("thread", "decide here and wait in quell"),
    ("sync", LOCK),
    ("fs", WORLD),
    ("net", WORLD),
    ("env", WORLD),
    ("io", WORLD),
    ("process", WORLD),
];

pub(super) fn check(source: &Source<'_>) -> Vec<Violation> {
    let path = source.file.path.as_str();
    let Some(room) = ROOMS.iter().find(|room| path.starts_with(**room)) else { return Vec::new() };
    let name = room.trim_start_matches("crates/").trim_end_matches("/src/");
    let mut found: Vec<(usize, &str, &str)> = Vec::new();
    for (banned, fix) in BANNED {
        found.extend(source.lines_with(banned).map(|line| (line, *banned, *fix)));
    }
    for (start, statement) in grouped_imports(&source.code) {
        for (banned, fix) in IN_BRACES {
            let lines =
                words(statement, banned).map(|offset| line_at(&source.code, start + offset));
            found.extend(lines.map(|line| (line, *banned, *fix)));
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|(line, ..)| *line); // `use std::sync::Mutex` is one fault, not two
    let tell = |(line, banned, fix)| {
        Violation::new(path, line, format!("{name} is pure and has `{banned}`"), fix)
    };
    found.into_iter().map(tell).collect()
}

/// A room that moved would pass for pure because nobody looks at it.
pub(super) fn check_rooms(files: &[File]) -> Vec<Violation> {
    let empty = ROOMS.iter().filter(|room| !files.iter().any(|file| file.path.starts_with(**room)));
    let tell = |room: &&str| {
        Violation::new(
            file!(),
            1,
            format!("{room} holds no file"),
            "name the room's new folder in ROOMS",
        )
    };
    empty.map(tell).collect()
}

/// Imports from the standard library that use braces, with their offsets.
fn grouped_imports(code: &str) -> impl Iterator<Item = (usize, &str)> {
    words(code, "use std::").filter_map(|start| {
        let statement = code[start..].split(';').next()?;
        statement.contains('{').then_some((start, statement))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::new(&File::new(path, text))).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn every_banned_word_is_caught_in_every_room() {
        for room in ROOMS {
            for (banned, _) in BANNED {
                let text = format!("fn f() {{\n    {banned}x;\n    {banned} (1);\n}}\n");
                assert!(!lines(&format!("{room}a/b.rs"), &text).is_empty(), "{banned}");
            }
        }
    }

    #[test]
    fn braces_do_not_hide_an_import() {
        let path = "crates/quell-core/src/a.rs";
        assert_eq!(lines(path, "use std::{\n    fmt,\n    time::{Duration, Instant},\n};\n"), [3]);
        assert_eq!(lines(path, "use std::time::{Duration, SystemTime};\n"), [1]);
        assert_eq!(lines(path, "use std::{fmt, fs};\n"), [1]);
    }

    #[test]
    fn one_line_is_one_violation() {
        assert_eq!(lines("crates/quell-sim/src/a.rs", "use std::sync::{Arc, Mutex};\n"), [1]);
    }

    #[test]
    fn prose_literals_and_longer_names_are_free() {
        let text = "//! No tokio, no std::fs.\nuse std::time::Duration;\nuse std::{fmt, iter};\n\
                    /// `Instant::now()` is banned.\nconst A: &str = \"tokio\";\nuse crate::catalog::Operand;\n\
                    enum When { Instant, Later }\n";
        assert_eq!(lines("crates/quell-core/src/a.rs", text), [0_usize; 0]);
    }

    #[test]
    fn a_room_that_moved_is_noticed() {
        let (moved, stay) = ROOMS.split_first().unwrap();
        let stay: Vec<_> =
            stay.iter().map(|room| File::new(&format!("{room}lib.rs"), "")).collect();
        let found = check_rooms(&stay);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.starts_with(moved), "{}", found[0]);
    }

    #[test]
    fn other_rooms_may_talk_to_the_world() {
        assert_eq!(lines("crates/quell/src/clock.rs", "use std::time::Instant;\n"), [0_usize; 0]);
    }
}
