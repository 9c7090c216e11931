//! Names that move while a gateway runs.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::Response;
use http_body_util::{BodyExt, Full};
use quell_server::gateway::Names;

use crate::kit::*;

/// Says its name, and that the next request needs another connection.
async fn named(name: &'static str) -> Fake {
    let reply = move || Response::builder().header("connection", "close");
    Fake::start(move |_, _| Some(reply().body(Full::from(name).boxed()).unwrap())).await
}

#[tokio::test]
async fn a_name_that_moves_is_followed_and_one_that_cannot_be_looked_up_stays_where_it_was() {
    let (old, new) = (named("old").await, named("new").await);
    let place: Arc<Mutex<Option<SocketAddr>>> = Arc::new(Mutex::new(Some(old.addr)));
    let told = Arc::clone(&place);
    let lines = "[upstream.x]\nendpoints = [\"http://payments.test:9000\"]\nresolve = \"100ms\"\n";
    let gateway = from_file_with(lines, |config| {
        config.cores = 1;
        config.names = Some(Names::new(move |host, port| {
            assert_eq!((host, port), ("payments.test", 9000));
            let nobody = || io::Error::new(io::ErrorKind::NotFound, "nobody knows");
            told.lock().unwrap().map(|addr| vec![addr]).ok_or_else(nobody)
        }));
    });
    let is_at = async |name: &str| get(gateway.addr(), "/").await.text() == name;
    assert!(is_at("old").await);
    *place.lock().unwrap() = Some(new.addr);
    until("it is followed", || is_at("new")).await;
    *place.lock().unwrap() = None;
    for _ in 0..20 {
        assert!(is_at("new").await, "the last that was known");
    }
    // Nobody listens there any more: that, too, is a reason to look.
    drop(new);
    *place.lock().unwrap() = Some(old.addr);
    until("it is looked for", || is_at("old")).await;
    assert_eq!(old.seen()[0].header("host"), Some("shop.example"));
}
