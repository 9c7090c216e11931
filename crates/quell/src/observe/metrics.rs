//! Metrics: what happens, as numbers.

use std::{
    array,
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, SharedString, Unit};
use quell_core::{Event as Change, Outcome, Reason, breaker::State};

use super::{
    Event, Finished, Next, Observe, Tried,
    labels::{self, Came, Metric, STATES, Verdict},
};
use crate::Upstream;

/// Upstreams that have series of their own; all others together are `other`.
const MOST: usize = 200;
const OTHER: &str = "other";

/// Counts what happens through the `metrics` facade, under the names that the gateway uses.
///
/// **Why.** What a budget denied and why a call was refused is the first thing somebody who is paged wants to know. The
/// [names and words](super::labels) are the gateway's, so its dashboards and alerts fit.
///
/// | metric | labels besides `upstream` | from |
/// |---|---|---|
/// | `quell_requests_total` | `outcome`: a [`Verdict`] | events |
/// | `quell_attempts_total` | `kind`: `first`, `retry` or `hedge`; `result`: what it [`Came`] to | events |
/// | `quell_retries_denied_total` | `reason` | events |
/// | `quell_refusals_total` | `reason` | events |
/// | `quell_retry_delay_seconds` (histogram) | `source`: `backoff`, or `hint` if the upstream named a time | events |
/// | `quell_queue_wait_seconds` (histogram) | | events of attempts that had to wait for a slot |
/// | `quell_breaker_transitions_total` | `state` that it went to: `open` or `closed` | events |
/// | `quell_breaker_state` | `state`: 1 for the one it is in, 0 for the others | events and samples |
/// | `quell_retry_budget_tokens`, `quell_retry_budget_max_tokens` | | samples |
/// | `quell_in_flight`, `quell_in_flight_limit`, `quell_ghosts`, `quell_queued` | | samples |
/// | `quell_not_before_seconds` | | samples |
///
/// A call is counted once: as a refusal if nothing was sent, as a denied retry if something was and another attempt
/// could have helped, and in any case once among the requests.
///
/// **How.** Install the exporter first, make one `Metrics` and give a clone of it to every upstream. Levels have no events:
/// call [`Metrics::sample`] for each upstream just before the exporter renders. A breaker that is due for a
/// probe is half-open without anybody having told so, and only a sample shows that.
///
/// The first 200 upstreams get series of their own, all later ones share `upstream="other"`. A series is looked up once,
/// when it first counts. After that a call that succeeds costs two look-ups of its upstream's name and two additions, and
/// allocates nothing; a call that is retried or refused allocates nothing for it, either.
///
/// ```
/// use quell::{Clock, Quell, observe::Metrics};
///
/// let metrics = Metrics::new();
/// let stock = Quell::upstream("stock").observe(metrics.clone()).clock(Clock::manual()).build()?;
/// assert!(stock.call_blocking(|_| Ok::<_, String>(7)).wait().is_ok());
/// metrics.sample(stock.shared()); // in the hook that answers a scrape
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Clone)]
pub struct Metrics(Arc<All>);

struct All {
    own: ArcSwap<HashMap<Box<str>, Arc<Series>>>,
    other: Series,
}

impl Metrics {
    /// Describes the metrics to the exporter that is installed.
    pub fn new() -> Self {
        metrics::with_recorder(|recorder| {
            for metric in labels::ALL {
                let (name, help) = (metric.name.into(), SharedString::const_str(metric.help));
                if metric.stem() != metric.name {
                    recorder.describe_counter(name, Some(Unit::Count), help);
                } else if [labels::RETRY_DELAY, labels::QUEUE_WAIT].contains(metric) {
                    recorder.describe_histogram(name, Some(Unit::Seconds), help);
                } else {
                    recorder.describe_gauge(name, None, help);
                }
            }
        });
        Self(Arc::new(All { own: ArcSwap::default(), other: Series::new(OTHER) }))
    }

    /// Reads the levels that an upstream is at: budget, breaker, attempts under way. Call it before each scrape.
    pub fn sample(&self, upstream: &Upstream) {
        let state = upstream.snapshot();
        let levels = labels::levels(&state, upstream.clock().now());
        self.with(upstream.name(), |series| {
            for ((metric, level), gauge) in levels.into_iter().zip(&series.levels) {
                gauge.get_or_init(|| series.gauge(&metric, &[])).set(level);
            }
            series.show(state.breaker);
        });
    }

    fn with(&self, upstream: &str, act: impl FnOnce(&Series)) {
        let All { own, other } = &*self.0;
        let known = own.load();
        match known.get(upstream) {
            Some(series) => act(series),
            None if known.len() < MOST => act(self.add(upstream).as_deref().unwrap_or(other)),
            None => act(other),
        }
    }

    /// `None` if somebody else took the last place meanwhile.
    #[cold]
    fn add(&self, upstream: &str) -> Option<Arc<Series>> {
        let new = Arc::new(Series::new(upstream));
        self.0.own.rcu(|known| {
            let mut known = HashMap::clone(known);
            if known.len() < MOST {
                known.entry(upstream.into()).or_insert_with(|| Arc::clone(&new));
            }
            known
        });
        self.0.own.load().get(upstream).cloned()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Observe for Metrics {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        self.with(upstream, |series| match event {
            Event::Tried(tried) => series.tried(tried),
            Event::Finished(finished) => series.finished(finished),
            Event::Changed(Change::BreakerOpened { .. }) => series.moved(State::Open),
            Event::Changed(Change::BreakerClosed) => series.moved(State::Closed),
            Event::Changed(_) => {}
        });
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.own.load().keys()).finish()
    }
}

