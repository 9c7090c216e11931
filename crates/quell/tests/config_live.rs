//! A file that changes under its callers: numbers follow, state stays, and what is wrong changes nothing.
#![cfg(feature = "config")]
#![allow(clippy::unwrap_used)]

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use quell::{
    Clock, Quell, Reason,
    config::Live,
    core::breaker::State,
    observe::{Event, Observe},
    upstream::Host,
};

/// A file of its own for each test, gone when it is over.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "quell-test-{}-{}.toml",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let file = Self(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, format!("version = 1\n{text}")).unwrap();
    }

    fn live(&self) -> Live {
        self.live_at(Clock::manual())
    }

    fn live_at(&self, clock: Clock) -> Live {
        Live::load_with(&self.0, &[], Host { clock, observer: None, seed: 7 }).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Attempts that a call makes which always fails.
fn attempts(quell: &Quell) -> u32 {
    fail(quell).0
}

fn fail(quell: &Quell) -> (u32, Reason) {
    let error =
        quell.call_blocking(|_| Err::<(), _>("no")).idempotent().wait().map(|()| 0).unwrap_err();
    (error.attempts(), error.reason())
}

const TEN: &str = "[policy.a]\nattempts = 2\n[upstream.a]\nbudget = { max = 10, ratio = 0.1 }\nbreaker = { min_calls = 1000 }\n";

/// X9.
#[test]
fn a_half_empty_budget_stays_half_empty_whatever_is_written() {
    let file = File::new(TEN);
    let live = file.live();
    let a = live.quell("a").unwrap();
    (0..5).for_each(|_| assert_eq!(attempts(&a), 2));
    assert_eq!(a.snapshot().retries.level, 5.0);

    file.write(&TEN.replace("max = 10", "max = 100").replace("attempts = 2", "attempts = 4"));
    assert_eq!(live.reload().unwrap().changed, ["a"]);
    assert_eq!(a.snapshot().retries.level, 5.0, "a larger budget starts with what was there");
    assert_eq!(fail(&a), (4, Reason::AttemptsSpent));
    assert_eq!(fail(&live.quell("a").unwrap()), (3, Reason::BudgetEmpty), "it is the same handle");

    file.write("");
    assert_eq!(live.reload().unwrap().vanished, ["a"]);
    assert!(live.quell("a").is_err());
    assert_eq!(fail(&a), (1, Reason::BudgetEmpty), "who has a handle calls on");
    file.write(TEN);
    assert_eq!(live.reload().unwrap().appeared, ["a"]);
    assert_eq!(attempts(&live.quell("a").unwrap()), 1, "going and coming back fills no budget");
}

/// X9.
#[test]
fn an_open_breaker_stays_open_and_closes_by_the_new_numbers() {
    let with = |open: &str| {
        format!(
            "[upstream.a]\nbreaker = {{ min_calls = 2, open = \"{open}\" }}\nbudget = {{ max = 10 }}\n"
        )
    };
    let file = File::new(&with("1h"));
    let clock = Clock::manual();
    let live = file.live_at(clock.clone());
    let a = live.quell("a").unwrap();
    assert_eq!(attempts(&a), 2);
    assert_eq!(a.snapshot().breaker, State::Open);
    file.write(&with("2h"));
    live.reload().unwrap();
    assert_eq!(fail(&a), (0, Reason::BreakerOpen));
    clock.advance(Duration::from_secs(3 * 3_600));
    a.call_blocking(|_| Ok::<_, String>(())).wait().unwrap();
}

#[test]
fn a_file_with_one_mistake_changes_nothing_anywhere() {
    let file = File::new("[policy.a]\nattempts = 2\n[upstream.a]\n[upstream.b]\n");
    let live = file.live();
    let (a, before) = (live.quell("a").unwrap(), live.config());
    for (wrong, place) in [
        ("[policy.a]\nattempts = 5\n[upstream.a]\n[upstream.b]\nbudget = { maxx = 3 }\n", ":6:12"),
        ("[policy.a]\nattempts = 5\n[upstream.a]\n[upstream.b", ":5:12"),
        ("[policy.a]\nattempts = 5\n[policy.b]\ntimeout = \"0s\"\n[upstream.a]\n", ":5:1"),
    ] {
        file.write(wrong);
        let error = live.reload().unwrap_err().to_string();
        assert!(error.contains(place), "{place} is not in {error}");
        assert_eq!((attempts(&a), live.config() == before), (2, true), "{wrong}");
        assert!(live.quell("b").is_ok());
    }
    std::fs::remove_file(&file.0).unwrap();
    let error = live.reload().unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
    assert_eq!(attempts(&a), 2);
}

#[test]
fn a_reload_says_what_appeared_changed_and_vanished() {
    let file = File::new("[upstream.a]\n[upstream.b]\n[upstream.c]\n");
    let live = file.live();
    assert_eq!(live.reload().unwrap().to_string(), "nothing changed");
    file.write("# only a comment\n[upstream.a]\n[upstream.b]\n[upstream.c]\n");
    assert!(live.reload().unwrap().is_empty());
    file.write("[policy.a]\nattempts = 5\n[upstream.a]\n[upstream.c]\n[upstream.d]\n");
    let changes = live.reload().unwrap();
    assert_eq!(changes.to_string(), "appeared: d; changed: a; vanished: b");
    assert!(!changes.is_empty());
}

#[test]
fn upstreams_that_vanish_are_remembered_up_to_a_bound() {
    let many =
        |letter: char| (0..40).map(|i| format!("[upstream.{letter}{i:02}]\n")).collect::<String>();
    let file = File::new(&many('a'));
    let live = file.live();
    file.write(&many('b'));
    assert!(live.reload().unwrap().forgotten.is_empty());
    file.write("");
    let forgotten = live.reload().unwrap().forgotten;
    assert_eq!(forgotten.len(), 16, "of 80, 64 are kept");
    assert!(forgotten.iter().all(|name| name.starts_with('a')), "the longest gone first");
}

#[test]
fn whether_calls_may_be_repeated_follows_the_file() {
    let file = File::new("[upstream.a]\n");
    let live = file.live();
    let quell = live.quell("a").unwrap();
    let reason = || quell.call_blocking(|_| Err::<(), _>("reset")).wait().unwrap_err().reason();
    assert_eq!(reason(), Reason::NotSafe);
    file.write("[policy.a]\nunsafe_methods = \"always\"\nattempts = 1\n[upstream.a]\n");
    live.reload().unwrap();
    assert_eq!(reason(), Reason::AttemptsSpent);
}

#[test]
fn what_is_worth_another_attempt_follows_the_file() {
    let file = File::new("[upstream.a]\n");
    let live = file.live();
    assert!(live.quell("a").unwrap().rules().statuses.contains(503));
    file.write("[policy.a]\nretry_on = [\"connect\", \"timeout\", 529]\n[upstream.a]\n");
    assert_eq!(live.reload().unwrap().changed, ["a"]);
    let statuses = live.quell("a").unwrap().rules().statuses;
    assert!(statuses.contains(529) && !statuses.contains(503));
    assert!(live.quell("b").is_err());
}

#[test]
fn in_report_mode_decisions_are_counted_and_nothing_changes() {
    let file = File::new(
        "[policy.a]\nattempts = 3\n[upstream.a]\nbudget = { max = 1, ratio = 0.0, mode = \"report\" }\n\
         breaker = { min_calls = 5, mode = \"report\" }\nrate_limit = { per_second = 1, burst = 1, mode = \"report\" }\n",
    );
    let live = file.live();
    let a = live.quell("a").unwrap();
    for _ in 0..20 {
        assert_eq!(fail(&a), (3, Reason::AttemptsSpent));
    }
    let now = a.snapshot();
    assert_eq!(now.would_refuse.budget, 39, "of 40 retries one is paid for");
    assert_ne!(now.breaker, State::Closed, "{now:?}");
    assert!(now.breaker_would_refuse > 0 && now.would_refuse.rate_limit > 0, "{now:?}");
}

#[derive(Default)]
struct Waits(AtomicU32);

impl Observe for Waits {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        if let ("a", Event::Tried(_)) = (upstream, event) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// B1: one seed for all would give all the same waits.
#[test]
fn clock_observer_and_seed_reach_every_upstream_and_chance_is_not_shared() {
    let text = "[policy.a]\nattempts = 2\n[upstream.a]\n[upstream.b]\n";
    let file = File::new(text);
    let run = || {
        let (clock, seen) = (Clock::manual(), Arc::new(Waits::default()));
        let host = Host { clock, observer: Some(seen.clone()), seed: 3 };
        let live = Live::load_with(&file.0, &[], host).unwrap();
        let wait = |name: &str| {
            let mut delay = Duration::ZERO;
            let quell = live.quell(name).unwrap();
            let call = quell.call_blocking(|_| Err::<(), _>("no")).idempotent();
            call.on_retry(|retry| delay = retry.delay).wait().unwrap_err();
            delay
        };
        let waits = (wait("a"), wait("b"));
        assert_eq!(seen.0.load(Ordering::Relaxed), 2);
        waits
    };
    let (a, b) = run();
    assert_ne!(a, b);
    assert_eq!(run(), (a, b), "the same seed, the same waits");
}

/// X9: the file is rewritten under a crowd, broken every third time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_keeps_changing_under_traffic_mints_no_retries() {
    let with = |max: u32, rest: &str| {
        format!(
            "[policy.a]\nbackoff = {{ base = \"1ms\" }}\nattempts = 3\n[upstream.a]\nbudget = {{ max = {max}, ratio = 0.0 }}\nbreaker = {{ min_calls = 100000 }}\n{rest}"
        )
    };
    let file = File::new(&with(20, ""));
    let live = file.live_at(Clock::system());
    let a = live.quell("a").unwrap();
    let sent = Arc::new(AtomicU32::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let (a, sent) = (a.clone(), sent.clone());
        callers.spawn(async move {
            let attempt = async |_| {
                sent.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err::<(), _>("no")
            };
            a.call(attempt).idempotent().await.unwrap_err();
        });
    }
    let (mut taken, mut refused) = (0, 0);
    for round in 0u32.. {
        file.write(&with(20 + round % 5, if round % 3 == 2 { "oops" } else { "" }));
        match live.reload() {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
        tokio::task::yield_now().await;
        while callers.try_join_next().is_some() {}
        if callers.is_empty() && taken > 5 && refused > 5 {
            break;
        }
    }
    let sent = sent.load(Ordering::Relaxed);
    assert!((300..=320).contains(&sent), "{sent} sends of 300 calls with 20 tokens");
    let now = a.snapshot();
    assert_eq!((now.in_flight, now.queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_watched_file_is_taken_once_it_holds_still_and_a_mistake_is_told_once() {
    let file = File::new("[upstream.a]\n");
    let live = file.live_at(Clock::tokio());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let every = Duration::from_secs(2);
    let watch = live.watch(every, move |news| {
        tell.send(news.map(|changes| changes.to_string()).map_err(|error| error.to_string()))
            .unwrap();
    });
    let watching = tokio::spawn(watch);

    let start = tokio::time::Instant::now();
    file.write("[policy.a]\nattempts = 5\n[upstream.a]\n");
    assert_eq!(told.recv().await.unwrap().unwrap(), "changed: a");
    assert_eq!(start.elapsed().as_secs(), 4, "at the second look");
    assert_eq!(live.quell("a").unwrap().rules().policy.attempts(), 5);

    file.write("oops");
    let error = told.recv().await.unwrap().unwrap_err();
    assert!(error.contains("this is not TOML") && error.contains(":2:"), "{error}");
    let quiet = tokio::time::timeout(every * 20, told.recv()).await;
    assert!(quiet.is_err(), "told again: {quiet:?}");

    std::fs::remove_file(&file.0).unwrap();
    assert!(told.recv().await.unwrap().unwrap_err().starts_with("cannot read"));
    file.write("[policy.a]\nattempts = 3\n[upstream.a]\n");
    assert_eq!(told.recv().await.unwrap().unwrap(), "changed: a");
    file.write("[policy.a]\nattempts = 4\n[upstream.a]\n");
    assert_eq!(live.reload().unwrap().changed, ["a"]);
    let quiet = tokio::time::timeout(every * 20, told.recv()).await;
    assert!(quiet.is_err(), "what was reloaded by hand is no news: {quiet:?}");
    watching.abort();
}

/// The gateway does not, so nothing but this shows that the setting acts.
#[tokio::test(start_paused = true)]
async fn calls_are_hedged_as_the_file_says() {
    let file = File::new(
        "[policy.stock]\nunsafe_methods = \"always\"\nhedge = { after = 0.9, at_least = \"200ms\" }\n[upstream.stock]\n",
    );
    let stock = file.live_at(Clock::tokio()).quell("stock").unwrap();
    let usual = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok::<_, String>(())
    };
    for _ in 0..32 {
        stock.call(async |_| usual().await).await.unwrap();
    }
    let began = tokio::time::Instant::now();
    let answer = stock.call(async |attempt| match attempt.number() {
        1 => std::future::pending().await,
        _ => usual().await,
    });
    assert_eq!(answer.counted().await.unwrap().attempts, 2);
    assert_eq!(began.elapsed().as_millis(), 300, "200 ms until it was hedged, and 100 ms");
}
