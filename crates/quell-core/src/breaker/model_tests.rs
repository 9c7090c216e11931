//! C11: the machine against a reference that keeps everything and looks through all of it, in every state that can be
//! reached within so many steps.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

const TICK: Duration = Duration::from_millis(4);

/// Every step brings a fresh generator, so that what is drawn is known.
fn rng() -> Rng {
    Rng::new(7)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Closed { ramp: Option<Time> },
    Open { until: Time },
    Half { good: u32, bad: u32 },
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Time,
    cycle: u32,
    /// Until when it holds a probe's slot.
    lease: Option<Time>,
    outside: bool,
    timed: bool,
}

/// The breaker as one would write it without a thought for cost.
#[derive(Debug, Clone)]
struct Model {
    spec: Spec,
    phase: Phase,
    cycle: u32,
    closed_at: Time,
    outcomes: Vec<(Time, bool)>,
    speeds: Vec<(Time, bool)>,
    calls: BTreeMap<u32, Asked>,
    next: u32,
    open_for: Duration,
    returns: u32,
    untold: Option<State>,
}

impl Model {
    fn new(spec: Spec) -> Self {
        Self {
            spec,
            phase: Phase::Closed { ramp: None },
            cycle: 0,
            closed_at: Time::ZERO,
            outcomes: vec![],
            speeds: vec![],
            calls: BTreeMap::new(),
            next: 0,
            open_for: spec.open,
            returns: 0,
            untold: None,
        }
    }

    fn too_many(&self, log: &[(Time, bool)], rate: f64, now: Time) -> bool {
        let share = |part: &[bool]| {
            let bad = part.iter().filter(|&&good| !good).count();
            bad > 0
                && part.len() >= self.spec.min_calls as usize
                && bad as f64 >= rate * part.len() as f64
        };
        let bucket =
            |at: Time| at.since(self.closed_at).as_nanos() / (self.spec.window.as_nanos() / 10);
        let recent: Vec<_> = log
            .iter()
            .filter(|(at, _)| bucket(*at) + 10 > bucket(now))
            .map(|(_, good)| *good)
            .collect();
        let last = |n: u32| -> Vec<bool> {
            log.iter().rev().take(n as usize).map(|(_, good)| *good).collect()
        };
        match self.spec.over {
            Over::Time => share(&recent),
            Over::Calls(n) => share(&last(n)),
            Over::Either(n) => share(&recent) || share(&last(n)),
            Over::Off => false,
        }
    }

    fn must_open(&self, now: Time) -> bool {
        let row = self.outcomes.iter().rev().take_while(|(_, good)| !good).count();
        self.too_many(&self.outcomes, self.spec.failure_rate, now)
            || (self.spec.consecutive > 0 && row >= self.spec.consecutive as usize)
            || (self.spec.slow.is_some() && self.too_many(&self.speeds, self.spec.slow_rate, now))
    }

    fn open(&mut self, now: Time) -> Option<State> {
        let half = self.open_for / 2;
        self.phase = Phase::Open { until: now + half + rng().up_to(half) };
        self.cycle += 1;
        Some(State::Open)
    }

    fn settle(&mut self, now: Time) {
        match self.phase {
            Phase::Open { until } if now >= until => {
                self.phase = Phase::Half { good: 0, bad: 0 };
                self.cycle += 1;
            }
            Phase::Closed { ramp: Some(from) } if now >= from + self.spec.ramp => {
                self.phase = Phase::Closed { ramp: None };
            }
            _ => {}
        }
        let (Some(slow), Phase::Closed { .. }) = (self.spec.slow, self.phase) else { return };
        let mut any = false;
        for call in self.calls.values_mut() {
            if call.cycle == self.cycle
                && !call.outside
                && !call.timed
                && now.since(call.at) >= slow
            {
                call.timed = true;
                any = true;
                self.speeds.push((now, false));
            }
        }
        if any && self.must_open(now) {
            self.untold = self.open(now);
        }
    }

    fn state(&mut self, now: Time) -> State {
        self.settle(now);
        match self.phase {
            Phase::Closed { .. } => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::Half { .. } => State::HalfOpen,
        }
    }

    fn leases(&self, now: Time) -> Vec<Time> {
        let mine = self.calls.values().filter(|call| call.cycle == self.cycle);
        mine.filter_map(|call| call.lease).filter(|&lease| lease > now).collect()
    }

