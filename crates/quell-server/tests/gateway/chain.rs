//! Four gateways in a row, three attempts each, in front of a leaf that fails: a sum of calls and not eighty-one.
//!
//! Gateways start with full budgets, which is what the first second of an outage is paid with. So there is no clock
//! here: steady failure begins where the level of no budget of the chain changes any more.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use quell::core::{breaker, budget};
use quell_server::gateway::{Config, Running};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::kit::*;

const HOPS: usize = 4;
const ATTEMPTS: u32 = 3;
/// What a budget holds at the start.
const START: usize = 100;

/// What stands between two gateways.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wire {
    /// Nothing.
    Direct,
    /// An application that forwards `baggage`, as those with tracing do, and answers with a reply of its own.
    Baggage,
    /// One that forwards nothing.
    Silent,
}

impl Wire {
    async fn to(self, to: SocketAddr) -> SocketAddr {
        if self == Self::Direct {
            return to;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let service = service_fn(|request| self.pass(to, request));
                    let http = hyper::server::conn::http1::Builder::new()
                        .header_read_timeout(None)
                        .serve_connection(TokioIo::new(stream), service);
                    let _ = http.await;
                });
            }
        });
        addr
    }

    async fn pass(
        self,
        to: SocketAddr,
        asked: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let mut onward = request("GET", asked.uri().path());
        if let (Self::Baggage, Some(baggage)) = (self, asked.headers().get("baggage")) {
            onward = onward.header("baggage", baggage);
        }
        let reply = send(to, onward.body(Full::<Bytes>::default()).unwrap()).await;
        Ok(Response::builder().status(reply.status).body(Full::new(reply.body)).unwrap())
    }
}

/// What callers send who would have more than is theirs, or are broken; the first sends nothing of the kind.
const FORGED: [&[(&str, &str)]; 6] = [
    &[],
    &[("quell-retry-credit", "99"), ("quell-attempt", "1"), ("quell-deadline-ms", "99999999999")],
    &[("quell-retry-credit", "99"), ("quell-retry-credit", "98"), ("quell-attempt", "-1")],
    &[("baggage", "quell-retry-credit=99,quell-retry-credit=100")],
    &[("quell-retry-credit", "all of it"), ("quell-attempt", "\u{80}"), ("baggage", "=;,=")],
    &[("quell-attempts", "0"), ("quell-retry", "after=0"), ("x-should-retry", "true")],
];

/// See the [module](self). The first gateway is the one that is called last.
struct Chain {
    hops: Vec<Running>,
    leaf: Fake,
    calls: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
}

impl Chain {
    /// With the defaults of the gateway, but for three attempts that follow each other at once.
    async fn start(wire: Wire, change: impl Fn(&mut Config)) -> Self {
        let (calls, fails) = (Arc::<AtomicUsize>::default(), Arc::new(AtomicBool::new(true)));
        let (counted, failing) = (Arc::clone(&calls), Arc::clone(&fails));
        let leaf = Fake::start(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer(if failing.load(Ordering::SeqCst) { 503 } else { 200 }, "leaf")
        })
        .await;
        let mut hops: Vec<Running> = Vec::new();
        for _ in 0..HOPS {
            let to = match hops.last() {
                Some(below) => wire.to(below.addr()).await,
                None => leaf.addr,
            };
            hops.push(gateway_with(to, |config| {
                config.cores = 1;
                config.policy().attempts = ATTEMPTS;
                config.policy().backoff.base = ms(1);
                change(config);
            }));
        }
        Self { hops, leaf, calls, fails }
    }

    fn entry(&self) -> SocketAddr {
        self.hops[HOPS - 1].addr()
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Asks so often, a few at a time, as callers do who send these fields in turn: how many calls that made.
    async fn ask(&self, requests: usize, callers: &'static [&[(&str, &str)]]) -> usize {
        let (before, entry) = (self.calls(), self.entry());
        let mut asked = JoinSet::new();
        for number in 0..requests {
            asked.spawn(ask(entry, callers[number % callers.len()]));
            if asked.len() == 4 {
                assert_eq!(asked.join_next().await.unwrap().unwrap().status, 503);
            }
        }
        for reply in asked.join_all().await {
            assert_eq!((reply.status.as_u16(), reply.text()), (503, "leaf"));
        }
        self.calls() - before
    }

    /// What all budgets of the chain hold.
    async fn tokens(&self) -> f64 {
        let mut tokens = 0.0;
        for hop in &self.hops {
            tokens += gauge(hop, "quell_retry_budget_tokens").await;
        }
        tokens
    }

    /// Asks until that costs no budget anything: requests and calls so far.
    async fn until_steady(&self, callers: &'static [&[(&str, &str)]]) -> (usize, usize) {
        let (mut requests, before) = (0, self.calls());
        loop {
            let tokens = self.tokens().await;
            self.ask(24, callers).await;
            requests += 24;
            if self.tokens().await == tokens {
                return (requests, self.calls() - before);
            }
            assert!(requests < 2_000, "budgets that do not come to an end");
        }
    }
}

