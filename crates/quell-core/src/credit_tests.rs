use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    Arrival, Call, Failure, Fault, Input, Outcome, Policy, Rng, Step, Time, Upstream, breaker,
    budget::tokens,
    hedge::Hedge,
    spec::{PolicySpec, UpstreamSpec},
};

/// An attempt that may be hedged must not hand on what its hedge will cost, or the chain's sum becomes a product.
#[test]
fn what_a_hedge_costs_is_not_lent() {
    let mut edge = Credit::new(Role::Edge, 3, None);
    assert_eq!(edge.lend(true).get(), 1);
    assert!(edge.allows_hedge());
    edge.spend_on_hedge();
    assert_eq!((edge.lend(false).get(), edge.left()), (0, 1), "the other is out");
    assert!(!edge.allows_hedge());
    assert!(!Credit::new(Role::Interior, 3, None).allows_hedge());
}

#[test]
fn the_edge_starts_with_one_retry_less_than_attempts() {
    for (attempts, left) in [(0, 0), (1, 0), (3, 2), (u32::MAX, MOST)] {
        assert_eq!(Credit::new(Role::Auto, attempts, None).left(), left);
        assert_eq!(Credit::new(Role::Edge, attempts, None).left(), left);
        assert_eq!(Credit::new(Role::Interior, attempts, None).left(), 0);
    }
}

#[test]
fn strangers_may_only_tighten() {
    for (told, left) in [(0, 0), (1, 1), (2, 2), (3, 2), (u32::MAX, 2)] {
        let received = Some(Received::stranger(Retries::new(told)));
        for role in [Role::Auto, Role::Edge, Role::Interior] {
            assert_eq!(Credit::new(role, 3, received).left(), left, "{told} at {role:?}");
        }
    }
}

#[test]
fn a_trusted_hop_speaks_for_the_chain_except_at_the_edge() {
    let received = Some(Received::trusted(Retries::new(5)));
    assert_eq!(Credit::new(Role::Auto, 2, received).left(), 5);
    assert_eq!(Credit::new(Role::Interior, 2, received).left(), 5);
    assert_eq!(Credit::new(Role::Edge, 2, received).left(), 1);
}

#[test]
fn without_credit_only_what_was_never_sent_is_repeated_and_the_reason_says_who_stopped() {
    let nothing = Some(Received::stranger(Retries::new(0)));
    let interior = Credit::new(Role::Auto, 3, nothing);
    let mut spent = Credit::new(Role::Edge, 2, None);
    spent.spend(Delivery::Unknown);
    for (credit, reason) in [(interior, Reason::Interior), (spent, Reason::CreditSpent)] {
        assert_eq!(credit.allows(Delivery::Unknown), Err(reason));
        assert_eq!(credit.allows(Delivery::Processed), Err(reason));
        assert_eq!(credit.allows(Delivery::NeverSent), Ok(()));
    }
}

#[test]
fn a_reply_debits_all_sends_but_the_first_and_an_absurd_one_everything() {
    for (told, left) in [(0, 4), (1, 4), (3, 2), (5, 0), (u32::MAX, 0)] {
        let mut credit = Credit::new(Role::Edge, 5, None);
        let loan = credit.lend(false);
        credit.settle(loan, Sends::new(told), loan);
        assert_eq!((credit.left(), credit.lend(false).get()), (left, left), "told {told}");
    }
}

#[test]
fn what_was_lent_to_a_silent_attempt_is_not_lent_again_but_our_own_retries_go_on() {
    let mut credit = Credit::new(Role::Edge, 4, None);
    let _silent = credit.lend(false);
    credit.spend(Delivery::Unknown);
    assert_eq!((credit.left(), credit.lend(false).get(), credit.sends().get()), (2, 0, 2));
    let mut credit = Credit::new(Role::Edge, 4, None);
    let loan = credit.lend(false);
    credit.unsent(loan);
    credit.spend(Delivery::NeverSent);
    assert_eq!((credit.left(), credit.lend(false).get(), credit.sends().get()), (3, 3, 1));
}

