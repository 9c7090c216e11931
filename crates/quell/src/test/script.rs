//! Script: an upstream that does as it is told.

use std::{
    future::Future,
    io,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Request;
use parking_lot::Mutex;
use quell_core::Time;
use tower_service::Service;

use super::{
    Ledger,
    line::{Line, Reply},
};
use crate::{
    Attempt, Clock,
    http::{IDEMPOTENCY_KEY, headers::ATTEMPT},
};

/// What a call on a script as a service is made of.
pub type Answering = Pin<Box<dyn Future<Output = io::Result<Reply>> + Send>>;

/// An upstream that does as it is told, and writes down who came when.
///
/// The n-th attempt to arrive, by whichever caller, gets the n-th [line](Line); when all are used up it is 200 for
/// everybody, unless the last line was said to go on [for ever](Script::for_ever). During an
/// [outage](Script::outage) no line is used up. Clones are the same upstream.
///
/// As a closure's body, [`Script::answer`] and [`Script::answer_blocking`] note the attempt's number, and its key if
/// the closure has read it: they do not read it themselves, since that would make the call repeatable. As a service
/// over HTTP requests the number is that of the `quell-attempt` header (1 without it: see [`Ledger::of_calls`]) and the key
/// that of `idempotency-key`. Whatever else makes attempts, a service of another protocol or a loop of its own, says both to
/// [`Script::send`].
///
/// ```
/// use std::time::Duration;
/// use quell::{Clock, Quell, test::Script};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let script = Script::new().fail(1).status(503).slow(Duration::from_secs(1)).then_ok();
/// let users = Quell::upstream("users").clock(Clock::tokio()).seed(1).idempotent().build()?;
/// let reply = users.call(|attempt| script.answer(attempt)).await?;
/// assert_eq!(reply.status(), 200);
/// assert_eq!(script.ledger().attempts(), 3);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Script {
    lines: Vec<(u64, Line)>,
    outages: Vec<(Range<Duration>, Line)>,
    clock: Clock,
    start: Time,
    /// How many lines are used up, and who came.
    book: Arc<Mutex<(u64, Ledger)>>,
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// On tokio's clock, paused or not: for async tests.
    pub fn new() -> Self {
        Self::on(Clock::tokio())
    }

    /// On this clock: for blocking tests the manual one that the handle has, too. Its time counts from now.
    pub fn on(clock: Clock) -> Self {
        let (start, book) = (clock.now(), Arc::new(Mutex::new((0, Ledger::new(0)))));
        Self { lines: Vec::new(), outages: Vec::new(), clock, start, book }
    }

    /// Where chance starts for a [`storm`](super::storm()); printed when an assertion fails. 0 unless said.
    pub fn seed(self, seed: u64) -> Self {
        self.book.lock().1 = Ledger::new(seed);
        self
    }

    /// One more line.
    pub fn line(mut self, line: Line) -> Self {
        self.lines.push((1, line));
        self
    }

    /// So many connections that break after the request got through.
    pub fn fail(self, times: u32) -> Self {
        self.line(Line::reset()).times(times)
    }

    /// A reply with this status.
    pub fn status(self, code: u16) -> Self {
        self.line(Line::status(code))
    }

    /// An attempt that is never answered.
    pub fn hang(self) -> Self {
        self.line(Line::hang())
    }

    /// A connection that cannot be made.
    pub fn refuse_connect(self) -> Self {
        self.line(Line::refuse_connect())
    }

    /// A success.
    pub fn then_ok(self) -> Self {
        self.line(Line::ok())
    }

    /// The last line asks to come back after this long.
    pub fn hint(self, hint: Duration) -> Self {
        self.change(|(_, line)| *line = line.hint(hint))
    }

    /// The last line takes this long.
    pub fn slow(self, by: Duration) -> Self {
        self.change(|(_, line)| *line = line.slow(by))
    }

    /// The last line, so many times in all.
    pub fn times(self, times: u32) -> Self {
        self.change(|(count, _)| *count = times.into())
    }

    /// The last line, again and again.
    pub fn for_ever(self) -> Self {
        self.change(|(count, _)| *count = u64::MAX)
    }

    /// Between these two moments, counted from the script's start, everybody gets this line.
    pub fn outage(mut self, between: Range<Duration>, line: Line) -> Self {
        self.outages.push((between, line));
        self
    }

    fn change(mut self, change: impl FnOnce(&mut (u64, Line))) -> Self {
        if let Some(last) = self.lines.last_mut() {
            change(last);
        }
        self
    }

    /// Answers an attempt of an async call.
    pub async fn answer(&self, attempt: Attempt) -> io::Result<Reply> {
        self.send(attempt.number(), read_key(&attempt)).await
    }

    /// Answers an attempt of a blocking call, which gives up at its timeout.
    pub fn answer_blocking(&self, attempt: Attempt) -> io::Result<Reply> {
        let (line, _open) = self.arrive(attempt.number(), read_key(&attempt));
        let takes = line.takes().filter(|takes| *takes < attempt.timeout());
        self.clock.sleep_until_blocking(self.clock.now() + takes.unwrap_or(attempt.timeout()));
        takes.map_or_else(|| Line::hang().play(), |_| line.play())
    }

    /// Answers attempt number so-and-so of a call, with the key that it carries, whoever makes it.
    pub async fn send(&self, number: u32, key: Option<&str>) -> io::Result<Reply> {
        let (line, _open) = self.arrive(number, key);
        match line.takes() {
            Some(takes) => self.clock.sleep_until(self.clock.now() + takes).await,
            None => std::future::pending().await,
        }
        line.play()
    }

    /// Everybody who came so far.
    pub fn ledger(&self) -> Ledger {
        self.book.lock().1.clone()
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn since_start(&self) -> Duration {
        self.clock.now().since(self.start)
    }

    fn arrive(&self, number: u32, key: Option<&str>) -> (Line, Open<'_>) {
        let now = self.since_start();
        let mut book = self.book.lock();
        let (used, ledger) = &mut *book;
        let outage = self.outages.iter().find(|(between, _)| between.contains(&now));
        let line = outage.map_or_else(
            || {
                let line = line_at(&self.lines, *used);
                *used += 1;
                line
            },
            |(_, line)| *line,
        );
        let entry = ledger.arrived(now, number, key, line);
        (line, Open { script: self, entry })
    }
}

fn line_at(lines: &[(u64, Line)], place: u64) -> Line {
    let mut before = 0_u64;
    let covers = |&&(count, _): &&(u64, Line)| {
        before = before.saturating_add(count);
        place < before
    };
    lines.iter().find(covers).map_or(Line::ok(), |(_, line)| *line)
}

fn read_key(attempt: &Attempt) -> Option<&str> {
    attempt.key.was_read().then(|| attempt.key())
}

/// An attempt that is being answered: when it is dropped, it is over, answered or cut off.
struct Open<'a> {
    script: &'a Script,
    entry: Option<usize>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let now = self.script.since_start();
        self.script.book.lock().1.ended(self.entry, now);
    }
}

impl<B> Service<Request<B>> for Script {
    type Response = Reply;
    type Error = io::Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        let field = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let number = field(ATTEMPT.as_str()).and_then(|number| number.parse().ok()).unwrap_or(1);
        let key = field(IDEMPOTENCY_KEY).map(str::to_owned);
        let script = self.clone();
        Box::pin(async move { script.send(number, key.as_deref()).await })
    }
}
