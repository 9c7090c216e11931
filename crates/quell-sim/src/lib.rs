//! Pretends: the outage before production has it.
//!
//! Callers and services are modelled; Quell is not. Its calls run the very code of `quell-core` on virtual
//! time, so what a scenario shows is what the policies do. Same seed, same bytes, on every machine.
//!
//! ```
//! use quell_sim::{Scenario, run, scenario::OutageKind};
//!
//! let mut scenario = Scenario::storm(OutageKind::Stall).with_gateway();
//! scenario.load = 300.0;
//! scenario.service.workers = 36;
//! let report = run(&scenario, 1)?;
//! assert!(report.summary.verdict.within(1), "{}", report.summary);
//! # Ok::<_, quell_sim::scenario::Invalid>(())
//! ```

mod actor;
mod agenda;
pub mod control;
pub mod dist;
mod event;
pub mod maths;
pub mod precheck;
mod ring;
mod run;
pub mod scenario;
mod slab;
pub mod sweep;
pub mod tip;
pub mod verdict;
mod world;

use core::time::Duration;

use quell_core::Rng;

pub use run::{Below, Leased, Queueing, Records, Run};
pub use scenario::Scenario;
pub use world::{run, run_while};

// One generator per purpose: what one actor draws never shifts what another draws.
/// Purpose of the generator that says when users come. Whoever draws from the same streams on real sockets has the
/// same users at the same instants.
pub const PURPOSE_ARRIVALS: u64 = 1;
const PURPOSE_INSTANCE: u64 = 2;
const PURPOSE_JITTER: u64 = 3;
/// Purpose of the generator that says how long work takes.
pub const PURPOSE_SERVICE: u64 = 4;
const PURPOSE_HOST: u64 = 5;
/// Purpose of the generator that says whom trouble hits that does not hit everybody.
pub const PURPOSE_TROUBLE: u64 = 6;
const PURPOSE_THOUGHT: u64 = 7;
const PURPOSE_RESUBMIT: u64 = 8;
const PURPOSE_WRITE: u64 = 9;
const PURPOSE_KEY: u64 = 10;
const PURPOSE_CONSUMER: u64 = 11;
const PURPOSE_LEASE: u64 = 12;
/// Purpose of the generator from which a [rule that is not ours](control) draws.
pub const PURPOSE_RULE: u64 = 13;
const PURPOSE_KIND: u64 = 14;
const PURPOSE_LUCK: u64 = 15;

/// An exponentially distributed time.
fn exponential(mean: Duration, rng: &mut Rng) -> Duration {
    let nanos = mean.as_nanos() as u64 as f64 * -maths::ln(1.0 - rng.unit());
    Duration::from_nanos((nanos + 0.5) as u64)
}
