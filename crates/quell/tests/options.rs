//! What can be said of a single call.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use quell::{
    Builder, Cause, Clock, Failure, Fault, Outcome, Problem, Quell, Reason,
    core::{backoff, breaker, budget, limiter},
};

const SECOND: Duration = Duration::from_secs(1);

fn upstream() -> Builder {
    Quell::upstream("payments").idempotent().clock(Clock::manual()).seed(1)
}

fn elapsed(quell: &Quell) -> Duration {
    quell.shared().clock().now().since(quell::core::Time::ZERO)
}

#[test]
fn an_answer_says_how_many_attempts_it_took_and_how_long() {
    let quell = upstream().build().unwrap();
    let call = quell.call_blocking(|attempt| if attempt.number() < 3 { Err("no") } else { Ok(7) });
    let answer = call.wait_counted().unwrap();
    assert_eq!((answer.value, answer.attempts, answer.reason), (7, 3, None));
    assert_eq!(answer.elapsed, elapsed(&quell));
}

#[test]
fn a_calls_own_deadline_only_ever_shortens_the_policys() {
    let wait = backoff::Spec { base: 4 * SECOND, cap: 4 * SECOND, ..backoff::Spec::default() };
    let wait = backoff::Spec { jitter: backoff::Jitter::None, ..wait };
    let quell = upstream().backoff(wait).timeout(10 * SECOND).attempts(10).build().unwrap();
    let attempts = |within| {
        let call = quell.call_blocking(|_| Err::<(), _>("no")).deadline(within);
        let error = call.wait().unwrap_err();
        (error.attempts(), error.reason())
    };
    assert_eq!(attempts(5 * SECOND), (2, Reason::Deadline));
    assert_eq!(attempts(100 * SECOND), (3, Reason::Deadline));
    assert_eq!(attempts(Duration::MAX), (3, Reason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_cut_off_at_the_calls_own_deadline() {
    let quell = Quell::upstream("payments").clock(Clock::tokio()).build().unwrap();
    let call = quell.call(async |attempt| {
        assert_eq!(attempt.timeout(), SECOND);
        std::future::pending::<Result<(), String>>().await
    });
    let error = call.deadline(SECOND).await.unwrap_err();
    assert!(matches!(error.cause(), Cause::TimedOut));
    assert_eq!(error.elapsed(), SECOND);
}

/// H5.
#[test]
fn a_given_key_is_on_every_attempt_and_makes_repeatable_only_what_reads_it() {
    let quell = Quell::upstream("payments").clock(Clock::manual()).build().unwrap();
    let mut keys = Vec::new();
    let call = quell.call_blocking(|attempt| {
        keys.push(attempt.key().to_owned());
        Err::<(), _>("reset")
    });
    assert_eq!(call.key("order-17").wait().unwrap_err().attempts(), 3);
    assert_eq!(keys, ["order-17"; 3]);
    let unread = quell.call_blocking(|_| Err::<(), _>("reset")).key("order-17").wait();
    assert_eq!(unread.unwrap_err().reason(), Reason::NotSafe);
}

#[test]
fn retry_if_decides_on_failures_and_leaves_the_breaker_its_own_reading() {
    let quell = upstream().breaker(breaker::Spec { min_calls: 2, ..Default::default() });
    let quell = quell.build().unwrap();
    let call = |worth: bool| {
        let call = quell.call_blocking(|_| Err::<(), _>("declined")).retry_if(move |_| worth);
        let error = call.wait().unwrap_err();
        (error.attempts(), error.reason())
    };
    assert_eq!(call(false), (1, Reason::NotRetryable));
    assert_eq!(call(true), (1, Reason::BreakerOpen), "both counted as failures");
}

#[test]
fn a_backoff_of_ones_own_is_waited_and_a_hint_still_comes_first() {
    let quell = upstream().attempts(4).build().unwrap();
    let mut delays = Vec::new();
    let call = quell.call_blocking(|_| Err::<(), _>("no")).backoff(|attempt| SECOND * attempt);
    call.on_retry(|retry| delays.push(retry.delay)).wait().unwrap_err();
    assert_eq!(delays, [SECOND, 2 * SECOND, 3 * SECOND]);

    let before = elapsed(&quell);
    let hinted = Outcome::Failed(Failure::of(Fault::Overload).with_hint(5 * SECOND));
    let call = quell.call_blocking(|_| Err::<(), _>("busy")).backoff(|_| Duration::ZERO);
    call.classify(move |_| hinted).wait().unwrap_err();
    assert!(elapsed(&quell) - before >= 15 * SECOND, "three retries after five seconds each");
}

#[test]
fn whoever_listens_hears_once_why_there_is_no_further_attempt() {
    let no_budget = upstream().budget(budget::Spec::None).build().unwrap();
    let mut heard = Vec::new();
    let call = no_budget.call_blocking(|_| Err::<(), _>("reset"));
    let call = call.on_denied(|denied| {
        assert_eq!(denied.error, Some(Problem::Error(&"reset")));
        heard.push((denied.attempts, denied.reason));
    });
    call.wait().unwrap_err();
    assert_eq!(heard, [(1, Reason::RetriesOff)]);

    let limited = upstream().rate_limit(limiter::Spec { per_second: 1.0, burst: 1 });
    let limited = limited.build().unwrap();
    limited.call_blocking(|_| Ok::<_, &str>(())).wait().unwrap();
    let mut heard = Vec::new();
    let call = limited.call_blocking(|_| Ok::<_, &str>(()));
    let call = call.on_denied(|denied| {
        assert_eq!(denied.error, None);
        heard.push((denied.attempts, denied.reason));
    });
    let error = call.wait().unwrap_err();
    assert_eq!(heard, [(0, Reason::RateLimited)]);
    assert!(error.retry_in().is_some_and(|wait| wait <= SECOND && !wait.is_zero()));

    let fatal = |_: &Result<(), &str>| Outcome::Failed(Failure::of(Fault::Fatal));
    let call = no_budget.call_blocking(|_| Err::<(), _>("not yours")).classify(fatal);
    let call = call.on_denied(|denied| panic!("nobody wanted another attempt: {denied:?}"));
    assert_eq!(call.wait().unwrap_err().reason(), Reason::NotRetryable);
}

/// X12.
#[test]
fn a_fallback_stands_in_for_an_upstream_in_trouble_and_hides_nothing_from_it() {
    let quell = upstream().breaker(breaker::Spec { min_calls: 3, ..Default::default() });
    let quell = quell.build().unwrap();
    let call = |fault: Fault| {
        let call = quell.call_blocking(|_| Err::<u32, _>("down"));
        let call = call.classify(move |_| Outcome::Failed(Failure::of(fault)));
        call.fallback(|error| error.attempts()).wait_counted()
    };
    let wrong = call(Fault::Fatal).unwrap_err();
    assert_eq!(wrong.reason(), Reason::NotRetryable, "a wrong request is wrong");
    let stands_in = call(Fault::Server).unwrap();
    assert_eq!((stands_in.value, stands_in.reason), (3, Some(Reason::AttemptsSpent)));
    let refused = call(Fault::Server).unwrap();
    assert_eq!((refused.value, refused.attempts), (0, 0), "the breaker saw through it");
}

#[test]
fn report_only_counts_what_it_would_have_refused_and_refuses_nothing() {
    let limit = limiter::Spec { per_second: 0.001, burst: 1 };
    let breaker = breaker::Spec { min_calls: 2, ..Default::default() };
    let quell = upstream().rate_limit(limit).budget(budget::Spec::None).breaker(breaker);
    let quell = quell.report_only().build().unwrap();
    for _ in 0..5 {
        let error = quell.call_blocking(|_| Err::<(), _>("no")).wait().unwrap_err();
        assert_eq!((error.attempts(), error.reason()), (3, Reason::AttemptsSpent));
    }
    let would = quell.snapshot().would_refuse;
    assert!(would.budget > 0 && would.rate_limit > 0, "{would:?}");
}

#[test]
fn retry_if_does_not_overrule_an_upstream_that_says_no() {
    let quell = upstream().build().unwrap();
    let told = Outcome::Failed(Failure::of(Fault::Server).with_code(503).forbidden());
    let call = quell.call_blocking(|_| Ok::<_, String>(503)).classify(move |_| told);
    let error = call.retry_if(|_| true).wait().unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::ToldNotTo));
}

#[test]
fn a_hint_that_is_too_long_for_us_is_passed_on_to_our_caller() {
    let quell = upstream().build().unwrap();
    let busy = Failure::of(Fault::Overload).with_code(429).with_hint(120 * SECOND);
    let call = quell.call_blocking(|_| Ok::<_, String>(429));
    let error = call.classify(move |_| Outcome::Failed(busy)).wait().unwrap_err();
    assert_eq!((error.reason(), error.retry_in()), (Reason::HintTooLong, Some(120 * SECOND)));
    let reply = error.to_response();
    assert_eq!(reply.status(), 429);
    assert_eq!(reply.headers()["retry-after"], "120");
    assert_eq!(reply.headers()["quell-retry"], "after=120");
}

#[test]
fn a_chain_begins_where_nobody_handed_a_credit_on() {
    let quell = upstream().build().unwrap();
    let mut credits = Vec::new();
    let call = quell.call_blocking(|attempt| {
        credits.push(attempt.credit());
        Err::<(), _>("no")
    });
    call.wait().unwrap_err();
    assert_eq!(credits, [2, 0, 0], "what the first did with its two nobody told");
}
