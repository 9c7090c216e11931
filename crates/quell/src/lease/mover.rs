//! Mover: moves tokens between the place that counts them and this process.

use std::{fmt, future::Future, pin::pin, sync::Arc, time::Duration};

use quell_core::{
    Refusal, Rng,
    lease::{Invalid, Planner, Request, Rules, Spec},
};

use super::Holder;
use crate::{Clock, key, sync::Mutex};

/// The mover looks this often whether to ask the holder, or sixteen times while a lease is valid if that is more often.
const LOOK: Duration = Duration::from_millis(20);
/// The mover does not look more often than this.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// One process's part of a fleet's limit. See the [module](super), also for an example.
pub struct Mover {
    holder: Arc<dyn Holder>,
    clock: Clock,
    look: Duration,
    timeout: Duration,
    /// Never held while the mover waits for the holder.
    state: Mutex<State>,
}

struct State {
    planner: Planner,
    rng: Rng,
}

impl Mover {
    /// A process that has just started: it holds nothing before [`Mover::run`] has asked the holder.
    pub fn new(spec: Spec, holder: Arc<dyn Holder>) -> Result<Self, Invalid> {
        let planner = Planner::new(Rules::new(spec)?);
        let state = State { planner, rng: Rng::new(key::seed()) };
        Ok(Self {
            holder,
            clock: Clock::system(),
            look: LOOK.min(spec.valid_for / 16).max(SHORTEST_LOOK),
            timeout: spec.timeout,
            state: Mutex::new(state),
        })
    }

    /// Another clock, for tests.
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The same seed and the same answers give the same requests, for tests.
    pub fn seed(self, seed: u64) -> Self {
        self.state.lock().rng = Rng::new(seed);
        self
    }

    /// Takes so many tokens, or none and says why. It decides on what is here and never waits for the holder.
    pub fn take(&self, tokens: u32) -> Result<(), Refusal> {
        let now = self.clock.now();
        self.state.lock().planner.take(now, tokens)
    }

    /// Whether the holder answered last time. If not, this process lives on its share of the limit.
    pub fn is_holder_up(&self) -> bool {
        self.state.lock().planner.is_store_up()
    }

    /// Moves tokens until `end` comes, and then gives back what was not used. Spawn one of these for each mover. When the
    /// future is dropped instead, nothing is given back, and what is here runs out.
    pub async fn run(&self, end: impl Future) {
        let mut end = pin!(end);
        loop {
            let now = self.clock.now();
            let request = {
                let State { planner, rng } = &mut *self.state.lock();
                planner.want(now, rng)
            };
            if let Some(request) = request {
                self.ask(&request).await;
            }
            let look_at = self.clock.now() + self.look;
            if self.clock.timeout_at(look_at, end.as_mut()).await.is_some() {
                break;
            }
        }
        self.leave().await;
    }

    async fn ask(&self, request: &Request) {
        let give_up_at = self.clock.now() + self.timeout;
        let answer = self.clock.timeout_at(give_up_at, self.holder.take(request)).await;
        let now = self.clock.now();
        let State { planner, rng } = &mut *self.state.lock();
        match answer {
            Some(Ok(grant)) => planner.granted(now, request.id, grant),
            Some(Err(_)) | None => planner.failed(now, request.id, rng),
        }
    }

    async fn leave(&self) {
        let now = self.clock.now();
        let back = self.state.lock().planner.leave(now);
        if let Some(back) = back {
            let give_up_at = now + self.timeout;
            // If it fails, what is not given back runs out.
            let _ = self.clock.timeout_at(give_up_at, self.holder.give_back(&back)).await;
        }
    }
}

impl fmt::Debug for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mover").field("planner", &self.state.lock().planner).finish_non_exhaustive()
    }
}
