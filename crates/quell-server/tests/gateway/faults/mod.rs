//! A thousand faults, and a ledger that is exact.
//!
//! **Why.** Each of these faults is met once a year by everybody and once a minute by somebody. A proxy that answers twice,
//! repeats what may have been done, loses a slot or counts wrong after one of them does so in the worst hour of
//! its users, and no test of one fault finds what two of them do together.
//!
//! **How.** An [`origin`] of raw bytes misbehaves as a seeded [`plan`] says, at every point of an exchange. [`caller`]s of all
//! kinds send through the gateway, and some leave. At the end the [`ledger`] of callers, gateway and origin must be one
//! story. A seed that fails is printed; give it as `QUELL_SEED` to repeat it, and add it to [`SEEDS`] with the fix.

mod caller;
mod frames;
mod ledger;
mod origin;
mod plan;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::caller::{Lane, Seen};
use self::ledger::{Ledger, RATIO, START};
use self::origin::Origin;
use self::plan::{Act, How, Plan, Point, Speech};
use crate::kit::scrape::Scrape;
use crate::kit::*;
use quell_server::gateway::Running;
use tokio::task::JoinSet;

/// Tried in every run.
const SEEDS: &[u64] = &[1];
/// Requests, and callers who send them.
const REQUESTS: usize = 1_200;
const LANES: usize = 80;

/// The seed to repeat, or those that are always tried.
fn seeds() -> Vec<u64> {
    match std::env::var("QUELL_SEED") {
        Ok(seed) => vec![seed.parse().expect("QUELL_SEED is a number")],
        Err(_) => SEEDS.to_vec(),
    }
}

/// A gateway in front of this origin, with three attempts per request.
fn gateway_to(origin: &Origin, upstream: &str) -> Running {
    from_file(&format!(
        "[upstream.default]\nendpoints = [\"http://{}\"]\n{upstream}\n\
         [policy.default]\nattempts = {}\ntimeout = \"15s\"\nper_try_timeout = \"2s\"\n\
         backoff = {{ base = \"10ms\", cap = \"50ms\" }}\n\
         [[route]]\nupstream = \"default\"\n",
        origin.addr,
        plan::ATTEMPTS,
    ))
}

/// Sends all requests, and says what their callers saw.
async fn send_all(gateway: &Running, origin: &Arc<Origin>, plans: &Arc<Vec<Plan>>) -> Vec<Seen> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let (to, origin, plans, next) =
            (gateway.addr(), Arc::clone(origin), Arc::clone(plans), Arc::clone(&next));
        lanes.spawn(async move {
            let (mut lane, mut seen) = (Lane::new(to), Vec::new());
            while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                seen.push((plan.id, lane.run(plan, origin.sign(plan.id)).await));
            }
            seen
        });
    }
    let mut all: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
    all.sort_by_key(|(id, _)| *id);
    all.into_iter().map(|(_, seen)| seen).collect()
}

/// Everything is back where it belongs, and nobody waits for anything.
async fn settles(gateway: &Running) -> Scrape {
    until("nothing is under way", || async {
        let scrape = Scrape::of(gateway.admin_addr()).await;
        let level = |name| scrape.sum(name, &[]);
        level("quell_in_flight") == 0.0 && level("quell_queued") == 0.0
    })
    .await;
    Scrape::of(gateway.admin_addr()).await
}

/// One seed's run against one gateway, and what all sides say of it.
struct Trial {
    seed: u64,
    speech: Speech,
    /// Of the upstream, beside its endpoint.
    settings: String,
    /// Whether nothing but the attempts themselves ends a request.
    unhindered: bool,
    /// Faults that have to be met, or nothing was tried.
    planned: usize,
}

impl Trial {
    async fn run(self) {
        let Self { seed, speech, settings, unhindered, planned } = self;
        println!("QUELL_SEED={seed} {speech:?}");
        let plans = (0..REQUESTS).map(|id| Plan::draw(seed, id, speech));
        let plans: Arc<Vec<_>> = Arc::new(plans.collect());
        let origin = Arc::new(Origin::start(seed, plans.to_vec(), speech).await);
        let gateway = gateway_to(&origin, &settings);
        let seen = send_all(&gateway, &origin, &plans).await;

        let scrape = settles(&gateway).await;
        let results = |word| scrape.sum("quell_attempts_total", &[("result", word)]);
        let ghosts = scrape.sum("quell_ghosts", &[]);
        assert!(ghosts <= results("timeout") + results("abandoned"), "{ghosts} ghosts");
        let (mut scrape, mut control) = (scrape, None);
        if speech == Speech::Http1 && unhindered {
            // An answer to a call that was sent after them ends them all.
            let reply = get(gateway.addr(), "/").await;
            assert_eq!(reply.status, 200);
            let attempts = reply.headers["quell-attempts"].to_str().unwrap().parse().unwrap();
            (scrape, control) = (settles(&gateway).await, Some(attempts));
            assert_eq!(scrape.sum("quell_ghosts", &[]), 0.0);
        }

        let (seen, log) = (seen.as_slice(), &origin.log());
        let numbered = speech == Speech::Http1;
        let ledger =
            Ledger { plans: &plans, seen, log, scrape: &scrape, unhindered, numbered, control };
        let problems = ledger.problems();
        let shown = problems.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(problems.is_empty(), "seed {seed}: {} problems\n{shown}", problems.len());
        let faults = log.arrivals.iter().filter(|arrival| arrival.act.is_fault()).count();
        let faults = faults + log.killed.len();
        let left = seen.iter().filter(|seen| matches!(seen, Seen::Left)).count();
        let (arrived, overlooked) = (log.arrivals.len(), log.overlooked);
        println!("{faults} faults, {left} callers left, {arrived} attempts and {overlooked} more");
        assert!(faults >= planned, "seed {seed}: {faults} faults, and {planned} were planned");
        assert!(left > 0, "seed {seed}: nobody left");
    }
}

