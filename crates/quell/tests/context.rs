//! What a request brings, and who gets to see it.
#![allow(clippy::unwrap_used)]

use std::{panic, pin::pin, task::Poll, time::Duration};

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use quell::{
    Clock,
    context::Context,
    core::{
        Time,
        credit::{Credit, Received, Retries, Role, Sends},
    },
};

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(*name, HeaderValue::from_static(value));
    }
    map
}

fn of(fields: &[(&'static str, &'static str)]) -> Context {
    Context::from_headers(&map(fields), &Clock::manual(), false)
}

fn time(fields: &[(&'static str, &'static str)]) -> Option<Duration> {
    of(fields).deadline().map(|at| at.since(Time::ZERO))
}

fn tenant() -> Option<String> {
    Context::current()?.tenant().map(str::to_owned)
}

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn the_shortest_deadline_counts_in_whatever_field_it_stands() {
    assert_eq!(time(&[("quell-deadline-ms", "250")]), Some(250 * MS));
    assert_eq!(time(&[("x-envoy-expected-rq-timeout-ms", "250")]), Some(250 * MS));
    let units = [("1H", 3_600_000 * MS), ("1M", 60_000 * MS), ("2S", 2_000 * MS), ("30m", 30 * MS)];
    for (text, expected) in units.into_iter().chain([("5000u", 5 * MS), ("7000000n", 7 * MS)]) {
        assert_eq!(time(&[("grpc-timeout", text)]), Some(expected), "{text}");
    }
    let all = [
        ("quell-deadline-ms", "900"),
        ("quell-deadline-ms", "800"),
        ("grpc-timeout", "700m"),
        ("x-envoy-expected-rq-timeout-ms", "600"),
        ("x-envoy-expected-rq-timeout-ms", "soon"),
    ];
    assert_eq!(time(&all), Some(600 * MS));
}

#[test]
fn a_deadline_that_cannot_be_read_was_not_said_and_an_absurd_one_is_a_day() {
    for garbage in ["", "-1", "1.5", "1s", "0x10", "NaN"] {
        let fields = [
            ("quell-deadline-ms", garbage),
            ("x-envoy-expected-rq-timeout-ms", garbage),
            ("grpc-timeout", garbage),
        ];
        assert_eq!(time(&fields), None, "{garbage:?}");
    }
    for garbage in ["H", "1", "1h", "-1S", "1.5S", "123456789S", "1 S"] {
        assert_eq!(time(&[("grpc-timeout", garbage)]), None, "{garbage:?}");
    }
    assert_eq!(time(&[("quell-deadline-ms", "0")]), Some(Duration::ZERO));
    assert_eq!(time(&[("grpc-timeout", "1n")]), Some(Duration::from_nanos(1)));
    assert_eq!(time(&[("quell-deadline-ms", "99999999999999999999999")]), Some(DAY));
    assert_eq!(time(&[("grpc-timeout", "99999999H")]), Some(DAY));
}

#[test]
fn the_smallest_credit_counts_and_garbage_allows_nothing() {
    let credit = |fields: &[_]| of(fields).credit();
    let some = |retries| Some(Received::stranger(Retries::new(retries)));
    assert_eq!(credit(&[]), None);
    assert_eq!(credit(&[("quell-retry-credit", "2")]), some(2));
    assert_eq!(credit(&[("baggage", "user=7, quell-retry-credit=2;p=1")]), some(2));
    assert_eq!(credit(&[("baggage", "user=7")]), None);
    let both = [("quell-retry-credit", "1"), ("baggage", "quell-retry-credit=2")];
    assert_eq!(credit(&both), some(1));
    assert_eq!(credit(&[("quell-retry-credit", "2"), ("quell-retry-credit", "many")]), some(0));
    let trusted = Context::from_headers(&map(&both), &Clock::manual(), true);
    assert_eq!(trusted.credit(), Some(Received::trusted(Retries::new(1))));
}

#[test]
fn strangers_can_only_tighten() {
    let ours = |received| Credit::new(Role::Auto, 3, received).left();
    for (claimed, left) in [("0", 0), ("1", 1), ("99", 2)] {
        assert_eq!(ours(of(&[("quell-retry-credit", claimed)]).credit()), left);
    }
    let tight = of(&[("quell-deadline-ms", "250")]);
    let deadline = tight.deadline().unwrap();
    assert_eq!(tight.clone().with_deadline(Time::MAX).deadline(), Some(deadline));
    assert_eq!(tight.with_deadline(Time::ZERO).deadline(), Some(Time::ZERO));
    let mixed =
        Context::new().with_credit(Retries::new(1), true).with_credit(Retries::new(5), false);
    assert_eq!(mixed.credit(), Some(Received::stranger(Retries::new(1))));
}

#[test]
fn the_callers_key_comes_along_and_is_shown_to_nobody() {
    let context = of(&[("idempotency-key", "8e03978e")]);
    assert_eq!(context.key().unwrap(), "8e03978e");
    assert!(!format!("{context:?}").contains("8e03978e"));
    assert_eq!(of(&[("idempotency-key", "")]).key(), None);
}

