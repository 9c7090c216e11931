//! A thousand calls fail at once on ten threads that share one budget: `cargo run -p quell --example shared_budget`.

use std::{
    error::Error,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use quell::{
    Quell, Reason,
    core::{backoff, breaker},
};

const THREADS: u32 = 10;
const CALLS: u32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    // A budget of 100 tokens, of which a success earns a tenth, is there unless another is asked for. The breaker would
    // end this sooner: it is told to wait for more calls than there are, so that the budget is seen alone.
    let stock = Quell::upstream("stock")
        .attempts(3)
        .backoff(backoff::Spec { base: Duration::from_millis(1), ..backoff::Spec::default() })
        .breaker(breaker::Spec { min_calls: 100_000, ..breaker::Spec::default() })
        .idempotent()
        .build()?;

    let (sent, unpaid) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (stock, sent, unpaid) = (stock.clone(), &sent, &unpaid); // a clone shares everything
            scope.spawn(move || {
                for _ in 0..CALLS {
                    let call = stock.call_blocking(|_| {
                        sent.fetch_add(1, Ordering::Relaxed);
                        Err::<(), _>("connection reset")
                    });
                    if call.wait().is_err_and(|error| error.reason() == Reason::BudgetEmpty) {
                        unpaid.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });

    let calls = THREADS * CALLS;
    let (retries, unpaid) = (sent.into_inner() - calls, unpaid.into_inner());
    println!("{calls} failing calls, up to 3 attempts each");
    println!("retries without a budget: {}", 2 * calls);
    println!("retries with one:         {retries}, and {unpaid} calls ended for want of it");
    assert_eq!(retries, 100, "all that was saved up, and not one more");
    assert!(unpaid >= calls - retries);

    // Successes fill it again, ten for one retry.
    for _ in 0..50 {
        stock.call_blocking(|_| Ok::<_, std::io::Error>(())).wait()?;
    }
    let level = stock.snapshot().retries.level;
    println!("after 50 successes there are {level} retries to spend");
    assert!((level - 5.0).abs() < 1e-6);
    Ok(())
}
