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
    pin::{Pin, pin},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pin_project_lite::pin_project;
use quell_core::Time;
use tokio::sync::{Notify, futures::OwnedNotified};

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
    moved: Arc<Notify>,
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
    pub fn sleep_until(&self, until: Time) -> Sleep {
        Sleep { clock: self.clone(), until, wait: Wait::Unarmed }
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

pin_project! {
    /// A wait for an instant, from [`Clock::sleep_until`]. Nothing is armed before it is polled.
    #[derive(Debug)]
    #[must_use = "nobody waits before it is polled"]
    pub struct Sleep {
        clock: Clock,
        until: Time,
        #[pin]
        wait: Wait,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = WaitProj]
    enum Wait {
        Unarmed,
        Tokio { #[pin] sleep: tokio::time::Sleep },
        Manual { moved: Pin<Box<OwnedNotified>> },
    }
}

impl Sleep {
    /// Waits for another instant instead.
    pub fn reset(self: Pin<&mut Self>, until: Time) {
        let mut this = self.project();
        let left = until.since(this.clock.now());
        *this.until = until;
        if let WaitProj::Tokio { sleep } = this.wait.as_mut().project() {
            sleep.reset(from_now(left));
        }
    }

    /// The instant it waits for.
    pub fn until(&self) -> Time {
        self.until
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            // Armed before looking, or a move in between is missed.
            if let (Some(manual), WaitProj::Unarmed) =
                (this.clock.as_manual(), this.wait.as_mut().project())
            {
                let mut moved = Box::pin(Arc::clone(&manual.moved).notified_owned());
                moved.as_mut().enable();
                this.wait.set(Wait::Manual { moved });
            }
            // Tokio's clock and ours need not agree to the microsecond: ours decides.
            let left = this.until.since(this.clock.now());
            if left.is_zero() {
                return Poll::Ready(());
            }
            if let WaitProj::Unarmed = this.wait.as_mut().project() {
                let sleep = tokio::time::sleep(left);
                this.wait.set(Wait::Tokio { sleep });
            }
            match this.wait.as_mut().project() {
                WaitProj::Unarmed => {} // cannot be: it was just armed
                WaitProj::Tokio { mut sleep } => {
                    std::task::ready!(sleep.as_mut().poll(cx));
                    sleep.reset(from_now(left));
                }
                WaitProj::Manual { moved } => {
                    std::task::ready!(moved.as_mut().poll(cx));
                    this.wait.set(Wait::Unarmed);
                }
            }
        }
    }
}

pin_project! {
    /// At most one [`Sleep`], made when it is first needed: most attempts end before anybody has to wait.
    #[derive(Debug, Default)]
    pub(crate) struct Timer {
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl Timer {
    /// Whether that instant has come; whoever polls is woken then.
    pub(crate) fn poll_until(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        clock: &Clock,
        until: Time,
    ) -> Poll<()> {
        let mut this = self.project();
        match this.sleep.as_mut().as_pin_mut() {
            None => this.sleep.set(Some(clock.sleep_until(until))),
            Some(sleep) if sleep.until() != until => sleep.reset(until),
            Some(_) => {}
        }
        match this.sleep.as_pin_mut() {
            Some(sleep) => sleep.poll(cx),
            None => Poll::Ready(()), // cannot be: it was just made
        }
    }
}

/// Tokio's timer does not take every duration; further than this nobody waits.
fn from_now(left: Duration) -> tokio::time::Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);
    tokio::time::Instant::now() + left.min(FAR)
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
