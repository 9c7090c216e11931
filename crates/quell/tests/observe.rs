//! What is logged and counted: enough to see what happened, once each, and nothing that is secret.
#![cfg(all(feature = "metrics", feature = "tracing"))]
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, IntoFuture},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, Unit};
use quell::{
    Builder, Clock, Failure, Fault, Limit, Outcome, Quell, Reason,
    core::{breaker, budget, hedge},
    observe::{Event, Metrics, Observe, Tracing},
};
use tracing::{Subscriber, field, span};

/// Every line that was logged, with its level, target and fields.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = format!("{} {}", event.metadata().level(), event.metadata().target());
        event.record(&mut |field: &field::Field, value: &dyn fmt::Debug| {
            line += &format!(" {field}={value:?}");
        });
        self.0.lock().unwrap().push(line);
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// What was logged meanwhile.
fn logged(act: impl FnOnce()) -> Vec<String> {
    let lines = Arc::new(Lines::default());
    tracing::subscriber::with_default(Arc::clone(&lines), act);
    let lines = lines.0.lock().unwrap();
    lines.clone()
}

/// Every series that was registered, by its name and labels.
#[derive(Default)]
struct Numbers {
    series: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    delays: Mutex<BTreeMap<String, Arc<Delays>>>,
    look_ups: AtomicUsize,
}

struct Delays(Mutex<Vec<f64>>);

impl Default for Delays {
    /// With room, for a test that counts allocations.
    fn default() -> Self {
        Self(Mutex::new(Vec::with_capacity(10_000)))
    }
}

impl HistogramFn for Delays {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Numbers {
    fn find<T: Default>(&self, map: &Mutex<BTreeMap<String, Arc<T>>>, key: &Key) -> Arc<T> {
        self.look_ups.fetch_add(1, Ordering::Relaxed);
        let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
        let name = format!("{}{{{}}}", key.name(), labels.collect::<Vec<_>>().join(","));
        Arc::clone(map.lock().unwrap().entry(name).or_default())
    }

    fn count(&self, name: &str) -> u64 {
        self.series.lock().unwrap().get(name).map_or(0, |series| series.load(Ordering::Relaxed))
    }

    fn level(&self, name: &str) -> Option<f64> {
        let series = self.series.lock().unwrap();
        series.get(name).map(|series| f64::from_bits(series.load(Ordering::Relaxed)))
    }

