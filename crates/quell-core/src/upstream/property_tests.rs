//! Whatever a host does, in whatever order: nothing is lost and nothing is doubled.

use proptest::prelude::*;

use super::{
    tests::{PER_TRY, at, server_fault},
    *,
};
use crate::{
    breaker,
    in_flight::Limit,
    pools::{Pool, Spec},
};

/// One random thing that a host may do.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Admit { retry: bool, told: Option<u64>, key: Option<u64>, pool: u8 },
    Succeed(usize),
    Fail(usize),
    Unsent(usize),
    Ghost(usize),
    Leave(usize),
    Poll,
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<bool>(), prop::option::of(0..2_000u64), prop::option::of(0..4u64), 0..4u8)
            .prop_map(|(retry, told, key, pool)| Act::Admit { retry, told, key, pool }),
        2 => any::<usize>().prop_map(Act::Succeed),
        1 => any::<usize>().prop_map(Act::Fail),
        1 => any::<usize>().prop_map(Act::Unsent),
        1 => any::<usize>().prop_map(Act::Ghost),
        1 => any::<usize>().prop_map(Act::Leave),
        1 => Just(Act::Poll),
    ]
}

pub(super) fn pick<T>(from: &mut Vec<T>, index: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(index % from.len()))
}

/// Does what it is told, and knows what is out.
pub(super) struct Host {
    pub(super) upstream: Upstream,
    pub(super) permits: Vec<Permit>,
    pub(super) tickets: Vec<Ticket>,
    pub(super) wake: Vec<Wake>,
    pub(super) clock: u64,
    /// Attempts that the last act sent, but for probes of a breaker.
    sent: usize,
}

impl Host {
    pub(super) fn new(spec: UpstreamSpec, seed: u64) -> Self {
        let upstream = Upstream::new(spec, PER_TRY, seed, Time::ZERO).unwrap();
        let (permits, tickets, wake) = (Vec::new(), Vec::new(), Vec::new());
        Self { upstream, permits, tickets, wake, clock: 10_000, sent: 0 }
    }

    pub(super) fn act(&mut self, act: Act) {
        let now = at(self.clock);
        let Self { upstream, permits, tickets, wake, .. } = self;
        self.sent = 0;
        match act {
            Act::Admit { retry, told, key, pool } => {
                let deadline = told.map_or(Time::MAX, |told| at(self.clock + told));
                let attempt = 1 + u32::from(retry);
                let priority = [Priority::Sheddable, Priority::Default, Priority::Critical]
                    [(self.clock % 3) as usize];
                let told = told.is_some();
                let pool = Pool::of(pool); // of which the last two are none
                let ask = Ask { attempt, deadline, told, priority, key, pool, ..Ask::first(now) };
                match upstream.admit(now, &ask) {
                    Admission::Go(permit) => {
                        // Where it is half-open the breaker alone decides.
                        self.sent = usize::from(upstream.applied(now, key) == State::Closed);
                        permits.push(permit);
                    }
                    Admission::Queued(ticket, _) => tickets.push(ticket),
                    Admission::No(_) => {}
                }
            }
            Act::Succeed(i) => {
                if let Some(permit) = pick(permits, i) {
                    upstream.judge(now, &permit, &Outcome::Success);
                    upstream.release(now, permit, Release::Done, wake);
                }
            }
            Act::Fail(i) => {
                if let Some(permit) = pick(permits, i) {
                    upstream.judge(now, &permit, &server_fault());
                    upstream.release(now, permit, Release::Done, wake);
                }
            }
            Act::Unsent(i) => {
                if let Some(permit) = pick(permits, i) {
                    upstream.release(now, permit, Release::Unsent, wake);
                }
            }
            Act::Ghost(i) => {
                if let Some(permit) = pick(permits, i) {
                    upstream.gave_up(now, now, 0);
                    upstream.release(now, permit, Release::Ghost, wake);
                }
            }
            Act::Leave(i) => {
                if let Some(ticket) = pick(tickets, i) {
                    assert!(upstream.leave(ticket));
                    assert!(!upstream.leave(ticket));
                }
            }
            Act::Poll => {
                upstream.poll(now, wake);
            }
        }
    }

    /// Collects grants; false if anything was lost or doubled.
    pub(super) fn is_whole(&mut self) -> bool {
        for Wake { ticket, result } in self.wake.drain(..) {
            self.sent += usize::from(result.is_ok());
            let place = self.tickets.iter().position(|&other| other == ticket);
            self.tickets.swap_remove(place.expect("a ticket is answered once, if it is out"));
            self.permits.extend(result);
        }
        let snapshot = self.upstream.snapshot(at(self.clock));
        let waiting = snapshot.queued + self.upstream.shed.len();
        snapshot.in_flight as usize == self.permits.len()
            && waiting == self.tickets.len()
            && pools_are_right(&snapshot, &self.permits)
    }

