//! The ledger: what callers saw, what the gateway counted and what reached the origin must be one story.

use std::collections::BTreeMap;

use super::caller::{Got, Seen};
use super::origin::{Arrival, Log};
use super::plan::{ATTEMPTS, Act, How, Plan, Point};
use crate::kit::scrape::Scrape;

/// Tokens that the tested budget starts with, and what a success earns.
pub(super) const START: f64 = 5_000.0;
pub(super) const RATIO: f64 = 0.1;

/// What is answered when no attempt could be sent.
const UNSENT: u16 = 502;

/// See the [module](self).
pub(super) struct Ledger<'a> {
    pub(super) plans: &'a [Plan],
    pub(super) seen: &'a [Seen],
    pub(super) log: &'a Log,
    pub(super) scrape: &'a Scrape,
    /// Whether nothing but the attempts themselves ends a request: no limit is in the way.
    pub(super) unhindered: bool,
    /// Whether the origin knows which attempt it is that arrives.
    pub(super) numbered: bool,
    /// A request beside the plans that was answered well, after so many attempts.
    pub(super) control: Option<usize>,
}

/// Collects what does not fit.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    fn equal(&mut self, what: &str, counted: usize, told: usize) {
        self.unless(counted == told, || format!("{what}: {counted} counted, and {told} it was"));
    }
}

