//! How to test that your client cannot cause a storm: `cargo run -p quell --features test --example testing`.
//!
//! In a test of your own, each of these functions carries `#[tokio::test(start_paused = true)]`, and time costs nothing.

use std::{error::Error, io, time::Duration};

use quell::{
    Clock, Invalid, Quell, Reason,
    test::{Line, Reply, Script, Storm, storm},
};

/// A client as you may have it: it owns a handle, and in production sends where the script stands here.
#[derive(Clone)]
struct Shop {
    upstream: Quell,
}

impl Shop {
    fn new() -> Result<Self, Invalid> {
        // Only the clock and the seed are a test's; everything else is what production has.
        let upstream = Quell::upstream("shop").clock(Clock::tokio()).seed(1).build()?;
        Ok(Self { upstream })
    }

    async fn list(&self, shop: &Script) -> Result<Reply, quell::CallError<Reply, io::Error>> {
        self.upstream.call(|attempt| shop.answer(attempt)).idempotent().await
    }

    async fn buy(&self, shop: &Script) -> Result<Reply, quell::CallError<Reply, io::Error>> {
        self.upstream.call(|attempt| shop.answer(attempt)).await
    }
}

/// Half a minute in which a shop answers nothing but 503.
fn outage() -> Script {
    Script::new().seed(1).outage(Duration::from_secs(2)..Duration::from_secs(32), Line::status(503))
}

async fn an_outage_is_not_made_worse() -> Result<(), Box<dyn Error>> {
    let (script, size) = (outage(), Storm { callers: 200, calls: 200, ..Storm::default() });
    let shop = Shop::new()?;
    let ledger = storm(&script, size, move |script| {
        let shop = shop.clone();
        async move { shop.list(&script).await }
    })
    .await;
    println!("through quell: {:.2} attempts per call", ledger.amplification());
    ledger.assert_amplification_at_most(1.1);
    assert!(ledger.answered() > 0, "and it is used again when it is back");

    // The same test finds out a loop that tries four times.
    let script = outage();
    let naive = storm(&script, size, async |script: Script| {
        for number in 1..=4 {
            match script.send(number, None).await {
                Ok(reply) if reply.status().is_success() => break,
                _ => {}
            }
        }
    });
    let naive = naive.await.amplification();
    println!("by a loop:     {naive:.2} attempts per call");
    assert!(naive > 1.5);
    Ok(())
}

async fn a_hint_is_kept() -> Result<(), Box<dyn Error>> {
    let hint = Duration::from_secs(3);
    let script = Script::new().status(503).hint(hint).then_ok();
    Shop::new()?.list(&script).await?;
    let ledger = script.ledger();
    println!("told to wait {hint:?}, waited {:.1?}", ledger.waits()[0]);
    ledger.assert_no_attempt_before(hint);
    Ok(())
}

async fn nothing_is_bought_twice() -> Result<(), Box<dyn Error>> {
    let script = Script::new().refuse_connect().fail(1).for_ever();
    let Err(error) = Shop::new()?.buy(&script).await else { return Err("it cannot work".into()) };
    println!("{error}");
    assert_eq!(error.reason(), Reason::NotSafe);
    script.ledger().assert_never_repeated();
    Ok(())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    an_outage_is_not_made_worse().await?;
    a_hint_is_kept().await?;
    nothing_is_bought_twice().await
}
