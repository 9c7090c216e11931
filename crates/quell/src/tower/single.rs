//! Single layers: one policy and nothing else, for experts.
//!
//! **Why.** Sometimes a service has all it needs but a breaker, or a limit has to stand in another place than the fixed
//! slots give it. Each of these is the same engine with one policy on, so it decides, counts and tells as the whole does.
//! Remember what the order means: a limit *outside* of retries is held while they sleep, and a breaker outside of them
//! sees a call where the upstream sees three.
//!
//! ```
//! use quell::{Limit, tower::single};
//! use tower::ServiceBuilder;
//!
//! # use tower::Service as _;
//! # async fn answer(_: ()) -> Result<u8, std::io::Error> { Ok(7) }
//! let service = ServiceBuilder::new()
//!     .layer(single::in_flight("stock", Limit::Fixed(64), 16)?)
//!     .layer(single::breaker("stock", Default::default())?)
//!     .service_fn(answer);
//! # let _ = service;
//! # Ok::<_, quell::Invalid>(())
//! ```

use std::time::Duration;

use quell_core::{
    breaker, budget,
    in_flight::Limit,
    limiter,
    spec::{Invalid, PolicySpec, UpstreamSpec},
};

use super::{Once, Plain, QuellLayer};
use crate::Quell;

/// As long as nobody waits.
const FOR_EVER: Duration = Duration::from_secs(86_400 * 365);

/// One attempt, which may take for ever.
fn once() -> PolicySpec {
    let per_try_timeout = Some(FOR_EVER);
    PolicySpec { attempts: 1, timeout: FOR_EVER, per_try_timeout, ..PolicySpec::library() }
}

/// Nothing is limited and nothing is counted against the upstream.
fn open() -> UpstreamSpec {
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    UpstreamSpec { budget: budget::Spec::None, breaker, ejection: None, ..UpstreamSpec::library() }
}

fn layer<P: Default>(
    name: &str,
    policy: PolicySpec,
    spec: UpstreamSpec,
) -> Result<QuellLayer<P>, Invalid> {
    let quell = Quell::upstream(name).policy(policy).spec(spec).idempotent().build()?;
    Ok(QuellLayer::with(quell, P::default()))
}

/// Refuses calls to an upstream that fails.
pub fn breaker(name: &str, breaker: breaker::Spec) -> Result<QuellLayer<Once>, Invalid> {
    layer(name, once(), UpstreamSpec { breaker, ..open() })
}

/// Lets so many calls be under way, and so many wait.
pub fn in_flight(name: &str, limit: Limit, queue: usize) -> Result<QuellLayer<Once>, Invalid> {
    layer(name, once(), UpstreamSpec { in_flight: limit, queue, ..open() })
}

/// Lets so many calls pass per second.
pub fn rate_limit(name: &str, limit: limiter::Spec) -> Result<QuellLayer<Once>, Invalid> {
    layer(name, once(), UpstreamSpec { rate_limit: Some(limit), ..open() })
}

/// Ends calls that take longer.
///
/// ```
/// use std::time::Duration;
/// use quell::tower::single;
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let hung = service_fn(|()| std::future::pending::<Result<(), std::io::Error>>());
/// let service = single::timeout("stock", Duration::from_millis(5))?.layer(hung);
/// assert_eq!(service.oneshot(()).await.unwrap_err().status(), 504);
/// # Ok::<_, quell::Invalid>(())
/// # }).unwrap();
/// # Ok::<_, std::io::Error>(())
/// ```
pub fn timeout(name: &str, timeout: Duration) -> Result<QuellLayer<Once>, Invalid> {
    let per_try_timeout = Some(timeout);
    layer(name, PolicySpec { timeout, per_try_timeout, ..once() }, open())
}

/// Repeats calls that failed, within a budget. They have to be such that may be repeated.
///
/// ```
/// use quell::{core::{budget, spec::PolicySpec}, tower::single};
///
/// let twice = PolicySpec { attempts: 2, ..PolicySpec::library() };
/// let retry = single::retry("stock", twice, budget::Spec::default())?;
/// # let _ = retry;
/// # Ok::<_, quell::Invalid>(())
/// ```
pub fn retry(
    name: &str,
    policy: PolicySpec,
    budget: budget::Spec,
) -> Result<QuellLayer<Plain>, Invalid> {
    layer(name, policy, UpstreamSpec { budget, ..open() })
}
