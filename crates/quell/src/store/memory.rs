//! Memory: keys remembered in this process, and by nobody else.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use parking_lot::Mutex;
use quell_core::{
    Stamp, Time,
    idempotency::{self, Begin, Ending, Fence, Record, Stale},
};

use super::{Answer, Begun, Claim, Down, Ended, Key, Reply, Request, Store, Unsettled};
use crate::Clock;

const ENTRIES: usize = 100_000;
const BYTES: usize = 64 * 1024 * 1024;
/// How many records that ran out are dropped on the way of a claim at most: nobody waits for a great cleaning.
const SWEEP: usize = 64;

/// A [`Store`] in memory: for one process, or for tests.
///
/// It is bounded twice. With so many live keys that there is no room for one more it is [`Down`] to new ones rather than
/// forget one that it promised to remember; with so many bytes of replies that one more does not fit, that one is
/// [not stored](Ended::Unstored), and whoever asks for it again is told that it was done. Both are counted in
/// [`Usage`]. Keys that ran out, or were given up, make room first.
///
/// ```
/// use quell::store::Memory;
///
/// let store = Memory::new().entries(10_000).bytes(16 * 1024 * 1024);
/// assert_eq!(store.usage().entries, 0);
/// ```
pub struct Memory {
    most: Bounds,
    clock: Clock,
    /// The wall clock and ours at the start. From then on ours alone decides: a wall clock may step.
    origin: (Stamp, Time),
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    entries: usize,
    bytes: usize,
}

/// What a [`Memory`] holds, and what it had no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Keys that are remembered.
    pub entries: usize,
    /// Bytes of the replies that are stored.
    pub bytes: usize,
    /// Requests that were refused because there was no room for their key.
    pub refused: u64,
    /// Replies that were not stored because there was no room for their bytes.
    pub unstored: u64,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// Every entry by when it may be forgotten.
    by_keep: BTreeSet<(Stamp, Key)>,
    /// The highest fence of a key that is not remembered any more. Later claims of any such key are above it.
    forgotten: u64,
    usage: Usage,
}

struct Entry {
    record: Record,
    reply: Option<Reply>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Remembers up to 100,000 keys and 64 MiB of replies.
    pub fn new() -> Self {
        let most = Bounds { entries: ENTRIES, bytes: BYTES };
        Self::with(most, Clock::system())
    }

    /// Remembers at most so many keys.
    pub fn entries(mut self, most: usize) -> Self {
        self.most.entries = most;
        self
    }

    /// Stores replies of at most so many bytes together.
    pub fn bytes(mut self, most: usize) -> Self {
        self.most.bytes = most;
        self
    }

    /// Another clock, for tests.
    pub fn clock(self, clock: Clock) -> Self {
        Self::with(self.most, clock)
    }

    /// What it holds now.
    pub fn usage(&self) -> Usage {
        let state = self.state.lock();
        Usage { entries: state.entries.len(), ..state.usage }
    }

    fn with(most: Bounds, clock: Clock) -> Self {
        let unix_ms = u64::try_from(clock.unix_now().as_millis()).unwrap_or(u64::MAX);
        let origin = (Stamp::from_millis(unix_ms), clock.now());
        Self { most, clock, origin, state: Mutex::default() }
    }

    fn now(&self) -> Stamp {
        let (stamp, start) = self.origin;
        stamp + self.clock.now().since(start)
    }

    fn begin_now(&self, request: &Request) -> Result<Begun, Down> {
        let Request { key, owner, fingerprint, rules } = *request;
        let mut state = self.state.lock();
        let now = self.now();
        for _ in 0..SWEEP {
            if !state.forget_expired(now) {
                break;
            }
        }
        let entry = state.entries.get(&key);
        let free = Record::Free { fence: Fence(state.forgotten), keep: now };
        let record = entry.map_or(free, |entry| entry.record);
        Ok(match idempotency::begin(Some(&record), now, owner, fingerprint, &rules) {
            Begin::Claim(record) => {
                if entry.is_none() && state.entries.len() >= self.most.entries {
                    state.usage.refused += 1;
                    return Err(Down::new(
                        "as many idempotency keys as it may remember are in use",
                    ));
                }
                state.put(key, Entry { record, reply: None });
                Begun::Claimed(Claim { key, owner, fence: record.fence(), rules })
            }
            Begin::Replay(ending) => match (ending, entry.and_then(|entry| entry.reply.clone())) {
                (Ending::Stored { .. }, Some(reply)) => Begun::Replay(reply),
                _ => Begun::Failed,
            },
            Begin::InFlight { retry_at } => Begun::InFlight { wait: retry_at.since(now) },
            Begin::Mismatch => Begun::Mismatch,
        })
    }

