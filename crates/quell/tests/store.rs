//! What every store keeps, and what the one in memory promises besides.
//!
//! [`suite`] is for any store: run a new one through it with a [`Subject`] of its own.
#![allow(clippy::unwrap_used)]

use std::{
    future::Future,
    sync::{Arc, Barrier},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode};
use quell::{
    Clock,
    core::idempotency::{Fingerprint, OnExpiry, Owner, Rules, Spec, Stale},
    store::{Begun, Claim, Ended, Key, Memory, Reply, Request, Store, Unsettled},
};

const LEASE: Duration = Duration::from_millis(200);
const TTL: Duration = Duration::from_millis(1_000);
const ME: Owner = Owner(1);
const OTHER: Owner = Owner(2);

/// A store, and how to let time go by for it: a clock moved by hand, or real time where the store has its own.
trait Subject {
    fn store(&self) -> Arc<dyn Store>;
    fn pass(&self, time: Duration) -> impl Future<Output = ()>;
}

/// What every store keeps. Each fact has a key of its own, so one store serves them all.
async fn suite(subject: &impl Subject) {
    only_one_of_two_may_go_ahead(subject).await;
    the_same_key_with_another_payload_is_refused(subject).await;
    what_is_stored_is_given_again_to_the_byte(subject).await;
    an_unstored_reply_is_never_run_again(subject).await;
    an_abandoned_key_is_free_again(subject).await;
    a_silent_owner_is_overtaken_and_changes_nothing_any_more(subject).await;
    a_held_key_is_not_run_again_though_its_owner_is_gone(subject).await;
    a_renewed_claim_is_not_overtaken(subject).await;
    a_key_is_forgotten_after_its_time_and_not_before(subject).await;
    the_first_word_on_an_end_stands(subject).await;
    of_many_who_race_for_a_key_exactly_one_gets_it(subject).await;
}

fn request(key: u8, owner: Owner, on_expiry: OnExpiry) -> Request {
    let rules = Rules::new(Spec { lease: LEASE, ttl: TTL, on_expiry }).unwrap();
    Request { key: Key([key; 32]), owner, fingerprint: Fingerprint([7; 32]), rules }
}

fn reply(body: &'static str) -> Reply {
    let mut headers = HeaderMap::new();
    headers.append("x-part", HeaderValue::from_static("one"));
    headers.append("x-part", HeaderValue::from_static("two"));
    Reply::new(StatusCode::CREATED, &headers, body.into())
}

async fn claim(store: &dyn Store, request: &Request) -> Claim {
    match store.begin(request).await.unwrap() {
        Begun::Claimed(claim) => claim,
        other => panic!("not claimed but {other:?}"),
    }
}

async fn wait(store: &dyn Store, request: &Request) -> Duration {
    match store.begin(request).await.unwrap() {
        Begun::InFlight { wait } => wait,
        other => panic!("not in flight but {other:?}"),
    }
}

fn is_stale(result: Result<(), Unsettled>) -> bool {
    matches!(result, Err(Unsettled::Stale(Stale)))
}

async fn only_one_of_two_may_go_ahead(subject: &impl Subject) {
    let store = subject.store();
    let claimed = claim(&*store, &request(1, ME, OnExpiry::Rerun)).await;
    assert_eq!((claimed.key, claimed.owner), (Key([1; 32]), ME));
    for owner in [OTHER, ME] {
        let left = wait(&*store, &request(1, owner, OnExpiry::Rerun)).await;
        assert!(left > Duration::ZERO && left <= LEASE, "{left:?}");
    }
}

async fn the_same_key_with_another_payload_is_refused(subject: &impl Subject) {
    let store = subject.store();
    let mine = request(2, ME, OnExpiry::Rerun);
    let changed = Request { fingerprint: Fingerprint([8; 32]), ..mine };
    let claimed = claim(&*store, &mine).await;
    assert_eq!(store.begin(&changed).await.unwrap(), Begun::Mismatch);
    store.complete(&claimed, Ended::Stored(reply("paid"))).await.unwrap();
    assert_eq!(store.begin(&changed).await.unwrap(), Begun::Mismatch);
}

async fn what_is_stored_is_given_again_to_the_byte(subject: &impl Subject) {
    let store = subject.store();
    let claimed = claim(&*store, &request(3, ME, OnExpiry::Rerun)).await;
    store.complete(&claimed, Ended::Stored(reply("paid"))).await.unwrap();
    for owner in [ME, OTHER] {
        let again = store.begin(&request(3, owner, OnExpiry::Rerun)).await.unwrap();
        assert_eq!(again, Begun::Replay(reply("paid")));
    }
}