/// A budget that lasts, and nothing else that would refuse.
fn unhindered() -> String {
    format!(
        "budget = {{ max = 10000, start = {START}, ratio = {RATIO} }}\n\
         breaker = {{ mode = \"disabled\" }}\nin_flight = {{ limit = 4000 }}\n"
    )
}

/// H3, H4, H8, P0, P1, P5, O3.
#[tokio::test]
async fn a_thousand_faults_leave_an_exact_ledger_and_nothing_behind() {
    for seed in seeds() {
        let speech = Speech::Http1;
        Trial { seed, speech, settings: unhindered(), unhindered: true, planned: 1_000 }
            .run()
            .await;
    }
}

/// H4, P0, P1, P5, O3.
#[tokio::test]
async fn a_thousand_faults_of_http2_leave_an_exact_ledger_and_nothing_behind() {
    for seed in seeds() {
        let settings = unhindered() + "protocol = \"http2\"";
        let speech = Speech::Http2;
        Trial { seed, speech, settings, unhindered: true, planned: 1_000 }.run().await;
    }
}

/// H8. What an endpoint says that it did not begin is sent again, and what it may have begun only where that does no harm.
#[tokio::test]
async fn an_endpoint_that_goes_away_is_believed_in_what_it_did_not_begin() {
    let cases = [
        ("PUT", Act::GoAwayBelow, 200, 2),
        ("PUT", Act::GoAwayCut, 200, 2),
        ("PUT", Act::GoAwayAbove, 200, 1),
        ("PUT", Act::Cut(Point::Read, How::Close), 200, 2),
        ("PUT", Act::Refuse, 200, 2),
        ("POST", Act::GoAwayBelow, 502, 1), // its body is not kept
        ("POST", Act::GoAwayCut, 502, 1),
        ("POST", Act::Cut(Point::Read, How::Close), 502, 1),
    ];
    let plans = cases.iter().enumerate().map(|(id, case)| Plan::fixed(id, case.0, case.1));
    let plans: Vec<_> = plans.collect();
    let origin = Origin::start(0, plans.clone(), Speech::Http2).await;
    let gateway = gateway_to(&origin, &(unhindered() + "protocol = \"http2\""));
    for (plan, (_, _, expected, sends)) in plans.iter().zip(cases) {
        let seen = Lane::new(gateway.addr()).run(plan, origin.sign(plan.id)).await;
        let Seen::Reply { status, .. } = seen else { panic!("{plan:?}: {seen:?}") };
        let arrived = origin.log().arrivals.iter().filter(|arrival| arrival.id == plan.id).count();
        assert_eq!((status, arrived), (expected, sends), "{plan:?}: {seen:?}");
    }
}

/// O3, P1, X1.
#[tokio::test]
async fn in_the_same_trouble_the_defaults_refuse_and_count_each_refusal_once() {
    for seed in seeds() {
        let (speech, settings) = (Speech::Http1, String::new());
        // The breaker opens after the first twenty, and whoever is not under way by then meets it instead.
        Trial { seed, speech, settings, unhindered: false, planned: 20 }.run().await;
    }
}

/// H11. Answers that come too late are thousands in an outage, all on few connections.
#[tokio::test]
async fn two_thousand_late_answers_harm_nobody_else_on_their_connection() {
    const LATE: usize = 2_000;
    // Every tenth is another's, and has all the time it needs.
    let plan = |id| match id % 10 {
        0 => Plan::fixed(id, "POST", Act::Reply(200)),
        _ => Plan::fixed(id, "PUT", Act::Late),
    };
    let plans: Arc<Vec<_>> = Arc::new((0..LATE + LATE / 9).map(plan).collect());
    let late = plans.iter().filter(|plan| plan.method == "PUT").count();
    let origin = Arc::new(Origin::start(0, plans.to_vec(), Speech::Http2).await);
    let gateway = from_file_with(
        &format!(
            "[upstream.default]\nendpoints = [\"http://{}\"]\nprotocol = \"http2\"\n{}\
             [policy.default]\nattempts = 1\nper_try_timeout = \"100ms\"\n\
             [policy.patient]\nattempts = 1\ntimeout = \"15s\"\nper_try_timeout = \"15s\"\n\
             [[route]]\nmatch = {{ methods = [\"POST\"] }}\nupstream = \"default\"\npolicy = \"patient\"\n\
             [[route]]\nmatch = {{ methods = [\"PUT\"] }}\nupstream = \"default\"\n",
            origin.addr,
            unhindered(),
        ),
        |config| config.cores = 1,
    );
    let seen = send_all(&gateway, &origin, &plans).await;
    for (plan, seen) in plans.iter().zip(&seen) {
        let Seen::Reply { status, .. } = seen else { panic!("{seen:?}") };
        assert_eq!(*status, if plan.method == "POST" { 200 } else { 504 }, "{plan:?}: {seen:?}");
    }
    let scrape = settles(&gateway).await;
    let count = |word| scrape.count("quell_attempts_total", &[("result", word)]);
    assert_eq!((count("timeout"), count("broken")), (late, 0));
}
