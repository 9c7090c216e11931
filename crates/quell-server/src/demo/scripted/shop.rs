//! The shop: the line, the outage and the ledger behind one lock, and the clock that empties the line.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quell_sim::verdict::Count;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::ledger::Book;
use super::line::Line;
use super::pace::Times;
use super::{Ledger, Outage, Shape, Visits};
use crate::demo::tally::Tally;

/// Jobs that can be inside; further requests fail at once.
const LONGEST: usize = 1_000_000;

/// What awaits a request that was read whole.
pub(super) enum Fate {
    /// The line; the reply is due when this resolves, and lost if the other end is dropped.
    Line(oneshot::Receiver<()>),
    /// An error, at once.
    Fail,
    /// No reply, ever.
    Nothing,
}

struct Job {
    id: Option<Arc<str>>,
    /// Closed once nobody waits for the reply: the connection's task has dropped the other end.
    reply: oneshot::Sender<()>,
}

pub(super) struct Shop {
    start: Instant,
    state: Mutex<State>,
    /// Rung when the next due moment may have changed.
    bell: Notify,
}

struct State {
    line: Line<Job>,
    outage: Option<Outage>,
    ledger: Ledger,
    book: Book,
    tally: Option<Arc<Tally>>,
}

impl Shop {
    pub(super) fn new(shape: &Shape) -> io::Result<Self> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
        if shape.workers == 0 {
            return Err(wrong("workers is 0, so nothing would ever be served: write at least 1"));
        }
        shape.sharing.check().map_err(wrong)?;
        let times =
            Times::new(&shape.service, shape.seed).map_err(|error| wrong(&error.to_string()))?;
        let state = State {
            line: Line::new(shape.workers, shape.sharing, times),
            outage: None,
            ledger: Ledger::default(),
            book: Book::default(),
            tally: None,
        };
        Ok(Self { start: Instant::now(), state: Mutex::new(state), bell: Notify::new() })
    }

    /// A caller has connected.
    pub(super) fn connected(&self) {
        self.state.lock().ledger.connections += 1;
    }

    /// A caller went away without a reply.
    pub(super) fn abandoned(&self) {
        self.state.lock().ledger.abandoned += 1;
    }

    /// A request's head is here.
    pub(super) fn arrived(&self, id: Option<&str>) -> Option<Arc<str>> {
        let mut state = self.state.lock();
        state.ledger.received += 1;
        if let Some(tally) = &state.tally {
            tally.count(Count::Sent);
        }
        let key = state.book.arrived(id?);
        state.ledger.unlisted += u64::from(key.is_none());
        key
    }

    /// A part of a request's body is here.
    pub(super) fn read(&self, bytes: usize) {
        self.state.lock().ledger.body_bytes += bytes as u64;
    }

    /// A request was read whole. It may say how long it takes.
    pub(super) fn place(&self, id: Option<Arc<str>>, time: Option<Duration>) -> Fate {
        let mut state = self.state.lock();
        let (in_queue, in_service) = state.line.lengths();
        let full = in_queue + in_service >= LONGEST;
        match state.outage {
            Some(Outage::Hole) => {
                state.ledger.swallowed += 1;
                Fate::Nothing
            }
            outage if full || outage == Some(Outage::Fail) => {
                state.ledger.failed += 1;
                Fate::Fail
            }
            _ => {
                let (reply, receiver) = oneshot::channel();
                // The clock is read under the lock: places in the line are taken in the order of time.
                let now = self.start.elapsed();
                state.settle(now);
                let due = state.line.due();
                state.line.join(now, Job { id, reply }, time);
                if due.is_none() || state.line.due() < due {
                    self.bell.notify_one();
                }
                Fate::Line(receiver)
            }
        }
    }

    /// Starts an outage, in place of the present one if there is one.
    pub(super) fn begin(&self, outage: Outage) {
        self.switch(Some(outage));
    }

    /// Ends the outage.
    pub(super) fn end(&self) {
        self.switch(None);
    }

    fn switch(&self, outage: Option<Outage>) {
        let mut state = self.state.lock();
        let now = self.start.elapsed();
        state.settle(now); // what was done by now was done under the old regime
        state.line.stall(now, outage == Some(Outage::Stall));
        let times = &mut state.line.times;
        (times.slower, times.hang) = match outage {
            Some(Outage::Slow { factor }) => (factor, None),
            Some(Outage::Hang { share, time }) => (1.0, Some((share, time))),
            _ => (1.0, None),
        };
        state.outage = outage;
        self.bell.notify_one();
    }

    pub(super) fn tally(&self, tally: Arc<Tally>) {
        self.state.lock().tally = Some(tally);
    }

    pub(super) fn ledger(&self) -> Ledger {
        let mut state = self.state.lock();
        state.settle(self.start.elapsed());
        let (in_queue, in_service) = state.line.lengths();
        Ledger { in_queue: in_queue as u64, in_service: in_service as u64, ..state.ledger }
    }

    pub(super) fn visits(&self, id: &str) -> Visits {
        let mut state = self.state.lock();
        state.settle(self.start.elapsed());
        state.book.visits(id)
    }

    pub(super) fn all_visits(&self) -> HashMap<String, Visits> {
        let mut state = self.state.lock();
        state.settle(self.start.elapsed());
        state.book.all()
    }

    /// Sends every reply when it is due, for ever.
    pub(super) async fn tick(&self) {
        loop {
            match self.settle() {
                Some(due) => {
                    tokio::select! {
                        () = sleep_until(self.start + due) => {}
                        () = self.bell.notified() => {}
                    }
                }
                None => self.bell.notified().await,
            }
        }
    }

    /// Finishes what is done and says when to look again.
    fn settle(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        state.settle(self.start.elapsed());
        state.line.due()
    }
}

impl State {
    fn settle(&mut self, now: Duration) {
        while let Some(job) = self.line.next_done(now) {
            self.ledger.served += 1;
            self.ledger.wasted += u64::from(job.reply.is_closed());
            if let Some(id) = &job.id {
                self.book.served(id);
            }
            if self.outage == Some(Outage::Hole) {
                self.ledger.lost += 1; // and the sender is dropped
            } else {
                let _ = job.reply.send(()); // nobody there: that is what `wasted` counts
            }
        }
    }
}

#[cfg(test)]
#[path = "shop_tests.rs"]
mod tests;