async fn an_unstored_reply_is_never_run_again(subject: &impl Subject) {
    let store = subject.store();
    let mine = request(4, ME, OnExpiry::Rerun);
    let claimed = claim(&*store, &mine).await;
    store.complete(&claimed, Ended::Unstored { status: StatusCode::OK }).await.unwrap();
    subject.pass(2 * LEASE).await;
    assert!(wait(&*store, &mine).await > Duration::ZERO);
    let mine = request(5, ME, OnExpiry::Rerun);
    let claimed = claim(&*store, &mine).await;
    store.complete(&claimed, Ended::Failed).await.unwrap();
    assert_eq!(store.begin(&mine).await.unwrap(), Begun::Failed);
}

/// K13.
async fn an_abandoned_key_is_free_again(subject: &impl Subject) {
    let store = subject.store();
    let first = claim(&*store, &request(6, ME, OnExpiry::Hold)).await;
    store.abandon(&first).await.unwrap();
    let changed = Request { fingerprint: Fingerprint([9; 32]), ..request(6, ME, OnExpiry::Hold) };
    let second = claim(&*store, &changed).await;
    assert!(second.fence > first.fence);
    assert!(is_stale(store.abandon(&first).await), "the same owner's earlier claim");
    store.complete(&second, Ended::Stored(reply("late"))).await.unwrap();
}

async fn a_silent_owner_is_overtaken_and_changes_nothing_any_more(subject: &impl Subject) {
    let store = subject.store();
    let silent = claim(&*store, &request(7, ME, OnExpiry::Rerun)).await;
    subject.pass(LEASE).await;
    let next = claim(&*store, &request(7, OTHER, OnExpiry::Rerun)).await;
    assert!(next.fence > silent.fence);
    assert!(is_stale(store.complete(&silent, Ended::Stored(reply("mine"))).await));
    assert!(is_stale(store.renew(&silent).await));
    assert!(is_stale(store.abandon(&silent).await));
    assert!(wait(&*store, &request(7, ME, OnExpiry::Rerun)).await > Duration::ZERO);
    store.complete(&next, Ended::Stored(reply("theirs"))).await.unwrap();
    assert!(is_stale(store.complete(&silent, Ended::Stored(reply("mine"))).await));
    let again = store.begin(&request(7, ME, OnExpiry::Rerun)).await.unwrap();
    assert_eq!(again, Begun::Replay(reply("theirs")));
}

async fn a_held_key_is_not_run_again_though_its_owner_is_gone(subject: &impl Subject) {
    let store = subject.store();
    let silent = claim(&*store, &request(8, ME, OnExpiry::Hold)).await;
    subject.pass(2 * LEASE).await;
    assert!(wait(&*store, &request(8, OTHER, OnExpiry::Hold)).await > Duration::ZERO);
    // It was slow, not gone: nobody did the work in its place, so its word still counts.
    store.complete(&silent, Ended::Stored(reply("slow"))).await.unwrap();
    let again = store.begin(&request(8, OTHER, OnExpiry::Hold)).await.unwrap();
    assert_eq!(again, Begun::Replay(reply("slow")));
}

async fn a_renewed_claim_is_not_overtaken(subject: &impl Subject) {
    let store = subject.store();
    let long = claim(&*store, &request(9, ME, OnExpiry::Rerun)).await;
    for _ in 0..4 {
        subject.pass(LEASE * 3 / 4).await;
        store.renew(&long).await.unwrap();
        assert!(wait(&*store, &request(9, OTHER, OnExpiry::Rerun)).await > Duration::ZERO);
    }
    store.complete(&long, Ended::Stored(reply("long"))).await.unwrap();
}

async fn a_key_is_forgotten_after_its_time_and_not_before(subject: &impl Subject) {
    let store = subject.store();
    let mine = request(10, ME, OnExpiry::Rerun);
    let first = claim(&*store, &mine).await;
    store.complete(&first, Ended::Stored(reply("old"))).await.unwrap();
    subject.pass(TTL / 2).await;
    assert_eq!(store.begin(&mine).await.unwrap(), Begun::Replay(reply("old")));
    subject.pass(TTL).await;
    let second = claim(&*store, &mine).await;
    assert!(second.fence > first.fence);
    assert!(is_stale(store.abandon(&first).await));
}

async fn the_first_word_on_an_end_stands(subject: &impl Subject) {
    let store = subject.store();
    let mine = request(11, ME, OnExpiry::Rerun);
    let claimed = claim(&*store, &mine).await;
    store.complete(&claimed, Ended::Stored(reply("first"))).await.unwrap();
    store.complete(&claimed, Ended::Stored(reply("second"))).await.unwrap();
    assert!(is_stale(store.abandon(&claimed).await));
    assert_eq!(store.begin(&mine).await.unwrap(), Begun::Replay(reply("first")));
}

