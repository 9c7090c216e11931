use proptest::prelude::*;

use super::*;
use crate::Rng;

#[derive(Debug, Clone, Copy)]
enum Op {
    Ask { first: bool },
    End { which: usize, good: Option<bool> },
    Free { which: usize },
    Wait { ms: u64 },
    StepBack { ms: u64 },
    Force { mode: Mode, ms: Option<u64> },
}

fn op() -> impl Strategy<Value = Op> {
    let good = prop_oneof![2 => Just(Some(true)), 3 => Just(Some(false)), 1 => Just(None)];
    prop_oneof![
        6 => any::<bool>().prop_map(|first| Op::Ask { first }),
        6 => (any::<usize>(), good).prop_map(|(which, good)| Op::End { which, good }),
        2 => any::<usize>().prop_map(|which| Op::Free { which }),
        4 => (0u64..40).prop_map(|ms| Op::Wait { ms }),
        1 => (0u64..60).prop_map(|ms| Op::StepBack { ms }),
        1 => (mode(), proptest::option::of(0u64..50)).prop_map(|(mode, ms)| Op::Force { mode, ms }),
    ]
}

pub(super) fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        4 => Just(Mode::Enforce),
        2 => Just(Mode::Report),
        1 => Just(Mode::Disabled),
        1 => Just(Mode::ForcedOpen),
        1 => Just(Mode::ForcedClosed),
    ]
}

pub(super) fn spec() -> impl Strategy<Value = Spec> {
    let ms = |range: core::ops::Range<u64>| range.prop_map(Duration::from_millis);
    let over = prop_oneof![
        Just(Over::Time),
        (4u32..20).prop_map(Over::Calls),
        (4u32..20).prop_map(Over::Either)
    ];
    let rules = (over, 1u32..5, 1u32..=10, proptest::option::of(ms(1..50)), 0u32..4);
    let back = (ms(1..40), 1u32..=3, 1u32..4, 1u8..4, 1u32..4, 1u32..3, ms(0..20));
    (rules, back, mode()).prop_map(|(rules, back, mode)| {
        let (over, min_calls, tenths, slow, consecutive) = rules;
        let (open, growth, growth_after, probes, successes, failures, ramp) = back;
        Spec {
            mode,
            over,
            window: Duration::from_millis(30),
            min_calls,
            failure_rate: f64::from(tenths) / 10.0,
            slow,
            consecutive,
            open,
            growth: f64::from(growth),
            growth_after,
            open_max: Duration::from_millis(100),
            probes,
            successes,
            failures,
            ramp,
            ..Spec::default()
        }
    })
}

/// Everything that decides, without what was drawn ahead.
fn evidence(breaker: &Breaker) -> String {
    let Breaker { inner, generation, failures, in_a_row, slow, open_for, .. } = breaker;
    format!("{inner:?} {generation} {failures:?} {in_a_row} {slow:?} {open_for:?}")
}

/// Slots that are taken and have not run out.
fn out(breaker: &Breaker, now: Time) -> usize {
    match &breaker.inner {
        Inner::HalfOpen(probes) => probes.out(now),
        _ => 0,
    }
}

struct Sent {
    pass: Pass,
    /// The end of its lease, if it is a probe.
    lease: Option<Time>,
    ended: bool,
}

struct Run {
    breaker: Breaker,
    rng: Rng,
    now: Time,
    stepped: bool,
    sent: Vec<Sent>,
}

