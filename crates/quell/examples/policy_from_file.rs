//! A policy in a file, changed while calls go on: `cargo run -p quell --features config --example policy_from_file`.

use std::{error::Error, fs};

use quell::{Quell, config::Live};

/// Ten tokens, and next to none earned: what is spent stays spent, so that it can be seen.
fn policy(attempts: u32) -> String {
    format!(
        "version = 1

[policy.payments]
preset = \"library\"
attempts = {attempts}
backoff = {{ base = \"1ms\" }}

[upstream.payments]
preset = \"library\"
budget = {{ max = 10, ratio = 0.01 }}
"
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("quell-example-{}.toml", std::process::id()));
    fs::write(&path, policy(2))?;
    let live = Live::load(&path)?;
    let payments = live.quell("payments")?; // clone it to whoever calls

    for _ in 0..4 {
        assert_eq!(attempts(&payments), 2);
    }
    println!("4 calls failed after 2 attempts each: {}", budget(&payments));
    assert_eq!(payments.snapshot().retries.level, 6.0);

    // It happens at night. Somebody edits the file; SIGHUP, a timer or `live.watch` reloads it.
    fs::write(&path, policy(3))?;
    println!("reloaded, {}: {}", live.reload()?, budget(&payments));
    assert_eq!(payments.snapshot().retries.level, 6.0, "the budget is as empty as before");
    assert_eq!(attempts(&payments), 3);
    println!("the next call made 3 attempts: {}", budget(&payments));

    // A slip of the hand changes nothing, and says where it is.
    fs::write(&path, policy(4).replace("attempts", "atempts"))?;
    let Err(error) = live.reload() else { return Err("a misspelt setting was taken".into()) };
    println!("not taken: {error}");
    assert!(error.to_string().contains("did you mean `attempts`?"), "{error}");
    assert_eq!(attempts(&payments), 3);

    fs::remove_file(path)?;
    Ok(())
}

/// How many attempts a call makes that always fails.
fn attempts(quell: &Quell) -> u32 {
    let result = quell.call_blocking(|_| Err::<(), _>("connection reset")).idempotent().wait();
    result.map_or_else(|error| error.attempts(), |()| 0)
}

fn budget(quell: &Quell) -> String {
    format!("{} of 10 retries left", quell.snapshot().retries.level)
}
