use crate::{
    Admission, Ask, Outcome, Permit, Reason, Release, Rng, Time, Upstream,
    breaker::State,
    in_flight::Limit,
    pools::{Pool, Spec},
    spec::UpstreamSpec,
    upstream::tests::{PER_TRY, at, end, queued, refused, server_fault},
};

const ONE: Pool = Pool::of(0);
const OTHER: Pool = Pool::of(1);

fn pooled(limit: u32, caps: &[u32], queue: usize) -> Upstream {
    let (in_flight, pools) = (Limit::Fixed(limit), Spec::of(caps).unwrap());
    let spec = UpstreamSpec { in_flight, pools, queue, ..UpstreamSpec::gateway() };
    Upstream::new(spec, PER_TRY, 1, at(0)).unwrap()
}

fn of(pool: Pool, now: Time) -> Ask {
    Ask { pool, ..Ask::first(now) }
}

fn go(upstream: &mut Upstream, now: Time, pool: Pool) -> Permit {
    match upstream.admit(now, &of(pool, now)) {
        Admission::Go(permit) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

fn held(upstream: &mut Upstream, now: Time, pool: usize) -> (u32, u32) {
    let pool = upstream.snapshot(now).pools[pool].unwrap();
    (pool.in_flight, pool.ghosts)
}

/// Ten seconds of four kinds of calls, 400 of each per second, of which the first hangs and the rest take 20 ms. Answers
/// how many of the rest were refused.
fn refused_of_the_rest(caps: &[u32]) -> usize {
    let mut upstream = pooled(200, caps, 0);
    let (mut hung, mut under_way, mut refusals) = (Vec::new(), Vec::new(), 0);
    let mut rng = Rng::new(1);
    for ms in 0..10_000u64 {
        let now = at(ms);
        let ended = under_way.iter().take_while(|(until, _)| *until <= ms).count();
        for (_, permit) in under_way.drain(..ended) {
            end(&mut upstream, now, permit, Outcome::Success);
        }
        // A caller of the first kind waits for five seconds, and then it is a ghost.
        let left = hung.iter().take_while(|(since, _)| since + 5_000 <= ms).count();
        for (_, permit) in hung.drain(..left) {
            upstream.release(now, permit, Release::Ghost, &mut Vec::new());
        }
        for kind in 0..4 {
            if rng.below(5) >= 2 {
                continue;
            }
            match upstream.admit(now, &of(Pool::of(kind), now)) {
                Admission::Go(permit) if kind == 0 => hung.push((ms, permit)),
                Admission::Go(permit) => under_way.push((ms + 20, permit)),
                _ => refusals += usize::from(kind != 0),
            }
        }
    }
    refusals
}

/// Pools of 30, 50, 20 and 20 within 200.
#[test]
fn with_one_pool_of_hung_calls_the_others_are_served_in_full() {
    assert_eq!(refused_of_the_rest(&[30, 50, 20, 20]), 0);
    let refused = refused_of_the_rest(&[]);
    assert!(refused > 3_000, "without pools they take every slot: {refused}");
}

#[test]
fn a_full_pool_refuses_at_once_and_its_ghosts_keep_it_full() {
    let mut upstream = pooled(10, &[2, 10], 8);
    let (left, stays) = (go(&mut upstream, at(0), ONE), go(&mut upstream, at(0), ONE));
    assert_eq!(refused(&mut upstream, at(0), &of(ONE, at(0))), Reason::InFlightFull);
    upstream.release(at(1), left, Release::Ghost, &mut Vec::new());
    assert_eq!(held(&mut upstream, at(1), 0), (1, 1));
    assert_eq!(refused(&mut upstream, at(1), &of(ONE, at(1))), Reason::InFlightFull);
    end(&mut upstream, at(2), stays, Outcome::Success);
    assert_eq!(held(&mut upstream, at(2), 0), (0, 0), "an answer ended both");
    let _again = go(&mut upstream, at(2), ONE);
}

#[test]
fn a_pool_full_of_ghosts_probes_in_place_of_its_own() {
    let mut upstream = pooled(10, &[1, 1], 0);
    for pool in [OTHER, ONE] {
        let permit = go(&mut upstream, at(0), pool);
        upstream.release(at(0), permit, Release::Ghost, &mut Vec::new());
    }
    assert_eq!(refused(&mut upstream, at(499), &of(ONE, at(499))), Reason::InFlightFull);
    let probe = go(&mut upstream, at(500), ONE);
    assert_eq!(held(&mut upstream, at(500), 0), (1, 0));
    assert_eq!(held(&mut upstream, at(500), 1), (0, 1), "the older ghost is not its own");
    end(&mut upstream, at(510), probe, Outcome::Success);
    assert_eq!(held(&mut upstream, at(510), 1), (0, 0));
}

#[test]
fn a_grant_passes_the_gate_of_its_pool_again() {
    let mut upstream = pooled(2, &[1], 8);
    let (first, second) = (go(&mut upstream, at(0), Pool::NONE), go(&mut upstream, at(0), OTHER));
    let [early, late] = [(); 2].map(|()| queued(&mut upstream, at(1), &of(ONE, at(1))).0);
    let mut wake = end(&mut upstream, at(2), first, Outcome::Success);
    wake.extend(end(&mut upstream, at(2), second, Outcome::Success));
    let [one, other] = &wake[..] else { panic!("{wake:?}") };
    assert_eq!((one.ticket, other.ticket), (early, late));
    assert!(one.result.is_ok());
    assert_eq!(other.result.as_ref().unwrap_err().reason, Reason::InFlightFull);
}

/// One probe clock: while the breaker is not closed it alone decides.
#[test]
fn the_breakers_probe_passes_a_full_pool_and_takes_its_ghosts_place() {
    let mut upstream = pooled(40, &[1, 30], 0);
    let permit = go(&mut upstream, at(0), ONE);
    upstream.release(at(0), permit, Release::Ghost, &mut Vec::new());
    let failing: Vec<_> = (0..20).map(|_| go(&mut upstream, at(0), OTHER)).collect();
    for permit in failing {
        end(&mut upstream, at(0), permit, server_fault());
    }
    for _ in 0..2 {
        let probe = go(&mut upstream, at(500), ONE);
        end(&mut upstream, at(500), probe, Outcome::Success);
    }
    let snapshot = upstream.snapshot(at(1_000));
    assert_eq!((snapshot.breaker, snapshot.ghosts), (State::Closed, 0));
}
