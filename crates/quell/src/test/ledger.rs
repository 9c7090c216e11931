//! Ledger: every attempt that reached an upstream, and what it shows.

use std::{fmt, time::Duration};

use super::line::Line;

/// Attempts that are written down; all are counted.
const MOST: usize = 100_000;
/// Attempts that are printed.
const SHOWN: usize = 40;

/// One attempt, as the upstream saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// When it arrived, from the script's start.
    pub at: Duration,
    /// When it was answered, or cut off by whoever made it; `None` if it is still open.
    pub ended: Option<Duration>,
    /// Its number within its call; the first is 1.
    pub number: u32,
    /// The idempotency key that it carried.
    pub key: Option<String>,
    /// What it met with.
    pub line: Line,
}

/// Every attempt that reached a [`Script`](super::Script), in the order of their arrival.
///
/// The assertions panic with what they looked for, the seed, and the ledger. They also fail where nothing was tested: no
/// attempt, or no hint to keep.
///
/// ```
/// use quell::{Quell, test::{Clock, Script}};
///
/// let clock = Clock::manual();
/// let script = Script::on(clock.clone()).fail(1).for_ever();
/// let ledger = Quell::upstream("ledger").clock(clock).build()?; // nobody vouched for a second booking
/// assert!(ledger.call_blocking(|attempt| script.answer_blocking(attempt)).wait().is_err());
/// script.ledger().assert_never_repeated();
/// script.ledger().assert_amplification_at_most(1.0);
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    seed: u64,
    entries: Vec<Entry>,
    attempts: u64,
    calls: u64,
    answered: u64,
}

impl Ledger {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, entries: Vec::new(), attempts: 0, calls: 0, answered: 0 }
    }

    pub(super) fn arrived(
        &mut self,
        at: Duration,
        number: u32,
        key: Option<&str>,
        line: Line,
    ) -> Option<usize> {
        self.attempts += 1;
        self.calls += u64::from(number <= 1);
        self.answered += u64::from(line.is_ok());
        let place = self.entries.len();
        (place < MOST).then(|| {
            let key = key.map(str::to_owned);
            self.entries.push(Entry { at, ended: None, number, key, line });
            place
        })
    }

    pub(super) fn ended(&mut self, entry: Option<usize>, at: Duration) {
        if let Some(entry) = entry.and_then(|place| self.entries.get_mut(place)) {
            entry.ended = Some(at);
        }
    }

    /// Says that no more than so many calls were made. For clients whose attempts carry no number: each of them looks like
    /// the first of a call, and the amplification like 1. A [`storm`](super::storm()) says so by itself.
    ///
    /// ```
    /// use quell::test::Script;
    /// use tower::Service;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # runtime.block_on(async {
    /// let mut script = Script::new().fail(1);
    /// let get = || http::Request::get("/").body(());
    /// assert!(script.call(get()?).await.is_err());
    /// script.call(get()?).await?; // the same call once more, which nobody can see
    /// assert_eq!(script.ledger().of_calls(1).amplification(), 2.0);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn of_calls(self, most: u64) -> Self {
        Self { calls: self.calls.min(most), ..self }
    }

    /// The attempts one by one, up to 100,000 of them.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where chance started.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many attempts arrived.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// How many calls got as far as their first attempt. Those that were refused before never load an upstream.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// How many attempts met with success.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Attempts per call: 1 if nothing was retried, 0 if nobody came.
    pub fn amplification(&self) -> f64 {
        if self.attempts == 0 { 0.0 } else { self.attempts as f64 / self.calls as f64 }
    }

    /// How long each retry waited after the attempt before it. For one call at a time: of several at once, a retry
    /// is taken to follow the latest attempt that has the number before its own and is over.
    pub fn waits(&self) -> Vec<Duration> {
        let wait = |(place, retry): (usize, &Entry)| {
            let before = self.entries[..place].iter().rev();
            let ended = before
                .filter(|entry| entry.number.checked_add(1) == Some(retry.number))
                .find_map(|entry| entry.ended.filter(|ended| *ended <= retry.at))?;
            Some(retry.at - ended)
        };
        self.entries.iter().enumerate().filter_map(wait).collect()
    }

    /// Fails if the upstream got more than so many attempts per call.
    #[track_caller]
    pub fn assert_amplification_at_most(&self, most: f64) {
        assert!(self.attempts > 0, "no attempt was made, so nothing was tested\n{self}");
        let amplification = self.amplification();
        assert!(
            amplification <= most,
            "{amplification:.2} attempts per call, and at most {most} are allowed: retries are not held back when they \
             do not help\n{self}"
        );
    }

    /// Fails if any call's retry came within this time of a reply that asked for at least so much. Calls share what
    /// they are told, so a hint to one holds back the retries of all.
    #[track_caller]
    pub fn assert_no_attempt_before(&self, hint: Duration) {
        self.assert_complete();
        let mut tested = false;
        for (place, asked) in self.entries.iter().enumerate() {
            let (Some(told), Some(ended)) = (asked.line.told(), asked.ended) else { continue };
            if told < hint {
                continue;
            }
            tested = true;
            let early = self.entries[place + 1..]
                .iter()
                .find(|entry| entry.number > 1 && entry.at >= ended && entry.at - ended < hint);
            if let Some(early) = early {
                panic!(
                    "a retry came at {:?}, {:?} after a reply that asked for {told:?}\n{self}",
                    early.at,
                    early.at - ended
                );
            }
        }
        assert!(tested, "no reply asked for {hint:?}, so nothing was tested\n{self}");
    }

    /// Fails if a call reached the upstream twice. A connection that was refused reached nobody and may be tried again.
    /// Attempts of different calls are told apart by their numbers alone, so where some connections are refused and some
    /// are not, a repetition can hide behind a call that gave up.
    #[track_caller]
    pub fn assert_never_repeated(&self) {
        self.assert_complete();
        assert!(self.attempts > 0, "no attempt was made, so nothing was tested\n{self}");
        let highest = self.entries.iter().map(|entry| entry.number).max().unwrap_or(0);
        let count = |number, all: bool| {
            let of = |entry: &&Entry| entry.number == number && (all || !entry.line.got_through());
            self.entries.iter().filter(of).count()
        };
        for number in 2..=highest {
            let (retries, unsent) = (count(number, true), count(number - 1, false));
            assert!(
                retries <= unsent,
                "{retries} attempts with number {number} after {unsent} that were never sent: something reached the \
                 upstream twice\n{self}"
            );
        }
    }

    #[track_caller]
    fn assert_complete(&self) {
        assert!(
            self.attempts == self.entries.len() as u64,
            "more than {MOST} attempts were made, and only so many are written down: make the test smaller\n{self}"
        );
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, entries, attempts, calls, answered } = self;
        write!(f, "seed {seed}: {attempts} attempts of {calls} calls, {answered} answered well")?;
        // In a long one, what went well at once is not what anybody looks for.
        let long = entries.len() > SHOWN;
        let mut shown =
            entries.iter().filter(|entry| !long || entry.number > 1 || !entry.line.is_ok());
        for Entry { at, ended, number, key, line } in shown.by_ref().take(SHOWN) {
            write!(f, "\n{:>10.3}s  attempt {number}: {line}", at.as_secs_f64())?;
            match ended {
                Some(ended) if ended > at => write!(f, " after {:?}", *ended - *at)?,
                Some(_) => {}
                None => f.write_str(", still open")?,
            }
            if let Some(key) = key {
                write!(f, ", key {key}")?;
            }
        }
        if long {
            write!(f, "\n… and {} more that were retries or failed", shown.count())?;
        }
        Ok(())
    }
}
