//! Tracing: what happens, as lines of a log.

use quell_core::{Event as Change, Failure, Outcome, Reason};

use super::{Event, Finished, Next, Observe, Tried, labels};

/// Logs what happens through `tracing`.
///
/// **Why.** A status at the end of a call hides everything that led to it. So there is one line for every attempt that
/// failed, and one for the end of a call that did not simply succeed at once.
///
/// | what | level | target |
/// |---|---|---|
/// | a failed attempt that is retried, or after which a call gives up | warn | `quell::attempt` |
/// | an attempt whose reply is the request's own fault (such as a 404), or a deferred one | debug | `quell::attempt` |
/// | success at a later attempt | info | `quell::call` |
/// | a call that failed: attempts, budget, time or safety allowed no other | error | `quell::call` |
/// | a call that was refused before its first attempt | warn | `quell::call` |
/// | a reply that no attempt could change, a caller who left | debug | `quell::call` |
/// | breaker opened, budget empty, endpoint ejected, retries held back | warn | `quell::upstream` |
/// | breaker closed, budget recovered, limit moved | info | `quell::upstream` |
/// | a probe past the ghosts | debug | `quell::upstream` |
///
/// Success at the first attempt is no line at all. A refusal is a warning and no error because it is the protection at
/// work: what is wrong was said when the breaker opened or the limit filled, and while it lasts there is a refusal for
/// every call. Where that is too much, filter by target: `quell::call=error`.
///
/// **Fields** are `upstream`, `attempt` or `attempts`, `code`, `fault`, `reason`, `delay` and `elapsed`. They are names
/// from the configuration, numbers, and words from closed sets. There is no body, header, key or text of an error among
/// them, and none can be added: an observer is never given any. An error's text often quotes a URL or a header, and with
/// it a secret. Whoever knows what is in theirs logs it by [`Prepared::on_retry`](crate::Prepared::on_retry).
///
/// **Spans.** Lines are written by the task that made the call, so they stand in whatever span it is in. This observer
/// opens none: it hears of an attempt when that is over, and a span has to be entered whenever the attempt is polled. Who
/// wants one per attempt makes it where the attempt is made, with `tracing::Instrument`, and has the number at hand:
/// `quell.call(|attempt| send().instrument(info_span!("attempt", number = attempt.number())))`.
///
/// ```
/// use quell::{Clock, Quell, observe::Tracing};
///
/// let stock = Quell::upstream("stock").observe(Tracing).clock(Clock::manual()).build()?;
/// let call = stock.call_blocking(|attempt| if attempt.number() < 2 { Err("reset") } else { Ok(7) });
/// assert_eq!(call.idempotent().wait().unwrap(), 7);
/// // WARN quell::attempt: retrying upstream="stock" attempt=1 fault="server" delay=83ms elapsed=0ns
/// // INFO quell::call: succeeded after a retry upstream="stock" attempts=2 elapsed=83ms
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Tracing;

const ATTEMPT: &str = "quell::attempt";
const CALL: &str = "quell::call";
const UPSTREAM: &str = "quell::upstream";

impl Observe for Tracing {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        match event {
            Event::Tried(tried) => log_attempt(upstream, tried),
            Event::Finished(finished) => log_end(upstream, finished),
            Event::Changed(change) => log_change(upstream, change),
        }
    }
}

/// A macro and not a function, for the level and the text have to be constants.
macro_rules! attempt {
    ($level:ident, $text:literal, $upstream:ident, $tried:ident, $failure:ident, $($more:tt)*) => {
        tracing::event!(
            target: ATTEMPT,
            tracing::Level::$level,
            upstream = $upstream,
            attempt = $tried.attempt,
            code = $failure.and_then(|failure| failure.code),
            fault = $failure.map(|failure| labels::fault(failure.fault)),
            $($more)*,
            elapsed = ?$tried.took(),
            $text
        )
    };
}

