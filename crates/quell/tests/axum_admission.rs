//! The in-flight limit of a real server over real sockets.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod axum_kit;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    routing::get,
};
use axum_kit::{SOON, Streamed, client, header, in_time, serve, until};
use http::StatusCode;
use parking_lot::Mutex;
use quell::{
    Clock, Limit, Reason,
    axum::{Admission, Priority, admission::Builder},
    observe::{Event, Observe},
};
use tokio::sync::Semaphore;

/// Handlers that wait until the test lets them go on.
#[derive(Clone)]
struct Door {
    open: Arc<Semaphore>,
    started: Arc<AtomicU32>,
    finished: Arc<AtomicU32>,
}

impl Door {
    fn new() -> Self {
        let zero = || Arc::new(AtomicU32::new(0));
        Self { open: Arc::new(Semaphore::new(0)), started: zero(), finished: zero() }
    }

    async fn pass(&self) {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.open.acquire().await.unwrap().forget();
        self.finished.fetch_add(1, Ordering::SeqCst);
    }

    fn started(&self) -> u32 {
        self.started.load(Ordering::SeqCst)
    }
}

fn app(admission: &Admission, door: &Door) -> Router {
    Router::new()
        .route("/wait", get(|State(door): State<Door>| async move { door.pass().await }))
        .route(
            "/panic",
            get(|| async {
                if true {
                    panic!("a handler's own fault")
                }
            }),
        )
        .route(
            "/busy",
            get(|| async { (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "9")], "mine") }),
        )
        .route("/stream", get(stream))
        .route("/", get(|| async { "hello" }))
        .layer(admission.clone())
        .with_state(door.clone())
}

/// Sends its head at once, and the rest when the door opens.
async fn stream(State(door): State<Door>) -> Body {
    let (sender, pieces) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        door.pass().await;
        let _ = sender.send(Bytes::from("late")).await;
    });
    Body::new(Streamed(pieces))
}

/// One at a time, and one more waits.
fn narrow() -> Builder {
    Admission::new("api").in_flight(Limit::Fixed(1)).queue(1).queue_wait(SOON).timeout(2 * SOON)
}

async fn start(builder: Builder) -> (Admission, Door, SocketAddr) {
    let (admission, door) = (builder.build().unwrap(), Door::new());
    let address = serve(app(&admission, &door)).await;
    (admission, door, address)
}

fn ask(address: SocketAddr, path: &str) -> reqwest::RequestBuilder {
    client().get(format!("http://{address}{path}"))
}

fn spawn(request: reqwest::RequestBuilder) -> tokio::task::JoinHandle<reqwest::Response> {
    tokio::spawn(async move { request.send().await.unwrap() })
}

#[tokio::test]
async fn a_short_burst_waits_its_turn_and_the_rest_is_refused_at_once() {
    let (admission, door, address) = start(narrow()).await;
    let first = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().in_flight == 1).await;
    let second = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().queued == 1).await;

    let refused = ask(address, "/wait").send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(header(&refused, "quell-stop"), Some("queue_full"));
    assert_eq!(header(&refused, "content-type"), Some("application/json"));
    let wait: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&wait), "{wait}");
    let body = refused.text().await.unwrap();
    assert_eq!(body, r#"{"error":"Too many requests are under way","code":"QUEUE_FULL"}"#);

    assert_eq!(door.started(), 1, "whoever waits has not started");
    door.open.add_permits(2);
    assert_eq!(in_time(first).await.unwrap().status(), 200);
    assert_eq!(in_time(second).await.unwrap().status(), 200);
    assert_eq!(door.started(), 2);
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().ghosts), (0, 0));
}

#[tokio::test]
async fn with_no_queue_there_is_no_waiting() {
    let (admission, door, address) = start(narrow().queue(0)).await;
    let first = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().in_flight == 1).await;
    let refused = ask(address, "/").send().await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), header(&refused, "quell-stop")),
        (503, Some("in_flight_full"))
    );
    door.open.add_permits(1);
    assert_eq!(in_time(first).await.unwrap().status(), 200);
}

/// X6.
#[tokio::test]
async fn whoever_cannot_be_answered_in_time_is_refused_before_its_turn() {
    let clock = Clock::manual();
    let (admission, door, address) = start(narrow().clock(clock.clone())).await;
    let ms = Duration::from_millis;
    // Enough answers to know that one takes 50 ms.
    for _ in 0..30 {
        let slow = spawn(ask(address, "/wait"));
        until(|| admission.snapshot().in_flight == 1).await;
        clock.advance(ms(50));
        door.open.add_permits(1);
        in_time(slow).await.unwrap();
    }
    let first = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().in_flight == 1).await;
    let stop = |reply: &reqwest::Response| {
        (reply.status().as_u16(), header(reply, "quell-stop").map(str::to_owned))
    };
    // Of the same kind: what another path takes says nothing of this one.
    let with_deadline = |ms| ask(address, "/wait").header("quell-deadline-ms", ms);

    let hasty = with_deadline("40").send().await.unwrap();
    assert_eq!(stop(&hasty), (503, Some("deadline_margin".into())));
    let gone = with_deadline("0").send().await.unwrap();
    assert_eq!(stop(&gone), (504, Some("deadline".into())));
    assert_eq!(header(&gone, "retry-after"), None);

    let patient = spawn(with_deadline("400"));
    until(|| admission.snapshot().queued == 1).await;
    clock.advance(ms(300));
    assert_eq!(admission.snapshot().queued, 1, "there is time enough");
    clock.advance(ms(60)); // 40 ms are left, and it takes 50
    assert_eq!(stop(&in_time(patient).await.unwrap()), (503, Some("deadline_margin".into())));

    door.open.add_permits(1);
    assert_eq!(in_time(first).await.unwrap().status(), 200);
    assert_eq!(door.started(), 31);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_leaves_nothing_behind() {
    let (admission, door, address) = start(narrow().timeout(Duration::from_millis(50))).await;
    let late = ask(address, "/wait").send().await.unwrap();
    assert_eq!((late.status().as_u16(), header(&late, "quell-stop")), (504, Some("deadline")));
    let told = ask(address, "/wait").header("quell-deadline-ms", "10").send().await.unwrap();
    assert_eq!(told.status(), 504);
    let left = admission.snapshot();
    assert_eq!((left.in_flight, left.ghosts, left.queued), (0, 0, 0));
    assert_eq!((door.started(), door.finished.load(Ordering::SeqCst)), (2, 0));
}