    fn decide(&mut self, now: Time, first: bool) -> Result<State, (Reason, Time)> {
        let state = self.state(now);
        match self.phase {
            Phase::Closed { ramp: Some(from) } => {
                let passed = now.since(from).as_secs_f64() / self.spec.ramp.as_secs_f64();
                let goes = rng().unit() < 0.2 + 0.8 * passed;
                if goes { Ok(state) } else { Err((Reason::BreakerOpen, from + self.spec.ramp)) }
            }
            Phase::Closed { ramp: None } => Ok(state),
            Phase::Open { until } => Err((Reason::BreakerOpen, until)),
            Phase::Half { .. } if !first => Err((Reason::BreakerOpen, now + self.spec.open)),
            Phase::Half { .. } => {
                let leases = self.leases(now);
                match leases.iter().min() {
                    Some(&soonest) if leases.len() >= usize::from(self.spec.probes) => {
                        Err((Reason::ProbeLimit, soonest))
                    }
                    _ => Ok(state),
                }
            }
        }
    }

    fn ask(&mut self, now: Time, first: bool) -> Result<State, (Reason, Time)> {
        let decided = self.decide(now, first);
        let report = self.spec.mode == Mode::Report;
        if decided.is_ok() || report {
            let outside = decided.is_err();
            let probes = !outside && matches!(self.phase, Phase::Half { .. });
            let lease = probes.then(|| now + self.spec.open);
            let call = Asked { at: now, cycle: self.cycle, lease, outside, timed: false };
            self.calls.insert(self.next, call);
            self.next += 1;
        }
        if report { Ok(State::Closed) } else { decided }
    }

    fn judge(&mut self, now: Time, id: u32, good: Option<bool>) -> Option<State> {
        self.settle(now);
        let changed = self.learn(now, id, good);
        changed.or(self.untold.take()).inspect(|_| self.untold = None)
    }

    fn learn(&mut self, now: Time, id: u32, good: Option<bool>) -> Option<State> {
        let call = self.calls.get_mut(&id)?;
        if call.cycle != self.cycle || call.outside {
            return None;
        }
        call.lease = None;
        let is_slow = self.spec.slow.is_some_and(|slow| now.since(call.at) >= slow);
        let counted = core::mem::replace(&mut call.timed, true);
        let seen = good?;
        match &mut self.phase {
            Phase::Closed { .. } => {
                if !counted {
                    self.speeds.push((now, !is_slow));
                }
                self.outcomes.push((now, seen));
                if self.must_open(now) { self.open(now) } else { None }
            }
            Phase::Half { good, bad } => {
                if seen && !is_slow {
                    *good += 1
                } else {
                    *bad += 1
                }
                let (good, bad) = (*good, *bad);
                if bad >= self.spec.failures {
                    self.returns += 1;
                    if self.spec.growth > 1.0 && self.returns >= self.spec.growth_after {
                        self.open_for =
                            self.open_for.mul_f64(self.spec.growth).min(self.spec.open_max);
                    }
                    return self.open(now);
                }
                (good >= self.spec.successes).then(|| self.close(now))
            }
            Phase::Open { .. } => None,
        }
    }

    fn close(&mut self, now: Time) -> State {
        let ramp = (!self.spec.ramp.is_zero()).then_some(now);
        let calls = core::mem::take(&mut self.calls);
        let (cycle, next, untold) = (self.cycle + 1, self.next, self.untold);
        let phase = Phase::Closed { ramp };
        *self = Self { phase, cycle, calls, next, untold, closed_at: now, ..Self::new(self.spec) };
        State::Closed
    }

    fn free(&mut self, now: Time, id: u32) {
        self.settle(now);
        self.calls.remove(&id);
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Ask { first: bool },
    Judge { which: usize, good: Option<bool> },
    Free { which: usize },
    Tick,
}

#[derive(Clone)]
struct Node {
    breaker: Breaker,
    model: Model,
    /// Passes that are out, and whether they were judged.
    out: Vec<(u32, Pass, bool)>,
    now: Time,
    path: Vec<Op>,
}

impl Node {
    fn ops(&self, most: usize) -> Vec<Op> {
        let mut ops = vec![Op::Tick, Op::Ask { first: false }];
        if self.out.len() < most {
            ops.push(Op::Ask { first: true });
        }
        for (which, (_, _, judged)) in self.out.iter().enumerate() {
            ops.push(Op::Free { which });
            if !judged {
                ops.extend([Some(true), Some(false), None].map(|good| Op::Judge { which, good }));
            }
        }
        ops
    }