#[test]
fn the_reply_tells_all_extra_sends_and_the_least_credit_that_is_left() {
    let context = of(&[("quell-retry-credit", "3")]);
    assert_eq!(context.answer(), (Sends::new(1), Retries::new(3)));
    let derived = context.clone().with_tenant("acme"); // shares the ledger
    derived.spent(Sends::new(1), Retries::new(3));
    context.spent(Sends::new(3), Retries::new(1));
    context.spent(Sends::new(2), Retries::new(2));
    context.spent(Sends::new(0), Retries::new(3)); // refused: it was never sent
    assert_eq!(context.answer(), (Sends::new(4), Retries::new(1)));
    assert_eq!(derived.answer(), context.answer());
    for _ in 0..100 {
        context.spent(Sends::new(100), Retries::new(9));
    }
    assert_eq!(context.answer(), (Sends::new(100), Retries::new(1)));

    let edge = of(&[]);
    edge.spent(Sends::new(3), Retries::new(2));
    assert_eq!(edge.answer(), (Sends::new(3), Retries::default()), "nothing was lent to it");
}

#[test]
fn contexts_nest_and_end_where_they_began() {
    let (outer, inner) = (Context::new().with_tenant("outer"), Context::new().with_tenant("inner"));
    outer.enter(|| {
        inner.enter(|| assert_eq!(tenant().as_deref(), Some("inner")));
        assert_eq!(tenant().as_deref(), Some("outer"));
    });
    assert_eq!(tenant(), None);
}

#[tokio::test]
async fn tasks_on_one_thread_do_not_see_each_others_context() {
    let task = |name: &'static str| async move {
        for _ in 0..10 {
            assert_eq!(tenant().as_deref(), Some(name));
            tokio::task::yield_now().await;
        }
    };
    let scoped = |name| tokio::spawn(Context::new().with_tenant(name).scope(task(name)));
    let plain = tokio::spawn(async {
        for _ in 0..10 {
            assert_eq!(tenant(), None);
            tokio::task::yield_now().await;
        }
    });
    let (one, other) = (scoped("one"), scoped("other"));
    one.await.unwrap();
    other.await.unwrap();
    plain.await.unwrap();
    assert_eq!(tenant(), None);
}

#[tokio::test]
async fn a_spawned_task_has_only_the_context_that_it_was_given() {
    let context = Context::new().with_tenant("acme");
    let spawned = context.scope(async {
        let bare = tokio::spawn(async { tenant() });
        let given = tokio::spawn(Context::current().unwrap().scope(async { tenant() }));
        (bare.await.unwrap(), given.await.unwrap())
    });
    assert_eq!(spawned.await, (None, Some("acme".to_owned())));
}

#[test]
fn a_future_that_is_polled_inside_another_scope_keeps_its_own() {
    let mut inner = pin!(Context::new().with_tenant("inner").scope(async {
        let first = tenant();
        let mut waited = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        (first, tenant())
    }));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(inner.as_mut().poll(&mut cx).is_pending());
    assert_eq!(tenant(), None);
    Context::new().with_tenant("outer").enter(|| {
        let Poll::Ready(seen) = inner.as_mut().poll(&mut cx) else { panic!() };
        assert_eq!(seen, (Some("inner".to_owned()), Some("inner".to_owned())));
        assert_eq!(tenant().as_deref(), Some("outer"));
    });
}

#[test]
fn a_panic_leaves_no_context_behind() {
    let context = Context::new().with_tenant("acme");
    let broken =
        panic::catch_unwind(panic::AssertUnwindSafe(|| context.enter(|| panic!("on purpose"))));
    assert!(broken.is_err());
    assert_eq!(tenant(), None);

    let mut scoped = pin!(context.scope(async { panic!("on purpose") }));
    let broken = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let _: Poll<()> = scoped.as_mut().poll(&mut cx);
    }));
    assert!(broken.is_err());
    assert_eq!(tenant(), None);
}

proptest! {
    #[test]
    fn no_bytes_in_a_request_break_a_context(bytes: Vec<u8>, text in "[ -~]{0,12}", trusted: bool) {
        for bytes in [&bytes[..], text.as_bytes()] {
            let Ok(value) = HeaderValue::from_bytes(bytes) else { continue };
            let mut headers = HeaderMap::new();
            let fields = ["quell-deadline-ms", "grpc-timeout", "x-envoy-expected-rq-timeout-ms"];
            let fields = fields.into_iter().chain(["quell-retry-credit", "baggage", "idempotency-key"]);
            for name in fields {
                headers.append(name, value.clone());
            }
            let context = Context::from_headers(&headers, &Clock::manual(), trusted);
            prop_assert!(context.answer().1 <= Retries::new(100));
            if let Some(deadline) = context.deadline() {
                prop_assert!(deadline <= Time::ZERO + DAY);
            }
        }
    }
}
