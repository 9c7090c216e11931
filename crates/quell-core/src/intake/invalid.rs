//! Invalid: numbers that make no intake.

use core::time::Duration;

use crate::budget;

/// Why a spec of an intake's part makes no sense. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Nothing could ever be taken, or without a bound.
    #[error("intake.{field} is {value}: write {fix}")]
    Count {
        /// Which.
        field: &'static str,
        /// As written.
        value: u64,
        /// What would make sense.
        fix: &'static str,
    },
    /// Too short to tell consumers apart, or so long that an operator would think it hangs.
    #[error("intake.every is {0:?}: write a duration from \"1ms\" to \"60s\", such as \"1s\"")]
    Every(Duration),
    /// It would never resume, or resume where it pauses.
    #[error(
        "intake.resume_below is {0}: write a share from 0 to below 1, such as 0.5 to resume when half is left"
    )]
    ResumeBelow(f64),
    /// What dead letters cost makes no budget.
    #[error("intake.dead_letters.{}", field(.0))]
    DeadLetters(budget::Invalid),
}

/// The message without the name of the budget it would be about.
fn field(invalid: &budget::Invalid) -> String {
    let message = invalid.to_string();
    message.strip_prefix("budget.").map(str::to_owned).unwrap_or(message)
}

/// A count within these bounds, both included.
pub(super) fn count(
    field: &'static str,
    value: u64,
    (least, most): (u64, u64),
    fix: &'static str,
) -> Result<(), Invalid> {
    let fits = (least..=most).contains(&value);
    if fits { Ok(()) } else { Err(Invalid::Count { field, value, fix }) }
}
