//! A failing part is not a failing whole: a class, an endpoint or a credential in trouble, and all others served.

use core::{cmp::Reverse, iter::from_fn};

use super::{
    health_tests::{QUICK, SLOW, adaptive, ask},
    tests::{PER_TRY, at, end, refused, server_fault},
    *,
};
use crate::{Failure, endpoints::Ejection};

/// P18: a path that always fails, with more than half of the traffic.
#[test]
fn a_class_that_fails_alone_opens_its_own_breaker_and_nobody_elses() {
    let mut shop = adaptive();
    let mut refused = 0;
    for ms in (0..20_000).step_by(5) {
        shop.until(ms);
        shop.come(ms, QUICK, 3, None);
        for _ in 0..2 {
            match shop.upstream.admit(at(ms), &ask(at(ms), SLOW)) {
                Admission::Go(permit) => {
                    drop(end(&mut shop.upstream, at(ms), permit, server_fault()))
                }
                _ => refused += 1,
            }
        }
    }
    assert_eq!(shop.refused + shop.queued, 0);
    assert!(refused > 6_000, "{refused} of 8,000");
    assert_eq!(shop.upstream.snapshot(at(20_000)).breaker, State::Closed);
    let classes = shop.upstream.classes(at(20_000));
    let of = |key| classes.iter().find(|class| class.key == key).unwrap().breaker;
    assert!(of(SLOW) != State::Closed && of(QUICK) == State::Closed);
    let told: Vec<_> = from_fn(|| shop.upstream.next_event()).collect();
    let opened = |event: &Event| matches!(event, Event::ClassOpened { class: SLOW, .. });
    let others =
        |event: &Event| matches!(event, Event::BreakerOpened { .. } | Event::KeyOpened { .. });
    assert!(told.iter().any(opened) && !told.iter().any(others), "{told:?}");
}

/// Sixty calls come at once. One endpoint of three fails at once, before the others could answer anything.
#[test]
fn an_endpoint_that_fails_alone_opens_no_breaker_however_quickly_it_fails() {
    let spec = UpstreamSpec {
        endpoints: 3,
        ejection: Some(Ejection::default()),
        ..UpstreamSpec::gateway()
    };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let come = |_| match upstream.admit(at(0), &ask(at(0), QUICK)) {
        Admission::Go(permit) => permit,
        other => panic!("{other:?}"),
    };
    let (bad, good): (Vec<_>, Vec<_>) =
        (0..60).map(come).partition(|permit| permit.endpoint() == 0);
    assert!(bad.len() >= 15 && good.len() >= 15, "{} and {}", bad.len(), good.len());
    for permit in bad {
        end(&mut upstream, at(1), permit, server_fault());
    }
    for permit in good {
        end(&mut upstream, at(5), permit, Outcome::Success);
    }
    for _ in 0..10 {
        let Admission::Go(permit) = upstream.admit(at(6), &ask(at(6), QUICK)) else {
            panic!("refused for one endpoint of three: {:?}", upstream.snapshot(at(6)));
        };
        assert_ne!(permit.endpoint(), 0, "it is left out");
        end(&mut upstream, at(10), permit, Outcome::Success);
    }
    assert_eq!(upstream.snapshot(at(10)).trouble, None);
}

