use quell_sim::dist::Dist;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn times(work: Duration) -> Times {
    Times::new(&Dist::Constant(work), 1).unwrap()
}

fn line(workers: usize, sharing: Sharing, work: u32) -> Line<u32> {
    Line::new(workers, sharing, times(MS * work))
}

fn done(line: &mut Line<u32>, at: u32) -> Vec<u32> {
    std::iter::from_fn(|| line.next_done(MS * at)).collect()
}

/// Looks at nothing until everything is done, and says when that was.
fn ends<J: Copy>(line: &mut Line<J>) -> Vec<(J, Duration)> {
    std::iter::from_fn(|| line.due().and_then(|due| Some((line.next_done(due)?, due)))).collect()
}

#[test]
fn jobs_are_done_in_order_as_many_at_a_time_as_there_are_workers() {
    let mut line = line(2, Sharing::Fifo, 10);
    (1..=5).for_each(|job| line.join(Duration::ZERO, job, None));
    assert_eq!(line.lengths(), (3, 2));
    assert!(done(&mut line, 9).is_empty());
    assert_eq!(done(&mut line, 10), [1, 2]);
    assert_eq!(line.due(), Some(MS * 20));
    assert_eq!(done(&mut line, 30), [3, 4, 5]);
    assert_eq!((line.due(), line.lengths()), (None, (0, 0)));
}

#[test]
fn looking_late_costs_no_capacity() {
    let mut line = line(36, Sharing::Fifo, 100);
    (0..3_600).for_each(|job| line.join(Duration::ZERO, job, None));
    let by = |line: &mut Line<u32>, looks: std::ops::Range<u32>| -> usize {
        looks.map(|i| done(line, i * 7).len()).sum()
    };
    assert_eq!(by(&mut line, 0..715), 36 * 49); // the last look is at 4,998 ms
    assert_eq!(by(&mut line, 715..1_430), 36 * 51); // and here at 10,003 ms: 3,600 in 10 s
}

#[test]
fn an_idle_worker_saves_up_nothing() {
    for sharing in [Sharing::Fifo, Sharing::Equal] {
        let mut line = line(1, sharing, 10);
        line.join(MS * 1_000, 1, None);
        assert_eq!(done(&mut line, 1_010), [1]);
        line.join(MS * 1_010, 2, None);
        assert_eq!(line.due(), Some(MS * 1_020));
    }
}

#[test]
fn a_stall_pushes_everything_back_by_its_length() {
    let mut line = line(1, Sharing::Fifo, 10);
    line.join(Duration::ZERO, 1, None);
    line.stall(MS * 4, true);
    line.stall(MS * 50, true); // already stalled
    line.join(MS * 60, 2, None);
    assert_eq!(line.due(), None);
    assert!(done(&mut line, 90).is_empty());
    line.stall(MS * 104, false);
    assert_eq!(line.due(), Some(MS * 110));
    assert!(done(&mut line, 109).is_empty());
    assert_eq!(done(&mut line, 120), [1, 2]);
    line.stall(MS * 500, false); // not stalled
    line.join(MS * 500, 3, None);
    assert_eq!(line.due(), Some(MS * 510));
}

#[test]
fn slowness_and_hangs_hit_the_work_that_starts_meanwhile() {
    let mut line = line(1, Sharing::Fifo, 10);
    (1..=4).for_each(|job| line.join(Duration::ZERO, job, None));
    line.times.slower = 10.0;
    assert_eq!(done(&mut line, 10), [1]); // it had begun before, and the second begins slow
    line.times.slower = 1.0;
    line.times.hang = Some((1.0, MS * 7));
    assert_eq!(done(&mut line, 110), [2]);
    line.times.hang = None;
    assert_eq!(ends(&mut line), [(3, MS * 117), (4, MS * 127)]);
}

#[test]
fn as_many_hang_as_the_share_says() {
    let mut times = times(MS);
    times.hang = Some((0.2, MS * 500));
    let slow = (0..10_000).filter(|_| times.next(None) == MS * 500).count();
    assert!((1_900..2_100).contains(&slow), "{slow}");
}

#[test]
fn two_jobs_that_share_a_worker_take_twice_as_long() {
    let mut line = line(1, Sharing::Equal, 10);
    (1..=2).for_each(|job| line.join(Duration::ZERO, job, None));
    assert_eq!(line.lengths(), (0, 2));
    assert_eq!(ends(&mut line), [(1, MS * 20), (2, MS * 20)]);
}

#[test]
fn whoever_comes_later_slows_everybody_from_then_on() {
    let mut line = line(1, Sharing::Equal, 10);
    line.join(Duration::ZERO, 1, None);
    line.join(MS * 4, 2, None); // 6 ms of work left for the first, at half speed
    assert_eq!(line.due(), Some(MS * 16));
    assert_eq!(done(&mut line, 16), [1]); // the second had 6 of its 10 ms, and is alone now
    assert_eq!(ends(&mut line), [(2, MS * 20)]);
}

#[test]
fn jobs_share_only_beyond_one_per_worker() {
    let mut line = line(4, Sharing::Equal, 30);
    (1..=4).for_each(|job| line.join(Duration::ZERO, job, None));
    assert_eq!(line.due(), Some(MS * 30));
    line.join(MS * 10, 5, None);
    line.join(MS * 10, 6, None); // 20 ms left for four, at 4/6 of the speed
    assert_eq!(done(&mut line, 40), [1, 2, 3, 4]);
    assert_eq!(ends(&mut line), [(5, MS * 50), (6, MS * 50)]); // 10 ms left, and a worker each
}

#[test]
fn a_crowd_that_degrades_the_service_is_slower_by_the_formula() {
    // Three per worker at d = 0.5: the workers are 1 + 0.5·2 = 2 times slower, and each gets a third.
    let mut line = line(2, Sharing::Degrading(0.5), 10);
    (1..=6).for_each(|job| line.join(Duration::ZERO, job, None));
    let all = ends(&mut line);
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|(_, at)| *at == MS * 60), "{all:?}");
    // As fast as ever while there is a worker for each.
    line.join(MS * 100, 7, None);
    assert_eq!(line.due(), Some(MS * 110));
}

#[test]
fn shorter_work_that_came_later_is_done_first() {
    let mut line = line(1, Sharing::Equal, 50);
    line.join(Duration::ZERO, 1, None);
    line.times.hang = Some((1.0, MS * 10));
    line.join(Duration::ZERO, 2, None);
    assert_eq!(ends(&mut line), [(2, MS * 20), (1, MS * 60)]);
}

#[test]
fn sharing_loses_no_work_to_looks_and_rounding() {
    // Three workers, seven jobs at a time: speeds of 3/7, 3/6, … which no float holds exactly.
    let mut line = line(3, Sharing::Equal, 10);
    let (mut now, mut left) = (Duration::ZERO, 0);
    (0..7).for_each(|job| line.join(now, job, None));
    for job in 7..21_000 {
        now = line.due().unwrap();
        left += usize::from(line.next_done(now).is_some());
        line.join(now, job, None);
    }
    left += ends(&mut line).len();
    assert_eq!(left, 21_000);
    let ideal = MS * 10 * 21_000 / 3; // all workers busy to the last few
    assert!(line.at >= ideal && line.at < ideal + MS * 20, "{:?} against {ideal:?}", line.at);
}