#[test]
fn garbage_allows_nothing_and_huge_numbers_are_clamped() {
    let huge = "9".repeat(40);
    let longer = "9".repeat(41);
    for (text, expected) in [
        ("0", Some(0)),
        (" 7\t", Some(7)),
        ("007", Some(7)),
        (huge.as_str(), Some(MOST)),
        (longer.as_str(), None),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("0x2", None),
        ("1 2", None),
        ("٣", None),
    ] {
        assert_eq!(Retries::read(text.as_bytes()).get(), expected.unwrap_or(0), "{text:?}");
        assert_eq!(Sends::read(text.as_bytes()).map(Sends::get), expected, "{text:?}");
        assert_eq!(text.parse::<Retries>().ok().map(Retries::get), expected, "{text:?}");
    }
    assert_eq!(Retries::read(b"5, 2,9").get(), 2);
    assert_eq!(Sends::read(b"5, 2,9").map(Sends::get), Some(9));
    assert_eq!(Retries::read(b"5,x").get(), 0);
    assert!(Unreadable.to_string().contains("write"));
}

#[test]
fn baggage_carries_the_credit_among_the_members_of_others() {
    let found = |baggage: &str| Retries::in_baggage(baggage.as_bytes()).map(Retries::get);
    assert_eq!(found("a=1, quell-retry-credit = 2;prop=x ,b=3"), Some(2));
    assert_eq!(found("quell-retry-credit=3,quell-retry-credit=1"), Some(1));
    assert_eq!(found("quell-retry-credit=%32"), Some(0), "what cannot be read allows nothing");
    assert_eq!(found("quell-retry-credits=2,a=quell-retry-credit"), None);
    assert_eq!(found(&format!("quell-retry-credit=2,{}", "a".repeat(LONGEST_BAGGAGE))), None);
    let written = Retries::new(1).write_baggage(b"a=1;p, quell-retry-credit=9,, b = 2");
    assert_eq!(written, b"a=1;p,b = 2,quell-retry-credit=1");
    assert_eq!(Retries::new(1).write_baggage(b""), b"quell-retry-credit=1");
}

/// What happens to the headers on the way between two hops.
#[derive(Debug, Clone, Copy)]
struct Wire {
    /// Of the request: `None` is taken away, numbers are put in, else it is faithful.
    forged: Option<Option<u32>>,
    /// Of the reply: put in its place if larger.
    inflated: Option<u32>,
    /// Replies lose their header, or are lost as a whole.
    silent: bool,
}

#[derive(Debug)]
struct Chain {
    /// Attempts of each hop, the edge first.
    attempts: Vec<u32>,
    wires: Vec<Wire>,
    /// In percent: the leaf fails; a connection fails; a reply is lost where the wire is silent.
    failing: u64,
    unconnected: u64,
    lost: u64,
    /// In percent: an attempt is hedged.
    hedging: u64,
    /// The positive control: every hop is on its own.
    alone: bool,
    rng: Rng,
    leaf_sends: u64,
}

