use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn limiter(per_second: f64, burst: u32) -> Limiter {
    Limiter::new(Spec { per_second, burst }, Time::ZERO).unwrap()
}

/// What a limiter is to those who ask it.
trait Limit {
    fn passes(&mut self, now: Time, cost: u32) -> bool;
}

impl Limit for Limiter {
    fn passes(&mut self, now: Time, cost: u32) -> bool {
        self.take(now, cost).is_ok()
    }
}

/// Wrong on purpose: it adds whole tokens, and forgets the rest of the time that brought them.
struct Forgetful {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Time,
}

impl Limit for Forgetful {
    fn passes(&mut self, now: Time, cost: u32) -> bool {
        let brought = now.since(self.at).as_secs_f64() * self.per_second;
        if brought >= 1.0 {
            self.tokens = self.burst.min(self.tokens + brought.floor());
            self.at = now;
        }
        let passes = self.tokens >= f64::from(cost);
        self.tokens -= if passes { f64::from(cost) } else { 0.0 };
        passes
    }
}

/// Wrong on purpose: it pays out everything that time has brought, however long nobody looked.
struct Bottomless(f64, Time, f64);

impl Limit for Bottomless {
    fn passes(&mut self, now: Time, cost: u32) -> bool {
        self.0 += now.since(self.1).as_secs_f64() * self.2;
        self.1 = now;
        let passes = self.0 >= f64::from(cost);
        self.0 -= if passes { f64::from(cost) } else { 0.0 };
        passes
    }
}

/// Whether somebody who asks every `every` nanoseconds gets what was promised, to the token.
fn keeps_the_rate(limit: &mut impl Limit, spec: Spec, every: u64) -> Result<(), String> {
    let asked = 20_000;
    let got = (0..asked).filter(|i| limit.passes(at(i * every), 1)).count() as u64;
    let last = (asked - 1) * every;
    let per_nano = (spec.per_second * 1e6).round() as u128;
    let brought = (u128::from(last) * per_nano / TOKEN) as u64;
    // Whoever asks less often than tokens come loses those beyond the burst, and nobody gets more than one per ask.
    let promised = asked.min(u64::from(spec.burst) + brought);
    if got == promised { Ok(()) } else { Err(format!("{got} passed and {promised} should have")) }
}

/// B3.
#[test]
fn over_the_long_run_every_rate_is_exact_to_the_token() {
    for per_second in [0.1, 1.0, 3.0, 7.0, 333.333_333, 1_000.0, 12_345.678_9, 700_000.0] {
        let spec = Spec { per_second, burst: 5 };
        // Three asks for every token that comes: never does one wait unseen for long.
        let every = (SECOND as f64 / per_second / 3.1) as u64;
        let mut limiter = Limiter::new(spec, Time::ZERO).unwrap();
        assert_eq!(keeps_the_rate(&mut limiter, spec, every), Ok(()), "{per_second}/s");
    }
}

/// B3, the other way round.
#[test]
fn a_limiter_that_loses_the_remainder_of_a_refill_would_be_noticed() {
    let spec = Spec { per_second: 1_000.0, burst: 5 };
    let mut forgetful = Forgetful { per_second: 1_000.0, burst: 5.0, tokens: 5.0, at: Time::ZERO };
    assert!(keeps_the_rate(&mut forgetful, spec, SECOND / 3_100).is_err());
}

/// G9, T5.
#[test]
fn thirty_idle_days_bring_one_burst_and_no_more() {
    let mut limiter = limiter(1_000.0, 100);
    assert_eq!(limiter.take(Time::ZERO, 100), Ok(()));
    let later = at(30 * 86_400 * SECOND);
    let passed = (0..1_000).filter(|_| limiter.passes(later, 1)).count();
    assert_eq!(passed, 100);
    assert_eq!(limiter.status(later).tokens, 0);
}