fn log_attempt(upstream: &str, tried: &Tried) {
    let failure: Option<Failure> = match tried.outcome {
        Outcome::Failed(failure) => Some(failure),
        Outcome::Defer { .. } => None,
        Outcome::Success | Outcome::Abandoned => return,
    };
    let served = tried.outcome.is_served();
    match tried.next {
        Next::Retry { at } if failure.is_none() => {
            attempt!(DEBUG, "deferred", upstream, tried, failure, delay = ?at.since(tried.ended));
        }
        Next::Retry { at } => {
            attempt!(WARN, "retrying", upstream, tried, failure, delay = ?at.since(tried.ended));
        }
        Next::Stop(reason) => {
            let reason = reason.map(Reason::as_str);
            if served {
                attempt!(DEBUG, "attempt failed", upstream, tried, failure, reason);
            } else {
                attempt!(WARN, "attempt failed", upstream, tried, failure, reason);
            }
        }
    }
}

macro_rules! end {
    ($level:ident, $text:literal, $upstream:ident, $finished:ident) => {
        tracing::event!(
            target: CALL,
            tracing::Level::$level,
            upstream = $upstream,
            attempts = $finished.attempts,
            reason = $finished.reason.map(Reason::as_str),
            elapsed = ?$finished.elapsed,
            $text
        )
    };
}

fn log_end(upstream: &str, finished: &Finished) {
    match labels::Verdict::of(finished) {
        labels::Verdict::Success if finished.attempts <= 1 => {}
        labels::Verdict::Success => end!(INFO, "succeeded after a retry", upstream, finished),
        labels::Verdict::Refused => end!(WARN, "refused", upstream, finished),
        labels::Verdict::Rejected => end!(DEBUG, "rejected", upstream, finished),
        labels::Verdict::Abandoned => end!(DEBUG, "the caller left", upstream, finished),
        _ => end!(ERROR, "failed", upstream, finished),
    }
}

macro_rules! change {
    ($level:ident, $text:literal, $upstream:ident $(, $more:tt)*) => {
        tracing::event!(target: UPSTREAM, tracing::Level::$level, upstream = $upstream, $($more,)* $text)
    };
}

/// Keys are left out: they are hashes of what a caller wrote.
fn log_change(upstream: &str, change: &Change) {
    match *change {
        Change::BreakerOpened { .. } => change!(WARN, "breaker opened", upstream),
        Change::BreakerClosed => change!(INFO, "breaker closed", upstream),
        Change::KeyOpened { .. } => change!(WARN, "a key's breaker opened", upstream),
        Change::KeyClosed { .. } => change!(INFO, "a key's breaker closed", upstream),
        Change::ClassOpened { .. } => change!(WARN, "a class's breaker opened", upstream),
        Change::ClassClosed { .. } => change!(INFO, "a class's breaker closed", upstream),
        Change::Trouble { evidence } => {
            let evidence = evidence.as_str();
            change!(WARN, "in-flight limit tight", upstream, evidence);
        }
        Change::Calm => change!(INFO, "in-flight limit loose again", upstream),
        Change::BudgetExhausted => change!(WARN, "retry budget exhausted", upstream),
        Change::BudgetRecovered => change!(INFO, "retry budget recovered", upstream),
        Change::ChildBudgetExhausted { .. } => {
            change!(WARN, "a route's or tenant's retry budget exhausted", upstream);
        }
        Change::ChildBudgetRecovered { .. } => {
            change!(INFO, "a route's or tenant's retry budget recovered", upstream);
        }
        Change::LimitMoved { from, to } => {
            change!(INFO, "in-flight limit moved", upstream, from, to);
        }
        Change::GhostProbe { endpoint } => change!(DEBUG, "ghost probe", upstream, endpoint),
        Change::Ejected { endpoint } => change!(WARN, "endpoint ejected", upstream, endpoint),
        Change::HeldBack { .. } => change!(WARN, "upstream asked to hold back", upstream),
    }
}