const CAME: usize = Came::WORDS.len();
const REASONS: usize = Reason::ALL.len();

/// What is counted of one upstream. A series exists from the first time it counts: nobody wants to scrape all reasons
/// there are for every upstream.
struct Series {
    upstream: Arc<str>,
    requests: [OnceLock<Counter>; Verdict::WORDS.len()],
    first: [OnceLock<Counter>; CAME],
    retries: [OnceLock<Counter>; CAME],
    denied: [OnceLock<Counter>; REASONS],
    refusals: [OnceLock<Counter>; REASONS],
    hedges: [OnceLock<Counter>; CAME],
    delays: [OnceLock<Histogram>; 2],
    queue_wait: OnceLock<Histogram>,
    transitions: [OnceLock<Counter>; STATES.len()],
    states: [OnceLock<Gauge>; STATES.len()],
    levels: [OnceLock<Gauge>; 7],
}

impl Series {
    fn new(upstream: &str) -> Self {
        Self {
            upstream: upstream.into(),
            requests: array::from_fn(|_| OnceLock::new()),
            first: array::from_fn(|_| OnceLock::new()),
            retries: array::from_fn(|_| OnceLock::new()),
            denied: array::from_fn(|_| OnceLock::new()),
            refusals: array::from_fn(|_| OnceLock::new()),
            hedges: array::from_fn(|_| OnceLock::new()),
            delays: array::from_fn(|_| OnceLock::new()),
            queue_wait: OnceLock::new(),
            transitions: array::from_fn(|_| OnceLock::new()),
            states: array::from_fn(|_| OnceLock::new()),
            levels: array::from_fn(|_| OnceLock::new()),
        }
    }

    fn tried(&self, tried: &Tried) {
        let came = Came::of(&tried.outcome);
        let (kind, counters) = match tried.attempt {
            _ if tried.hedge => ("hedge", &self.hedges),
            ..=1 => ("first", &self.first),
            _ => ("retry", &self.retries),
        };
        let labels = [("kind", kind), ("result", came.as_str())];
        self.count(&counters[came as usize], &labels::ATTEMPTS, &labels);
        if let Next::Retry { at } = tried.next {
            let told = match tried.outcome {
                Outcome::Failed(failure) => failure.hint.is_some(),
                _ => true,
            };
            let source = ("source", if told { "hint" } else { "backoff" });
            let delays = &self.delays[usize::from(told)];
            let delay = at.since(tried.ended);
            self.record(delays, &labels::RETRY_DELAY, &[source], delay);
        }
        if !tried.queued.is_zero() {
            self.record(&self.queue_wait, &labels::QUEUE_WAIT, &[], tried.queued);
        }
    }

    fn finished(&self, finished: &Finished) {
        let verdict = Verdict::of(finished);
        let outcome = ("outcome", verdict.as_str());
        self.count(&self.requests[verdict as usize], &labels::REQUESTS, &[outcome]);
        let Some(reason) = finished.reason.filter(|&reason| labels::is_denial(reason)) else {
            return;
        };
        let (counters, metric) = match finished.attempts {
            0 => (&self.refusals, &labels::REFUSALS),
            _ => (&self.denied, &labels::RETRIES_DENIED),
        };
        self.count(&counters[reason as usize], metric, &[("reason", reason.as_str())]);
    }

    fn moved(&self, to: State) {
        for ((state, word), counter) in STATES.into_iter().zip(&self.transitions) {
            if state == to {
                self.count(counter, &labels::BREAKER_TRANSITIONS, &[("state", word)]);
            }
        }
        self.show(to);
    }

    /// All three, always: a state that was left must not go on showing.
    fn show(&self, current: State) {
        for ((state, word), gauge) in STATES.into_iter().zip(&self.states) {
            let gauge =
                gauge.get_or_init(|| self.gauge(&labels::BREAKER_STATE, &[("state", word)]));
            gauge.set(if state == current { 1.0 } else { 0.0 });
        }
    }

    fn count(&self, counter: &OnceLock<Counter>, metric: &Metric, labels: &[Word]) {
        let counter = counter.get_or_init(|| {
            let key = self.key(metric, labels);
            metrics::with_recorder(|recorder| recorder.register_counter(&key, &METADATA))
        });
        counter.increment(1);
    }

    fn record(
        &self,
        histogram: &OnceLock<Histogram>,
        metric: &Metric,
        labels: &[Word],
        took: Duration,
    ) {
        let histogram = histogram.get_or_init(|| {
            let key = self.key(metric, labels);
            metrics::with_recorder(|recorder| recorder.register_histogram(&key, &METADATA))
        });
        histogram.record(took.as_secs_f64());
    }

    fn gauge(&self, metric: &Metric, labels: &[Word]) -> Gauge {
        let key = self.key(metric, labels);
        metrics::with_recorder(|recorder| recorder.register_gauge(&key, &METADATA))
    }

    fn key(&self, metric: &Metric, labels: &[Word]) -> Key {
        let upstream = Label::new("upstream", Arc::clone(&self.upstream));
        let words = labels.iter().map(|&(label, word)| Label::from_static_parts(label, word));
        Key::from_parts(metric.name, [upstream].into_iter().chain(words).collect::<Vec<_>>())
    }
}

/// A label and its value.
type Word = (&'static str, &'static str);

const METADATA: Metadata<'static> = Metadata::new("quell", Level::INFO, Some(module_path!()));
