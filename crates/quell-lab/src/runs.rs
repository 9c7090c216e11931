//! Runs: many trials on all cores, and a bar for people who wait.
//!
//! **How.** Threads take the next job that nobody has, and put its result where the job was: what comes out is the same for any number of
//! threads. The simulator itself knows of no thread.

use std::{
    io::IsTerminal,
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

/// Does all jobs on so many threads, one per core if not given; results come in the jobs' order.
pub(crate) fn each<J: Sync, R: Send>(
    threads: Option<NonZeroUsize>,
    jobs: &[J],
    does: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or_else(cores, usize::from);
    let next = AtomicUsize::new(0);
    let results: Vec<_> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                let mine = || {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    Some((jobs.get(i)?, results.get(i)?))
                };
                while let Some((job, result)) = mine() {
                    *result.lock() = Some(does(job));
                }
            });
        }
    });
    results.into_iter().filter_map(Mutex::into_inner).collect()
}

/// A bar over so many runs; nobody sees it in a file or a pipe.
pub(crate) fn bar(runs: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::hidden());
    if std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        let style =
            ProgressStyle::with_template("{bar:32} {human_pos} of {human_len} runs, {eta} left");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("█▌░"));
        }
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_jobs_order_on_any_number_of_threads() {
        let jobs: Vec<u64> = (0..100).collect();
        for threads in [1, 3] {
            let doubled = each(NonZeroUsize::new(threads), &jobs, |job| job * 2);
            assert_eq!(doubled, (0..200).step_by(2).collect::<Vec<_>>());
        }
    }
}
