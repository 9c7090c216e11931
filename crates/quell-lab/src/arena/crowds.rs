//! Crowds: who won a world with several kinds of requests.
//!
//! **Why.** Good callers are to be served whatever others do. So what counts is what became of *them*: whether Quell turned one of
//! them away, or let one leave in its queue, and how long they waited, kind by kind.
//!
//! **How.** In health a world is won if hardly any good caller went without who would have been served without any limit, and if no
//! kind of theirs became noticeably slower. In trouble the rules are those of all worlds, for the good callers alone; and where one kind
//! alone is hit, the others have to be served all the while.

use core::ops::Range;

use super::{
    Judged,
    judged::{ENDS, REFUSED, WINDOW},
    worlds::World,
};
use quell_sim::{
    Run,
    scenario::{Kind, Side},
    verdict::{Count, Crowd, Refusals, Series},
};

/// What a kind's 99th percentile may be: so many times what it is without a limit, and so many milliseconds on top.
const TIMES: f64 = 1.1;
const MILLIS: f64 = 5.0;
/// Kinds with fewer answers have no 99th percentile to speak of.
const FEW: usize = 200;
/// Seconds after one kind is hit until the others must be served: nobody can know at once.
const NOTICE: usize = 3;

fn good(run: &Run) -> impl Iterator<Item = &Crowd> {
    run.kinds.iter().filter(|crowd| crowd.side == Side::Good)
}

fn refusals<'a>(crowds: impl Iterator<Item = &'a Crowd>) -> Refusals {
    crowds.fold(Refusals::default(), |sum, crowd| sum.and(&crowd.refusals))
}

/// The same world as it would be at its best: without whoever asks for too much. They are its last kinds, so the others' users stay the
/// same.
pub(super) fn undisturbed(world: &World) -> World {
    let mut world = world.clone();
    let kinds = &mut world.scenario.kinds;
    kinds.retain(|kind| kind.side != Side::Hostile && kind.throttled.is_none());
    world
}

fn is_beside_hostile(world: &World) -> bool {
    world.scenario.kinds.iter().any(|kind| kind.side == Side::Hostile)
}

/// What a healthy world came to, beside the same undisturbed and without a limit.
pub(super) fn healthy(world: &World, run: &Run, off: &Run) -> Judged {
    let refusals = refusals(good(run));
    let total = |run: &Run, of: fn(&Crowd) -> u64| good(run).map(of).sum::<u64>();
    let (asked, served) = (total(run, Crowd::demand), total(run, Crowd::good));
    let lost = total(run, |crowd| crowd.lost).saturating_sub(total(off, |crowd| crowd.lost));
    let turned_away = refusals.total() + refusals.left();
    let refused = turned_away.max(lost) as f64 / asked.max(1) as f64;
    let slower = good(run).zip(good(off)).filter_map(|(own, off)| {
        let p99 = |crowd: &Crowd| {
            let p99 = crowd.quantile(0.99).filter(|_| crowd.answers() >= FEW)?;
            Some(p99.as_secs_f64() * 1e3)
        };
        Some((p99(own)? / (p99(off)? * TIMES + MILLIS), own.name.clone()))
    });
    let (slower, slowest) =
        slower.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, String::new()));
    let share = served as f64 / asked.max(1) as f64;
    let judged = Judged {
        // Beside a hostile caller there is too much to do, and some wait.
        won: refused <= world.allowed && (slower <= 1.0 || is_beside_hostile(world)),
        worst_window: share,
        goodput: share,
        last: share,
        refused,
        sent: run.series.sum(Count::Sent, 0..run.timing.end) as f64 / asked.max(1) as f64,
        lost: lost as f64,
        good: (0..run.timing.end).map(|second| run.series.at(Count::Good, second)).collect(),
        reasons: refusals.all(),
        left_queued: refusals.left(),
        slower,
        slowest,
        ..Judged::default()
    };
    let mut judged = judged.seen(run);
    let p99 = good(run).filter_map(|crowd| crowd.quantile(0.99)).max();
    judged.p99_before = p99.map_or(0.0, |p99| p99.as_secs_f64() * 1e3);
    judged
}

/// What good callers were counted, what they asked for when its work could be done.
fn series<'a>(crowds: impl Iterator<Item = (&'a Crowd, &'a Kind)>) -> Series {
    crowds.fold(Series::default(), |mut sum, (crowd, kind)| {
        let mut series = crowd.series.clone();
        series.put_off(Count::Demand, (kind.mean().as_millis() / 100) as usize);
        sum.merge(&series);
        sum
    })
}

/// What a world in trouble came to.
pub(super) fn mixed(world: &World, run: &Run) -> Judged {
    let all = || run.kinds.iter().zip(&world.scenario.kinds);
    let theirs = || all().filter(|(crowd, _)| crowd.side == Side::Good);
    let judged = Judged::of(&series(theirs()), run.timing, world.capacity_after);
    let (from, over) = (run.timing.outage_at, run.timing.outage_end());
    let before = from - ENDS..from;
    let sum = |of: &dyn Fn(&Crowd) -> u64| theirs().map(|(crowd, _)| of(crowd)).sum::<u64>() as f64;
    let tries = sum(&|crowd| crowd.series.sum(Count::Received, before.clone()));
    let left = sum(&|crowd| crowd.left_between(before.clone()));
    let away = sum(&|crowd| crowd.series.sum(Count::Refused, before.clone())) + left;
    let refused = if tries > 0.0 { away / tries } else { 0.0 };
    let spared = |seconds: Range<usize>| {
        let Some(hit) = world.hit else { return true };
        let others = theirs().enumerate().filter(|(i, _)| *i != hit).map(|(_, both)| both);
        let others = series(others);
        seconds.clone().all(|at| {
            at + WINDOW > seconds.end
                || others.enough(at * 10..(at + WINDOW) * 10, world.capacity_after)
        })
    };
    let refusals = refusals(good(run));
    let judged = Judged {
        won: judged.won && refused < REFUSED && spared(from + NOTICE..over),
        refused,
        reasons: refusals.in_part(0),
        left_queued: left as u64,
        ..judged
    };
    judged.seen(run)
}
