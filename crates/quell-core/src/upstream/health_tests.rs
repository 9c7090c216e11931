//! Healthy services with real traffic: nobody is refused, and nobody shuts others out.

use std::collections::BinaryHeap;

use core::{cmp::Reverse, iter::from_fn};

use super::{
    tests::{PER_TRY, at, end, queued, refused},
    *,
};
use crate::in_flight::{Evidence, Limit};

pub(super) const QUICK: u64 = 1;
pub(super) const SLOW: u64 = 2;

pub(super) fn ask(now: Time, class: u64) -> Ask {
    Ask { class, ..Ask::first(now) }
}

/// An upstream whose calls end when their time is over; callers may leave before.
pub(super) struct Shop {
    pub(super) upstream: Upstream,
    pub(super) inside: Vec<Option<Permit>>,
    pub(super) ends: BinaryHeap<Reverse<(u64, usize, bool)>>,
    pub(super) refused: u32,
    pub(super) queued: u32,
    served: u32,
}

impl Shop {
    fn new(in_flight: Limit) -> Self {
        let spec = UpstreamSpec { in_flight, ..UpstreamSpec::gateway() };
        let upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
        let (inside, ends) = (Vec::new(), BinaryHeap::new());
        Self { upstream, inside, ends, refused: 0, queued: 0, served: 0 }
    }

    /// A call that takes so many milliseconds; its caller leaves before, or waits.
    pub(super) fn come(&mut self, ms: u64, class: u64, takes: u64, leaves: Option<u64>) {
        match self.upstream.admit(at(ms), &ask(at(ms), class)) {
            Admission::Go(permit) => {
                self.ends.push(Reverse((
                    ms + leaves.unwrap_or(takes),
                    self.inside.len(),
                    leaves.is_some(),
                )));
                self.inside.push(Some(permit));
            }
            Admission::Queued(ticket, _) => {
                self.upstream.leave(ticket);
                self.queued += 1;
            }
            Admission::No(_) => self.refused += 1,
        }
    }

    pub(super) fn until(&mut self, ms: u64) {
        while let Some(&Reverse((at_ms, index, leaves))) = self.ends.peek()
            && at_ms <= ms
        {
            self.ends.pop();
            let permit = self.inside[index].take().unwrap();
            if leaves {
                self.upstream.release(at(at_ms), permit, Release::Ghost, &mut Vec::new());
            } else {
                self.served += 1;
                end(&mut self.upstream, at(at_ms), permit, Outcome::Success);
            }
        }
    }
}

pub(super) fn adaptive() -> Shop {
    Shop::new(Limit::Adaptive { ceiling: 4096 })
}

/// P13, P14: quick calls and slow ones, then only slow ones, then four hundred at once.
#[test]
fn a_change_of_the_mix_and_a_burst_are_no_trouble() {
    let mut shop = adaptive();
    for ms in 0..20_000 {
        shop.until(ms);
        if ms % 4 == 0 {
            shop.come(ms, QUICK, 3, None);
        }
        if ms % (if ms < 10_000 { 40 } else { 10 }) == 0 {
            shop.come(ms, SLOW, 400, None);
        }
        assert_eq!(shop.upstream.snapshot(at(ms)).trouble, None, "at {ms} ms");
    }
    assert_eq!(shop.queued, 0);
    let limit = shop.upstream.snapshot(at(20_000)).limit;
    assert!(limit >= 100, "about 40 are under way, and the limit is {limit}");
    for _ in 0..400 {
        shop.come(20_000, QUICK, 3, None);
    }
    assert_eq!(shop.refused, 0);
}

/// P10, P15, P16: two thousand hang-ups per second, a millisecond after they were sent.
#[test]
fn callers_who_leave_before_an_answer_was_due_teach_nothing_and_hold_no_slot() {
    let mut shop = adaptive();
    for ms in 0..10_000 {
        shop.until(ms);
        if ms % 10 == 0 {
            shop.come(ms, QUICK, 5, None);
        }
        if ms > 1_000 {
            (0..2).for_each(|_| shop.come(ms, QUICK, 5, Some(1)));
        }
    }
    let seen = shop.upstream.snapshot(at(10_000));
    assert_eq!((shop.refused + shop.queued, seen.trouble), (0, None));
    assert_eq!(seen.patience, Duration::from_secs(5), "nobody has shown how long callers wait");
    assert!(shop.served > 990, "{}", shop.served);
}