/// P1.
#[tokio::test]
async fn a_caller_who_leaves_gives_its_slot_to_the_next_and_leaves_no_ghost() {
    let (admission, door, address) = start(narrow()).await;
    let leaving = spawn(ask(address, "/wait"));
    until(|| door.started() == 1).await;
    let queued = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().queued == 1).await;
    leaving.abort();
    until(|| door.started() == 2).await;
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().ghosts), (1, 0));
    door.open.add_permits(1);
    assert_eq!(in_time(queued).await.unwrap().status(), 200);
    assert_eq!(door.finished.load(Ordering::SeqCst), 1, "the dropped handler's work ended with it");

    let holding = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().in_flight == 1).await;
    let leaving = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().queued == 1).await;
    leaving.abort();
    until(|| admission.snapshot().queued == 0).await;
    door.open.add_permits(1);
    assert_eq!(in_time(holding).await.unwrap().status(), 200);
}

#[tokio::test]
async fn callers_who_leave_teach_how_long_callers_wait() {
    let adaptive = Admission::new("api").in_flight(Limit::Adaptive { ceiling: 64 });
    let clock = Clock::manual();
    let (admission, door, address) = start(adaptive.clock(clock.clone())).await;
    let before = admission.snapshot().patience;
    for gone in 1..=25 {
        let leaving = spawn(ask(address, "/wait"));
        until(|| door.started() == gone).await;
        clock.advance(Duration::from_millis(300));
        leaving.abort();
        until(|| admission.snapshot().in_flight == 0).await;
    }
    assert!(admission.snapshot().patience < before);
    assert_eq!(admission.snapshot().ghosts, 0);
}

/// P4.
#[tokio::test]
async fn a_handler_that_panics_gives_its_slot_back() {
    let (admission, _, address) = start(narrow()).await;
    for _ in 0..3 {
        assert!(ask(address, "/panic").send().await.is_err());
    }
    assert_eq!(ask(address, "/").send().await.unwrap().status(), 200);
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().ghosts), (0, 0));
}

#[tokio::test]
async fn a_body_that_streams_holds_no_slot() {
    let (admission, door, address) = start(narrow()).await;
    let streaming = ask(address, "/stream").send().await.unwrap();
    until(|| door.started() == 1).await;
    assert_eq!(admission.snapshot().in_flight, 0);
    assert_eq!(ask(address, "/").send().await.unwrap().status(), 200);
    door.open.add_permits(1);
    assert_eq!(in_time(streaming.text()).await.unwrap(), "late");
}

#[tokio::test]
async fn a_handlers_own_503_is_its_business() {
    let (admission, _, address) = start(narrow()).await;
    for _ in 0..50 {
        let reply = ask(address, "/busy").send().await.unwrap();
        assert_eq!((reply.status().as_u16(), header(&reply, "retry-after")), (503, Some("9")));
        assert_eq!(header(&reply, "quell-stop"), None);
        assert_eq!(reply.text().await.unwrap(), "mine");
    }
    assert_eq!(ask(address, "/").send().await.unwrap().status(), 200);
    assert_eq!(admission.snapshot().in_flight, 0);
}

#[tokio::test]
async fn the_important_goes_first_and_the_unimportant_is_shed() {
    let builder =
        narrow().priority(|parts| match parts.headers.get("x-class").map(|v| v.as_bytes()) {
            Some(b"critical") => Priority::Critical,
            _ => Priority::Sheddable,
        });
    let clock = Clock::manual();
    let (admission, door, address) = start(builder.clock(clock.clone())).await;
    let first = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().in_flight == 1).await;
    let sheddable = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().queued == 1).await;
    clock.advance(Duration::from_millis(120)); // there is pressure now
    let critical = spawn(ask(address, "/wait").header("x-class", "critical"));
    let shed = in_time(sheddable).await.unwrap();
    assert_eq!((shed.status().as_u16(), header(&shed, "quell-stop")), (503, Some("shed")));
    door.open.add_permits(2);
    assert_eq!(in_time(first).await.unwrap().status(), 200);
    assert_eq!(in_time(critical).await.unwrap().status(), 200);
}

#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<End>>>);

/// Attempts, and why there was no further one.
type End = (u32, Option<Reason>);

impl Observe for Ends {
    fn observe(&self, _: &str, event: &Event<'_>) {
        if let Event::Finished(finished) = event {
            self.0.lock().push((finished.attempts, finished.reason));
        }
    }
}

/// O3.
#[tokio::test]
async fn observers_hear_once_of_every_request_and_refusal() {
    let ends = Ends::default();
    let (admission, door, address) = start(narrow().queue(0).observe(ends.clone())).await;
    let first = spawn(ask(address, "/wait"));
    until(|| admission.snapshot().in_flight == 1).await;
    assert_eq!(ask(address, "/").send().await.unwrap().status(), 503);
    door.open.add_permits(1);
    in_time(first).await.unwrap();
    assert_eq!(*ends.0.lock(), [(0, Some(Reason::InFlightFull)), (1, None)]);
}