/// Something that was counted as one of a few words.
#[derive(Default)]
struct Words(BTreeMap<&'static str, (usize, usize)>);

impl Words {
    fn add(&mut self, words: &[&'static str]) {
        for word in words {
            let (least, most) = self.0.entry(word).or_default();
            *least += usize::from(words.len() == 1);
            *most += 1;
        }
    }

    fn check(&self, what: &str, count: impl Fn(&str) -> usize, problems: &mut Problems) {
        for (word, (least, most)) in &self.0 {
            let counted = count(word);
            problems.unless((*least..=*most).contains(&counted), || {
                format!("{what} {word}: {counted} counted, and {least} to {most} there were")
            });
        }
    }
}

impl Ledger<'_> {
    /// All that does not fit.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Problems(self.log.wrong.clone());
        for (plan, seen) in self.plans.iter().zip(self.seen) {
            let arrivals: Vec<_> = self.arrivals(plan).collect();
            for what in self.story(plan, &arrivals, seen).0 {
                problems.0.push(format!("{what}: {plan:?}, {arrivals:?}, {}", short(seen)));
            }
        }
        self.requests(&mut problems);
        self.attempts(&mut problems);
        problems.0
    }

    fn arrivals(&self, plan: &Plan) -> impl Iterator<Item = Arrival> {
        self.log.arrivals.iter().filter(|arrival| arrival.id == plan.id).copied()
    }

    /// One request's.
    fn story(&self, plan: &Plan, arrivals: &[Arrival], seen: &Seen) -> Problems {
        let mut problems = Problems::default();
        let rising = arrivals.windows(2).all(|two| two[0].attempt < two[1].attempt);
        problems.unless(rising, || "an attempt reached the origin twice".into());
        for earlier in arrivals.iter().rev().skip(1) {
            problems.unless(earlier.act.is_retryable(), || "retried after a reply went out".into());
            let safe = plan.is_repeatable() || earlier.act.is_unprocessed();
            problems.unless(safe, || "what may not be repeated was".into());
            problems.unless(!plan.is_streamed(), || "what cannot be repeated was".into());
        }
        let last = arrivals.last();
        let Seen::Reply { status, attempts, stop, got } = seen else {
            // A reply whose body breaks off at once may break off before its head is out.
            let broke = |last: &Arrival| !self.numbered && last.act.status().is_some();
            if let Seen::Nothing(error) = seen
                && !last.is_some_and(broke)
            {
                problems.0.push(format!("the caller saw nothing but {error}"));
            }
            return problems;
        };
        let reached = last.map_or(0, |last| last.attempt);
        problems.unless(*attempts <= ATTEMPTS, || "more attempts than there may be".into());
        if *attempts == 0 {
            let refused = !self.unhindered && stop.is_some();
            problems.unless(refused || *status == UNSENT, || "refused without need".into());
            return problems;
        }
        let spent = stop.as_deref() == Some("attempts_spent");
        let all = reached == *attempts
            && arrivals.len() == reached as usize
            && (!spent || reached == ATTEMPTS);
        // Else some never arrived, and callers are told of those only that were sent.
        let Some(Arrival { act: end, .. }) = last.copied().filter(|_| all) else { return problems };
        let over = !end.is_retryable();
        let may = plan.is_repeatable() && plan.is_replayable() && *attempts < ATTEMPTS;
        problems.unless(over || !may || !self.unhindered, || "given up too early".into());
        problems.unless(stop.is_some() != (*status == 200), || "no word on why it ended".into());
        self.reply(plan, arrivals, end, (*status, got), &mut problems);
        problems
    }

    /// P5: the last real reply is what the caller gets.
    fn reply(
        &self,
        plan: &Plan,
        arrivals: &[Arrival],
        end: Act,
        (status, got): (u16, &Got),
        problems: &mut Problems,
    ) {
        let real = match end.status() {
            Some(_) => arrivals.last(),
            None => arrivals
                .iter()
                .rev()
                .find(|arrival| arrival.act.status().is_some() && !arrival.act.breaks_body()),
        };
        let Some(real) = real else {
            let whole = matches!(got, Got::Unread)
                || matches!(got, Got::Whole(text) if text.starts_with(b"{\"error\"") || plan.method == "HEAD");
            // A retry that was refused where there was no reply to give instead.
            let refused = status == 503 && !self.unhindered;
            let ours = [502, 504].contains(&status) || refused;
            problems.unless(ours && whole, || "no word of ours".into());
            return;
        };
        // One whose body broke off while it was kept takes the place of the one before it, and of its own.
        let broke = arrivals.iter().any(|later| {
            (later.attempt > real.attempt || !self.unhindered)
                && matches!(later.act, Act::CutError(How::Reset | How::Close))
        });
        if broke && status == 502 {
            return;
        }
        problems.unless(real.act.status() == Some(status), || "another status".into());
        let expected = if plan.method == "HEAD" { Vec::new() } else { real.text() };
        match got {
            Got::Whole(text) => {
                problems.unless(!real.act.breaks_body(), || "a part taken for the whole".into());
                problems
                    .unless(*text == expected, || format!("another body: {} bytes", text.len()));
            }
            Got::Broken => {
                problems.unless(real.act.breaks_body(), || "a whole reply was cut".into());
            }
            Got::Unread => {}
        }
    }

    fn requests(&self, problems: &mut Problems) {
        let mut verdicts = Words::default();
        let (mut refused, mut ended) =
            (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
        for seen in self.seen {
            if let Seen::Reply { stop: Some(reason), .. } = seen {
                *ended.entry(reason.as_str()).or_default() += 1;
            }
            verdicts.add(match seen {
                Seen::Left => &["abandoned"],
                Seen::Reply { attempts: 0, stop, status, .. } if *status != UNSENT => {
                    *refused.entry(stop.as_deref().unwrap_or("")).or_default() += 1;
                    &["refused"]
                }
                Seen::Nothing(_) => &["success", "failed"],
                Seen::Reply { status: 200, .. } => &["success"],
                seen if is_stalled(seen) => &["abandoned"],
                Seen::Reply { status: 408 | 429, .. } => &["rejected", "failed"],
                Seen::Reply { status: 503, .. } if !self.unhindered => &["failed", "refused"],
                Seen::Reply { status: 400..500, .. } => &["rejected"],
                _ => &["failed"],
            });
        }
        self.control.iter().for_each(|_| verdicts.add(&["success"]));
        let count = |labels: &[(&str, &str)]| self.scrape.count("quell_requests_total", labels);
        verdicts.check("requests", |word| count(&[("outcome", word)]), problems);
        problems.equal(
            "requests",
            count(&[]),
            self.seen.len() + usize::from(self.control.is_some()),
        );
        // O3: each refusal once, under the reason that its caller was told. A retry that is denied after an attempt that
        // could not be sent looks like one, and is counted as what it is; who left was told nothing.
        let unsent = self.scrape.count("quell_attempts_total", &[("result", "connect")]);
        let untold = self.seen.iter().filter(|seen| !matches!(seen, Seen::Reply { .. })).count();
        for (reason, told) in &refused {
            let count = |name| self.scrape.count(name, &[("reason", reason)]);
            let counted = count("quell_refusals_total");
            problems.unless((told.saturating_sub(unsent)..=*told).contains(&counted), || {
                format!(
                    "refusals for {reason}: {counted} counted, and {told} it was, {unsent} unsent"
                )
            });
            let (counted, told) = (counted + count("quell_retries_denied_total"), ended[reason]);
            problems.unless((told..=told + untold).contains(&counted), || {
                format!("ends for {reason}: {counted} counted, and {told} it was, {untold} untold")
            });
        }
        let counted = self.scrape.count("quell_refusals_total", &[]);
        let told: usize = refused.values().sum();
        problems.unless((told.saturating_sub(unsent)..=told).contains(&counted), || {
            let by_reason = self.scrape.lines("quell_refusals_total");
            format!(
                "refusals: {counted} counted, and {told} it was, {untold} untold: {refused:?}\n{by_reason}"
            )
        });
    }

    fn attempts(&self, problems: &mut Problems) {
        let mut results = Words::default();
        for plan in self.plans {
            let left = matches!(self.seen[plan.id], Seen::Left);
            let arrivals: Vec<_> = self.arrivals(plan).collect();
            for (nth, arrival) in arrivals.iter().enumerate() {
                let abandoned = left && nth + 1 == arrivals.len();
                results.add(if abandoned { &["abandoned"] } else { arrival.act.results() });
            }
        }
        let mut stalled = self.seen.iter().filter(|seen| is_stalled(seen)).count();
        for how in &self.log.killed {
            let is_callers = *how == How::Hang && stalled > 0;
            stalled -= usize::from(is_callers);
            let act = Act::Cut(Point::Accept, *how);
            results.add(if is_callers { &["abandoned"] } else { act.results() });
        }
        self.control.iter().for_each(|_| results.add(&["success"]));
        let count = |labels: &[(&str, &str)]| self.scrape.count("quell_attempts_total", labels);
        // Some of those that were overlooked have been abandoned: what is known are the others.
        (0..self.log.overlooked)
            .for_each(|_| results.add(&["connect", "broken", "timeout", "abandoned"]));
        results.check("attempts", |word| count(&[("result", word)]), problems);

        let Log { arrivals, killed, overlooked, .. } = self.log;
        let control = usize::from(self.control.is_some());
        let arrived = arrivals.len() + killed.len() + overlooked + control;
        problems.equal("attempts, by the origin", count(&[]), arrived);
        let (mut least, mut most) = (self.control.unwrap_or(0), self.control.unwrap_or(0));
        for plan in self.plans {
            let (told, at_most) = match &self.seen[plan.id] {
                Seen::Reply { attempts, .. } => (*attempts, *attempts),
                // Nobody was told; some before the last may have died with a fresh connection.
                _ => {
                    let last = self.arrivals(plan).last().map_or(0, |last| last.attempt);
                    (self.arrivals(plan).count() as u32, last)
                }
            };
            least += told as usize;
            most += at_most as usize;
        }
        // Callers are told of those that were sent.
        let sent = count(&[]) - count(&[("result", "connect")]);
        problems.unless(!self.numbered || (least..=most).contains(&sent), || {
            format!("attempts: {sent} counted as sent, and callers saw {least} to {most}")
        });
        if self.numbered {
            let connects = self.scrape.count("quell_upstream_connects_total", &[]);
            problems.equal("connections", connects, self.log.accepted as usize);
        }

        // What was paid is what was sent: nothing is paid twice, and nothing is free.
        let (retries, good) = (count(&[("kind", "retry")]), count(&[("result", "success")]));
        let level = self.scrape.sum("quell_retry_budget_tokens", &[]);
        let expected = START - retries as f64 + RATIO * good as f64;
        problems.unless(!self.unhindered || (level - expected).abs() < 1e-6, || {
            format!("the budget has {level} tokens, and {expected} are left of it")
        });
    }
}

/// Whether a caller that stops in the middle of its body was told so: one whose attempt nobody read, or it would have left.
fn is_stalled(seen: &Seen) -> bool {
    matches!(seen, Seen::Reply { status: 408, stop: None, .. })
}

fn short(seen: &Seen) -> String {
    match seen {
        Seen::Reply { status, attempts, stop, got } => {
            let got = match got {
                Got::Whole(text) => {
                    format!("{:?}", String::from_utf8_lossy(&text[..text.len().min(80)]))
                }
                other => format!("{other:?}"),
            };
            format!("{status} after {attempts}, {stop:?}, {got}")
        }
        other => format!("{other:?}"),
    }
}
