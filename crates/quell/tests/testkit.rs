//! The test kit, tried on what is right and on what is wrong on purpose.
#![cfg(feature = "test")]
#![allow(clippy::unwrap_used)]

use std::{io, panic, time::Duration};

use http::Request;
use quell::{
    Builder, Clock, Quell, Reason,
    test::{Ledger, Line, Reply, Script, Storm, storm},
    tower::QuellLayer,
};
use tower_layer::Layer;
use tower_service::Service;

const SECOND: Duration = Duration::from_secs(1);
const OUTAGE: std::ops::Range<Duration> = Duration::from_secs(1)..Duration::from_secs(4);

fn upstream(clock: &Clock) -> Builder {
    Quell::upstream("stock").clock(clock.clone()).seed(1)
}

/// What everybody has written once.
async fn naive(script: Script) -> io::Result<Reply> {
    let mut number = 1;
    loop {
        match script.send(number, None).await {
            Ok(reply) if reply.status().is_success() => return Ok(reply),
            result if number == 4 => return result,
            _ => number += 1,
        }
    }
}

async fn storm_of_quells(seed: u64) -> Ledger {
    let script = Script::new().seed(seed).outage(OUTAGE, Line::status(503));
    let quell = upstream(&Clock::tokio()).seed(seed).idempotent().build().unwrap();
    let call = move |script: Script| {
        let quell = quell.clone();
        async move { quell.call(|attempt| script.answer(attempt)).await }
    };
    storm(&script, Storm::default(), call).await
}

