//! Peers: the rules of others, by their published formulas and with their defaults.
//!
//! **Why.** A rule is good if it is better than what people run today, in the same worlds. What is compared here are the formulas for
//! the limit; callers, queue, retries and all else are Quell's for every one of them.
//!
//! **How.** One file per source, which says where the formula stands. Where a formula needs what no rule is told here (a processor's
//! load), its file says what stands in for it.

mod bbr;
mod envoy;
mod former;
mod netflix;
mod shipped;

use core::time::Duration;

use quell_core::Time;

pub(super) use self::{
    bbr::Bbr,
    envoy::Envoy,
    former::Former,
    netflix::{Aimd, Gradient2, Netflix, Vegas, Windowed},
    shipped::Shipped,
};
use super::{Answered, Control};

/// A number.
#[derive(Debug)]
pub(super) struct Fixed(pub(super) u32);

impl Control for Fixed {
    fn answered(&mut self, _: &Answered) {}
    fn left(&mut self, _: Time, _: Duration, _: bool) {}
    fn limit(&self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests;
