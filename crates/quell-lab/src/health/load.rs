//! The load on one proxy: every flow's callers, at their instants, whatever the proxy does.
//!
//! **How.** Each flow is a task that sleeps to the next instant and spawns a call. Whoever is late is not left out: its
//! latency counts from the instant at which it was due. Loops are tasks that call one after the other until the world
//! ends. After that, whoever still waits has [`GRACE`] beyond the longest work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::call::{self, Script};
use super::dice::Dice;
use super::link::Links;
use super::schedule::Arrivals;
use super::tally::{End, Seen, Tally};
use super::tunnel;
use super::world::{Flow, Who, Wire, World};

/// How long after the last arrival answers are waited for.
const GRACE: Duration = Duration::from_secs(75);
/// After how long somebody in a loop asks again who was refused, and somebody hostile.
const AGAIN: Duration = Duration::from_secs(1);
const AT_ONCE: Duration = Duration::from_millis(20);

/// Where a proxy listens: for HTTP/1.1 and for HTTP/2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doors {
    pub(crate) http1: SocketAddr,
    pub(crate) http2: SocketAddr,
}

/// Lets all callers of the world come, and returns what they saw.
pub(crate) async fn run(
    world: &World,
    length: Duration,
    seed: u64,
    doors: Doors,
    begin: Instant,
) -> Vec<Seen> {
    let mut flows = Vec::new();
    for (number, flow) in world.flows.iter().enumerate() {
        let to = if matches!(flow.wire, Wire::Http2(_)) { doors.http2 } else { doors.http1 };
        let callers = Arc::new(Callers {
            flow: flow.clone(),
            links: Arc::new(Links::new(to, flow.address, flow.wire)),
            tally: Mutex::default(),
            begin,
            end: begin + length,
        });
        let dice = Dice::new(seed, number as u64);
        let task = tokio::spawn(Arc::clone(&callers).come(length, dice, number as u64));
        flows.push((callers, task));
    }
    let deadline = begin + length + GRACE;
    let mut seen = Vec::new();
    for (callers, task) in flows {
        let _ = timeout_at(deadline, task).await; // who is not back by then was not answered
        let tally = std::mem::take(&mut *callers.tally.lock());
        seen.push(tally.seen(callers.flow.name, callers.flow.who));
    }
    seen
}

/// The callers of one flow.
pub(crate) struct Callers {
    pub(crate) flow: Flow,
    pub(crate) links: Arc<Links>,
    pub(crate) tally: Mutex<Tally>,
    begin: Instant,
    end: Instant,
}

impl Callers {
    async fn come(self: Arc<Self>, length: Duration, mut dice: Dice, flow: u64) {
        // Ids of different flows are different: the service remembers some of them.
        let mut ids = (flow << 32)..;
        let mut calls = JoinSet::new();
        if let Arrivals::Loops(callers) = self.flow.arrivals {
            sleep_until(self.begin + self.flow.from).await;
            for number in 0..callers {
                let (dice, first) =
                    (Dice::new(flow + 1, number.into()), (flow << 32) + (u64::from(number) << 20));
                calls.spawn(Arc::clone(&self).repeat(dice, first));
            }
        }
        for at in self.flow.arrivals.instants(self.flow.from, length, &mut dice) {
            let script = Script::draw(&self.flow, ids.next().unwrap_or(0), at, &mut dice);
            let due = self.begin + at;
            sleep_until(due).await;
            let this = Arc::clone(&self);
            calls.spawn(async move {
                this.call(script, due).await;
            });
            while calls.try_join_next().is_some() {}
        }
        while calls.join_next().await.is_some() {}
    }

    /// Whether it was answered as it should be.
    async fn call(&self, script: Script, due: Instant) -> bool {
        self.tally.lock().sent();
        let end = call::make(&self.flow, &self.links, &script).await;
        let well = matches!(end, End::Well | End::Mended);
        self.tally.lock().ended(end, due.elapsed());
        well
    }

    /// One caller who asks again as soon as it was answered.
    async fn repeat(self: Arc<Self>, mut dice: Dice, first: u64) {
        for id in first.. {
            let now = Instant::now();
            if now >= self.end {
                break;
            }
            if let Wire::Tunnel(messages, pause) = self.flow.wire {
                tunnel::talk(&self, messages, pause, self.end).await;
            } else {
                let script = Script::draw(&self.flow, id, now - self.begin, &mut dice);
                if !self.call(script, now).await {
                    sleep(if self.flow.who == Who::Hostile { AT_ONCE } else { AGAIN }).await;
                }
            }
        }
    }
}
