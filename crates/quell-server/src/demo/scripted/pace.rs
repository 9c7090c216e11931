//! Pace: how long work takes, and how requests share the workers.

use std::str::FromStr;
use std::time::Duration;

use quell::core::Rng;
use quell_sim::dist::{Dist, Draw, Invalid};
use quell_sim::{PURPOSE_SERVICE, PURPOSE_TROUBLE, scenario};

/// How requests share the workers of a service.
///
/// ```
/// use quell_server::demo::scripted::Sharing;
///
/// assert_eq!("sharing".parse(), Ok(Sharing::Equal));
/// assert_eq!("degrading=0.5".parse(), Ok(Sharing::Degrading(0.5)));
/// assert_eq!(Sharing::of(Sharing::Degrading(0.5).shared()), Sharing::Degrading(0.5));
/// assert!("lifo".parse::<Sharing>().unwrap_err().contains("write fifo"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Sharing {
    /// Not at all: a worker serves one at a time, first come, first served. Written `fifo`.
    #[default]
    Fifo,
    /// All are served at once, and beyond one per worker each gets an equal part. Written `sharing`.
    Equal,
    /// The same, and crowds cost: with `n` requests inside, all workers together are
    /// `1 + d·(n − workers) ÷ workers` times slower. Written `degrading=d`.
    Degrading(f64),
}

impl Sharing {
    /// Whether one more of them can begin.
    pub(super) fn has_room(self, busy: usize, workers: usize) -> bool {
        self != Self::Fifo || busy < workers
    }

    /// How fast each of `busy` requests gets on: 1 with a worker of its own.
    pub(super) fn speed(self, busy: usize, workers: usize) -> f64 {
        self.shared().map_or(1.0, |shared| shared.speed(busy, workers))
    }

    /// The same for a simulated service; `None` where nobody shares.
    pub fn shared(self) -> Option<scenario::Sharing> {
        match self {
            Self::Fifo => None,
            Self::Equal => Some(scenario::Sharing { loss: 0.0 }),
            Self::Degrading(loss) => Some(scenario::Sharing { loss }),
        }
    }

    /// As a simulated service shares its workers.
    pub fn of(shared: Option<scenario::Sharing>) -> Self {
        match shared {
            None => Self::Fifo,
            Some(scenario::Sharing { loss: 0.0 }) => Self::Equal,
            Some(scenario::Sharing { loss }) => Self::Degrading(loss),
        }
    }

    pub(super) fn check(self) -> Result<(), &'static str> {
        if self.shared().is_none_or(scenario::Sharing::is_fine) {
            return Ok(());
        }
        Err(
            "degrading is out of range: write how much one more request per worker costs, such as 0.5",
        )
    }
}

impl FromStr for Sharing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sharing = match (text, text.strip_prefix("degrading=").map(str::parse)) {
            ("fifo", _) => Self::Fifo,
            ("sharing", _) => Self::Equal,
            (_, Some(Ok(loss))) => Self::Degrading(loss),
            _ => {
                let fix = "is no way to share workers: write fifo, sharing or degrading=0.5";
                return Err(format!("\"{text}\" {fix}"));
            }
        };
        sharing.check().map(|()| sharing).map_err(str::to_owned)
    }
}

/// How long the next request takes: as drawn, and as trouble has it. The same seed draws as the simulator does.
#[derive(Debug)]
pub(super) struct Times {
    draw: Draw,
    times: Rng,
    luck: Rng,
    /// How many times longer work takes.
    pub(super) slower: f64,
    /// The share of requests that hang, and how long.
    pub(super) hang: Option<(f64, Duration)>,
}

impl Times {
    pub(super) fn new(dist: &Dist, seed: u64) -> Result<Self, Invalid> {
        Ok(Self {
            draw: Draw::new(dist)?,
            times: Rng::stream(seed, 0, PURPOSE_SERVICE),
            luck: Rng::stream(seed, 0, PURPOSE_TROUBLE),
            slower: 1.0,
            hang: None,
        })
    }

    /// Of a request that says how long it takes, or of any other.
    pub(super) fn next(&mut self, own: Option<Duration>) -> Duration {
        let time = own.unwrap_or_else(|| self.draw.next(&mut self.times));
        let time = match self.hang {
            Some((share, hangs)) if self.luck.unit() < share => hangs,
            _ => time,
        };
        if self.slower == 1.0 { time } else { time.mul_f64(self.slower) }
    }
}
