//! Invalid: numbers that make no budget.

use core::time::Duration;

use super::TOKEN;

/// Why a [`Spec`](super::Spec) is not a budget. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Nothing could ever be paid for.
    #[error(
        "budget.max is 0, so no retry is ever paid for: write at least 1, or attempts = 1 to forbid retries"
    )]
    Max,
    /// Negative, more than two retries per success, or not a number.
    #[error(
        "budget.ratio is {0}: write a number from 0 to 2, such as 0.1 for one retry per ten successes"
    )]
    Ratio(f64),
    /// Infinitely many tokens at once.
    #[error(
        "budget.refill is 0s: leave it out, or write the time in which one token comes back, such as \"1s\""
    )]
    Refill,
    /// Fuller than full.
    #[error("budget.start is {start}: write at most max, which is {max}")]
    Start {
        /// As written.
        start: u32,
        /// The budget's own.
        max: u32,
    },
    /// No share of the whole.
    #[error(
        "budget.pause_below is {0}: write a share from 0 to 1, such as 0.5 to pause below half"
    )]
    PauseBelow(f64),
    /// Free, or never to be paid.
    #[error(
        "budget.cost is {cost} millionths of a token: write at least 1 and at most max, which is {max} tokens"
    )]
    Cost {
        /// As written.
        cost: u32,
        /// The budget's own.
        max: u32,
    },
    /// Too short to be cut into parts.
    #[error("budget.window is {0:?}: write at least \"1ms\", such as \"10s\"")]
    Window(Duration),
    /// Negative, not a number, or past all measure.
    #[error(
        "budget.floor is {0} retries per second: write a number from 0 to 1000000, and mind that every process has its own"
    )]
    Floor(f64),
    /// An average that never moves, or is none.
    #[error("budget.alpha is {0}: write a weight above 0 and up to 1, such as 0.1")]
    Alpha(f64),
    /// No rate of success.
    #[error("budget.success_floor is {0}: write a share from 0 to 1, such as 0.1")]
    SuccessFloor(f64),
    /// No share of failures.
    #[error("budget.target is {0}: write a share above 0 and up to 1, such as 0.1")]
    Target(f64),
    /// No chance.
    #[error("budget.unknown is {0}: write a chance from 0 to 1, such as 0.5")]
    Unknown(f64),
    /// Too short to remember anything.
    #[error("budget.half_life is {0:?}: write at least \"1ms\", such as \"10s\"")]
    HalfLife(Duration),
    /// No share of failures may ask.
    #[error(
        "budget.fraction is {0}: write a share above 0 and up to 1, such as 0.25, or kind = \"none\" to forbid retries"
    )]
    Fraction(f64),
    /// Split among nobody.
    #[error("budget.instances is 0: write how many processes share the budget, at least 1")]
    Instances,
    /// Wrong in the budget of each route or tenant.
    #[error("budget.children.{}", field(.0))]
    Children(Box<Self>),
}

/// The message without the name of the budget it would be about.
fn field(invalid: &Invalid) -> String {
    let message = invalid.to_string();
    message.strip_prefix("budget.").map(str::to_owned).unwrap_or(message)
}

/// What one success earns, in millionths of a token.
pub(super) fn ratio(ratio: f64) -> Result<u64, Invalid> {
    if !(0.0..=2.0).contains(&ratio) {
        return Err(Invalid::Ratio(ratio)); // NaN ends up here too
    }
    Ok((ratio * TOKEN as f64).round() as u64)
}

/// A length of time that can be cut into parts.
pub(super) fn at_least_a_millisecond(
    length: Duration,
    invalid: impl Fn(Duration) -> Invalid,
) -> Result<Duration, Invalid> {
    if length < Duration::from_millis(1) { Err(invalid(length)) } else { Ok(length) }
}

/// A share from 0 to 1.
pub(super) fn share(share: f64, invalid: impl Fn(f64) -> Invalid) -> Result<f64, Invalid> {
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(invalid(share)) }
}

/// A share above 0, up to 1.
pub(super) fn some_share(given: f64, invalid: impl Fn(f64) -> Invalid) -> Result<f64, Invalid> {
    if given == 0.0 { Err(invalid(given)) } else { share(given, invalid) }
}
