//! What goes over what, in a process with a real environment.
#![cfg(feature = "config")]
#![allow(clippy::unwrap_used)]

use std::{path::PathBuf, process::Command};

use quell::{
    Quell,
    config::{Live, Override},
    upstream::Host,
};

const CHILD: &str = "QUELL_TEST_FILE";
const VARIABLE: &str = "QUELL__POLICY__PAYMENTS__ATTEMPTS";

/// Runs itself once more with the variable set, because nobody can set one safely in a process with threads.
#[test]
fn the_environment_goes_over_the_file_and_a_flag_over_both() {
    if let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) {
        let attempts = |live: &Live| live.quell("payments").unwrap().rules().policy.attempts();
        let flag = Override::flag("--set", "policy.payments.attempts=5").unwrap();
        let flagged = Live::load_with(&path, &[flag], Host::default()).unwrap();
        let live = Live::load(&path).unwrap();
        for _ in 0..2 {
            assert_eq!((attempts(&live), attempts(&flagged)), (4, 5));
            assert_eq!(Quell::from_file(&path, "payments").unwrap().rules().policy.attempts(), 4);
            assert!(live.reload().unwrap().is_empty() && flagged.reload().unwrap().is_empty());
        }
        return;
    }
    let path = std::env::temp_dir().join(format!("quell-env-{}.toml", std::process::id()));
    std::fs::write(&path, "version = 1\n[policy.payments]\nattempts = 3\n[upstream.payments]\n")
        .unwrap();
    assert_eq!(Quell::from_file(&path, "payments").unwrap().rules().policy.attempts(), 3);
    let child = |value: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "the_environment_goes_over_the_file_and_a_flag_over_both"]);
        child.env(CHILD, &path).env(VARIABLE, value).output().unwrap()
    };
    let output = child("4");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!child("6").status.success(), "the child looks");
    std::fs::remove_file(path).unwrap();
}