    fn step(&mut self, op: Op) {
        self.path.push(op);
        let (now, path) = (self.now, &self.path);
        match op {
            Op::Tick => self.now = now + TICK,
            Op::Ask { first } => {
                let ours = self.breaker.check(now, first, &mut rng());
                let ours = ours.map_err(|refusal| (refusal.reason, refusal.retry_at));
                let id = self.model.next;
                // A retry is only looked at where it is refused, or the passes would be too many.
                let mut looked = self.model.clone();
                assert_eq!(ours, looked.ask(now, first), "{path:?}");
                if first {
                    self.model = looked;
                    if ours.is_ok() {
                        self.out.push((id, self.breaker.take(now), false));
                    }
                } else {
                    let _ = self.model.decide(now, first);
                }
            }
            Op::Judge { which, good } => {
                let (id, pass, judged) = &mut self.out[which];
                *judged = true;
                let ours = self.breaker.judge(now, pass, good, &mut rng());
                assert_eq!(ours, self.model.judge(now, *id, good), "{path:?}");
            }
            Op::Free { which } => {
                let (id, pass, _) = self.out.remove(which);
                self.breaker.free(now, &pass);
                self.model.free(now, id);
            }
        }
        let (mut breaker, mut model) = (self.breaker.clone(), self.model.clone());
        assert_eq!(breaker.state(self.now), model.state(self.now), "{path:?}");
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Breaker { inner, generation, failures, in_a_row, slow, open_for, .. } = &self.breaker;
        let ours = (inner, generation, failures, in_a_row, slow, open_for, self.breaker.untold);
        format!("{ours:?} {:?} {:?} {:?}", self.model, self.out, self.now).hash(&mut hasher);
        hasher.finish()
    }
}

/// Answers how many states there are.
fn explore(spec: Spec, steps: usize, most_out: usize) -> usize {
    let breaker = Breaker::new(spec, Time::ZERO).unwrap();
    let start =
        Node { breaker, model: Model::new(spec), out: vec![], now: Time::ZERO, path: vec![] };
    let mut seen = BTreeSet::from([start.key()]);
    let mut edge = vec![start];
    for _ in 0..steps {
        let mut next = Vec::new();
        for node in edge {
            for op in node.ops(most_out) {
                let mut node = node.clone();
                node.step(op);
                if seen.insert(node.key()) {
                    next.push(node);
                }
            }
        }
        edge = next;
    }
    seen.len()
}

fn tiny() -> Spec {
    Spec {
        window: 3 * TICK,
        min_calls: 2,
        open: 2 * TICK,
        probes: 1,
        successes: 1,
        ramp: Duration::ZERO,
        ..Spec::default()
    }
}

fn check(spec: Spec) {
    let (steps, most_out) = if option_env!("QUELL_FULL").is_some() { (10, 2) } else { (9, 2) };
    let states = explore(spec, steps, most_out);
    assert!(states > 1_000, "only {states} states: the exploration does not move");
}

/// C11.
#[test]
fn every_reachable_state_of_the_default_machine_agrees_with_the_reference() {
    check(tiny());
    check(Spec { ramp: 2 * TICK, ..tiny() });
    check(Spec { probes: 2, successes: 2, ..tiny() });
}

/// C11, with what may be written besides.
#[test]
fn every_reachable_state_under_other_rules_agrees_with_the_reference() {
    check(Spec { over: Over::Calls(3), ..tiny() });
    check(Spec { over: Over::Either(2), min_calls: 1, failure_rate: 1.0, ..tiny() });
    check(Spec { over: Over::Off, consecutive: 2, ..tiny() });
    check(Spec { min_calls: 1, growth: 2.0, growth_after: 1, open_max: 3 * TICK, ..tiny() });
    check(Spec { min_calls: 1, probes: 2, failures: 2, ..tiny() });
}

/// C11, C13.
#[test]
fn every_reachable_state_with_slow_calls_agrees_with_the_reference() {
    check(Spec { slow: Some(TICK), slow_rate: 0.5, ..tiny() });
    check(Spec { slow: Some(2 * TICK), over: Over::Calls(2), min_calls: 1, ..tiny() });
}

/// C11, X10.
#[test]
fn every_reachable_state_in_report_mode_agrees_with_the_reference() {
    check(Spec { mode: Mode::Report, min_calls: 1, ..tiny() });
    check(Spec { mode: Mode::Report, min_calls: 1, slow: Some(TICK), ramp: TICK, ..tiny() });
}