/// The same under a limit written by hand: the slot comes back when the answer was due.
#[test]
fn the_slot_of_an_early_leaver_comes_back_when_its_answer_was_due() {
    let mut shop = Shop::new(Limit::Fixed(2));
    for ms in (0..5_000).step_by(20) {
        shop.until(ms);
        shop.come(ms, QUICK, 10, None);
    }
    shop.until(5_000);
    shop.come(5_000, QUICK, 10, Some(1));
    shop.until(5_001);
    assert_eq!(shop.upstream.snapshot(at(5_001)).ghosts, 1);
    shop.come(5_100, QUICK, 10, None);
    assert_eq!(shop.upstream.snapshot(at(5_100)).ghosts, 0);
}

/// P11, first half.
#[test]
fn with_nothing_answered_and_callers_leaving_only_a_few_are_under_way() {
    let mut shop = adaptive();
    (0..50).for_each(|_| shop.come(0, 0, 60_000, Some(1_000)));
    shop.until(1_000);
    let seen = shop.upstream.snapshot(at(1_000));
    assert_eq!((seen.limit, seen.trouble), (4, Some(Evidence::Leaving)));
}

/// P17: whoever has the least under way goes first, and a full queue makes room for it.
#[test]
fn a_caller_with_most_of_the_load_takes_what_others_leave() {
    let spec = UpstreamSpec { in_flight: Limit::Fixed(4), queue: 4, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let by = |caller| Ask { caller, ..Ask::first(at(0)) };
    let mut held = Vec::new();
    for _ in 0..4 {
        let Admission::Go(permit) = upstream.admit(at(0), &by(7)) else { panic!() };
        held.push(permit);
    }
    for _ in 0..4 {
        queued(&mut upstream, at(1), &by(7));
    }
    assert_eq!(refused(&mut upstream, at(1), &by(7)), Reason::QueueFull);
    let (good, _) = queued(&mut upstream, at(2), &by(8));
    let mut wake = Vec::new();
    upstream.poll(at(2), &mut wake);
    assert_eq!(wake.len(), 1, "one of the crowd had to go");
    assert_eq!(wake[0].result.as_ref().unwrap_err().reason, Reason::Shed);
    let wake = end(&mut upstream, at(3), held.pop().unwrap(), Outcome::Success);
    assert_eq!(wake[0].ticket, good, "though three others came before");
}

/// Slots that one caller holds for long would keep others waiting although they ask for little.
#[test]
fn a_caller_with_most_of_the_slots_leaves_some_to_others_while_there_are_any() {
    let spec = UpstreamSpec { in_flight: Limit::Fixed(16), queue: 64, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let by = |caller, ms| Ask { caller, ..Ask::first(at(ms)) };
    let others = |upstream: &mut Upstream, ms| match upstream.admit(at(ms), &by(8, ms)) {
        Admission::Go(permit) => end(upstream, at(ms + 1), permit, Outcome::Success),
        no => panic!("{no:?} at {ms} ms"),
    };
    others(&mut upstream, 1);
    let go = |upstream: &mut Upstream, ms| {
        matches!(upstream.admit(at(ms), &by(7, ms)), Admission::Go(_))
    };
    let held = (0..20).filter(|_| go(&mut upstream, 10)).count();
    assert_eq!(held, 14, "an eighth of sixteen is left");
    for ms in (20..900).step_by(10) {
        others(&mut upstream, ms);
    }
    assert!(!go(&mut upstream, 1_800));
    assert!(go(&mut upstream, 2_000), "a second later it is alone");
}

/// Pages whose slow parts nobody waits for: those callers leave late by the measure of their kind, and quick calls that were sent
/// after theirs are answered in time.
#[test]
fn callers_of_long_calls_who_leave_while_others_are_answered_are_no_trouble() {
    let mut shop = adaptive();
    for ms in 0..20_000 {
        shop.until(ms);
        if ms % 10 == 0 {
            shop.come(ms, QUICK, 20, None);
        }
        if ms % 400 == 0 {
            for takes in (0..20).map(|i| 50 + (ms / 400 + i) * 73 % 1_450) {
                shop.come(ms, QUICK, takes, (takes > 300).then_some(300));
            }
        }
        assert_eq!(shop.upstream.snapshot(at(ms)).trouble, None, "at {ms} ms");
    }
    assert_eq!((shop.refused, shop.queued), (0, 0));
}

/// Two calls per second, and then three hundred at once, each of which takes eight times as long for it. That nothing came back
/// before, while nobody waited for anything, is no silence.
#[test]
fn a_burst_after_a_quiet_second_is_no_silence() {
    let mut shop = adaptive();
    for ms in 0..15_900 {
        shop.until(ms);
        if ms % 500 == 0 {
            shop.come(ms, QUICK, 20, None);
        }
    }
    (0..300).for_each(|i| shop.come(15_900, QUICK, 100 + i / 5, None));
    for ms in 15_900..16_400 {
        shop.until(ms);
        shop.come(ms, QUICK, 20, None);
        assert_eq!(shop.upstream.snapshot(at(ms)).trouble, None, "at {ms} ms");
    }
    assert_eq!(shop.refused, 0);
}

/// P14: it stands still for 0.6 s of every 8 s. Callers wait, and then all are answered.
#[test]
fn a_pause_after_which_everything_is_answered_leaves_the_limit_loose() {
    let mut shop = adaptive();
    for ms in 0..40_000 {
        shop.until(ms);
        let (round, within) = (ms / 8_000 * 8_000, ms % 8_000);
        if ms % 5 == 0 {
            let stands_still = (7_380..8_000).contains(&within);
            let takes = if stands_still { round + 8_000 - ms } else { 20 };
            shop.come(ms, QUICK, takes.max(20), None);
        }
        if (200..7_400).contains(&within) {
            assert_eq!(shop.upstream.snapshot(at(ms)).trouble, None, "at {ms} ms");
        }
    }
    assert_eq!(shop.refused, 0);
    let waited = shop.queued; // who came after the first half second of a pause
    assert!(waited <= 5 * 20, "{waited} waited");
    let told = |event: &Event| matches!(event, Event::Trouble { .. } | Event::Calm);
    let told: Vec<_> = from_fn(|| shop.upstream.next_event()).filter(told).collect();
    assert_eq!(told[..2], [Event::Trouble { evidence: Evidence::Silence }, Event::Calm]);
    assert_eq!(told.len(), 9, "five pauses, of which the last is not over yet: {told:?}");
}

/// Everything takes five times as long from one moment on, and the service has room for that.
#[test]
fn a_service_that_becomes_slower_and_keeps_pace_is_no_trouble() {
    let mut shop = adaptive();
    for ms in 0..20_000 {
        shop.until(ms);
        if ms % 3 == 0 {
            shop.come(ms, QUICK, if ms < 10_000 { 100 } else { 500 }, None);
        }
        assert_eq!(shop.upstream.snapshot(at(ms)).trouble, None, "at {ms} ms");
    }
    assert_eq!((shop.refused, shop.queued), (0, 0));
    let mean = shop.upstream.classes(at(20_000)).iter().find_map(|class| class.mean).unwrap();
    assert!(mean > Duration::from_millis(450), "{mean:?}");
}

/// P19.
#[test]
fn an_upload_holds_no_slot_until_the_upstream_has_all_of_it() {
    let spec = UpstreamSpec { in_flight: Limit::Fixed(1), queue: 0, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let uploads = Ask { uploads: true, ..Ask::first(at(0)) };
    let uploading: Vec<_> = (0..50)
        .map(|_| match upstream.admit(at(0), &uploads) {
            Admission::Go(permit) => permit,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(upstream.snapshot(at(0)).in_flight, 0);
    let mut uploading = uploading.into_iter();
    let mut whole = uploading.next().unwrap();
    upstream.given(at(9_000), &mut whole);
    upstream.given(at(9_001), &mut whole);
    assert_eq!(upstream.snapshot(at(9_001)).in_flight, 1);
    assert_eq!(refused(&mut upstream, at(9_001), &Ask::first(at(9_001))), Reason::InFlightFull);
    end(&mut upstream, at(9_010), whole, Outcome::Success);
    for permit in uploading {
        upstream.release(at(9_020), permit, Release::Ghost, &mut Vec::new());
    }
    let seen = upstream.snapshot(at(9_020));
    assert_eq!((seen.in_flight, seen.ghosts), (0, 0));
}