    fn complete_now(&self, claim: &Claim, ended: Ended) -> Result<(), Stale> {
        let Claim { key, owner, fence, rules } = *claim;
        let mut state = self.state.lock();
        let now = self.now();
        let before = state.record(key);
        let record =
            idempotency::complete(before.as_ref(), now, owner, fence, ended.ending(), &rules)?;
        if before == Some(record) {
            return Ok(()); // said before, and the first word stands
        }
        let Ended::Stored(reply) = ended else {
            state.put(key, Entry { record, reply: None });
            return Ok(());
        };
        let fits =
            |state: &State| reply.size() <= self.most.bytes.saturating_sub(state.usage.bytes);
        while !fits(&state) && state.forget_expired(now) {}
        if fits(&state) {
            state.put(key, Entry { record, reply: Some(reply) });
            return Ok(());
        }
        state.usage.unstored += 1;
        let gone = Ending::Unstored { status: reply.status().as_u16() };
        let record = idempotency::complete(before.as_ref(), now, owner, fence, gone, &rules)?;
        state.put(key, Entry { record, reply: None });
        Ok(())
    }

    fn abandon_now(&self, claim: &Claim) -> Result<(), Stale> {
        let mut state = self.state.lock();
        idempotency::abandon(state.record(claim.key).as_ref(), claim.owner, claim.fence)?;
        state.forget(claim.key);
        Ok(())
    }

    fn renew_now(&self, claim: &Claim) -> Result<(), Stale> {
        let Claim { key, owner, fence, rules } = *claim;
        let mut state = self.state.lock();
        let record =
            idempotency::renew(state.record(key).as_ref(), self.now(), owner, fence, &rules)?;
        state.put(key, Entry { record, reply: None });
        Ok(())
    }
}

impl State {
    fn record(&self, key: Key) -> Option<Record> {
        self.entries.get(&key).map(|entry| entry.record)
    }

    fn put(&mut self, key: Key, entry: Entry) {
        self.take(key);
        self.by_keep.insert((entry.record.keep(), key));
        self.usage.bytes += entry.reply.as_ref().map_or(0, Reply::size);
        self.entries.insert(key, entry);
    }

    fn take(&mut self, key: Key) -> Option<Record> {
        let Entry { record, reply } = self.entries.remove(&key)?;
        self.by_keep.remove(&(record.keep(), key));
        self.usage.bytes -= reply.as_ref().map_or(0, Reply::size);
        Some(record)
    }

    /// As good as a free record, of which only the fence is worth anything.
    fn forget(&mut self, key: Key) {
        if let Some(record) = self.take(key) {
            self.forgotten = self.forgotten.max(record.fence().0);
        }
    }

    /// Forgets the key that ran out first; false if none did.
    fn forget_expired(&mut self, now: Stamp) -> bool {
        match self.by_keep.first() {
            Some(&(keep, key)) if keep <= now => {
                self.forget(key);
                true
            }
            _ => false,
        }
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(answer))
}

/// Every verb takes place when it is called, so its future can be dropped without harm.
impl Store for Memory {
    fn begin<'a>(&'a self, request: &'a Request) -> Answer<'a, Result<Begun, Down>> {
        ready(self.begin_now(request))
    }

    fn complete<'a>(&'a self, claim: &'a Claim, ended: Ended) -> Answer<'a, Result<(), Unsettled>> {
        ready(self.complete_now(claim, ended).map_err(Unsettled::from))
    }

    fn abandon<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Result<(), Unsettled>> {
        ready(self.abandon_now(claim).map_err(Unsettled::from))
    }

    fn renew<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Result<(), Unsettled>> {
        ready(self.renew_now(claim).map_err(Unsettled::from))
    }
}

impl fmt::Debug for Memory {
    /// Without keys and replies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("most", &self.most).field("usage", &self.usage()).finish()
    }
}
