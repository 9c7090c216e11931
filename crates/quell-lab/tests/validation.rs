//! Everything that is known comes out as it is known, in the size for tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use quell_lab::validate::{Size, all};

#[test]
fn every_known_answer_is_given() {
    let rows = all(Size::Quick).unwrap();
    let wrong: Vec<_> = rows.iter().filter(|row| !row.ok).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(rows.len() >= 30, "{}", rows.len());
}