/// What an assertion says when it fails.
fn complaint(assertion: impl FnOnce() + panic::UnwindSafe) -> String {
    let panic = panic::catch_unwind(assertion).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

/// The positive control of the kit: what it is there to find, it finds.
#[tokio::test(start_paused = true)]
async fn a_naive_loop_is_found_out_and_the_complaint_has_the_seed_and_the_ledger() {
    let script = Script::new().seed(99).outage(OUTAGE, Line::status(503));
    let ledger = storm(&script, Storm::default(), naive).await;
    assert!(ledger.amplification() > 1.5, "{ledger}");
    let why = complaint(|| ledger.assert_amplification_at_most(1.1));
    assert!(why.contains("attempts per call, and at most 1.1"), "{why}");
    assert!(why.contains("seed 99: ") && why.contains("attempt 4: 503"), "{why}");
    assert!(why.lines().count() < 50, "a ledger that nobody can read helps nobody");
}

#[tokio::test(start_paused = true)]
async fn the_same_storm_through_a_handle_stays_below_eleven_tenths() {
    let ledger = storm_of_quells(7).await;
    ledger.assert_amplification_at_most(1.1);
    assert!(ledger.attempts() > ledger.calls(), "some were retried: {ledger}");
    assert!(ledger.answered() > 1_000, "and it healed: {ledger}");
}

/// Each attempt of a service without our headers looks like a call of its own.
#[tokio::test(start_paused = true)]
async fn a_naive_service_that_numbers_nothing_is_found_out_as_well() {
    let script = Script::new().outage(OUTAGE, Line::status(503));
    let call = |mut script: Script| async move {
        for _ in 0..4 {
            if script.call(Request::new(())).await.is_ok_and(|reply| reply.status().is_success()) {
                break;
            }
        }
    };
    let ledger = storm(&script, Storm::default(), call).await;
    assert!(ledger.amplification() > 1.5, "{ledger}");
    let storms = storm(&script, Storm::default(), call).await;
    assert!(
        storms.amplification() < ledger.amplification(),
        "a second storm after the outage: {storms}"
    );
}

#[tokio::test(start_paused = true)]
async fn behind_a_layer_it_is_an_upstream_like_any_other() {
    let script = Script::new().status(503).hint(2 * SECOND).refuse_connect();
    let quell = upstream(&Clock::tokio()).idempotent().build().unwrap();
    let mut service = QuellLayer::new(quell).layer(script.clone());
    assert_eq!(service.call(Request::new(())).await.unwrap().status(), 200);
    let ledger = script.ledger();
    let [first, second, third] = ledger.entries() else { panic!() };
    assert!(second.at - first.at >= 2 * SECOND && third.at >= second.at);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_ledger_and_another_seed_another() {
    let ledger = storm_of_quells(7).await;
    assert_eq!(ledger, storm_of_quells(7).await);
    assert_ne!(ledger.entries(), storm_of_quells(8).await.entries());
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_caller_is_a_panic_of_the_test() {
    let script = Script::new();
    let call = |_| async { panic!("in a caller") };
    let storm = async move { storm(&script, Storm::default(), call).await };
    assert!(tokio::spawn(storm).await.unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn the_lines_are_played_in_order_and_then_all_is_well() {
    let script = Script::new().fail(2).status(503).refuse_connect().status(404).slow(SECOND);
    let kinds = [
        Err(io::ErrorKind::ConnectionReset),
        Err(io::ErrorKind::ConnectionReset),
        Ok(503),
        Err(io::ErrorKind::ConnectionRefused),
        Ok(404),
        Ok(200),
        Ok(200),
    ];
    for kind in kinds {
        let reply = script.send(1, None).await;
        let got = reply.map(|reply| reply.status().as_u16()).map_err(|error| error.kind());
        assert_eq!(got, kind);
    }
    let ledger = script.ledger();
    assert_eq!((ledger.entries()[4].at, ledger.entries()[4].ended), (Duration::ZERO, Some(SECOND)));
    let always = Script::new().status(500).for_ever();
    for _ in 0..1_000 {
        assert_eq!(always.send(1, None).await.unwrap().status(), 500);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_begins_and_ends_when_it_was_said_and_uses_up_no_line() {
    let script = Script::new().status(202).outage(SECOND..2 * SECOND, Line::refuse_connect());
    tokio::time::sleep(SECOND).await;
    assert!(script.send(1, None).await.is_err());
    tokio::time::sleep(SECOND).await;
    assert_eq!(script.send(1, None).await.unwrap().status(), 202);
    assert_eq!(script.send(1, None).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_is_cut_off_and_the_ledger_says_when() {
    let script = Script::new().hang().then_ok();
    let quell = upstream(&Clock::tokio()).idempotent().per_try_timeout(SECOND).build().unwrap();
    quell.call(|attempt| script.answer(attempt)).await.unwrap();
    let ledger = script.ledger();
    assert_eq!(ledger.entries()[0].ended, Some(SECOND));
    assert_eq!(ledger.waits(), [ledger.entries()[1].at - SECOND]);
}

/// Nobody can cut off a thread.
#[test]
fn a_blocking_attempt_that_hangs_gives_up_at_its_timeout() {
    let clock = Clock::manual();
    let script = Script::on(clock.clone()).hang().status(200).slow(9 * SECOND).then_ok();
    let quell = upstream(&clock).idempotent().per_try_timeout(SECOND).build().unwrap();
    quell.call_blocking(|attempt| script.answer_blocking(attempt)).wait().unwrap();
    let took: Vec<_> =
        script.ledger().entries().iter().map(|entry| entry.ended.unwrap() - entry.at).collect();
    assert_eq!(took, [SECOND, SECOND, Duration::ZERO]);
}

#[test]
fn hints_are_kept_by_a_handle_and_a_loop_that_does_not_is_found_out() {
    for hint in [2 * SECOND, Duration::from_micros(1_500_100)] {
        let clock = Clock::manual();
        let script = Script::on(clock.clone()).status(503).hint(hint).then_ok();
        let quell = upstream(&clock).idempotent().build().unwrap();
        quell.call_blocking(|attempt| script.answer_blocking(attempt)).wait().unwrap();
        script.ledger().assert_no_attempt_before(hint);
        assert!(script.ledger().waits()[0] >= hint);
    }
    let script = Script::on(Clock::manual()).status(503).hint(2 * SECOND).then_ok();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(naive(script.clone())).unwrap();
    let ledger = script.ledger();
    let why = complaint(|| ledger.assert_no_attempt_before(2 * SECOND));
    assert!(why.starts_with("a retry came at 0ns, 0ns after a reply that asked for 2s"), "{why}");
}

#[test]
fn what_may_not_be_repeated_is_not_and_a_repetition_is_found_out() {
    let clock = Clock::manual();
    let script = Script::on(clock.clone()).refuse_connect().fail(1).for_ever();
    let quell = upstream(&clock).build().unwrap();
    let call = quell.call_blocking(|attempt| script.answer_blocking(attempt));
    assert_eq!(call.wait().unwrap_err().reason(), Reason::NotSafe);
    assert_eq!(script.ledger().attempts(), 2, "a connection that was refused is tried again");
    script.ledger().assert_never_repeated();

    let script = Script::on(clock.clone()).fail(1).for_ever();
    let call = quell.call_blocking(|attempt| script.answer_blocking(attempt));
    assert_eq!(call.idempotent().wait().unwrap_err().attempts(), 3);
    let ledger = script.ledger();
    let why = complaint(|| ledger.assert_never_repeated());
    assert!(why.starts_with("1 attempts with number 2 after 0 that were never sent"), "{why}");
}

#[test]
fn an_assertion_that_has_nothing_to_look_at_fails() {
    let ledger = || Script::on(Clock::manual()).ledger();
    assert!(
        complaint(move || ledger().assert_amplification_at_most(9.0))
            .contains("nothing was tested")
    );
    assert!(
        complaint(move || ledger().assert_no_attempt_before(SECOND)).contains("nothing was tested")
    );
    assert!(complaint(move || ledger().assert_never_repeated()).contains("nothing was tested"));
}

/// H5: a kit that reads the key would vouch for every call.
#[test]
fn the_key_is_in_the_ledger_only_if_the_closure_read_it() {
    let clock = Clock::manual();
    let script = Script::on(clock.clone());
    let quell = upstream(&clock).build().unwrap();
    let mut key = String::new();
    quell.call_blocking(|attempt| script.answer_blocking(attempt)).wait().unwrap();
    let call = quell.call_blocking(|attempt| {
        key = attempt.key().to_owned();
        script.answer_blocking(attempt)
    });
    call.wait().unwrap();
    let keys: Vec<_> = script.ledger().entries().iter().map(|entry| entry.key.clone()).collect();
    assert_eq!(keys, [None, Some(key)]);
}

#[tokio::test(start_paused = true)]
async fn as_a_service_it_reads_the_number_and_the_key_from_the_headers() {
    let mut script = Script::new().status(429).hint(3 * SECOND);
    let request = Request::get("/").header("quell-attempt", "2").header("idempotency-key", "k");
    let reply = script.call(request.body(()).unwrap()).await.unwrap();
    assert_eq!(
        (reply.status().as_u16(), reply.headers()["retry-after"].as_bytes()),
        (429, &b"3"[..])
    );
    script.call(Request::new("a body of any type")).await.unwrap();
    let ledger = script.ledger();
    let seen: Vec<_> =
        ledger.entries().iter().map(|entry| (entry.number, entry.key.as_deref())).collect();
    assert_eq!(seen, [(2, Some("k")), (1, None)]);
}

#[tokio::test]
async fn a_ledger_is_bounded_and_counts_on() {
    let script = Script::on(Clock::manual());
    for _ in 0..100_100 {
        script.send(1, None).await.unwrap();
    }
    let ledger = script.ledger();
    assert_eq!((ledger.entries().len(), ledger.attempts()), (100_000, 100_100));
    ledger.assert_amplification_at_most(1.0);
    assert!(complaint(move || ledger.assert_never_repeated()).contains("make the test smaller"));
}