/// T1, T2.
#[test]
fn a_clock_that_steps_back_brings_no_time_twice_and_takes_no_token_away() {
    let (mut limiter, hour) = (limiter(1.0, 10), 3_600 * SECOND);
    assert_eq!(limiter.take(at(hour), 1), Ok(()));
    assert_eq!(limiter.status(Time::ZERO).tokens, 9);
    assert_eq!(limiter.take(Time::ZERO, 9), Ok(()));
    assert_eq!(limiter.take(at(hour), 1), Err(Refused::Until(at(hour + SECOND))));
}

#[test]
fn what_can_never_pass_is_not_promised_for_later() {
    let mut limiter = limiter(10.0, 5);
    assert_eq!(limiter.check(Time::ZERO, 6), Err(Refused::TooLarge));
    assert_eq!(limiter.take(Time::ZERO, u32::MAX), Err(Refused::TooLarge));
    assert_eq!(Refused::TooLarge.retry_at(), Time::MAX);
    assert_eq!(limiter.take(Time::ZERO, 5), Ok(()), "a refusal takes nothing");
}

#[test]
fn what_is_given_back_can_be_taken_again_and_never_overfills() {
    let mut limiter = limiter(1.0, 5);
    assert_eq!(limiter.take(Time::ZERO, 5), Ok(()));
    limiter.give_back(2);
    assert_eq!(limiter.status(Time::ZERO).tokens, 2);
    limiter.give_back(u32::MAX);
    assert_eq!(limiter.status(Time::ZERO).tokens, 5);
}

#[test]
fn the_status_says_what_is_there_and_when_more_will_be() {
    let mut limiter = limiter(4.0, 10);
    let full = limiter.status(at(7));
    assert_eq!((full.tokens, full.capacity, full.per_second), (10, 10, 4.0));
    assert_eq!((full.next, full.reset), (at(7), at(7)));
    assert_eq!(limiter.take(Time::ZERO, 8), Ok(()));
    let quarter = SECOND / 4;
    let status = limiter.status(at(quarter + 1));
    assert_eq!((status.tokens, status.next, status.reset), (3, at(2 * quarter), at(8 * quarter)));
}

/// X9.
#[test]
fn a_new_spec_keeps_the_tokens_and_brings_no_new_burst() {
    let (mut limiter, now) = (limiter(1.0, 100), at(5 * SECOND));
    assert_eq!(limiter.take(Time::ZERO, 90), Ok(()));
    limiter.adopt(Limiter::new(Spec { per_second: 1_000.0, burst: 1_000 }, now).unwrap(), now);
    assert_eq!(limiter.status(now).tokens, 15);
    limiter.adopt(Limiter::new(Spec { per_second: 1.0, burst: 10 }, now).unwrap(), now);
    assert_eq!(limiter.status(now).tokens, 10);
}

/// T4.
#[test]
fn the_ends_of_time_and_of_every_field_break_nothing() {
    for (per_second, burst) in [(1e-6, u32::MAX), (1e9, u32::MAX), (1e-6, 1), (1e9, 1)] {
        let mut limiter = limiter(per_second, burst);
        assert_eq!(limiter.take(Time::ZERO, burst), Ok(()));
        let refused = limiter.check(Time::ZERO, burst).unwrap_err();
        assert!(refused.retry_at() > Time::ZERO);
        assert!(limiter.status(Time::ZERO).reset > Time::ZERO);
        assert_eq!(limiter.status(Time::MAX).reset, Time::MAX);
        assert!(limiter.check(Time::MAX, burst.min(1_000)).is_ok());
    }
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let rates = [0.0, -1.0, 1e-7, 2e9, f64::NAN, f64::INFINITY].map(|rate| (rate, 1));
    for (per_second, burst) in rates.into_iter().chain([(1.0, 0)]) {
        let error = Limiter::new(Spec { per_second, burst }, Time::ZERO).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("rate_limit.") && message.contains("write"), "{message}");
    }
}

/// Asks of any cost, any time apart, with a clock that now and then steps back.
fn asks() -> impl Strategy<Value = Vec<(i64, u32)>> {
    let second = SECOND as i64;
    let step = prop_oneof![
        8 => 0..second / 100,
        2 => 0..second * 10,
        1 => Just(0),
        1 => -second..0,
        1 => Just(30 * 86_400 * second),
    ];
    prop::collection::vec((step, 0..6_u32), 1..120)
}

