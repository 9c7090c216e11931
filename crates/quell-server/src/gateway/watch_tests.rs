use super::*;

const PAUSE: Duration = Duration::from_secs(5);

fn after(seconds: u32, prepare: impl FnOnce(&Rc<Watch>) -> Option<Busy>) -> Told {
    let watches = Watches::default();
    let (_, watch) = watches.enter(PAUSE);
    let _busy = prepare(&watch);
    (0..seconds * 2 + 1).for_each(|_| watches.tick());
    watch.told.get()
}

#[test]
fn an_idle_connection_is_kept_for_a_minute_and_a_head_for_ten_seconds() {
    assert_eq!(after(59, |_| None), Told::Nothing);
    assert_eq!(after(60, |_| None), Told::Close);
    let head = |watch: &Rc<Watch>| {
        watch.came(1, Phase::Head);
        None
    };
    assert_eq!(after(9, head), Told::Nothing);
    assert_eq!(after(10, head), Told::Close);
}

#[test]
fn a_busy_connection_is_closed_only_when_a_body_stands_still() {
    assert_eq!(after(3_600, |watch| Some(watch.begin())), Told::Nothing);
    let reading = |watch: &Rc<Watch>| {
        watch.uploading(true);
        Some(watch.begin())
    };
    assert_eq!(after(4, reading), Told::Nothing);
    assert_eq!(after(5, reading), Told::Close);
    let stalled = |watch: &Rc<Watch>| {
        watch.writing(true);
        Some(watch.begin())
    };
    assert_eq!(after(4, stalled), Told::Nothing);
    assert_eq!(after(5, stalled), Told::Close);
    let again = |watch: &Rc<Watch>| {
        watch.writing(true);
        watch.writing(false);
        Some(watch.begin())
    };
    assert_eq!(after(5, again), Told::Nothing);
}

/// H12: ticks until the connection is closed, if so many bytes of its body come in each.
fn closed_after(bytes: usize, wanted: impl Fn(u32) -> bool) -> Option<u32> {
    let watches = Watches::default();
    let (_, watch) = watches.enter(PAUSE);
    watch.came(100, Phase::Body);
    let _busy = watch.begin();
    (1..=600).find(|tick| {
        if bytes > 0 {
            watch.came(bytes, Phase::Body);
            watch.uploading(false);
        }
        watch.uploading(wanted(*tick));
        watches.tick();
        watch.told.get() == Told::Close
    })
}

/// H12.
#[test]
fn a_body_that_trickles_is_given_a_pause_and_one_that_keeps_the_pace_all_the_time_it_needs() {
    assert_eq!(closed_after(0, |_| true), Some(11));
    assert_eq!(closed_after(256, |_| true), Some(20));
    assert_eq!(
        closed_after(511, |_| true),
        None,
        "it falls behind too slowly to be seen in five minutes"
    );
    assert_eq!(closed_after(512, |_| true), None);
    assert_eq!(closed_after(0, |_| false), None, "nobody waits for it");
    let dropped = |watch: &Rc<Watch>| {
        watch.came(100, Phase::Body);
        watch.uploading(true);
        watch.reading(false);
        watch.body_dropped();
        Some(watch.begin())
    };
    assert_eq!(after(3_600, dropped), Told::Nothing, "nobody waits for it any longer");
    assert_eq!(closed_after(0, |tick| tick % 2 == 0), Some(22), "half of the time is ours");
    let done = |watch: &Rc<Watch>| {
        watch.came(100, Phase::Body);
        watch.uploading(true);
        watch.uploading(false);
        watch.came(100, Phase::Rest);
        Some(watch.begin())
    };
    assert_eq!(after(3_600, done), Told::Nothing);
}

#[test]
fn a_head_that_was_begun_before_its_turn_has_its_time_from_its_turn() {
    let watches = Watches::default();
    let (_, watch) = watches.enter(PAUSE);
    let busy = watch.begin();
    watch.came(1, Phase::Head);
    (0..100).for_each(|_| watches.tick());
    drop(busy);
    (1..HEAD).for_each(|_| watches.tick());
    assert_eq!(watch.told.get(), Told::Nothing);
    watches.tick();
    assert_eq!(watch.told.get(), Told::Close);
}

#[test]
fn a_farewell_has_a_second() {
    let farewell = |watch: &Rc<Watch>| {
        watch.lingering();
        None
    };
    assert_eq!(after(0, farewell), Told::Nothing);
    assert_eq!(after(1, farewell), Told::Close);
}

#[test]
fn whoever_is_told_to_finish_reads_a_head_that_has_begun_first() {
    let watches = Watches::default();
    let (_, watch) = watches.enter(PAUSE);
    let cx = Context::from_waker(Waker::noop());
    watch.came(1, Phase::Head);
    watches.tell(Told::Finish);
    assert_eq!(watch.told(&cx), Told::Nothing);
    watch.came(1, Phase::Rest);
    assert_eq!(watch.told(&cx), Told::Finish);
}

#[test]
fn close_is_the_last_word() {
    let watches = Watches::default();
    let (id, watch) = watches.enter(PAUSE);
    watches.tell(Told::Close);
    watches.tell(Told::Finish);
    assert_eq!(watch.told.get(), Told::Close);
    watches.leave(id);
    assert_eq!(watches.len(), 0);
}

#[test]
fn a_reply_may_be_silent_for_five_minutes_and_a_caller_who_is_waited_for_may_not() {
    for (is_reply, seconds) in [(true, 300), (false, 5)] {
        let watches = Watches::default();
        let (_, watch) = watches.enter(PAUSE);
        let _busy = watch.begin();
        if is_reply {
            watch.reading(true);
        } else {
            watch.uploading(true);
        }
        for _ in 0..seconds * 2 {
            watches.tick();
        }
        assert_eq!(watch.told.get(), Told::Nothing);
        watches.tick();
        assert_eq!(watch.told.get(), Told::Close, "after {seconds} s");
    }
}