    fn names(&self) -> Vec<String> {
        self.series
            .lock()
            .unwrap()
            .keys()
            .chain(self.delays.lock().unwrap().keys())
            .cloned()
            .collect()
    }
}

impl Recorder for Numbers {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: metrics::SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.find(&self.series, key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.find(&self.series, key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.find(&self.delays, key))
    }
}

/// What was counted meanwhile.
fn counted(act: impl FnOnce()) -> Numbers {
    let numbers = Numbers::default();
    metrics::with_local_recorder(&numbers, act);
    numbers
}

fn upstream(observer: impl Observe + 'static) -> Builder {
    Quell::upstream("payments").clock(Clock::manual()).seed(1).idempotent().observe(observer)
}

/// Makes a call whose attempts get these statuses, the last one again and again.
fn call(quell: &Quell, statuses: &[u16]) -> Option<Reason> {
    let attempt = |attempt: quell::Attempt| {
        let index = (attempt.number() as usize).min(statuses.len()) - 1;
        Ok::<_, String>(statuses[index])
    };
    let classify = |result: &Result<u16, String>| match result {
        Ok(code @ 500..) => Outcome::Failed(Failure::of(Fault::Server).with_code(*code)),
        Ok(429) => {
            let hint = Duration::from_secs(2);
            Outcome::Failed(Failure::of(Fault::Overload).with_code(429).with_hint(hint))
        }
        Ok(code @ 400..) => Outcome::Failed(Failure::of(Fault::Fatal).with_code(*code)),
        _ => Outcome::Success,
    };
    quell.call_blocking(attempt).classify(classify).wait().err().map(|error| error.reason())
}

/// A breaker that opens at the first failure.
fn touchy() -> breaker::Spec {
    breaker::Spec { min_calls: 1, failure_rate: 1.0, ..breaker::Spec::default() }
}

/// Without the figures that chance decides.
fn without_times(lines: Vec<String>) -> Vec<String> {
    let keep = |word: &&str| !word.starts_with("delay=") && !word.starts_with("elapsed=");
    let strip = |line: String| line.split(' ').filter(keep).collect::<Vec<_>>().join(" ");
    lines.into_iter().map(strip).collect()
}

/// O1.
#[test]
fn every_failed_attempt_is_a_line_and_the_end_is_one_more() {
    let quell = upstream(Tracing).build().unwrap();
    let lines = logged(|| assert_eq!(call(&quell, &[503, 502, 200]), None));
    assert!(lines[0].contains(" delay=") && lines[0].contains(" elapsed="), "{}", lines[0]);
    assert_eq!(
        without_times(lines),
        [
            r#"WARN quell::attempt message=retrying upstream="payments" attempt=1 code=503 fault="server""#,
            r#"WARN quell::attempt message=retrying upstream="payments" attempt=2 code=502 fault="server""#,
            r#"INFO quell::call message=succeeded after a retry upstream="payments" attempts=3"#,
        ]
    );
    let lines = logged(|| assert_eq!(call(&quell, &[503]), Some(Reason::AttemptsSpent)));
    assert_eq!(
        without_times(lines)[2..],
        [
            r#"WARN quell::attempt message=attempt failed upstream="payments" attempt=3 code=503 fault="server" reason="attempts_spent""#,
            r#"ERROR quell::call message=failed upstream="payments" attempts=3 reason="attempts_spent""#,
        ]
    );
}

#[test]
fn success_is_no_line_and_a_reply_that_is_the_callers_to_read_alarms_nobody() {
    let quell = upstream(Tracing).build().unwrap();
    assert_eq!(logged(|| assert_eq!(call(&quell, &[200]), None)), [""; 0]);
    let lines = logged(|| assert_eq!(call(&quell, &[404]), None));
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.starts_with("DEBUG ")), "{lines:?}");
}

#[test]
fn a_refusal_warns_and_what_led_to_it_was_said_before() {
    let quell = upstream(Tracing).attempts(1).breaker(touchy()).build().unwrap();
    let lines = logged(|| {
        call(&quell, &[500]);
        assert_eq!(call(&quell, &[200]), Some(Reason::BreakerOpen));
    });
    let changed = r#"WARN quell::upstream message=breaker opened upstream="payments""#;
    assert!(lines.iter().any(|line| line == changed), "{lines:?}");
    assert_eq!(
        without_times(lines).last().unwrap(),
        r#"WARN quell::call message=refused upstream="payments" attempts=0 reason="breaker_open""#
    );
}

/// O5.
#[test]
fn no_text_of_an_error_no_key_and_no_reply_is_logged_or_counted() {
    const SECRET: &str = "hunter2";
    let mut key = String::new();
    let mut lines = Vec::new();
    let numbers = counted(|| {
        let quell = upstream((Tracing, Metrics::new())).build().unwrap();
        lines = logged(|| {
            let call = quell.call_blocking(|attempt| {
                key = attempt.key().to_owned();
                match attempt.number() {
                    1 => Err(format!("GET /?token={SECRET}: authorization: Bearer {SECRET}")),
                    _ => Ok(SECRET),
                }
            });
            assert_eq!(call.operation(SECRET).wait().unwrap(), SECRET);
        });
    });
    let all = format!("{lines:?} {:?}", numbers.names());
    assert!(lines.len() == 2 && all.contains("quell_requests_total"), "both were told: {all}");
    assert!(!all.contains(SECRET) && !all.contains(&key), "{all}");
}

