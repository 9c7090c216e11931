//! Budgets as others have shipped them. The properties that ours pass must fail them, or they prove nothing.

use proptest::{strategy::ValueTree, test_runner::TestRunner};

use super::{
    ledger::{Act, Subject, breach},
    properties::{acts, lost},
    *,
};

/// Plain tokens, with one fault of choice.
struct Wrong {
    level: f64,
    max: f64,
    ratio: f64,
    refill: Option<Duration>,
    refilled_at: Time,
    fault: Fault,
    successes: f64,
    retries: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// The model itself: everything as it should be.
    None,
    /// Looks first and subtracts later.
    Race,
    /// A token per whole `1 / ratio` successes.
    Reciprocal,
    /// Forgets what was less than a token when it looks.
    Remainder,
    /// Counts from the beginning of time.
    Lifetime,
}

impl Wrong {
    fn new(spec: tokens::Spec, fault: Fault) -> Self {
        let max = f64::from(spec.max);
        let tokens::Spec { ratio, refill, .. } = spec;
        let level = spec.start.map_or(max, f64::from);
        let refilled_at = at(100_000);
        Self { level, max, ratio, refill, refilled_at, fault, successes: 0.0, retries: 0.0 }
    }

    fn refilled(&self, now: Time) -> f64 {
        let elapsed = now.since(self.refilled_at).as_nanos();
        let whole = self.refill.map_or(0, |every| elapsed / every.as_nanos());
        self.max.min(self.level + whole as f64)
    }

    fn may(&mut self, now: Time) -> bool {
        if let Some(every) = self.refill {
            let level = self.refilled(now);
            let whole = now.since(self.refilled_at).as_nanos() / every.as_nanos();
            self.refilled_at = match self.fault {
                Fault::Remainder => now.max(self.refilled_at),
                _ => self.refilled_at + every * whole as u32,
            };
            self.level = level;
        }
        match self.fault {
            Fault::Lifetime => self.retries + 1.0 <= self.ratio * self.successes,
            _ => self.level >= 1.0 - 1e-9,
        }
    }

    fn pay(&mut self) -> Paid {
        self.level = (self.level - 1.0).max(0.0);
        self.retries += 1.0;
        Paid::of(PRICE)
    }
}

impl Subject for Wrong {
    fn earn(&mut self, _: Time) {
        self.successes += 1.0;
        let earned = match self.fault {
            Fault::Reciprocal if self.ratio == 0.0 => 0.0,
            Fault::Reciprocal => 1.0 / (1.0 / self.ratio).floor().max(1.0),
            _ => self.ratio,
        };
        self.level = self.max.min(self.level + earned);
    }

    fn ask(&mut self, now: Time) -> Option<Paid> {
        self.may(now).then(|| self.pay())
    }

    fn ask_both(&mut self, now: Time) -> [Option<Paid>; 2] {
        if self.fault != Fault::Race {
            return [self.ask(now), self.ask(now)];
        }
        let may = [self.may(now), self.may(now)];
        may.map(|may| may.then(|| self.pay()))
    }

    fn refund(&mut self, _: Time, _: Paid) {
        self.level = self.max.min(self.level + 1.0);
        self.retries -= 1.0;
    }

    fn well(&mut self, _: Time, _: Paid) {}

    fn level(&self, now: Time) -> f64 {
        self.refilled(now)
    }
}

/// How many of some hundred random courses of events show a fault.
fn shown(back: bool, shows: impl Fn(&[Act]) -> bool) -> usize {
    let mut runner = TestRunner::deterministic();
    let strategy = acts(back);
    let mut course = || {
        use proptest::strategy::Strategy;
        strategy.new_tree(&mut runner).map(|tree| tree.current()).unwrap()
    };
    (0..500).filter(|_| shows(&course())).count()
}

fn breaches(spec: tokens::Spec, fault: Fault) -> usize {
    let mut rule = Spec::from(spec);
    if fault == Fault::Lifetime {
        let window = Duration::from_secs(2);
        rule = window::Spec { ratio: spec.ratio, window, bootstrap: 0 }.into();
    }
    shown(false, |acts| breach(&mut Wrong::new(spec, fault), rule, acts).is_some())
}

/// G1.
#[test]
fn a_race_between_looking_and_subtracting_is_caught() {
    let spec = tokens::Spec { max: 3, ratio: 0.1, ..Default::default() };
    assert!(breaches(spec, Fault::Race) > 0);
    assert_eq!(breaches(spec, Fault::None), 0, "and nothing else is");
}

/// B3.
#[test]
fn a_ratio_cut_to_a_whole_reciprocal_is_caught() {
    for ratio in [0.4, 0.6] {
        let spec = tokens::Spec { max: 1_000_000, start: Some(0), ratio, ..Default::default() };
        assert!(breaches(spec, Fault::Reciprocal) > 0, "as if more");
        assert_eq!(breaches(spec, Fault::None), 0);
        let loses =
            |fault| shown(false, |acts| lost(&mut Wrong::new(spec, fault), spec, acts).is_some());
        assert!(loses(Fault::Reciprocal) > 0);
        assert_eq!(loses(Fault::None), 0);
    }
}

#[test]
fn a_refill_that_drops_its_remainder_is_caught() {
    let refill = Some(Duration::from_millis(700));
    let spec =
        tokens::Spec { max: 1_000_000, start: Some(0), ratio: 0.5, refill, ..Default::default() };
    let loses =
        |fault| shown(false, |acts| lost(&mut Wrong::new(spec, fault), spec, acts).is_some());
    assert!(loses(Fault::Remainder) > 0);
    assert_eq!(loses(Fault::None), 0);
}

/// G2.
#[test]
fn counters_that_never_forget_are_caught() {
    let spec = tokens::Spec { ratio: 0.1, ..Default::default() };
    assert!(breaches(spec, Fault::Lifetime) > 0);
}