async fn of_many_who_race_for_a_key_exactly_one_gets_it(subject: &impl Subject) {
    const THREADS: u128 = 32;
    let start = Arc::new(Barrier::new(THREADS as usize));
    let racers: Vec<_> = (0..THREADS)
        .map(|owner| {
            let (store, start) = (subject.store(), start.clone());
            let runtime = tokio::runtime::Handle::current();
            std::thread::spawn(move || {
                start.wait();
                let request = request(12, Owner(owner), OnExpiry::Rerun);
                match runtime.block_on(store.begin(&request)).unwrap() {
                    Begun::Claimed(_) => 1,
                    Begun::InFlight { .. } => 0,
                    other => panic!("{other:?}"),
                }
            })
        })
        .collect();
    let waited = tokio::task::spawn_blocking(move || {
        racers.into_iter().map(|racer| racer.join().unwrap()).sum::<u32>()
    });
    assert_eq!(waited.await.unwrap(), 1);
}

struct InMemory(Clock, Arc<Memory>);

impl InMemory {
    fn new(bound: impl FnOnce(Memory) -> Memory) -> Self {
        let clock = Clock::manual();
        let store = bound(Memory::new().clock(clock.clone()));
        Self(clock, Arc::new(store))
    }
}

impl Subject for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        self.1.clone()
    }

    async fn pass(&self, time: Duration) {
        self.0.advance(time);
    }
}

#[tokio::test]
async fn the_store_in_memory_keeps_what_every_store_keeps() {
    suite(&InMemory::new(|store| store)).await;
}

#[tokio::test]
async fn full_of_live_keys_it_refuses_new_ones_and_forgets_none() {
    let subject = InMemory::new(|store| store.entries(2));
    let store = subject.store();
    let mine = |key| request(key, ME, OnExpiry::Rerun);
    let one = claim(&*store, &mine(1)).await;
    let done = claim(&*store, &mine(2)).await;
    store.complete(&done, Ended::Stored(reply("done"))).await.unwrap();
    let down = store.begin(&mine(3)).await.unwrap_err();
    assert!(down.to_string().contains("keys"), "{down}");
    assert_eq!(store.begin(&mine(2)).await.unwrap(), Begun::Replay(reply("done")));
    assert_eq!((subject.1.usage().entries, subject.1.usage().refused), (2, 1));

    store.abandon(&one).await.unwrap();
    let _ = claim(&*store, &mine(3)).await; // what was given up makes room
    subject.pass(TTL).await;
    let _ = claim(&*store, &mine(4)).await; // and so does what ran out
    assert_eq!(subject.1.usage().entries, 1);
}

#[tokio::test]
async fn a_reply_that_finds_no_room_is_done_all_the_same() {
    let size = reply("paid").size();
    let subject = InMemory::new(|store| store.bytes(size));
    let store = subject.store();
    let mine = |key| request(key, ME, OnExpiry::Rerun);
    for key in [1, 2] {
        let claimed = claim(&*store, &mine(key)).await;
        store.complete(&claimed, Ended::Stored(reply("paid"))).await.unwrap();
    }
    assert_eq!(store.begin(&mine(1)).await.unwrap(), Begun::Replay(reply("paid")));
    assert!(wait(&*store, &mine(2)).await > LEASE, "done, and its reply is gone");
    assert_eq!((subject.1.usage().bytes, subject.1.usage().unstored), (size, 1));

    subject.pass(TTL).await;
    let claimed = claim(&*store, &mine(3)).await;
    store.complete(&claimed, Ended::Stored(reply("paid"))).await.unwrap();
    assert_eq!((subject.1.usage().bytes, subject.1.usage().unstored), (size, 1));
}

#[tokio::test]
async fn keys_that_come_and_go_leave_nothing_behind() {
    let subject = InMemory::new(|store| store);
    let store = subject.store();
    for round in 0..1_000_u32 {
        let mine = request((round % 251) as u8, ME, OnExpiry::Rerun);
        let claimed = claim(&*store, &mine).await;
        if round % 3 == 0 {
            store.abandon(&claimed).await.unwrap();
        } else {
            store.complete(&claimed, Ended::Stored(reply("paid"))).await.unwrap();
            subject.pass(TTL).await;
        }
    }
    subject.pass(TTL).await;
    let last = claim(&*store, &request(255, ME, OnExpiry::Rerun)).await;
    store.abandon(&last).await.unwrap();
    let usage = subject.1.usage();
    assert_eq!((usage.entries, usage.bytes, usage.refused), (0, 0, 0));
}

/// O5.
#[test]
fn what_a_reply_says_is_not_printed() {
    let mut headers = HeaderMap::new();
    headers.insert("x-token", HeaderValue::from_static("secret-token"));
    let reply = Reply::new(StatusCode::OK, &headers, "secret-body".into());
    let printed = format!("{reply:?} {:?}", Begun::Replay(reply.clone()));
    assert!(printed.contains("200") && !printed.contains("secret"), "{printed}");
}
