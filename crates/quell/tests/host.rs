//! What a host with a sender of its own can rely on.
#![allow(clippy::unwrap_used)]

use std::{
    future::{Ready, pending, ready},
    pin::Pin,
    sync::Arc,
};

use parking_lot::Mutex;
use quell::{
    Clock, Failure, Fault, Limit, Outcome, Reason, Upstream,
    core::{
        Policy, Time, breaker,
        budget::tokens,
        spec::{PolicySpec, UpstreamSpec},
    },
    observe::{Event, Next, Observe, Tried},
    run::{self, End, Sender, Try},
    upstream::Host,
};

/// Answers with statuses from a script; 0 never answers.
struct Script {
    statuses: Vec<u16>,
    connects: bool,
    can_keep: bool,
    tried: Vec<Tried>,
}

fn script(statuses: &[u16]) -> Script {
    let statuses = statuses.iter().rev().copied().collect();
    Script { statuses, connects: true, can_keep: true, tried: Vec::new() }
}

impl Sender for Script {
    type Reply = u16;
    type Kept = u16;
    type Attempt = Pin<Box<dyn Future<Output = u16>>>;
    type Keeping = Ready<Result<u16, u16>>;

    fn send(&mut self, _: &Try) -> Self::Attempt {
        match self.statuses.pop() {
            Some(0) | None => Box::pin(pending()),
            Some(status) => Box::pin(ready(status)),
        }
    }

    fn is_sent(&self, _: &Self::Attempt) -> bool {
        self.connects
    }

    fn classify(&mut self, status: &u16) -> Outcome {
        match status {
            200 => Outcome::Success,
            code => Outcome::Failed(Failure::of(Fault::Server).with_code(*code)),
        }
    }

    fn is_repeatable(&self) -> bool {
        self.connects
    }

    fn keep(&mut self, status: u16, _: &Outcome, _: Time) -> Self::Keeping {
        ready(if self.can_keep { Ok(status) } else { Err(status) })
    }

    fn tried(&mut self, tried: &Tried, _: Option<&u16>) {
        self.tried.push(*tried);
    }
}

fn upstream(observer: Option<Arc<dyn Observe>>) -> (Upstream, Policy) {
    let policy = Policy::new(PolicySpec::strict()).unwrap();
    let spec = UpstreamSpec {
        budget: tokens::Spec { max: 1, ratio: 0.0, ..tokens::Spec::default() }.into(),
        breaker: breaker::Spec { min_calls: 100, ..breaker::Spec::default() },
        in_flight: Limit::Fixed(8),
        ..UpstreamSpec::gateway()
    };
    let host = Host { clock: Clock::tokio(), observer, seed: 1 };
    (Upstream::new("u", spec, policy.per_try(), host).unwrap(), policy)
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_kept_is_delivered_and_its_token_returned() {
    let (upstream, policy) = upstream(None);
    let mut sender = Script { can_keep: false, ..script(&[]) };
    for _ in 0..30 {
        sender.statuses.push(503);
        let guard = upstream.begin(&policy);
        let done = run::drive(guard, &mut sender).await;
        assert!(matches!(done.end, End::Reply(503)));
        assert_eq!((done.attempts, done.reason), (1, Some(Reason::NotReplayable)));
        assert_eq!(upstream.snapshot().budget, 1.0);
    }
    let end = upstream.snapshot();
    assert_eq!(end.patience, policy.per_try(), "nobody left, so nobody's patience was learned");
    assert_eq!((end.in_flight, end.ghosts), (0, 0));
}

/// Connecting took for ever: nothing was sent, so even a request that must not be repeated goes out again.
#[tokio::test(start_paused = true)]
async fn an_attempt_cut_off_while_connecting_leaves_no_ghost_and_is_safe_to_repeat() {
    let (upstream, policy) = upstream(None);
    let mut sender = Script { connects: false, ..script(&[0, 200]) };
    let guard = upstream.begin(&policy);
    let done = run::drive(guard, &mut sender).await;
    assert!(matches!(done.end, End::Reply(200)), "{done:?}");
    assert_eq!((done.attempts, upstream.snapshot().ghosts), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn without_any_reply_the_end_is_a_timeout() {
    let (upstream, policy) = upstream(None);
    let guard = upstream.begin(&policy);
    let done = run::drive(guard, &mut script(&[0, 0])).await;
    assert!(matches!(done.end, End::TimedOut { earlier: None }), "{done:?}");
    assert_eq!((done.attempts, done.reason), (2, Some(Reason::AttemptsSpent)));
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_told_with_what_followed_it() {
    let (upstream, policy) = upstream(None);
    let mut sender = script(&[503, 0]);
    let guard = upstream.begin(&policy);
    let done = run::drive(guard, &mut sender).await;
    assert!(matches!(done.end, End::Kept(503)), "{done:?}");
    let [first, second] = sender.tried[..] else { panic!("{:?}", sender.tried) };
    let Next::Retry { at } = first.next else { panic!("{first:?}") };
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(second.started >= at);
    assert_eq!(second.took(), policy.per_try());
    assert_eq!(second.next, Next::Stop(Some(Reason::AttemptsSpent)));
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>, Mutex<Option<Upstream>>);

impl Observe for Log {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        // O4: an observer may look at the upstream, because no lock is held.
        if let Some(upstream) = &*self.1.lock() {
            upstream.snapshot();
        }
        let line = match event {
            Event::Changed(change) => format!("{change:?}"),
            Event::Tried(tried) => format!("tried {}", tried.attempt),
            Event::Finished(finished) => {
                format!("{:?} after {}", finished.reason, finished.attempts)
            }
            _ => "news".to_owned(),
        };
        self.0.lock().push(format!("{upstream}: {line}"));
    }
}

/// O3, O4.
#[tokio::test(start_paused = true)]
async fn observers_hear_of_attempts_changes_and_ends_once_each_and_under_no_lock() {
    let log = Arc::new(Log::default());
    let (upstream, policy) = upstream(Some(log.clone()));
    *log.1.lock() = Some(upstream.clone());
    let begin = || upstream.begin(&policy);
    let done = run::drive(begin(), &mut script(&[503, 503])).await;
    assert_eq!(done.attempts, 2);
    let done = run::drive(begin(), &mut script(&[503])).await;
    assert_eq!(done.reason, Some(Reason::BudgetEmpty));
    drop(begin());
    let expected = [
        "u: tried 1",
        "u: tried 2",
        "u: Some(AttemptsSpent) after 2",
        "u: BudgetExhausted",
        "u: Some(BudgetEmpty) after 1",
        "u: tried 1",
        "u: Some(ClientGone) after 0",
    ];
    let mut heard = log.0.lock().clone();
    let mut expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
    heard.sort();
    expected.sort();
    assert_eq!(heard, expected);
    *log.1.lock() = None;
}
