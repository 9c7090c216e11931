//! Pair: ours and theirs, in turns.
//!
//! **Why.** A machine that is slow for a second is slow for both only if both run in that second. So batches alternate,
//! and the median of each side counts.

use std::{
    fmt, hint,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use core_affinity::CoreId;

use crate::{
    measure::{CALLS, median, repeat},
    work::{WARM_UP, Work},
};

const BATCHES: usize = 51;
const THREADS: usize = 2;
/// Calls of one batch of each thread: many times as long as the system lets one thread have a core.
const CONTENDED: u64 = 200_000;
const CONTENDED_BATCHES: usize = 21;

/// What one call costs on either side, in nanoseconds.
struct Pair {
    name: &'static str,
    ours: f64,
    theirs: f64,
}

impl fmt::Display for Pair {
    /// One line of JSON, as `cargo xtask bench` reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, ours, theirs } = self;
        write!(f, r#"{{"pair": "{name}", "ours": {ours}, "theirs": {theirs}}}"#)
    }
}

/// One of ours that has no peer.
pub fn unpaired(name: &'static str, mut ours: impl Work) -> Result<()> {
    repeat(&mut ours, WARM_UP);
    let times = (0..BATCHES).map(|_| batch(&mut ours, CALLS)).collect();
    println!(r#"{{"pair": "{name}", "ours": {}}}"#, median(times));
    ours.check().with_context(|| format!("{name}: ours"))
}

/// Both on one thread.
pub fn alone(name: &'static str, mut ours: impl Work, mut theirs: impl Work) -> Result<()> {
    repeat(&mut ours, WARM_UP);
    repeat(&mut theirs, WARM_UP);
    in_turns(name, BATCHES, || batch(&mut ours, CALLS), || batch(&mut theirs, CALLS));
    ours.check().with_context(|| format!("{name}: ours"))?;
    theirs.check().with_context(|| format!("{name}: theirs"))
}

/// Both by two threads at once, each on a core of its own.
pub fn contended(
    name: &'static str,
    ours: &(impl Work + Clone + Send),
    theirs: &(impl Work + Clone + Send),
) -> Result<()> {
    let (mut ours, mut theirs) = (workers(ours), workers(theirs));
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    ensure!(cores.len() >= THREADS, "{name} takes {THREADS} cores, and there are {}", cores.len());
    together(&mut ours, &cores);
    together(&mut theirs, &cores);
    let turn = (|| together(&mut ours, &cores), || together(&mut theirs, &cores));
    in_turns(name, CONTENDED_BATCHES, turn.0, turn.1);
    for work in &mut ours {
        work.check().with_context(|| format!("{name}: ours"))?;
    }
    for work in &mut theirs {
        work.check().with_context(|| format!("{name}: theirs"))?;
    }
    Ok(())
}

fn in_turns(
    name: &'static str,
    batches: usize,
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) {
    let (ours, theirs) = (0..batches).map(|_| (ours(), theirs())).unzip();
    println!("{}", Pair { name, ours: median(ours), theirs: median(theirs) });
}

fn batch(work: &mut impl Work, calls: u64) -> f64 {
    let start = Instant::now();
    repeat(work, calls);
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// One for every thread, all of the same thing.
fn workers<W: Work + Clone>(work: &W) -> Vec<W> {
    (0..THREADS).map(|_| work.clone()).collect()
}

/// Time of one call while every thread makes calls: the slowest thread's, as only then all was done.
fn together(work: &mut [impl Work + Send], cores: &[CoreId]) -> f64 {
    let ready = &AtomicUsize::new(0);
    let run = move |work, core| {
        core_affinity::set_for_current(core); // two threads on one core never meet
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < THREADS {
            hint::spin_loop(); // whoever is woken first would be well on its way before the other begins
        }
        batch(work, CONTENDED)
    };
    thread::scope(|scope| {
        let start = |(work, &core)| scope.spawn(move || run(work, core));
        let threads: Vec<_> = work.iter_mut().zip(cores).map(start).collect();
        let took = |thread: ScopedJoinHandle<'_, f64>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(took).fold(0.0, f64::max)
    })
}
