//! Sequence: what becomes of a budget when this happens, and then that.

use std::time::Duration;

use crate::config::value;
use quell::core::budget::{self, Budget};
use quell::core::{Fault, Rng, Time};
use serde::Serialize;

/// No sequence has more parts or events.
const MOST: u64 = 1_000_000;

/// What happens, and how often or how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// An attempt succeeds.
    Ok(u64),
    /// An attempt fails and asks for a retry.
    Fail(u64),
    /// Nothing does.
    Idle(Duration),
}

/// A script such as `ok*100 fail*20 idle*5s`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script(Vec<(String, Event)>);

/// What became of the budget.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Course {
    pub(super) parts: Vec<Part>,
    /// How full it was after each event, from 0 to 1.
    pub(super) levels: Vec<f64>,
}

/// One part of the script.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Part {
    pub(super) part: String,
    pub(super) asked: u64,
    pub(super) allowed: u64,
    /// Tokens afterwards; none if there is no limit.
    pub(super) level: Option<f64>,
    /// How full it is afterwards, from 0 to 1.
    pub(super) fill: f64,
}

impl std::str::FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<_>, String> = text.split_whitespace().map(part).collect();
        let parts = parts?;
        let events = parts.iter().map(|(_, event)| match event {
            Event::Ok(times) | Event::Fail(times) => *times,
            Event::Idle(_) => 1,
        });
        match events.fold(0, u64::saturating_add) {
            0 => Err("write what happens, such as \"ok*100 fail*20 idle*5s\"".to_owned()),
            1..=MOST => Ok(Self(parts)),
            _ => Err(format!("write no more than {MOST} events")),
        }
    }
}

fn part(text: &str) -> Result<(String, Event), String> {
    let (what, times) = text.split_once('*').unwrap_or((text, "1"));
    let count = || times.parse().ok().filter(|times| (1..=MOST).contains(times));
    let event = match what {
        "ok" => count().map(Event::Ok),
        "fail" => count().map(Event::Fail),
        "idle" => value::duration(times).map(Event::Idle),
        _ => None,
    };
    let event = event.ok_or_else(|| {
        format!(
            "{text:?} is none of ok*N, fail*N with N up to {MOST}, and idle*TIME, such as idle*5s"
        )
    })?;
    Ok((text.to_owned(), event))
}

impl Script {
    /// Plays it against a budget at its start, with so much time between two events.
    pub(super) fn play(
        &self,
        spec: budget::Spec,
        every: Duration,
        seed: u64,
    ) -> Result<Course, budget::Invalid> {
        let (mut now, mut rng) = (Time::ZERO, Rng::new(seed));
        let mut budget = Budget::new(spec, now)?;
        let mut course = Course { parts: Vec::new(), levels: vec![budget.fill(now)] };
        for (part, event) in &self.0 {
            let before = budget.snapshot(now);
            let (times, wait) = match *event {
                Event::Ok(times) | Event::Fail(times) => (times, every),
                Event::Idle(wait) => (1, wait),
            };
            for _ in 0..times {
                now = now + wait;
                match event {
                    Event::Ok(_) => budget.earn(now),
                    Event::Fail(_) => {
                        budget.failed(now);
                        // Sent, so what was paid is spent.
                        let _ = budget.take(now, Fault::Server, &mut rng);
                    }
                    Event::Idle(_) => {}
                }
                course.levels.push(budget.fill(now));
            }
            let after = budget.snapshot(now);
            course.parts.push(Part {
                part: part.clone(),
                asked: after.asked - before.asked,
                allowed: after.allowed - before.allowed,
                level: Some(after.level).filter(|level| level.is_finite()),
                fill: budget.fill(now),
            });
        }
        Ok(course)
    }
}

#[cfg(test)]
mod tests {
    use quell::core::budget::{Spec, tokens};

    use super::*;

    const EVERY: Duration = Duration::from_millis(10);

    fn play(text: &str, spec: impl Into<Spec>) -> Course {
        text.parse::<Script>().unwrap().play(spec.into(), EVERY, 1).unwrap()
    }

    #[test]
    fn failures_spend_what_successes_earn() {
        let ten = tokens::Spec { max: 10, ..tokens::Spec::default() };
        let course = play("ok*100 fail*20 ok*50 fail*20", ten);
        let paid: Vec<_> = course.parts.iter().map(|part| (part.asked, part.allowed)).collect();
        assert_eq!(paid, [(0, 0), (20, 10), (0, 0), (20, 5)]);
        assert_eq!(course.parts[2].level, Some(5.0));
        assert_eq!((course.levels.len(), course.levels[0], course.levels[190]), (191, 1.0, 0.0));
    }

    #[test]
    fn time_brings_what_the_budget_says_it_brings() {
        let course = play("fail*20 idle*5s", tokens::Spec::time_only());
        assert_eq!((course.parts[0].level, course.parts[1].level), (Some(0.0), Some(5.0)));
    }

    #[test]
    fn no_limit_has_no_level() {
        let course = play("fail*5", Spec::Unlimited);
        assert_eq!((course.parts[0].level, course.parts[0].allowed), (None, 5));
        assert_eq!(course.levels, [1.0; 6]);
    }

    #[test]
    fn nonsense_is_told_with_what_to_write() {
        for text in
            ["", "  ", "ok*0", "ok*-1", "fine*3", "idle*5", "ok*1000001", "ok*999999 fail*2"]
        {
            let message = text.parse::<Script>().unwrap_err();
            assert!(message.contains("ok*") || message.contains("1000000 events"), "{message}");
        }
    }
}
