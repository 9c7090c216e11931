//! What a caller of the library sees.
#![allow(clippy::unwrap_used)]

use std::{cell::Cell, rc::Rc, time::Duration};

use quell::{
    Builder, Cause, Clock, Delivery, Failure, Fault, Outcome, Problem, Quell, Reason,
    core::{backoff, breaker},
};

const SECOND: Duration = Duration::from_secs(1);

fn upstream() -> Builder {
    Quell::upstream("payments").clock(Clock::manual()).seed(1)
}

fn paused() -> Builder {
    Quell::upstream("payments").clock(Clock::tokio()).seed(1)
}

/// A number as a status.
fn status(result: &Result<u16, &'static str>) -> Outcome {
    match result {
        Ok(code @ 400..) => {
            let fault = if *code < 500 { Fault::Fatal } else { Fault::Server };
            Outcome::Failed(Failure::of(fault).with_code(*code))
        }
        Ok(_) => Outcome::Success,
        Err(_) => Outcome::Failed(Failure::of(Fault::Server)),
    }
}

/// H5.
#[test]
fn a_closure_is_repeated_only_if_it_read_the_key_or_somebody_vouched_for_it() {
    let attempts = |quell: Quell, read: bool, vouch: bool| {
        let call = quell.call_blocking(|attempt| {
            if read {
                attempt.key();
            }
            Err::<(), _>("reset")
        });
        let call = if vouch { call.idempotent() } else { call };
        let error = call.wait().unwrap_err();
        (error.attempts(), error.reason())
    };
    let plain = upstream().build().unwrap();
    assert_eq!(attempts(plain.clone(), false, false), (1, Reason::NotSafe));
    assert_eq!(attempts(plain.clone(), true, false), (3, Reason::AttemptsSpent));
    assert_eq!(attempts(plain, false, true), (3, Reason::AttemptsSpent));
    let vouched = upstream().idempotent().build().unwrap();
    assert_eq!(attempts(vouched, false, false), (3, Reason::AttemptsSpent));
}

#[test]
fn what_was_never_sent_is_always_repeated() {
    let quell = upstream().build().unwrap();
    let call = quell.call_blocking(|_| Err::<(), _>("refused"));
    let error = call.classify(|_| Outcome::Failed(Failure::of(Fault::Connect))).wait().unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (3, Reason::AttemptsSpent));
    assert_eq!(Failure::of(Fault::Connect).delivery, Delivery::NeverSent);
}

/// H5.
#[test]
fn every_attempt_has_the_same_key_and_every_call_another() {
    let quell = upstream().build().unwrap();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let call = quell.call_blocking(|attempt| {
            keys.push(attempt.key().to_owned());
            Err::<(), _>("reset")
        });
        call.wait().unwrap_err();
    }
    assert_eq!(keys.len(), 6);
    assert!(keys[..3].iter().all(|key| *key == keys[0]));
    assert!(keys[3..].iter().all(|key| *key == keys[3]));
    assert_ne!(keys[0], keys[3]);
}

#[test]
fn a_fatal_reply_is_the_callers_to_read_and_a_retryable_one_is_an_error_that_keeps_it() {
    let quell = upstream().idempotent().build().unwrap();
    let reply = |code| quell.call_blocking(move |_| Ok(code)).classify(status).wait();
    assert_eq!(reply(404).unwrap(), 404);
    let error = reply(503).unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (3, Reason::AttemptsSpent));
    assert!(error.to_string().ends_with("(attempts_spent): status 503"), "{error}");
    assert!(matches!(error.cause(), Cause::Reply(503, Some(503))));
    assert_eq!(error.into_reply().unwrap(), 503);
}

/// X7, P5.
#[test]
fn a_retry_refused_at_the_gate_returns_the_earlier_reply() {
    let breaker = breaker::Spec { min_calls: 2, ..breaker::Spec::default() };
    let quell = upstream().idempotent().breaker(breaker).build().unwrap();
    let call = quell.call_blocking(|_| Ok(503)).classify(status);
    let call = call.on_retry(|_| {
        // While this call waits, another one trips the breaker.
        let other = quell.call_blocking(|_| Ok(500)).classify(status).wait().unwrap_err();
        assert_eq!(other.reason(), Reason::BreakerOpen);
    });
    let error = call.wait().unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::BreakerOpen));
    assert_eq!(error.into_reply().unwrap(), 503);
}