impl Run {
    fn ask(&mut self, first: bool) {
        let (now, breaker) = (self.now, &mut self.breaker);
        let (state, mode) = (breaker.state(now), breaker.mode(now));
        let ramps = matches!(breaker.inner, Inner::Closed { ramp_from: Some(_) });
        let answer = breaker.check(now, first, &mut self.rng);
        // Without a call that became slow in between, looking twice is the same: shown is applied.
        match (mode, state, &answer) {
            (Mode::Report | Mode::Disabled | Mode::ForcedClosed, _, answer) => {
                assert_eq!(*answer, Ok(State::Closed), "{mode:?} never refuses");
            }
            (_, State::Closed, Ok(State::Closed)) => {}
            (_, State::Closed, Err(refusal)) => {
                assert!(ramps && refusal.reason == Reason::BreakerOpen);
            }
            (_, State::Open, Err(refusal)) => assert_eq!(refusal.reason, Reason::BreakerOpen),
            (_, State::HalfOpen, Ok(State::HalfOpen)) => assert!(first),
            (_, State::HalfOpen, Err(refusal)) => {
                assert_eq!(refusal.reason == Reason::ProbeLimit, first);
            }
            (mode, state, answer) => panic!("{mode:?} {state:?} answered {answer:?}"),
        }
        if let Err(refusal) = answer {
            assert!(refusal.retry_at >= now || self.stepped, "come back in the past");
            return;
        }
        let pass = breaker.take(now);
        let lease = (answer == Ok(State::HalfOpen)).then(|| now + breaker.spec.open);
        self.sent.push(Sent { pass, lease, ended: false });
        let probes = usize::from(breaker.spec.probes);
        assert!(out(breaker, now) <= probes);
        let mine = |sent: &&Sent| {
            !sent.ended
                && sent.pass.generation == breaker.generation
                && sent.lease.is_some_and(|lease| lease > now)
        };
        assert!(self.stepped || self.sent.iter().filter(mine).count() <= probes);
    }

    /// C3: what belongs to another generation changes nothing.
    fn end(&mut self, which: usize, good: Option<bool>, judges: bool) {
        let Some(index) = which.checked_rem(self.sent.len()) else { return };
        let (now, breaker) = (self.now, &mut self.breaker);
        let shown = breaker.state(now);
        let sent = &mut self.sent[index];
        let late = sent.pass.generation != breaker.generation || sent.pass.slot == OUTSIDE;
        let before = evidence(breaker);
        if judges && !sent.ended {
            let untold = breaker.untold;
            let changed = breaker.judge(now, &sent.pass, good, &mut self.rng);
            let is = breaker.state(now);
            assert!(changed == untold || changed == Some(is), "{changed:?}, is {is:?}");
            assert!(is == shown || changed == Some(is), "changed and told nobody");
            sent.ended = true;
        } else {
            let sent = self.sent.swap_remove(index);
            breaker.free(now, &sent.pass);
        }
        if late {
            assert_eq!(evidence(&self.breaker), before);
        }
    }

    /// T1: a clock that steps back undoes nothing.
    fn step_back(&mut self, by: Duration) {
        let shown = (self.breaker.state(self.now), self.breaker.generation);
        self.now = Time::from_nanos(self.now.nanos_since(Time::ZERO + by));
        assert_eq!((self.breaker.state(self.now), self.breaker.generation), shown);
        self.stepped = true;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// C3, C4, C10, T1, X10: whatever happens in whatever order, under any rules and modes, on a clock that steps back:
    /// no more probes are out than allowed, late outcomes change nothing, what is shown is what is applied, and only who
    /// may refuse does.
    #[test]
    fn whatever_happens_the_promises_hold(spec in spec(), ops in prop::collection::vec(op(), 1..120)) {
        let breaker = Breaker::new(spec, Time::ZERO).unwrap();
        let mut run = Run { breaker, rng: Rng::new(1), now: Time::ZERO, stepped: false, sent: vec![] };
        for op in ops {
            match op {
                Op::Ask { first } => run.ask(first),
                Op::End { which, good } => run.end(which, good, true),
                Op::Free { which } => run.end(which, None, false),
                Op::Wait { ms } => run.now = run.now + Duration::from_millis(ms),
                Op::StepBack { ms } => run.step_back(Duration::from_millis(ms)),
                Op::Force { mode, ms } => {
                    let until = ms.map(|ms| run.now + Duration::from_millis(ms));
                    run.breaker.set_mode(run.now, mode, until);
                }
            }
        }
    }
}
