use proptest::prelude::*;

use super::*;
use crate::Rng;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn spec(per_second: u32, burst: u32, instances: u32) -> Spec {
    Spec { per_second, burst, instances, ..Spec::default() }
}

fn rules(per_second: u32, burst: u32, instances: u32) -> Rules {
    Rules::new(spec(per_second, burst, instances)).unwrap()
}

fn takes(planner: &mut Planner, now: Time) -> u32 {
    (0..).take_while(|_| planner.take(now, 1).is_ok()).count() as u32
}

fn request(tokens: u64) -> Request {
    Request { id: 1, tokens: tokens * TOKEN, owed: 0, until: None }
}

fn grant(tokens: u64) -> Grant {
    let valid_for = Duration::from_secs(2);
    Grant { tokens: tokens * TOKEN, settled: true, valid_for, stamp: Stamp::from_millis(7) }
}

/// A planner without a store.
fn cut_off(rules: Rules, rng: &mut Rng) -> Planner {
    let mut planner = Planner::new(rules);
    let request = planner.want(at(0), rng).unwrap();
    planner.failed(at(0), request.id, rng);
    planner
}

/// R1.
#[test]
fn a_denial_loses_nothing_fractions_are_kept_and_the_clock_may_step_back() {
    let rules = rules(3, 1, 1);
    let mut pool = Pool::new(&rules, Stamp::ZERO);
    assert_eq!(pool.lease(&rules, Stamp::ZERO, &request(1)).tokens, TOKEN);
    let mut granted = 0;
    for ms in 1..=3_000 {
        let now = Stamp::from_millis(if ms % 7 == 0 { 0 } else { ms });
        granted += pool.lease(&rules, now, &Request { tokens: 1, ..request(0) }).tokens;
    }
    assert_eq!(granted, 3_000, "one millionth at a time");
    let rest = pool.lease(&rules, Stamp::from_millis(3_001), &request(9)).tokens;
    assert_eq!(rest, TOKEN, "the bucket was full all the time but never more");
    let asked: u64 = (1..=3_000u64)
        .map(|ms| pool.lease(&rules, Stamp::from_millis(3_001 + ms), &request(9)).tokens)
        .sum();
    assert_eq!(asked, 9 * TOKEN);
}

/// G4, T5: a share is a share, whatever the clock did meanwhile.
#[test]
fn without_a_store_an_instance_lives_on_its_share_and_gets_no_gift_for_waiting() {
    let mut rng = Rng::new(1);
    let mut planner = cut_off(rules(100, 50, 10), &mut rng);
    assert_eq!(takes(&mut planner, at(0)), 0, "a restart is no gift");
    let taken: u32 = (1..=10_000).map(|ms| takes(&mut planner, at(ms))).sum();
    assert_eq!(taken, 100);
    let month = at(30 * 86_400_000);
    assert_eq!(takes(&mut planner, month), 5, "burst ÷ instances after a suspend");
    assert_eq!(takes(&mut planner, at(0)), 0);
    let refusal = planner.take(month, 1).unwrap_err();
    assert_eq!(refusal.reason, Reason::RateLimited);
    assert!(planner.take(refusal.retry_at, 1).is_ok(), "the promised instant holds");
}

/// R2.
#[test]
fn an_outage_costs_one_request_per_probe_interval() {
    let mut rng = Rng::new(1);
    let mut planner = Planner::new(rules(1_000, 1_000, 10));
    let mut asked = 0;
    for ms in 0..60_000 {
        asked += u32::from(planner.want(at(ms), &mut rng).is_some());
        let _ = planner.take(at(ms), 1);
    }
    assert!((55..=115).contains(&asked), "{asked} requests in a minute, each given up after 50 ms");
}

/// R3.
#[test]
fn an_answer_that_comes_after_giving_up_changes_nothing() {
    let mut rng = Rng::new(1);
    let mut planner = Planner::new(rules(100, 50, 10));
    let first = planner.want(at(0), &mut rng).unwrap();
    planner.failed(at(50), first.id, &mut rng);
    planner.granted(at(60), first.id, grant(5));
    assert_eq!((planner.balance(at(60)), planner.is_store_up()), (0, false));
}