#[tokio::test(start_paused = true)]
async fn a_later_timeout_does_not_hide_the_real_reply() {
    let quell = paused().idempotent().attempts(2).build().unwrap();
    let call = quell.call(async |attempt| {
        if attempt.number() > 1 {
            std::future::pending::<()>().await;
        }
        Ok(503)
    });
    let error = call.classify(status).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (2, Reason::AttemptsSpent));
    assert_eq!(error.into_reply().unwrap(), 503);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_cut_off_at_its_timeout_and_leaves_a_ghost() {
    let quell = paused().timeout(4 * SECOND).per_try_timeout(SECOND).attempts(1).build().unwrap();
    let call = quell.call(async |_| std::future::pending::<Result<(), &str>>().await);
    let error = call.operation("charge").await.unwrap_err();
    assert_eq!((error.elapsed(), error.reason()), (SECOND, Reason::AttemptsSpent));
    assert_eq!(
        error.to_string(),
        "charge failed after 1 attempt in 1.0s (attempts_spent): no reply in time"
    );
    assert_eq!(quell.snapshot().ghosts, 1);
}

/// T3.
#[tokio::test(start_paused = true)]
async fn the_time_an_attempt_may_take_is_what_is_left_after_the_sleep() {
    let clock = Clock::tokio();
    let quell = paused().clock(clock.clone()).idempotent().timeout(10 * SECOND);
    let quell = quell.per_try_timeout(8 * SECOND).build().unwrap();
    let (start, mut timeouts) = (clock.now(), Vec::new());
    let call = quell.call(|attempt| {
        timeouts.push((attempt.timeout(), clock.now().since(start)));
        async {
            tokio::time::sleep(4 * SECOND).await;
            Err::<(), _>("busy")
        }
    });
    let busy = Failure::of(Fault::Overload).with_hint(3 * SECOND);
    let error = call.classify(move |_| Outcome::Failed(busy)).await.unwrap_err();
    let [(first, _), (second, asked_at)] = timeouts[..] else { panic!("{timeouts:?}") };
    assert_eq!(first, 8 * SECOND);
    assert!(asked_at >= 7 * SECOND, "never before the hint: {asked_at:?}");
    assert_eq!(second, 10 * SECOND - asked_at);
    assert_eq!((error.elapsed(), error.reason()), (10 * SECOND, Reason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn a_hint_beyond_the_deadline_stops_the_call_at_once() {
    let quell = paused().idempotent().timeout(2 * SECOND).build().unwrap();
    let call = quell.call(async |_| Ok(503));
    let held = Failure::of(Fault::Overload).with_code(503).with_hint(3 * SECOND);
    let error = call.classify(move |_: &Result<_, &str>| Outcome::Failed(held)).await.unwrap_err();
    assert_eq!((error.elapsed(), error.reason()), (Duration::ZERO, Reason::HintTooLong));
    assert_eq!(error.into_reply().unwrap(), 503);
}

#[test]
fn on_retry_hears_of_every_retry_with_its_delay_and_cause() {
    let base = 100 * Duration::from_millis(1);
    let backoff = backoff::Spec { base, cap: SECOND, ..backoff::Spec::default() };
    let quell = upstream().idempotent().backoff(backoff).build().unwrap();
    let mut heard = Vec::new();
    let call = quell.call_blocking(|attempt| match attempt.number() {
        1 => Err("reset"),
        2 => Ok(502),
        _ => Ok(200),
    });
    let call = call.classify(status).on_retry(|retry| {
        assert!(retry.delay <= 2 * base);
        assert!(!matches!(retry.error, Problem::TimedOut));
        heard.push((retry.attempt, retry.error.to_string()));
    });
    assert_eq!(call.wait().unwrap(), 200);
    assert_eq!(heard, [(1, "reset".to_owned()), (2, "status 502".to_owned())]);
}

/// A closure whose futures stay on one thread is run without a box.
#[tokio::test(start_paused = true)]
async fn futures_that_are_not_send_can_be_called() {
    let quell = paused().build().unwrap();
    let count = Rc::new(Cell::new(0));
    let call = quell.call(|_| {
        let count = Rc::clone(&count);
        async move {
            tokio::task::yield_now().await;
            count.set(count.get() + 1);
            Ok::<_, &str>(())
        }
    });
    call.run().await.unwrap();
    assert_eq!(count.get(), 1);
}

/// X1.
#[tokio::test(start_paused = true)]
async fn our_own_refusals_are_no_failures_of_the_upstream() {
    let breaker = breaker::Spec { min_calls: 1, failure_rate: 1.0, ..breaker::Spec::default() };
    let quell = paused().breaker(breaker).attempts(1).build().unwrap();
    let call = |fails: bool| {
        let call = quell.call(move |_| async move { if fails { Err("down") } else { Ok(()) } });
        call.into_future()
    };
    assert_eq!(call(true).await.unwrap_err().reason(), Reason::AttemptsSpent);
    for _ in 0..100 {
        let refused = call(true).await.unwrap_err();
        assert_eq!((refused.reason(), refused.attempts()), (Reason::BreakerOpen, 0));
    }
    tokio::time::sleep(SECOND).await;
    assert!(call(false).await.is_ok() && call(false).await.is_ok());
}
