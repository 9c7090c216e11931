//! Clock: the one place where time is read and waited for.
//!
//! **Why.** The policies take `now` as an argument; somebody has to know it. If every wait and every reading
//! goes through one type, then a test that owns the clock owns all of time, and a wall clock that is set back
//! changes nothing.
//!
//! **How.** [`Clock::system`] reads a monotonic counter, the same for the whole process. [`Clock::tokio`]
//! follows tokio's clock, paused or not. [`Clock::manual`] moves only when told. The wall clock is read for one
//! purpose, the date in a `Retry-After` header: [`Clock::unix_now`].
//!
//! ```
//! use std::time::Duration;
//! use quell::Clock;
//!
//! let clock = Clock::manual();
//! let start = clock.now();
//! clock.advance(Duration::from_secs(5));
//! assert_eq!(clock.now().since(start), Duration::from_secs(5));
//! ```

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quell_core::Time;
use tokio::sync::Notify;

/// How often a blocked thread looks at a clock that moves by hand.
const LOOK: Duration = Duration::from_millis(1);

/// See the [module](self). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System(&'static System),
    /// Behind a pointer, so that telling it from the system's is one comparison: clocks are read twice in every call.
    Test(Arc<Test>),
}

#[derive(Debug)]
struct System {
    clock: quanta::Clock,
    origin: u64,
    /// Nanoseconds in 2^32 steps of the counter.
    scale: u64,
}

#[derive(Debug)]
enum Test {
    Tokio(tokio::time::Instant),
    Manual(Manual),
}

#[derive(Debug, Default)]
struct Manual {
    nanos: AtomicU64,
    moved: Notify,
}

/// One origin for the process, so that instants taken from any two system clocks can be compared.
static SYSTEM: LazyLock<System> = LazyLock::new(|| {
    let clock = quanta::Clock::new();
    let (origin, scale) = (clock.raw(), clock.delta_as_nanos(0, 1 << 32));
    System { clock, origin, scale }
});

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl Clock {
    /// The machine's monotonic clock. The first one in a process may take a few milliseconds to calibrate.
    pub fn system() -> Self {
        Self(Source::System(&SYSTEM))
    }

    /// Tokio's clock, which tests can pause.
    pub fn tokio() -> Self {
        Self(Source::Test(Arc::new(Test::Tokio(tokio::time::Instant::now()))))
    }

    /// A clock that stands still until [`Clock::advance`] moves it. Clones move together.
    pub fn manual() -> Self {
        Self(Source::Test(Arc::new(Test::Manual(Manual::default()))))
    }

    /// Moves a manual clock forward; any other clock moves by itself and ignores it.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = self.as_manual() {
            self.advance_to(manual, self.now() + by);
        }
    }

    /// The instant it is.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0 {
            Source::System(system) => {
                let steps = system.clock.raw().saturating_sub(system.origin);
                Time::from_nanos(((u128::from(steps) * u128::from(system.scale)) >> 32) as u64)
            }
            Source::Test(test) => test.now(),
        }
    }

    /// Time since 1970 on the wall clock, for dates that others wrote. Everything else is monotonic.
    #[allow(clippy::disallowed_methods, reason = "this is the clock that everybody else is to ask")]
    pub fn unix_now(&self) -> Duration {
        match self.as_manual() {
            Some(_) => self.now().since(Time::ZERO),
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// Waits until that instant, never less.
    pub async fn sleep_until(&self, until: Time) {
        if let Some(manual) = self.as_manual() {
            loop {
                let moved = manual.moved.notified(); // before looking, or a move in between is missed
                if self.now() >= until {
                    return;
                }
                moved.await;
            }
        }
        // Tokio's clock and ours need not agree to the microsecond: ours decides.
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// What the future gives, or `None` if that takes until the instant; then the future is dropped.
    pub async fn timeout_at<F: Future>(&self, at: Time, future: F) -> Option<F::Output> {
        let (mut future, mut sleep) = (pin!(future), pin!(self.sleep_until(at)));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Blocks the thread until that instant. A manual clock is moved there instead: nobody else would.
    #[allow(
        clippy::disallowed_methods,
        reason = "whoever calls this asked for a thread to be held"
    )]
    pub fn sleep_until_blocking(&self, until: Time) {
        match self.as_manual() {
            Some(manual) => self.advance_to(manual, until),
            None => loop {
                let left = until.since(self.now());
                if left.is_zero() {
                    return;
                }
                std::thread::sleep(left);
            },
        }
    }

    /// Blocks the thread until it is unparked or that instant comes, or for no reason at all.
    pub(crate) fn park_until(&self, until: Time) {
        let left = until.since(self.now());
        std::thread::park_timeout(if self.as_manual().is_some() { left.min(LOOK) } else { left });
    }

    fn as_manual(&self) -> Option<&Manual> {
        match &self.0 {
            Source::Test(test) => match &**test {
                Test::Manual(manual) => Some(manual),
                Test::Tokio(_) => None,
            },
            Source::System(_) => None,
        }
    }

    fn advance_to(&self, manual: &Manual, to: Time) {
        manual.nanos.fetch_max(to.as_nanos(), Ordering::AcqRel);
        manual.moved.notify_waiters();
    }
}

impl Test {
    #[cold]
    fn now(&self) -> Time {
        match self {
            Self::Tokio(origin) => Time::ZERO + origin.elapsed(),
            Self::Manual(manual) => Time::from_nanos(manual.nanos.load(Ordering::Acquire)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_only_when_it_gets_there() {
        let clock = Clock::manual();
        let until = clock.now() + 2 * SECOND;
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(until).await }
        });
        tokio::task::yield_now().await;
        clock.advance(SECOND);
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(SECOND);
        sleeper.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn tokios_paused_clock_and_ours_agree() {
        let clock = Clock::tokio();
        let start = clock.now();
        clock.sleep_until(start + 3_600 * SECOND).await;
        assert_eq!(clock.now().since(start), 3_600 * SECOND);
        assert_eq!(
            clock.timeout_at(clock.now() + SECOND, std::future::pending::<()>()).await,
            None
        );
        assert_eq!(clock.timeout_at(Time::ZERO, async { 7 }).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn for_ever_is_long_and_not_a_panic() {
        let clock = Clock::tokio();
        let for_ever = clock.sleep_until(Time::MAX);
        assert_eq!(clock.timeout_at(clock.now() + SECOND, for_ever).await, None);
    }

    #[test]
    fn the_system_clock_never_goes_back_and_blocking_sleeps_are_not_short() {
        let (clock, other) = (Clock::system(), Clock::system());
        let until = clock.now() + Duration::from_millis(5);
        clock.sleep_until_blocking(until);
        assert!(other.now() >= until);
    }

    #[test]
    fn a_blocking_sleep_moves_a_manual_clock_and_never_back() {
        let clock = Clock::manual();
        clock.sleep_until_blocking(Time::ZERO + SECOND);
        clock.sleep_until_blocking(Time::ZERO);
        assert_eq!(clock.now(), Time::ZERO + SECOND);
    }
}
