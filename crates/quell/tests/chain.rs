//! What a request brings is picked up by the calls made on its behalf, hop after hop.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State, http::Request, response::Response, routing::any};
use quell::{
    CallError, Clock, Quell, Reason,
    axum::ContextLayer,
    context::Context,
    core::{breaker, budget, credit::Retries},
    tower::{Http, QuellLayer, QuellService},
};
use tower::{Layer as _, ServiceExt as _};

type Next = QuellService<Router, Http>;

fn handle(name: &str) -> Quell {
    let never = breaker::Spec { mode: breaker::Mode::Disabled, ..Default::default() };
    let quell = Quell::upstream(name).clock(Clock::tokio()).seed(1).breaker(never);
    quell.budget(budget::Spec::Unlimited).build().unwrap()
}

fn client(name: &str, next: Router) -> Next {
    QuellLayer::with(handle(name), Http::new()).layer(next)
}

/// Passes a request on as an application does: a new one, without any of the headers that came.
async fn pass(
    State(next): State<Next>,
) -> Result<Response, CallError<(), std::convert::Infallible>> {
    let reply = next.oneshot(Request::get("/").body(Body::empty()).unwrap()).await?;
    Ok(reply.map(Body::new))
}

fn hop(name: &str, next: Router, layer: ContextLayer) -> Router {
    Router::new().route("/", any(pass)).with_state(client(name, next)).layer(layer)
}

/// Always fails, and counts how often it was asked.
fn leaf(asked: &Arc<AtomicU32>) -> Router {
    let asked = Arc::clone(asked);
    let fail = move || {
        asked.fetch_add(1, Ordering::Relaxed);
        async { axum::http::StatusCode::INTERNAL_SERVER_ERROR }
    };
    Router::new().route("/", any(fail))
}