async fn ask(entry: SocketAddr, fields: &[(&str, &str)]) -> Reply {
    let asks = fields.iter().fold(request("GET", "/"), |asks, (name, value)| {
        asks.header(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap())
    });
    send(entry, asks.body(Full::<Bytes>::default()).unwrap()).await
}

fn no_breaker(config: &mut Config) {
    config.upstream().breaker.mode = breaker::Mode::Disabled;
}

/// Nothing but what hops tell each other holds retries back.
fn only_credit(config: &mut Config) {
    no_breaker(config);
    config.upstream().budget = budget::Spec::Unlimited;
}

/// That this can tell a storm when it sees one.
#[tokio::test]
async fn hops_that_tell_each_other_nothing_and_have_no_budget_make_eighty_one_calls_of_one() {
    let chain = Chain::start(Wire::Silent, only_credit).await;
    assert_eq!(chain.ask(2, &[&[]]).await, 2 * 81);
}

#[tokio::test]
async fn credit_alone_makes_three_calls_of_eighty_one_whatever_callers_claim() {
    let chain = Chain::start(Wire::Direct, only_credit).await;
    assert_eq!(chain.ask(12, &[&[]]).await, 12 * 3);
    assert!(chain.ask(24, &FORGED).await <= 24 * 3);
    let seen = chain.leaf.seen();
    let credit = |i: usize| seen[i].header("quell-retry-credit").unwrap().parse::<u32>().unwrap();
    assert!((0..seen.len()).all(|i| credit(i) < ATTEMPTS));
}

/// Every wire that swallows replies' fields may cost the credit once more: a sum still.
#[tokio::test]
async fn applications_that_forward_baggage_alone_keep_it_a_sum() {
    let chain = Chain::start(Wire::Baggage, only_credit).await;
    let calls = chain.ask(8, &[&[]]).await;
    assert!((8 * 3..=8 * 9).contains(&calls), "{calls}");
}

#[tokio::test]
async fn in_steady_failure_the_leaf_gets_what_users_ask_for_and_hardly_more() {
    for (wire, callers, most) in [
        (Wire::Direct, &FORGED[..1], START),
        (Wire::Direct, &FORGED[..], START),
        (Wire::Baggage, &FORGED[..1], HOPS * START),
        (Wire::Silent, &FORGED[..1], HOPS * START),
    ] {
        let chain = Chain::start(wire, no_breaker).await;
        let (requests, calls) = chain.until_steady(callers).await;
        // What the first second cost is what one budget held, or all of them where nobody tells anybody.
        assert!(calls <= requests + most, "{wire:?}: {calls} calls of {requests}");
        if wire == Wire::Silent {
            assert!(
                calls > requests + 2 * START,
                "{calls} calls of {requests}: too few to prove it"
            );
        }
        let calls = chain.ask(120, callers).await;
        assert!(calls <= 132, "{wire:?}, {} kinds of callers: {calls} calls of 120", callers.len());
    }
}

/// Asks at an even pace, however the earlier ones fare.
async fn at_a_pace(entry: SocketAddr, requests: usize) -> JoinSet<bool> {
    let mut ticks = interval(ms(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = JoinSet::new();
    for number in 0..requests {
        ticks.tick().await;
        asked.spawn(async move { ask(entry, FORGED[number % FORGED.len()]).await.status == 200 });
    }
    asked
}

/// Seconds are counted in requests here, a hundred each: a slow machine has longer ones.
#[tokio::test]
async fn with_all_defaults_the_chain_bears_an_outage_and_is_itself_within_five_seconds() {
    let chain = Chain::start(Wire::Direct, |_| {}).await;
    chain.fails.store(false, Ordering::SeqCst);
    let well = at_a_pace(chain.entry(), 100).await.join_all().await;
    assert!(well.iter().all(|served| *served), "{well:?}");
    chain.fails.store(true, Ordering::SeqCst);
    let _first_second = at_a_pace(chain.entry(), 100).await;
    let before = chain.calls();
    let outage = at_a_pace(chain.entry(), 200).await;
    let calls = chain.calls() - before;
    assert!(calls <= 220, "{calls} calls of 200");
    assert!(outage.join_all().await.iter().all(|served| !served));
    chain.fails.store(false, Ordering::SeqCst);
    let _healing = at_a_pace(chain.entry(), 400).await;
    let healed = at_a_pace(chain.entry(), 100).await.join_all().await;
    let served = healed.iter().filter(|served| **served).count();
    assert!(served >= 99, "{served} of 100 in the fifth second");
}