#[test]
fn attempts_and_calls_are_counted_by_what_came_of_them() {
    let numbers = counted(|| {
        let quell = upstream(Metrics::new()).build().unwrap();
        call(&quell, &[200]);
        call(&quell, &[503, 429, 200]);
        call(&quell, &[404]);
        call(&quell, &[599]);
    });
    let expected = [
        ("quell_attempts_total{upstream=payments,kind=first,result=503}", 1),
        ("quell_attempts_total{upstream=payments,kind=first,result=other_4xx}", 1),
        ("quell_attempts_total{upstream=payments,kind=first,result=other_5xx}", 1),
        ("quell_attempts_total{upstream=payments,kind=first,result=success}", 1),
        ("quell_attempts_total{upstream=payments,kind=retry,result=429}", 1),
        ("quell_attempts_total{upstream=payments,kind=retry,result=other_5xx}", 2),
        ("quell_attempts_total{upstream=payments,kind=retry,result=success}", 1),
        ("quell_requests_total{upstream=payments,outcome=failed}", 1),
        ("quell_requests_total{upstream=payments,outcome=rejected}", 1),
        ("quell_requests_total{upstream=payments,outcome=success}", 2),
        ("quell_retries_denied_total{upstream=payments,reason=attempts_spent}", 1),
    ];
    for (name, count) in expected {
        assert_eq!(numbers.count(name), count, "{name} of {:?}", numbers.names());
    }
    assert_eq!(numbers.series.lock().unwrap().len(), expected.len());
    let delays = numbers.delays.lock().unwrap();
    let of = |source| delays[source].0.lock().unwrap().clone();
    let hinted = of("quell_retry_delay_seconds{upstream=payments,source=hint}");
    assert!(hinted.len() == 1 && hinted[0] >= 2.0, "{hinted:?}");
    assert_eq!(of("quell_retry_delay_seconds{upstream=payments,source=backoff}").len(), 3);
}

/// What was counted while this ran on paused time.
fn counted_async(act: impl Future<Output = ()>) -> Numbers {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    counted(|| runtime.block_on(act))
}

/// O1.
#[test]
fn an_attempt_that_nobody_waits_for_any_more_is_counted_as_abandoned() {
    let numbers = counted_async(async {
        let quell = upstream(Metrics::new()).clock(Clock::tokio()).build().unwrap();
        let call = quell.call(async |_| std::future::pending::<Result<(), String>>().await);
        assert!(tokio::time::timeout(Duration::from_secs(1), call.into_future()).await.is_err());
    });
    let expected = [
        "quell_attempts_total{upstream=payments,kind=first,result=abandoned}",
        "quell_requests_total{upstream=payments,outcome=abandoned}",
    ];
    assert_eq!(numbers.names(), expected);
    assert_eq!(expected.map(|name| numbers.count(name)), [1, 1]);
}

#[test]
fn a_hedge_and_the_attempt_that_lost_to_it_are_counted() {
    let numbers = counted_async(async {
        let hedge = hedge::Hedge::new(0.9, Duration::from_millis(10)).unwrap();
        let quell = upstream(Metrics::new()).clock(Clock::tokio()).hedge(hedge).build().unwrap();
        let call = async |hangs: bool| {
            let attempt = async |attempt: quell::Attempt| {
                let slow = hangs && attempt.number() == 1;
                tokio::time::sleep(Duration::from_millis(if slow { 9_000 } else { 5 })).await;
                Ok::<_, String>(())
            };
            quell.call(attempt).run().await.unwrap();
        };
        for _ in 0..200 {
            call(false).await;
        }
        call(true).await;
    });
    let count = |kind, result| {
        let labels = format!("upstream=payments,kind={kind},result={result}");
        numbers.count(&format!("quell_attempts_total{{{labels}}}"))
    };
    assert_eq!(count("first", "success"), 200);
    assert_eq!((count("first", "abandoned"), count("hedge", "success")), (1, 1));
    assert_eq!(count("retry", "success"), 0);
}