/// Where all of them fail it is the whole that fails.
#[test]
fn endpoints_that_all_fail_open_the_breaker() {
    let spec = UpstreamSpec { endpoints: 3, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap();
    let mut sent = 0;
    while let Admission::Go(permit) = upstream.admit(at(0), &ask(at(0), QUICK)) {
        end(&mut upstream, at(0), permit, server_fault());
        sent += 1;
        assert!(sent < 40, "nothing stops it");
    }
    assert_eq!(refused(&mut upstream, at(1), &ask(at(1), QUICK)), Reason::BreakerOpen);
}

/// One that is fifty times slower than two others gets hardly any calls once that is known.
#[test]
fn an_endpoint_that_is_fifty_times_slower_is_left_to_the_few() {
    for seed in 1..=20 {
        let spec = UpstreamSpec { endpoints: 3, ..UpstreamSpec::gateway() };
        let mut upstream = Upstream::new(spec, PER_TRY, seed, Time::ZERO).unwrap();
        let mut under_way: Vec<(u64, Permit)> = Vec::new();
        let mut sent_to_it = 0;
        for ms in 0..4_000 {
            while let Some(due) = under_way.iter().position(|(ends, _)| *ends <= ms) {
                let (_, permit) = under_way.swap_remove(due);
                end(&mut upstream, at(ms), permit, Outcome::Success);
            }
            if ms % 7 == 0 {
                let Admission::Go(permit) = upstream.admit(at(ms), &ask(at(ms), QUICK)) else {
                    panic!("refused at {ms} ms, seed {seed}")
                };
                let slow = permit.endpoint == 2;
                sent_to_it += u32::from(slow && ms >= 1_000);
                under_way.push((ms + if slow { 200 } else { 4 }, permit));
            }
        }
        assert!(sent_to_it <= 4, "{sent_to_it} of 428 calls, seed {seed}");
    }
}

/// P18, second half: what one credential is asked to wait for, others need not.
#[test]
fn a_hint_to_one_credential_holds_back_that_one_alone() {
    let mut upstream = Upstream::new(UpstreamSpec::gateway(), PER_TRY, 1, Time::ZERO).unwrap();
    let by = |credential, attempt| Ask { credential, attempt, ..Ask::first(at(0)) };
    let Admission::Go(permit) = upstream.admit(at(0), &by(5, 1)) else { panic!() };
    let hint = Failure::of(Fault::Overload).with_code(429).with_hint(Duration::from_secs(30));
    end(&mut upstream, at(0), permit, Outcome::Failed(hint));
    assert_eq!(refused(&mut upstream, at(1), &by(5, 2)), Reason::NotBefore);
    for credential in [0, 6] {
        let admission = upstream.admit(at(1), &by(credential, 2));
        assert!(matches!(admission, Admission::Go(_)), "{admission:?}");
    }
    let Admission::Go(_first) = upstream.admit(at(1), &by(5, 1)) else {
        panic!("first attempts pass")
    };
}

/// One kind hangs, and the other is served all the while.
#[test]
fn a_class_that_hangs_alone_is_held_apart() {
    let mut shop = adaptive();
    for ms in 0..12_000 {
        shop.until(ms);
        if ms % 5 == 0 {
            shop.come(ms, QUICK, 3, None);
        }
        if ms % 20 == 0 {
            let takes = if ms < 6_000 { 50 } else { 60_000 };
            let before = shop.queued;
            shop.come(ms, SLOW, takes, None);
            shop.queued = before; // it may wait
        }
    }
    assert_eq!((shop.refused, shop.queued), (0, 0), "nobody of the others waits");
    let classes = shop.upstream.classes(at(12_000));
    let slow = classes.iter().find(|class| class.key == SLOW).unwrap();
    assert!(slow.in_trouble && slow.in_flight < 30, "{slow:?}");
    assert_eq!(shop.upstream.snapshot(at(12_000)).trouble, None);
}

/// Calls of another kind fill the service's own queue. What waits behind them hangs no more than they do.
#[test]
fn a_kind_that_waits_behind_others_is_not_held_apart() {
    let (mut shop, mut free) = (adaptive(), [0; 20]);
    let mut takes = |ms: u64, work: u64| {
        let worker = free.iter_mut().min().unwrap();
        *worker = ms.max(*worker) + work;
        *worker - ms
    };
    for ms in 0..9_000 {
        shop.until(ms);
        if ms % 100 == 0 {
            shop.come(ms, QUICK, takes(ms, 10), None);
        }
        let slow = if ms == 6_000 { 150 } else { u32::from(ms > 6_000 && ms % 20 == 0) };
        (0..slow).for_each(|_| shop.come(ms, SLOW, takes(ms, 400), None));
        let classes = shop.upstream.classes(at(ms));
        assert!(classes.iter().all(|class| !class.in_trouble), "at {ms} ms: {classes:?}");
    }
}

/// Nobody can tell them by their path: a kind of two seconds begins among calls of three milliseconds.
#[test]
fn a_slow_kind_that_begins_among_quick_ones_is_no_crowd() {
    for every in [50, 200] {
        let mut shop = adaptive();
        for ms in 0..20_000 {
            shop.until(ms);
            if ms % 16 == 0 {
                shop.come(ms, QUICK, 3, None);
            }
            if ms >= 6_000 && ms % every == 0 {
                shop.come(ms, QUICK, 2_000, None);
            }
            assert_eq!(shop.upstream.snapshot(at(ms)).trouble, None, "{every}: at {ms} ms");
        }
        assert_eq!((shop.refused, shop.queued), (0, 0), "one every {every} ms");
    }
}

/// Kinds beyond those that have a class meet in one, and most of what is in it fails.
#[test]
fn a_kind_without_a_class_of_its_own_that_fails_opens_nobodys_breaker() {
    let mut shop = adaptive();
    for ms in 0..20_000 {
        shop.until(ms);
        if ms % 5 == 0 {
            shop.come(ms, 1_000 + ms / 5 % 200, 3, None);
            if let Admission::Go(permit) = shop.upstream.admit(at(ms), &ask(at(ms), 5_000)) {
                drop(end(&mut shop.upstream, at(ms), permit, server_fault()));
            }
        }
    }
    assert_eq!((shop.refused, shop.queued), (0, 0));
    let classes = shop.upstream.classes(at(20_000));
    assert!(classes.iter().all(|class| class.key == 0 || class.key < 5_000), "it has one");
    assert!(classes.iter().all(|class| class.breaker == State::Closed), "{classes:?}");
}

/// Those who waited for a kind that hung are not let in all at once when it answers again.
#[test]
fn a_class_that_answers_again_is_asked_more_and_more_and_not_by_all_who_waited() {
    let mut shop = adaptive();
    let (mut wake, mut most) = (Vec::new(), 0);
    for ms in 0..14_000 {
        shop.until(ms);
        if ms % 5 == 0 {
            shop.come(ms, QUICK, 3, None);
        }
        let takes = if (6_000..9_000).contains(&ms) { 9_010 - ms } else { 50 };
        if ms % 20 == 0 {
            match shop.upstream.admit(at(ms), &ask(at(ms), SLOW)) {
                Admission::Go(permit) => {
                    shop.ends.push(Reverse((ms + takes, shop.inside.len(), false)));
                    shop.inside.push(Some(permit));
                }
                Admission::Queued(..) => {}
                Admission::No(refusal) => panic!("{refusal:?} at {ms} ms"),
            }
        }
        shop.upstream.poll(at(ms), &mut wake);
        for Wake { result, .. } in wake.drain(..) {
            if let Ok(permit) = result {
                shop.ends.push(Reverse((ms + takes, shop.inside.len(), false)));
                shop.inside.push(Some(permit));
            }
        }
        if (9_020..9_150).contains(&ms) {
            let classes = shop.upstream.classes(at(ms));
            let slow = classes.iter().find(|class| class.key == SLOW).unwrap();
            most = most.max(slow.in_flight);
        }
    }
    assert!(
        most < 30,
        "{most} were under way at once, of three in health and about 120 who waited"
    );
}
