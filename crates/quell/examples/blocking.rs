//! The same without a runtime, on plain threads that share one upstream: `cargo run -p quell --example blocking`.

use std::thread;

use quell::{Limit, Quell};

fn main() -> Result<(), quell::Invalid> {
    let printer = Quell::upstream("printer").in_flight(Limit::Fixed(2)).build()?;
    thread::scope(|scope| {
        for page in 1..=4 {
            let printer = &printer;
            scope.spawn(move || {
                // Reading the key says that the printer knows a page it has already printed.
                let printed = printer
                    .call_blocking(|attempt| print(page, attempt.number(), attempt.key()))
                    .operation(format!("page {page}"))
                    .wait();
                match printed {
                    Ok(()) => println!("page {page} is printed"),
                    Err(error) => println!("{error}"),
                }
            });
        }
    });
    Ok(())
}

/// Jams at the first attempt; page 3 always does.
fn print(page: u32, attempt: u32, _key: &str) -> Result<(), &'static str> {
    if attempt == 1 || page == 3 { Err("paper jam") } else { Ok(()) }
}