#[test]
fn the_wait_for_a_slot_is_recorded_for_those_who_had_to() {
    let numbers = counted_async(async {
        let quell = upstream(Metrics::new()).clock(Clock::tokio()).in_flight(Limit::Fixed(1));
        let quell = quell.build().unwrap();
        let call = || {
            let call = quell.call(async |_| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, String>(())
            });
            call.into_future()
        };
        let (one, other) = tokio::join!(call(), call());
        assert!(one.is_ok() && other.is_ok());
    });
    let delays = numbers.delays.lock().unwrap();
    let waits = &delays["quell_queue_wait_seconds{upstream=payments}"];
    assert_eq!(*waits.0.lock().unwrap(), [1.0]);
}

/// O3.
#[test]
fn a_refusal_and_a_denied_retry_are_each_counted_once() {
    let numbers =
        counted(|| {
            let quell = upstream(Metrics::new()).attempts(1).breaker(touchy()).build().unwrap();
            call(&quell, &[500]);
            for _ in 0..7 {
                assert_eq!(call(&quell, &[200]), Some(Reason::BreakerOpen));
            }
            drop(quell.shared().begin(
                &quell::core::Policy::new(quell::core::spec::PolicySpec::library()).unwrap(),
            ));
        });
    let all: BTreeMap<_, _> =
        numbers.names().into_iter().map(|n| (n.clone(), numbers.count(&n))).collect();
    let counters = all.iter().filter(|(name, _)| name.contains("_total"));
    let expected = [
        ("quell_attempts_total{upstream=payments,kind=first,result=500}", 1),
        ("quell_breaker_transitions_total{upstream=payments,state=open}", 1),
        ("quell_refusals_total{upstream=payments,reason=breaker_open}", 7),
        ("quell_requests_total{upstream=payments,outcome=abandoned}", 1),
        ("quell_requests_total{upstream=payments,outcome=failed}", 1),
        ("quell_requests_total{upstream=payments,outcome=refused}", 7),
        ("quell_retries_denied_total{upstream=payments,reason=attempts_spent}", 1),
    ];
    assert!(counters.map(|(name, count)| (name.as_str(), *count)).eq(expected), "{all:#?}");
}

/// O2.
#[test]
fn of_a_thousand_upstreams_two_hundred_have_series_and_the_others_share_theirs() {
    let numbers = counted(|| {
        let metrics = Metrics::new();
        for number in 0..1_000 {
            let quell = Quell::upstream(format!("tenant {number}")).observe(metrics.clone());
            let quell = quell.clock(Clock::manual()).build().unwrap();
            call(&quell, &[200]);
            metrics.sample(quell.shared());
        }
    });
    let names = numbers.names();
    let requests = names.iter().filter(|name| name.starts_with("quell_requests_total"));
    assert_eq!(requests.count(), 201);
    assert_eq!(numbers.count("quell_requests_total{upstream=tenant 199,outcome=success}"), 1);
    assert_eq!(numbers.count("quell_requests_total{upstream=other,outcome=success}"), 800);
    assert_eq!(numbers.level("quell_retry_budget_tokens{upstream=other}"), Some(100.0));
}

/// C12.
#[test]
fn the_gauges_of_the_breaker_clear_the_old_state() {
    let states = |numbers: &Numbers| {
        ["closed", "open", "half_open"].map(|state| {
            numbers.level(&format!("quell_breaker_state{{upstream=payments,state={state}}}"))
        })
    };
    let clock = Clock::manual();
    let numbers = Numbers::default();
    metrics::with_local_recorder(&numbers, || {
        let metrics = Metrics::new();
        let quell = upstream(metrics.clone()).clock(clock.clone()).attempts(1);
        let quell = quell.breaker(touchy()).build().unwrap();
        assert_eq!(states(&numbers), [None; 3]);
        metrics.sample(quell.shared());
        assert_eq!(states(&numbers), [Some(1.0), Some(0.0), Some(0.0)]);
        call(&quell, &[500]);
        assert_eq!(states(&numbers), [Some(0.0), Some(1.0), Some(0.0)]);
        clock.advance(Duration::from_secs(60));
        metrics.sample(quell.shared()); // nobody was told: it became half-open by the passing of time
        assert_eq!(states(&numbers), [Some(0.0), Some(0.0), Some(1.0)]);
        assert_eq!([(); 2].map(|()| call(&quell, &[200])), [None; 2]); // its probes
        assert_eq!(states(&numbers), [Some(1.0), Some(0.0), Some(0.0)]);
    });
}