impl Chain {
    fn new(attempts: &[u32], wires: &[Wire], failing: u64, seed: u64) -> Self {
        Self {
            attempts: attempts.to_vec(),
            wires: wires.to_vec(),
            failing,
            unconnected: 0,
            lost: 30,
            hedging: 0,
            alone: false,
            rng: Rng::new(seed),
            leaf_sends: 0,
        }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// One user's request, by the loop that production runs.
    fn run(&mut self) -> u64 {
        self.hop(0, None);
        self.leaf_sends
    }

    fn hop(&mut self, place: usize, received: Option<Received>) -> (bool, Sends, Retries) {
        let Some(&attempts) = self.attempts.get(place) else {
            self.leaf_sends += 1;
            let fine = !self.chance(self.failing);
            return (fine, Sends::new(1), Retries::new(0));
        };
        let policy = Policy::new(PolicySpec {
            attempts,
            hedge: (self.hedging > 0).then(|| Hedge::new(0.5, Duration::ZERO).unwrap()),
            timeout: Duration::from_secs(3_600),
            per_try_timeout: Some(Duration::from_secs(1)),
            ..PolicySpec::library()
        })
        .unwrap();
        let mut upstream = unbounded(&policy);
        let credit = match self.alone {
            true => Credit::new(Role::Edge, attempts, None),
            false => Credit::new(Role::Auto, attempts, received),
        };
        let mut call = Call::of(Arrival { credit: Some(credit), ..Arrival::new() });
        call.set_repeatable(true);
        let (mut now, mut wake, mut input) = (Time::ZERO, Vec::new(), Input::Start);
        loop {
            match call.step(now, input, &policy, &mut upstream, &mut wake) {
                Step::Send(send) => {
                    let mut hedge = None;
                    if self.chance(self.hedging) {
                        call.sent(send.slot);
                        let due = Input::HedgeDue;
                        if let Step::Send(second) =
                            call.step(now, due, &policy, &mut upstream, &mut wake)
                        {
                            hedge = Some(second.slot);
                        }
                    }
                    input = self.attempt(place, &mut call, send.slot);
                    // Both went out, whatever the first came to.
                    if let Some(slot) = hedge {
                        let second = self.attempt(place, &mut call, slot);
                        match call.step(now, input, &policy, &mut upstream, &mut wake) {
                            Step::Await => input = second,
                            Step::Finish(finish) => {
                                let credit = call.credit().unwrap();
                                return (
                                    finish.reason.is_none(),
                                    credit.sends(),
                                    credit.returned(),
                                );
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
                Step::Sleep { until } => (now, input) = (until, Input::Woke),
                Step::Finish(finish) => {
                    let credit = call.credit().unwrap();
                    return (finish.reason.is_none(), credit.sends(), credit.returned());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn attempt(&mut self, place: usize, call: &mut Call, slot: u8) -> Input {
        if self.chance(self.unconnected) {
            return Input::Ended { slot, outcome: Outcome::Failed(Failure::of(Fault::Connect)) };
        }
        call.sent(slot);
        let wire = self.wires[place];
        let received = match wire.forged {
            None => call.handed_on(slot).map(Received::trusted),
            Some(forged) => forged.map(Retries::new).map(Received::stranger),
        };
        let (fine, sends, returned) = self.hop(place + 1, received);
        if wire.silent && self.chance(self.lost) {
            return Input::TimedOut { slot };
        }
        if !wire.silent && place + 1 < self.attempts.len() && !self.alone {
            let told = wire.inflated.map_or(sends, |told| Sends::new(told).max(sends));
            call.debit(slot, told, returned);
        }
        let failed = Outcome::Failed(Failure::of(Fault::Server).with_code(500));
        Input::Ended { slot, outcome: if fine { Outcome::Success } else { failed } }
    }

    fn credit_of(&self, hops: core::ops::Range<usize>) -> u64 {
        self.attempts[hops].iter().map(|&attempts| u64::from(attempts - 1)).sum()
    }
}

fn unbounded(policy: &Policy) -> Upstream {
    let spec = UpstreamSpec {
        budget: tokens::Spec { max: 1_000_000, ..tokens::Spec::default() }.into(),
        breaker: breaker::Spec { min_calls: u32::MAX, ..breaker::Spec::default() },
        ..UpstreamSpec::library()
    };
    Upstream::new(spec, policy.per_try(), 1, Time::ZERO).unwrap()
}

const FAITHFUL: Wire = Wire { forged: None, inflated: None, silent: false };

#[test]
fn four_hops_of_three_attempts_send_three_instead_of_eighty_one() {
    let mut chain = Chain::new(&[3; 4], &[FAITHFUL; 4], 100, 1);
    assert_eq!(chain.run(), 3);
}

/// The positive control: the same chain without a shared credit is what the properties are there to catch.
#[test]
fn hops_that_each_start_their_own_credit_multiply_and_are_caught() {
    for (attempts, hops, product) in [(3, 4, 81), (4, 3, 64), (3, 5, 243), (4, 5, 1_024)] {
        let mut chain = Chain::new(&vec![attempts; hops], &vec![FAITHFUL; hops], 100, 1);
        chain.alone = true;
        let sent = chain.run();
        assert_eq!(sent, product);
        assert!(sent > 1 + chain.credit_of(0..hops), "even the loosest of the bounds notices");
    }
}

fn hops() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1..=4u32, 1..=5)
}

fn absurd() -> impl Strategy<Value = u32> {
    prop_oneof![0..8u32, Just(MOST.into()), Just(65_536), Just(u32::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// Sum, not product: whatever fails, is hedged, and whatever replies exaggerate, one path makes no more sends than the edge
    /// alone would have. Repeating what was never sent adds none, for it reached nobody.
    #[test]
    fn a_path_makes_no_more_sends_than_the_edge_may(
        attempts in hops(),
        inflated in prop::option::of(absurd()),
        (failing, unconnected, hedging) in (0..=100u64, 0..=60u64, 0..=100u64),
        seed in any::<u64>(),
    ) {
        let wires = vec![Wire { inflated, ..FAITHFUL }; attempts.len()];
        let mut chain = Chain::new(&attempts, &wires, failing, seed);
        (chain.unconnected, chain.hedging) = (unconnected, hedging);
        let sent = chain.run();
        prop_assert!(sent <= 1 + chain.credit_of(0..1), "{} sends by {:?}", sent, chain);
    }

    /// Replies that get lost or lose their header on any wire: the edge's credit once more per hop, still a sum.
    #[test]
    fn lost_words_cost_the_credit_once_more_per_hop_at_most(
        attempts in hops(),
        silent in prop::collection::vec(any::<bool>(), 5),
        (failing, lost, unconnected) in (0..=100u64, 0..=100u64, 0..=60u64),
        seed in any::<u64>(),
    ) {
        let wires: Vec<_> = silent.iter().map(|&silent| Wire { silent, ..FAITHFUL }).collect();
        let mut chain = Chain::new(&attempts, &wires, failing, seed);
        (chain.lost, chain.unconnected) = (lost, unconnected);
        let sent = chain.run();
        let silences = silent[..attempts.len() - 1].iter().filter(|&&silent| silent).count() as u64;
        let bound = 1 + (1 + silences) * chain.credit_of(0..1);
        prop_assert!(sent <= bound, "{} sends by {:?}", sent, chain);
    }

    /// Requests whose credit is forged, absurd or taken away start at most that hop's own credit, once.
    #[test]
    fn forged_requests_add_the_credits_of_the_hops_they_reach(
        attempts in hops(),
        forged in prop::collection::vec(prop::option::of(prop::option::of(absurd())), 5),
        inflated in prop::option::of(absurd()),
        (failing, unconnected) in (0..=100u64, 0..=60u64),
        seed in any::<u64>(),
    ) {
        let wires: Vec<_> =
            forged.iter().map(|&forged| Wire { forged, inflated, silent: false }).collect();
        let mut chain = Chain::new(&attempts, &wires, failing, seed);
        chain.unconnected = unconnected;
        let sent = chain.run();
        let reached = (1..attempts.len()).filter(|&place| forged[place - 1].is_some());
        let more: u64 = reached.map(|place| chain.credit_of(place..place + 1)).sum();
        prop_assert!(sent <= 1 + chain.credit_of(0..1) + more, "{} sends by {:?}", sent, chain);
    }

    #[test]
    fn no_bytes_in_a_header_can_hurt(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Retries::read(&bytes).get() <= MOST);
        prop_assert!(Sends::read(&bytes).is_none_or(|sends| sends.get() <= MOST));
        let written = Retries::new(3).write_baggage(&bytes);
        prop_assert_eq!(Retries::in_baggage(&written), Some(Retries::new(3)));
    }
}