/// Whether what passed in every window is at most the burst and what the window's length brings.
fn stays_within_every_window(
    limit: &mut impl Limit,
    spec: Spec,
    asks: &[(i64, u32)],
) -> Result<(), String> {
    let per_nano = (spec.per_second * 1e6).round() as u128;
    let (mut now, mut latest, mut passed) = (0_u64, 0, Vec::new());
    for &(step, cost) in asks {
        now = now.saturating_add_signed(step);
        if limit.passes(at(now), cost) {
            latest = latest.max(now); // where the clock steps back, no time passes
            passed.push((latest, cost));
        }
    }
    for from in 0..passed.len() {
        let mut sum = 0;
        for (to, cost) in &passed[from..] {
            sum += u128::from(*cost);
            let length = u128::from(to - passed[from].0);
            if sum * TOKEN > u128::from(spec.burst) * TOKEN + length * per_nano {
                return Err(format!("{sum} within {length} ns"));
            }
        }
    }
    Ok(())
}

/// T5, the other way round.
#[test]
fn a_limiter_that_pays_out_a_long_sleep_at_once_would_be_noticed() {
    let spec = Spec { per_second: 10.0, burst: 3 };
    let hour = 3_600 * SECOND as i64;
    let asks: Vec<_> = (0..20).map(|i| (if i == 10 { hour } else { 0 }, 1)).collect();
    let mut bottomless = Bottomless(3.0, Time::ZERO, 10.0);
    assert!(stays_within_every_window(&mut bottomless, spec, &asks).is_err());
    let mut limiter = Limiter::new(spec, Time::ZERO).unwrap();
    assert_eq!(stays_within_every_window(&mut limiter, spec, &asks), Ok(()));
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let rate = prop_oneof![0.001..10.0, 10.0..1e4, 1e4..1e9];
    (rate, 1..50_u32).prop_map(|(per_second, burst)| Spec { per_second, burst })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// T1, T2, T5.
    #[test]
    fn no_window_lets_more_pass_than_the_burst_and_its_length(spec in any_spec(), asks in asks()) {
        let mut limiter = Limiter::new(spec, Time::ZERO).unwrap();
        prop_assert_eq!(stays_within_every_window(&mut limiter, spec, &asks), Ok(()));
    }

    #[test]
    fn the_promised_instant_is_exact_to_the_nanosecond(spec in any_spec(), asks in asks()) {
        let (mut limiter, mut now) = (Limiter::new(spec, Time::ZERO).unwrap(), 0_u64);
        for (step, cost) in asks {
            now = now.saturating_add_signed(step);
            let looked = limiter.check(at(now), cost);
            prop_assert_eq!(limiter.take(at(now), cost), looked);
            match looked {
                Ok(()) => {}
                Err(Refused::TooLarge) => prop_assert!(cost > spec.burst),
                Err(Refused::Until(when)) => {
                    prop_assert!(when > at(now));
                    prop_assert_eq!(limiter.check(when, cost), Ok(()));
                    let before = at(when.as_nanos() - 1);
                    prop_assert_eq!(limiter.check(before, cost), Err(Refused::Until(when)));
                }
            }
        }
    }

    /// Who hands back what was not sent is never better off than who never asked.
    #[test]
    fn giving_back_is_at_most_as_good_as_never_having_taken(
        spec in any_spec(),
        asks in asks(),
        kept in 1..4_usize,
    ) {
        let mut honest = Limiter::new(spec, Time::ZERO).unwrap();
        let mut giver = Limiter::new(spec, Time::ZERO).unwrap();
        let mut now = 0_u64;
        for (i, (step, cost)) in asks.into_iter().enumerate() {
            now = now.saturating_add_signed(step.max(0));
            if i % kept == 0 {
                if giver.take(at(now), cost).is_ok() {
                    prop_assert_eq!(honest.take(at(now), cost), Ok(()));
                }
            } else if giver.take(at(now), cost).is_ok() {
                now += 1_000;
                giver.give_back(cost);
            }
            prop_assert!(giver.status(at(now)).tokens <= honest.status(at(now)).tokens);
        }
    }
}
