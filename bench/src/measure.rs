//! Measure: time and allocations of one piece of work, from inside the process.
//!
//! **Why.** The median of many short batches shrugs off a neighbour who takes the core for a while; a mean would not.

use std::{fmt, hint::black_box, time::Instant};

use crate::work::{WARM_UP, Work};

const BATCHES: usize = 31;
/// Calls of one batch.
pub const CALLS: u64 = 20_000;

/// What one call costs.
pub struct Cost {
    nanos: f64,
    allocations: f64,
}

impl fmt::Display for Cost {
    /// One line of JSON, as `cargo xtask bench` reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nanos, allocations } = self;
        write!(f, r#"{{"nanos": {nanos}, "allocations": {allocations}}}"#)
    }
}

/// Warms up, then does the work so often and says nothing, or measures it and prints what it found.
pub fn run(mut work: impl Work, iterations: Option<u64>) -> anyhow::Result<()> {
    repeat(&mut work, WARM_UP);
    work.check()?;
    match iterations {
        Some(count) => repeat(&mut work, count),
        None => println!("{}", measure(&mut work)),
    }
    work.check()
}

/// Does the work so often and nothing else.
#[inline(never)]
pub fn repeat(work: &mut impl Work, count: u64) {
    for _ in 0..count {
        black_box(&mut *work).once();
    }
}

/// The median time of several batches, and the mean number of allocations.
pub fn measure(work: &mut impl Work) -> Cost {
    let nanos = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            repeat(work, CALLS);
            start.elapsed().as_nanos() as f64 / CALLS as f64
        })
        .collect();
    let allocated = allocation_counter::measure(|| repeat(work, CALLS));
    Cost { nanos: median(nanos), allocations: allocated.count_total as f64 / CALLS as f64 }
}

/// The one in the middle.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