    /// Whether the last act gave out slots while there were any, and no longer. A probe takes the place of a ghost, and
    /// that may be one of more than are counted.
    fn keeps_to(&mut self, limit: u32) -> bool {
        let events = core::iter::from_fn(|| self.upstream.next_event());
        let probes = events.filter(|event| matches!(event, Event::GhostProbe { .. })).count();
        self.sent <= probes
            || self.upstream.endpoints.taken(limit, None::<fn(u16) -> bool>)
                <= limit + probes as u32
    }

    /// The most probes that any one breaker has out.
    fn most_probes_out(&mut self) -> usize {
        let now = at(self.clock);
        let Upstream { breaker, curbs, .. } = &mut self.upstream;
        let mut shards = curbs.as_mut().and_then(|curbs| curbs.shards.as_mut());
        let mut is_out = |permit: &Permit| match &mut shards {
            Some(shards) if permit.seat != Seat::NOWHERE => {
                shards.at(permit.seat).is_some_and(|own| own.is_probe_out(now, &permit.pass))
            }
            _ => breaker.is_probe_out(now, &permit.pass),
        };
        let out: Vec<_> = self.permits.iter().filter(|permit| is_out(permit)).collect();
        let beside = |one: &Permit| out.iter().filter(|other| other.seat == one.seat).count();
        out.iter().map(|permit| beside(permit)).max().unwrap_or(0)
    }

    /// Everything comes back; then one success per endpoint sweeps the ghosts away.
    pub(super) fn come_to_rest(&mut self) -> Snapshot {
        self.clock += 10_000;
        while !self.permits.is_empty() {
            self.act(Act::Unsent(0));
        }
        for _ in 0..1_000 {
            assert!(self.is_whole());
            self.clock += 700;
            self.act(Act::Poll);
            self.act(Act::Admit { retry: false, told: None, key: None, pool: 7 });
            while !self.permits.is_empty() {
                self.act(Act::Succeed(0));
                assert!(self.is_whole()); // whoever was granted the slot is out from now on
            }
        }
        self.upstream.snapshot(at(self.clock))
    }
}

/// Whether each pool holds a slot for each of its permits that is out, and no more ghosts than there are.
fn pools_are_right(snapshot: &Snapshot, permits: &[Permit]) -> bool {
    let pools = || snapshot.pools.iter().enumerate().filter_map(|(i, pool)| Some((i, (*pool)?)));
    let out = |i| permits.iter().filter(|permit| permit.pool == Pool::of(i as u8)).count();
    pools().all(|(i, pool)| pool.in_flight as usize == out(i))
        && pools().map(|(_, pool)| pool.ghosts as usize).sum::<usize>() <= snapshot.ghosts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// P1, C4, T1: whatever happens in whatever order, on a clock that steps back now and then, no permit or ticket
    /// is lost or doubled, nor a slot of a pool, the limit holds, and at most the allowed probes are out.
    #[test]
    fn no_permit_or_ticket_is_lost_whatever_happens(
        acts in prop::collection::vec((act(), 0..400u64, 0..20u8), 1..200),
        limit in 1..6u32,
        seed in any::<u64>(),
    ) {
        // So few calls decide that there is much to probe.
        let (min_calls, probes) = (1 + (seed % 4) as u32, 1 + (seed % 2) as u8);
        let breaker = breaker::Spec { min_calls, probes, ..breaker::Spec::default() };
        let spec = UpstreamSpec {
            in_flight: Limit::Fixed(limit),
            queue: 4,
            breaker,
            endpoints: 1 + (seed % 3) as u16,
            breaker_keys: (seed % 5 > 1).then_some(2),
            pools: if seed % 7 > 2 { Spec::of(&[limit, 1]).unwrap() } else { Spec::NONE },
            ..UpstreamSpec::gateway()
        };
        let mut host = Host::new(spec, seed);
        for (act, step, back) in acts {
            let clock = host.clock;
            host.clock = if back == 0 { clock - step.min(clock) } else { clock + step };
            host.act(act);
            prop_assert!(host.is_whole());
            prop_assert!(host.keeps_to(limit));
            prop_assert!(host.most_probes_out() <= usize::from(spec.breaker.probes));
        }
        let snapshot = host.come_to_rest();
        prop_assert_eq!((snapshot.in_flight, snapshot.ghosts, snapshot.queued), (0, 0, 0));
        for pool in snapshot.pools.into_iter().flatten() {
            prop_assert_eq!((pool.in_flight, pool.ghosts), (0, 0));
        }
    }
}
