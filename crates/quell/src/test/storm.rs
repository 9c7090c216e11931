//! Storm: many callers at once, on time that costs nothing.

use std::{future::Future, sync::Arc, time::Duration};

use quell_core::Rng;
use tokio::task::JoinSet;

use super::{Ledger, Script};

/// How many callers make how many calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storm {
    /// Callers who do not wait for each other.
    pub callers: u32,
    /// Calls that each of them makes, one after another.
    pub calls: u32,
    /// The pause before each call: up to twice as long, and this on average.
    pub every: Duration,
}

impl Default for Storm {
    /// 100 callers who make 50 calls each, every 100 ms.
    fn default() -> Self {
        Self { callers: 100, calls: 50, every: Duration::from_millis(100) }
    }
}

/// Lets many callers use your client at once while the upstream does as the script says, and gives the ledger when all
/// are through.
///
/// **Why.** A loop that looks fine for one caller is a storm for a hundred. What protects an upstream is shared, so it
/// only shows when callers come together.
///
/// `call` makes one call by your client against the script; whatever it gives is dropped. Run it on tokio's paused
/// clock and on one thread: then an outage of minutes takes no time, and the script's [seed](Script::seed) and the
/// handle's decide everything.
///
/// ```
/// use std::time::Duration;
/// use quell::{Clock, Quell, test::{Line, Script, Storm, storm}};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let outage = Duration::from_secs(2)..Duration::from_secs(4);
/// let script = Script::new().seed(7).outage(outage, Line::status(503));
/// let quell = Quell::upstream("stock").clock(Clock::tokio()).seed(7).idempotent().build()?;
/// let ledger = storm(&script, Storm::default(), move |script| {
///     let quell = quell.clone();
///     async move { quell.call(|attempt| script.answer(attempt)).await }
/// })
/// .await;
/// ledger.assert_amplification_at_most(1.1);
/// # Ok::<_, quell::Invalid>(())
/// # }).unwrap();
/// # Ok::<_, std::io::Error>(())
/// ```
pub async fn storm<F, Fut>(script: &Script, storm: Storm, call: F) -> Ledger
where
    F: Fn(Script) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Send,
{
    let (call, before) = (Arc::new(call), script.ledger());
    let mut callers = JoinSet::new();
    for caller in 0..storm.callers {
        let (call, script) = (Arc::clone(&call), script.clone());
        let mut chance = Rng::stream(before.seed(), caller.into(), 0);
        callers.spawn(async move {
            for _ in 0..storm.calls {
                let pause = chance.up_to(storm.every.saturating_mul(2));
                script.clock().sleep_until(script.clock().now() + pause).await;
                drop(call(script.clone()).await);
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
    let made = u64::from(storm.callers) * u64::from(storm.calls);
    script.ledger().of_calls(before.calls() + made)
}