/// Four hops that try three times each, and what the last one saw of one request.
async fn asked_by_four_hops(layer: impl Fn() -> Option<ContextLayer>) -> u32 {
    let asked = Arc::new(AtomicU32::new(0));
    let mut chain = leaf(&asked);
    for name in ["c", "b", "a"] {
        chain = match layer() {
            Some(layer) => hop(name, chain, layer),
            None => Router::new().route("/", any(pass)).with_state(client(name, chain)),
        };
    }
    let reply = client("edge", chain).oneshot(Request::get("/").body(Body::empty()).unwrap()).await;
    assert_eq!(reply.unwrap().status(), 500, "the leaf's own reply");
    asked.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn four_hops_of_three_attempts_are_a_sum_where_each_runs_in_its_requests_context() {
    let layer = || ContextLayer::new().clock(Clock::tokio());
    assert_eq!(
        asked_by_four_hops(|| None).await,
        81,
        "the harness amplifies where nobody passes it on"
    );
    assert_eq!(asked_by_four_hops(|| Some(layer())).await, 3);
    assert_eq!(asked_by_four_hops(|| Some(layer().trusted(|_| true))).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_reply_says_how_many_sends_it_took_below_and_hands_back_what_is_left() {
    let asked = Arc::new(AtomicU32::new(0));
    let hop = hop("a", leaf(&asked), ContextLayer::new().trusted(|_| true).clock(Clock::tokio()));
    let request = Request::get("/").header("quell-retry-credit", "2").body(Body::empty()).unwrap();
    let reply = hop.oneshot(request).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(reply.headers()["quell-attempts"], "3");
    assert_eq!(reply.headers()["quell-retry-credit"], "0");
}

#[tokio::test(start_paused = true)]
async fn calls_end_by_the_deadline_of_the_request_they_are_made_for() {
    let clock = Clock::tokio();
    let quell = Quell::upstream("slow").clock(clock.clone()).build().unwrap();
    let slow = async move || {
        let never = quell.call(async |attempt| {
            assert!(attempt.timeout() <= Duration::from_millis(250));
            std::future::pending::<Result<(), String>>().await
        });
        never.await
    };
    let app = Router::new().route("/", any(slow)).layer(ContextLayer::new().clock(clock.clone()));
    let start = clock.now();
    let request = Request::get("/").header("quell-deadline-ms", "250").body(Body::empty()).unwrap();
    let reply = app.oneshot(request).await.unwrap();
    assert_eq!(clock.now().since(start), Duration::from_millis(250));
    assert_eq!(reply.status(), 504);
    assert_eq!(reply.headers()["quell-stop"], Reason::NotSafe.as_str());
}

/// H5.
#[tokio::test(start_paused = true)]
async fn the_requests_key_goes_unchanged_to_whoever_is_called_and_makes_a_post_repeatable() {
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let heard = Arc::clone(&seen);
    let next = Router::new().route(
        "/",
        any(move |request: Request<Body>| {
            let key = request.headers().get("idempotency-key").cloned();
            heard.lock().push(key.map(|key| key.to_str().unwrap().to_owned()));
            async { axum::http::StatusCode::SERVICE_UNAVAILABLE }
        }),
    );
    let post = async |State(next): State<Next>| {
        let request = Request::post("/").body(Body::from("17")).unwrap();
        next.oneshot(request).await.map(|reply| reply.map(Body::new))
    };
    let app = Router::new().route("/", any(post)).with_state(client("next", next));
    let app = app.layer(ContextLayer::new().clock(Clock::tokio()));
    let ask = |key: Option<&str>| {
        let request = Request::post("/");
        let request = key.into_iter().fold(request, |r, key| r.header("idempotency-key", key));
        app.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    ask(Some("order-17")).await.unwrap();
    ask(None).await.unwrap();
    let order = Some("order-17".to_owned());
    assert_eq!(*seen.lock(), [order.clone(), order.clone(), order, None]);
}

#[tokio::test(start_paused = true)]
async fn a_tenants_retries_are_paid_from_its_own_budget_too() {
    use quell::core::budget::tokens;
    let child = tokens::Spec { max: 1, ratio: 0.0, ..tokens::Spec::default() };
    let quell = Quell::upstream("stock").clock(Clock::tokio()).idempotent().tenant_budget(child);
    let quell = quell.build().unwrap();
    let reason = async |tenant: &str| {
        let call = quell.call(async |_| Err::<(), _>("no"));
        let error = Context::new().with_tenant(tenant).scope(call.into_future()).await.unwrap_err();
        (error.attempts(), error.reason())
    };
    assert_eq!(reason("noisy").await, (2, Reason::BudgetEmpty));
    assert_eq!(reason("noisy").await, (1, Reason::BudgetEmpty));
    assert_eq!(reason("other").await, (2, Reason::BudgetEmpty));
}

#[tokio::test(start_paused = true)]
async fn without_credit_left_a_closure_is_not_repeated_and_its_context_hears_what_was_sent() {
    let quell = handle("stock");
    let spent = Context::new().with_credit(Retries::new(0), true);
    let call = quell.call(async |_| Err::<(), _>("no")).idempotent();
    let error = spent.scope(call.into_future()).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::Interior));
    assert_eq!(spent.answer().0.get(), 1);

    let free = Context::new();
    let call = quell.call(async |_| Err::<(), _>("no")).idempotent();
    free.scope(call.into_future()).await.unwrap_err();
    assert_eq!(free.answer().0.get(), 3, "two more than the one that was asked for");
}

/// H5: two calls made for one request are two, and each is the same again when the request is.
#[test]
fn each_call_made_for_a_request_has_a_key_of_its_own_that_follows_from_the_requests() {
    let quell = Quell::upstream("ledger").clock(Clock::manual()).build().unwrap();
    let keys = || {
        let mut headers = axum::http::HeaderMap::new();
        headers.insert("idempotency-key", "order-17".parse().unwrap());
        let context = Context::from_headers(&headers, &Clock::manual(), false);
        context.enter(|| {
            let key = || quell.call_blocking(|attempt| Ok::<_, String>(attempt.key().to_owned()));
            quell.call_blocking(|_| Ok::<_, String>(())).wait().unwrap(); // needs none
            [key().wait().unwrap(), key().wait().unwrap(), key().key("own").wait().unwrap()]
        })
    };
    assert_eq!(keys(), ["order-17", "order-17-2", "own"]);
    assert_eq!(keys(), keys());
}
