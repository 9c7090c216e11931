//! Offer: what a demo's service is asked for. One kind of calls that share its workers in some way, or two kinds.
//!
//! **Why.** Real services have quick calls and slow ones. Whoever compares one with the other sees trouble in health, and may
//! miss it in an outage: so the outage is shown with both.

use std::str::FromStr;

use quell_sim::Scenario;

use super::scripted::Sharing;
use super::side::last_mut;

/// See the [module](self).
///
/// ```
/// use quell_server::demo::offer::Offer;
///
/// assert_eq!("mixed".parse(), Ok(Offer::Mixed));
/// assert!("lifo".parse::<Offer>().unwrap_err().contains("or mixed"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offer {
    /// One kind of calls.
    One(Sharing),
    /// Nine in ten take 20 ms, one in ten 400 ms. Written `mixed`.
    Mixed,
}

/// One kind of calls: what is asked for, by which share of the users.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) path: &'static str,
    pub(super) share: f64,
}

const ONE: [Ask; 1] = [Ask { path: "/", share: 1.0 }];
const MIXED: [Ask; 2] =
    [Ask { path: "/quick?ms=20", share: 0.9 }, Ask { path: "/report?ms=400", share: 0.1 }];
/// What a call of the mixed service takes on average, and for how many there are workers: 362 calls per second, as many as of
/// the service with one kind.
const MEAN_MS: u64 = 58;
const WORKERS: u32 = 21;

impl Offer {
    pub(super) const fn asks(self) -> &'static [Ask] {
        match self {
            Self::One(_) => &ONE,
            Self::Mixed => &MIXED,
        }
    }

    /// Makes a scenario's service offer it.
    pub(super) fn put_into(self, scenario: &mut Scenario) {
        let service = last_mut(scenario);
        match self {
            Self::One(sharing) => service.sharing = sharing.shared(),
            Self::Mixed => {
                service.workers = WORKERS;
                service.time = std::time::Duration::from_millis(MEAN_MS).into();
            }
        }
    }
}

impl FromStr for Offer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mixed" => Ok(Self::Mixed),
            _ => text.parse().map(Self::One).map_err(|wrong| format!("{wrong}, or mixed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixed_service_has_workers_for_what_its_calls_take_on_average() {
        let took = |ask: &Ask| ask.path.split_once("ms=").unwrap().1.parse::<f64>().unwrap();
        let mean: f64 = MIXED.iter().map(|ask| ask.share * took(ask)).sum();
        assert!((mean - MEAN_MS as f64).abs() < 1e-9);
        let all: f64 = MIXED.iter().map(|ask| ask.share).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}