#[test]
fn a_sample_shows_the_levels_of_the_budget_and_of_what_is_under_way() {
    let numbers = counted(|| {
        let metrics = Metrics::new();
        let tokens = budget::tokens::Spec { max: 2, ..Default::default() };
        let quell = upstream(metrics.clone()).budget(tokens).build().unwrap();
        let during = quell.call_blocking(|_| {
            metrics.sample(quell.shared());
            Ok::<_, String>(())
        });
        during.wait().unwrap();
    });
    let level = |name: &str| numbers.level(&format!("{name}{{upstream=payments}}"));
    assert_eq!(level("quell_retry_budget_tokens"), Some(2.0));
    assert_eq!(level("quell_retry_budget_max_tokens"), Some(2.0));
    assert_eq!(level("quell_in_flight"), Some(1.0));
    assert_eq!(level("quell_ghosts"), Some(0.0));
    assert_eq!(level("quell_queued"), Some(0.0));
    assert_eq!(level("quell_not_before_seconds"), Some(0.0));
    assert!(level("quell_in_flight_limit") > Some(1.0));
}

/// Asks the upstream back, and samples it, with every piece of news.
#[derive(Clone, Default)]
struct Curious(Arc<OnceLock<(Quell, Metrics)>>, Arc<AtomicUsize>);

impl Observe for Curious {
    fn observe(&self, upstream: &str, _: &Event<'_>) {
        if let Some((quell, metrics)) = self.0.get() {
            assert_eq!(quell.name(), upstream);
            let _ = quell.snapshot();
            metrics.sample(quell.shared());
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// O4.
#[test]
fn an_observer_that_asks_the_upstream_back_does_not_deadlock() {
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        let curious = Curious::default();
        let metrics = Metrics::new();
        let observers = (curious.clone(), (metrics.clone(), Tracing));
        let quell = upstream(observers).breaker(touchy()).build().unwrap();
        assert!(curious.0.set((quell.clone(), metrics)).is_ok());
        call(&quell, &[500]);
        call(&quell, &[200]);
        done.send(curious.1.load(Ordering::Relaxed)).unwrap();
    });
    // An attempt, a change and two ends.
    assert_eq!(waiting.recv_timeout(Duration::from_secs(30)), Ok(4));
}

#[test]
fn observers_allocate_nothing_once_they_have_seen_what_there_is_to_count() {
    fn allocations(observer: impl Observe + 'static) -> u64 {
        let breaker = breaker::Spec { min_calls: u32::MAX, ..breaker::Spec::default() };
        let quell = upstream(observer).breaker(breaker).build().unwrap();
        let calls = || [200, 404, 503].map(|code| call(&quell, &[code]));
        (0..200).for_each(|_| assert_eq!(calls()[0], None)); // until the budget is empty, too
        allocation_counter::measure(|| (0..100).for_each(|_| assert_eq!(calls()[1], None)))
            .count_total
    }
    struct Deaf;
    impl Observe for Deaf {
        fn observe(&self, _: &str, _: &Event<'_>) {}
    }
    struct Talkative;
    impl Observe for Talkative {
        fn observe(&self, upstream: &str, _: &Event<'_>) {
            drop(std::hint::black_box(upstream.to_owned()));
        }
    }
    let numbers = counted(|| {
        let deaf = allocations(Deaf);
        assert_eq!(allocations((Metrics::new(), Tracing)), deaf);
        assert!(allocations(Talkative) >= deaf + 600, "the harness counts");
    });
    assert_eq!(numbers.look_ups.load(Ordering::Relaxed), numbers.names().len(), "one look-up each");
}
