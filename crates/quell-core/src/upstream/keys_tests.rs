use crate::{
    Admission, Ask, Event, Outcome, Reason, Release, Rng, Time, Upstream, breaker,
    breaker::State,
    in_flight::Limit,
    spec::UpstreamSpec,
    upstream::tests::{PER_TRY, at, end, queued, refused, server_fault},
};

fn sharded(keys: usize, spec: UpstreamSpec) -> Upstream {
    let spec = UpstreamSpec { breaker_keys: Some(keys), ..spec };
    Upstream::new(spec, PER_TRY, 1, at(0)).unwrap()
}

fn of(key: u64, now: Time) -> Ask {
    Ask { key: Some(key), ..Ask::first(now) }
}

fn go(upstream: &mut Upstream, now: Time, ask: &Ask) -> crate::Permit {
    match upstream.admit(now, ask) {
        Admission::Go(permit) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

fn kill(upstream: &mut Upstream, now: Time, key: u64) {
    for _ in 0..20 {
        let permit = go(upstream, now, &of(key, now));
        end(upstream, now, permit, server_fault());
    }
}

/// A minute of 300 calls per second over three shards, of which the first is dead. Answers the served share of what the
/// living two were asked for in its second half.
fn served(keys: Option<usize>) -> f64 {
    let breaker = breaker::Spec { failure_rate: 0.3, ..breaker::Spec::default() };
    let spec = UpstreamSpec { breaker, breaker_keys: keys, ..UpstreamSpec::gateway() };
    let mut upstream = Upstream::new(spec, PER_TRY, 1, at(0)).unwrap();
    let (mut rng, mut asked, mut served) = (Rng::new(3), 0, 0);
    for i in 0..18_000 {
        let (now, shard) = (at(i * 10 / 3), rng.below(3));
        let counts = shard != 0 && i >= 9_000;
        asked += u32::from(counts);
        if let Admission::Go(permit) = upstream.admit(now, &of(shard, now)) {
            let outcome = if shard == 0 { server_fault() } else { Outcome::Success };
            end(&mut upstream, now, permit, outcome);
            served += u32::from(counts);
        }
    }
    f64::from(served) / f64::from(asked)
}

/// C14.
#[test]
fn one_dead_shard_of_three_leaves_the_callers_of_the_others_at_full_service() {
    assert!((served(Some(3)) - 1.0).abs() < f64::EPSILON);
    let shared = served(None);
    assert!(shared < 0.6, "one breaker for all makes a partial outage a full one: {shared}");
}

/// C14: of everything the breaker has a say in.
#[test]
fn an_open_key_stops_its_own_retries_and_hedges_and_nobody_elses() {
    let mut upstream = sharded(2, UpstreamSpec::library());
    kill(&mut upstream, at(0), 1);
    assert_eq!(refused(&mut upstream, at(0), &of(1, at(0))), Reason::BreakerOpen);
    for (key, open) in [(Some(1), true), (Some(2), false), (None, false)] {
        assert_eq!(upstream.stops_retries(at(0), key, 0), open, "{key:?}");
        assert_eq!(upstream.is_degraded(at(0), key, 0), open, "{key:?}");
    }
    let opened = upstream.next_event();
    assert!(matches!(opened, Some(Event::KeyOpened { key: Some(1), until }) if until > at(0)));
    let snapshot = upstream.snapshot(at(0));
    assert_eq!((snapshot.breaker, snapshot.breaker_keys_open), (State::Closed, 1));
    assert_eq!(snapshot.breaker_keys, 1, "who is only looked at takes no place");
    for _ in 0..2 {
        let probe = go(&mut upstream, at(500), &of(1, at(500)));
        end(&mut upstream, at(500), probe, Outcome::Success);
    }
    assert_eq!(upstream.next_event(), Some(Event::KeyClosed { key: Some(1) }));
}

/// X3, C14.
#[test]
fn opening_the_breaker_of_a_key_flushes_its_own_callers_only() {
    let spec = UpstreamSpec { in_flight: Limit::Fixed(20), queue: 8, ..UpstreamSpec::gateway() };
    let mut upstream = sharded(2, spec);
    let permits: Vec<_> = (0..20).map(|_| go(&mut upstream, at(0), &of(1, at(0)))).collect();
    let [ours, _others, _nobodys, ours_too] =
        [of(1, at(1)), of(2, at(1)), Ask::first(at(1)), of(1, at(1))]
            .map(|ask| queued(&mut upstream, at(1), &ask).0);
    for permit in &permits {
        upstream.judge(at(2), permit, &server_fault());
    }
    let mut wake = Vec::new();
    let mut permits = permits.into_iter();
    upstream.release(at(2), permits.next().unwrap(), Release::Ghost, &mut wake);
    let told: Vec<_> = wake.drain(..).map(|w| (w.ticket, w.result.unwrap_err().reason)).collect();
    assert_eq!(told, [(ours, Reason::BreakerOpen), (ours_too, Reason::BreakerOpen)]);
    for permit in permits {
        upstream.release(at(2), permit, Release::Done, &mut wake);
    }
    assert_eq!(wake.iter().filter(|wake| wake.result.is_ok()).count(), 2);
}

/// C3: an attempt is judged by the breaker that let it through, even if its key has another by now.
#[test]
fn late_outcomes_go_to_the_breaker_they_came_from() {
    let mut upstream = sharded(1, UpstreamSpec::library());
    let held = go(&mut upstream, at(0), &of(1, at(0)));
    let late: Vec<_> = (0..20).map(|_| go(&mut upstream, at(0), &of(2, at(0)))).collect();
    end(&mut upstream, at(0), held, Outcome::Success);
    let own = go(&mut upstream, at(60_000), &of(2, at(60_000)));
    assert_eq!(upstream.snapshot(at(60_000)).breaker_keys, 1);
    for permit in late {
        end(&mut upstream, at(60_000), permit, server_fault());
    }
    assert!(!upstream.stops_retries(at(60_000), Some(2), 0), "2 has the place of 1 now");
    assert!(upstream.stops_retries(at(60_000), Some(3), 0), "the shared one has opened");
    end(&mut upstream, at(60_000), own, Outcome::Success);
}
