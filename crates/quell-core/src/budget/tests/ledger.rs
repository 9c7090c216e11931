//! The slow model: it writes down all that happens, and after every retry looks back at everything.

use super::*;

/// What somebody does with a budget.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// So many successes.
    Earn(u8),
    /// A failure asks.
    Ask,
    /// Two fail at the same moment and ask, neither knowing of the other.
    AskBoth,
    /// One that was paid for is not sent.
    Refund(usize),
    /// One is sent and fails, or nobody learns.
    Send(usize),
    /// One is sent and succeeds.
    Well(usize),
    /// Time goes on by so many milliseconds, or back.
    Wait(i64),
}

/// Something that claims to be a budget.
pub(super) trait Subject {
    fn earn(&mut self, now: Time);
    fn ask(&mut self, now: Time) -> Option<Paid>;
    fn refund(&mut self, now: Time, paid: Paid);
    fn well(&mut self, now: Time, paid: Paid);
    fn level(&self, now: Time) -> f64;

    fn ask_both(&mut self, now: Time) -> [Option<Paid>; 2] {
        [self.ask(now), self.ask(now)]
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Entry {
    Earned,
    /// Was handed out; `true` once it is known that it was never sent.
    Retried(bool),
    /// Came back: never sent, or sent and succeeded.
    Back {
        unsent: bool,
    },
}

/// Runs the acts and answers the first breach of the rule of `spec`, which is for budgets of whole tokens.
pub(super) fn breach(subject: &mut impl Subject, spec: Spec, acts: &[Act]) -> Option<String> {
    let mut ledger: Vec<(Time, Entry)> = Vec::new();
    let mut open: Vec<(usize, Paid)> = Vec::new();
    let (mut clock, mut seen) = (100_000_i64, at(100_000));
    // A failure that is not drawn shows the inner budget no time, so there is none to step back from.
    let forward = matches!(spec, Spec::Sampled(_));
    let windowed = !matches!(spec, Spec::Tokens(_));
    for (step, act) in acts.iter().enumerate() {
        let now = at(clock as u64);
        let is_shown = match act {
            Act::Wait(_) | Act::Send(_) => false,
            // Tokens look at the clock only when they are asked.
            Act::Refund(_) | Act::Well(_) => windowed && !open.is_empty(),
            Act::Earn(_) => windowed,
            Act::Ask | Act::AskBoth => true,
        };
        if is_shown {
            seen = seen.max(now);
        }
        match act {
            Act::Earn(n) => {
                for _ in 0..*n {
                    subject.earn(now);
                    ledger.push((seen, Entry::Earned));
                }
            }
            Act::Ask | Act::AskBoth => {
                let paid = match act {
                    Act::Ask => [subject.ask(now), None],
                    _ => subject.ask_both(now),
                };
                for paid in paid.into_iter().flatten() {
                    open.push((ledger.len(), paid));
                    ledger.push((seen, Entry::Retried(false)));
                    if let Some(breach) = check(spec, &ledger, seen) {
                        return Some(format!("step {step} at {clock} ms: {breach}"));
                    }
                }
            }
            Act::Refund(i) | Act::Send(i) | Act::Well(i) if !open.is_empty() => {
                let (index, paid) = open.swap_remove(i % open.len());
                match act {
                    Act::Refund(_) => {
                        subject.refund(now, paid);
                        ledger[index].1 = Entry::Retried(true);
                        ledger.push((seen, Entry::Back { unsent: true }));
                    }
                    Act::Well(_) => {
                        subject.well(now, paid);
                        subject.earn(now);
                        ledger.push((seen, Entry::Earned));
                        ledger.push((seen, Entry::Back { unsent: false }));
                    }
                    _ => drop(paid),
                }
            }
            Act::Refund(_) | Act::Send(_) | Act::Well(_) => {}
            Act::Wait(ms) => {
                clock = (clock + if forward { ms.abs() } else { *ms }).max(0);
            }
        }
    }
    None
}

/// The rule of each kind, in whole tokens.
fn check(spec: Spec, ledger: &[(Time, Entry)], now: Time) -> Option<String> {
    match spec {
        Spec::Tokens(spec) => saved(ledger, now, spec.bucket(), spec.refill, false),
        Spec::Adaptive(spec) => saved(ledger, now, spec.bucket, None, false),
        Spec::FailedRetry(spec) => saved(ledger, now, spec.bucket, None, true),
        Spec::Grpc(grpc::Spec { bucket }) => {
            let half = f64::from(bucket.max) / 2.0;
            let start = f64::from(bucket.starts_at()) - half;
            // What is not sent was a failure all the same: nothing comes back.
            let ledger: Vec<_> = ledger.iter().copied().filter(|(_, e)| !is_back(e)).collect();
            flows(&ledger, now, (start.max(0.0), half), bucket.ratio, None, false)
        }
        Spec::Ratio(spec) => {
            let floor = spec.floor * spec.window.as_secs_f64() * 1.1;
            sliding(ledger, now, (spec.window, spec.window / 10), spec.ratio, floor, false)
        }
        Spec::Window(spec) => {
            let bootstrap = f64::from(spec.bootstrap);
            sliding(ledger, now, (spec.window, spec.window / 60), spec.ratio, bootstrap, true)
        }
        Spec::Sampled(spec) => check(spec.inner.into(), ledger, now),
        Spec::Probabilistic(_) | Spec::Unlimited => None,
        Spec::None => ledger.iter().any(|(_, e)| is_retry(e)).then(|| "retried".to_owned()),
    }
}

/// What a bucket allows.
fn saved(
    ledger: &[(Time, Entry)],
    now: Time,
    bucket: Bucket,
    refill: Option<Duration>,
    back_if_well: bool,
) -> Option<String> {
    let start_and_max = (bucket.starts_at().into(), bucket.max.into());
    flows(ledger, now, start_and_max, bucket.ratio, refill, back_if_well)
}

fn is_retry(entry: &Entry) -> bool {
    matches!(entry, Entry::Retried(_))
}

fn is_back(entry: &Entry) -> bool {
    matches!(entry, Entry::Back { .. })
}

/// From whatever moment on: no more goes out than there was at most then, and came in since.
fn flows(
    ledger: &[(Time, Entry)],
    now: Time,
    (start, max): (f64, f64),
    ratio: f64,
    refill: Option<Duration>,
    well: bool,
) -> Option<String> {
    let (mut went, mut came) = (0.0, 0.0);
    for (index, (time, entry)) in ledger.iter().enumerate().rev() {
        match entry {
            Entry::Earned => came += ratio,
            Entry::Retried(_) => went += 1.0,
            Entry::Back { unsent } if *unsent || well => came += 1.0,
            Entry::Back { .. } => {}
        }
        // A drip that was under way at that moment may fall in this time as well.
        let (since, held) = if index == 0 { (at(100_000), start) } else { (*time, max + 1.0) };
        let dripped = refill.map_or(0, |every| now.since(since).as_nanos() / every.as_nanos());
        let bound = held + came + dripped as f64;
        if went > bound + 1e-6 {
            return Some(format!("{went} retries since entry {index}, and {bound} were to be had"));
        }
    }
    None
}

/// Over the window that ends now: no more went out than the successes in it, and in the part before it, allow.
fn sliding(
    ledger: &[(Time, Entry)],
    now: Time,
    (window, part): (Duration, Duration),
    ratio: f64,
    given: f64,
    only_without: bool,
) -> Option<String> {
    let within = |length: Duration, what: fn(&Entry) -> bool| {
        let recent = |(time, entry): &&(Time, Entry)| now.since(*time) < length && what(entry);
        ledger.iter().filter(recent).count() as f64
    };
    let tolerance = Duration::from_nanos(100);
    let retries = within(window, |entry| *entry == Entry::Retried(false));
    let earned = ratio * within(window + part + tolerance, |entry| *entry == Entry::Earned);
    let successes = within(window, |entry| *entry == Entry::Earned);
    let bound = match only_without {
        false => earned + given,
        true if successes == 0.0 => earned.max(given),
        true => earned,
    };
    (retries > bound + 1e-6)
        .then(|| format!("{retries} retries in the window, and {bound} were to be had"))
}
