//! What a reply says of the chain that its request belongs to.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used)]

use axum::{Router, body::Body, http::Request, routing::get};
use quell::axum::ContextLayer;
use tower::ServiceExt as _;

/// To whoever keeps no account it would say that no retries are left.
#[tokio::test]
async fn credit_is_handed_back_only_to_those_who_brought_some() {
    let app: Router = Router::new().route("/", get(|| async { "seven" }));
    let app = app.layer(ContextLayer::new().trusted(|_| true));
    for brought in [None, Some("2")] {
        let request = Request::get("/");
        let request = brought
            .into_iter()
            .fold(request, |request, credit| request.header("quell-retry-credit", credit));
        let reply = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let returned = reply.headers().get("quell-retry-credit").map(|left| left.to_str().unwrap());
        assert_eq!(returned, brought, "nothing was called, so nothing was spent");
        assert!(reply.headers().contains_key("quell-attempts"));
    }
}