/// R3, at the store.
#[test]
fn a_request_that_comes_after_it_was_given_up_is_refused() {
    let rules = rules(100, 50, 10);
    let mut rng = Rng::new(1);
    let (mut planner, mut pool) = (Planner::new(rules), Pool::new(&rules, Stamp::from_millis(7)));
    let first = planner.want(at(0), &mut rng).unwrap();
    planner.granted(at(5), first.id, grant(0));
    let second = planner.want(at(1_000), &mut rng).unwrap();
    assert_eq!(second.until, Some(Stamp::from_millis(7 + 995 + 50)));
    let mut answer = |ms| pool.lease(&rules, Stamp::from_millis(ms), &second);
    assert!(answer(1_052).settled);
    let late = answer(1_053);
    assert_eq!((late.tokens, late.settled), (0, false));
}

#[test]
fn leases_run_out_counted_from_when_they_were_asked_for() {
    let mut rng = Rng::new(1);
    let mut planner = Planner::new(rules(1_000, 50, 1));
    for _ in 0..5 {
        let _ = planner.take(at(0), 1);
    }
    let request = planner.want(at(0), &mut rng).unwrap();
    planner.granted(at(40), request.id, grant(5));
    assert!(planner.balance(at(1_999)) > 0);
    assert_eq!(planner.balance(at(2_000)), 0);
}

#[test]
fn more_is_asked_for_before_it_is_needed() {
    let rules = rules(1_000, 1_000, 1);
    let mut rng = Rng::new(1);
    let (mut planner, mut pool) = (Planner::new(rules), Pool::new(&rules, Stamp::ZERO));
    let (mut refused, mut arriving) = (0, None);
    for ms in 0..20_000 {
        if let Some(request) = planner.want(at(ms), &mut rng) {
            arriving =
                Some((ms + 10, request.id, pool.lease(&rules, Stamp::from_millis(ms), &request)));
        }
        if let Some((_, id, grant)) = arriving.take_if(|(due, ..)| *due == ms) {
            planner.granted(at(ms), id, grant);
        }
        if ms % 2 == 0 && planner.take(at(ms), 1).is_err() && ms > 1_000 {
            refused += 1;
        }
    }
    assert_eq!(refused, 0, "500 per second under a limit of 1000");
}

#[test]
fn who_has_enough_asks_for_nothing() {
    let (mut planner, mut rng) = (Planner::new(rules(100, 100, 1)), Rng::new(1));
    let request = planner.want(at(0), &mut rng).unwrap();
    planner.granted(at(1), request.id, grant(100));
    for ms in 2..200 {
        assert_eq!(planner.want(at(ms), &mut rng), None, "at {ms} ms");
    }
    assert!(takes(&mut planner, at(200)) > 0);
    assert!(planner.want(at(300), &mut rng).is_some(), "until it has not");
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let fine = spec(1, 1, 1);
    let hour = Duration::from_secs(3_600);
    for wrong in [
        Spec { per_second: 0, ..fine },
        Spec { burst: 0, ..fine },
        Spec { instances: 0, ..fine },
        Spec { valid_for: hour, ..fine },
        Spec { timeout: Duration::ZERO, ..fine },
        Spec { probe: Duration::MAX, ..fine },
        Spec { valid_for: Duration::from_millis(1_049), ..fine },
    ] {
        let message = Rules::new(wrong).unwrap_err().to_string();
        assert!(message.starts_with("rate_limit.") && message.contains("write"), "{message}");
    }
}

/// A message on its way.
#[derive(Debug, Clone, Copy)]
enum Mail {
    ToStore(Request),
    ToInstance(u64, Grant),
}

/// A fleet, a store and an unreliable network between them, in steps of ten milliseconds.
struct Fleet {
    rules: Rules,
    planners: Vec<Planner>,
    /// Due, to or from whom.
    mail: Vec<(u64, usize, Mail)>,
    /// Whether the last message of each was lost: never two in a row, or it would be cut off alone.
    unlucky: Vec<bool>,
    pool: Pool,
    rng: Rng,
    ms: u64,
    forgotten: u64,
}

const STEP: u64 = 10;
const EPOCH: u64 = 1_700_000_000_000;

impl Fleet {
    fn new(rules: Rules, seed: u64) -> Self {
        let count = rules.0.instances as usize;
        Self {
            rules,
            planners: (0..count).map(|_| Planner::new(rules)).collect(),
            mail: Vec::new(),
            unlucky: vec![false; count],
            pool: Pool::new(&rules, Stamp::from_millis(EPOCH)),
            rng: Rng::new(seed),
            ms: 0,
            forgotten: 0,
        }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn restart(&mut self, instance: usize) {
        self.forgotten += self.planners[instance].owed();
        self.planners[instance] = Planner::new(self.rules);
    }

    /// Ends in good order, and another one starts in its place.
    fn replace(&mut self, instance: usize) {
        if let Some(back) = self.planners[instance].leave(at(self.ms)) {
            let stamp = Stamp::from_millis(EPOCH + self.ms);
            self.pool.give_back(&self.rules, stamp, &back);
        }
    }

    /// Moves messages and lets everybody ask; what the fleet takes afterwards counts for this step.
    fn step(&mut self, up: bool, loss: u64) {
        self.ms += STEP;
        let (now, ms) = (at(self.ms), self.ms);
        let mut due: Vec<_> = self.mail.extract_if(.., |mail| mail.0 <= ms).collect();
        due.sort_by_key(|mail| (mail.0, mail.1));
        for (_, instance, mail) in due {
            match mail {
                // Some of what the store missed comes late, when it is back.
                Mail::ToStore(request) if !up => {
                    if self.chance(30) {
                        let later = ms + 10 * self.rng.below(300);
                        self.mail.push((later, instance, Mail::ToStore(request)));
                    }
                }
                Mail::ToStore(request) => {
                    let back = if self.chance(5) { self.rng.below(2_000) } else { 0 };
                    let stamp = Stamp::from_millis(EPOCH + ms - back.min(ms));
                    let grant = self.pool.lease(&self.rules, stamp, &request);
                    self.unlucky[instance] = !self.unlucky[instance] && self.chance(loss);
                    if !self.unlucky[instance] {
                        self.mail.push((ms + STEP, instance, Mail::ToInstance(request.id, grant)));
                    }
                }
                Mail::ToInstance(id, grant) => self.planners[instance].granted(now, id, grant),
            }
        }
        for instance in 0..self.planners.len() {
            if let Some(request) = self.planners[instance].want(now, &mut self.rng) {
                self.mail.push((ms + STEP, instance, Mail::ToStore(request)));
            }
        }
    }

    fn take(&mut self, instance: usize, most: u32) -> u64 {
        let now = at(self.ms);
        (0..most).take_while(|_| self.planners[instance].take(now, 1).is_ok()).count() as u64
    }
}

/// How far the worst window exceeds the rate alone, in millionths: the largest sum of any run of steps.
fn worst_window(taken: &[u64], per_second: u32) -> u64 {
    let step = i128::from(per_second) * i128::from(STEP) * 1_000;
    let (mut here, mut worst) = (0i128, 0i128);
    for &taken in taken {
        let taken = i128::from(taken) * i128::from(TOKEN);
        // A window that is a single step has no length of its own to be paid with.
        worst = worst.max(here + taken);
        here = (here + taken - step).max(0);
    }
    worst as u64
}

/// Steps in which every instance reaches a store that is up, although one of its messages is lost: two probes, with
/// their timeouts.
const REACH: usize = 250;

/// Steps of which some instances spent all on their shares, although others reached the store meanwhile: it was up
/// between two outages, but not for long enough. The bound leaves these out.
fn cut_off_alone(outages: &[(usize, usize)]) -> u64 {
    let mut outages = outages.to_vec();
    outages.sort_unstable();
    let (mut alone, mut end) = (0, None);
    for (from, length) in outages {
        let back = from + length;
        match end {
            Some(end) if from < end + REACH => alone += back.saturating_sub(end),
            _ => {}
        }
        end = end.max(Some(back));
    }
    alone as u64
}

/// The bound is no use if the limit itself cannot be reached.
#[test]
fn a_busy_fleet_gets_its_whole_limit_even_if_one_instance_has_all_the_traffic() {
    for (instances, busy) in [(1, 1), (10, 10), (10, 1), (50, 50), (50, 3)] {
        let mut fleet = Fleet::new(rules(1_000, 1_000, instances), 1);
        let mut taken = 0;
        for _ in 0..2_000 {
            fleet.step(true, 0);
            taken += (0..busy).map(|instance| fleet.take(instance, 100)).sum::<u64>();
        }
        assert!((19_000..=21_000).contains(&taken), "{busy} of {instances} took {taken}");
    }
}

#[test]
fn after_an_outage_the_fleet_is_back_at_its_limit_within_seconds() {
    let mut fleet = Fleet::new(rules(1_000, 1_000, 10), 1);
    let mut taken = [0; 40];
    for step in 0..4_000 {
        fleet.step(!(1_000..2_000).contains(&step), 0);
        taken[step / 100] += (0..10).map(|instance| fleet.take(instance, 100)).sum::<u64>();
    }
    let mean = |seconds: &[u64]| seconds.iter().sum::<u64>() / seconds.len() as u64;
    assert!((950..=1_000).contains(&mean(&taken[12..20])), "on shares: {taken:?}");
    assert!((950..=1_050).contains(&mean(&taken[25..])), "afterwards: {taken:?}");
}

/// Every instance wants a little in its turn and then nothing, until all want everything at once.
fn hoard(rules: Rules, limit: &Spec) -> (u64, u64) {
    let mut fleet = Fleet::new(rules, 1);
    let (mut taken, count) = (Vec::new(), rules.0.instances as usize);
    for turn in 0..count {
        for _ in 0..100 {
            fleet.step(true, 0);
            let wanted = fleet.take(turn, 1);
            taken.push(wanted);
        }
    }
    fleet.step(true, 0);
    taken.push((0..count).map(|instance| fleet.take(instance, u32::MAX)).sum());
    let allowed = u64::from(limit.burst) + overshoot_bound(limit, limit.instances);
    (worst_window(&taken, limit.per_second), allowed * TOKEN)
}

/// The positive control: the bound is there because leases run out.
#[test]
fn leases_that_never_run_out_exceed_the_bound_and_are_caught() {
    let limit = spec(300, 300, 50);
    let (worst, allowed) = hoard(Rules::new(limit).unwrap(), &limit);
    assert!(worst <= allowed, "{worst} of {allowed}");
    let for_ever = Rules(Spec { valid_for: Duration::from_secs(3_600), ..limit });
    let (worst, allowed) = hoard(for_ever, &limit);
    assert!(worst > allowed, "{worst} of {allowed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases() / 10))]

    /// G11, R1–R3: in every window the fleet takes no more than the limit, the burst and the stated bound, whatever
    /// the traffic, through outages, lost and late messages, a store clock that steps back, and restarts.
    #[test]
    fn the_fleet_stays_within_the_limit_and_the_stated_bound(
        instances in 1..=50u32,
        per_second in 1..2_000u32,
        burst in 1..4_000u32,
        outages in prop::collection::vec((0..2_000usize, 1..600usize), 0..5),
        (loss, restarts) in (0..30u64, 0..3u64),
        busy in prop::collection::vec(0..3u8, 10),
        seed in any::<u64>(),
    ) {
        let limit = spec(per_second, burst, instances);
        let rules = Rules::new(limit).unwrap();
        let mut fleet = Fleet::new(rules, seed);
        let mut taken = Vec::new();
        for step in 0..2_000 {
            let up = !outages.iter().any(|&(from, length)| (from..from + length).contains(&step));
            fleet.step(up, loss);
            if fleet.rng.below(1_000) < restarts {
                let instance = fleet.rng.below(u64::from(instances)) as usize;
                if up && fleet.chance(50) {
                    fleet.replace(instance);
                } else {
                    fleet.restart(instance);
                }
            }
            let all = match busy[step / 200] {
                0 => 0, // a lull, so that bursts and leases pile up
                1 => (0..instances as usize).map(|instance| fleet.take(instance, 1)).sum(),
                _ => (0..instances as usize).map(|instance| fleet.take(instance, u32::MAX)).sum(),
            };
            taken.push(all);
        }
        let worst = worst_window(&taken, per_second);
        let alone = u64::from(per_second) * cut_off_alone(&outages) * STEP / 1_000;
        let bound = u64::from(burst) + overshoot_bound(&limit, instances) + alone;
        prop_assert!(
            worst <= bound * TOKEN + fleet.forgotten,
            "{} over the rate, and {} are allowed",
            worst / TOKEN,
            bound + fleet.forgotten / TOKEN
        );
    }
}

#[test]
fn what_is_there_already_shortens_the_promised_wait() {
    let mut planner = cut_off(rules(100, 50, 10), &mut Rng::new(1));
    takes(&mut planner, at(0));
    let refusal = planner.take(at(50), 1).unwrap_err(); // half a token of its ten per second is there
    assert_eq!(refusal.retry_at, at(100));
}

#[test]
fn what_is_given_back_can_be_leased_again_and_never_more_than_was_there() {
    let (rules, mut rng) = (rules(10, 50, 2), Rng::new(1));
    let stamp = |ms| Stamp::from_millis(EPOCH + ms);
    let mut pool = Pool::new(&rules, stamp(0));
    // A fleet that has used what was there for a while: the pool's highest level of late is low.
    for ms in (0..=6_000).step_by(100) {
        let _ = pool.lease(&rules, stamp(ms), &request(50));
    }
    let mut planner = Planner::new(rules);
    let first = planner.want(at(6_000), &mut rng).unwrap();
    let grant = pool.lease(&rules, stamp(6_100), &request(1));
    planner.granted(at(6_100), first.id, grant);
    assert_eq!(planner.balance(at(6_100)), TOKEN);
    let back = planner.leave(at(6_200)).unwrap();
    assert_eq!((back.tokens, back.owed, back.until), (TOKEN, 0, Some(stamp(6_250))));
    assert_eq!(
        (planner.holds(at(6_200)), planner.leave(at(6_200))),
        (0, None),
        "it is given back once"
    );
    let mut late = pool;
    pool.give_back(&rules, stamp(6_200), &back);
    assert_eq!(pool.lease(&rules, stamp(6_200), &request(9)).tokens, 2 * TOKEN);
    late.give_back(&rules, stamp(6_251), &back);
    assert_eq!(late.lease(&rules, stamp(6_251), &request(9)).tokens, 1_510_000, "too late");
}

/// What time brought meanwhile fills the place of what was out: it must not be there twice.
#[test]
fn an_instance_that_hoards_and_gives_back_brings_the_fleet_nothing() {
    let rules = rules(10, 50, 2);
    let stamp = |ms| Stamp::from_millis(EPOCH + ms);
    let mut pool = Pool::new(&rules, stamp(0));
    let hoarded = pool.lease(&rules, stamp(0), &request(40)).tokens;
    let back = Return { tokens: hoarded, owed: 0, until: None };
    pool.give_back(&rules, stamp(1_900), &back);
    assert_eq!(pool.lease(&rules, stamp(1_900), &request(99)).tokens, 29 * TOKEN);
}
