//! What happens to a service.

use core::time::Duration;

use super::{Invalid, wrong};

/// Something that happens to the service for a while. Several may follow each other or overlap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// In which way.
    pub kind: OutageKind,
    /// From when on; whole seconds, for the outage that the run is judged by.
    pub at: Duration,
    /// For how long; whole seconds, for the outage that the run is judged by.
    pub length: Duration,
}

/// How a service goes down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OutageKind {
    /// It answers at once, with errors.
    Fail,
    /// Requests and replies vanish.
    Hole,
    /// It stops working, and the queue builds up.
    Stall,
    /// A share of the requests is answered at once, with errors. Shares of overlapping brownouts add up.
    Brownout {
        /// Which share, from 0 to 1.
        share: f64,
    },
    /// A share of the requests is at fault itself: all their attempts are answered at once with an error that no repetition
    /// will change (a 4xx). Shares of overlapping ones add up.
    Fatal {
        /// Which share, from 0 to 1.
        share: f64,
        /// Whether callers take it for an error that may pass, and try again: misclassified.
        misread: bool,
    },
    /// Work that starts takes so many times longer.
    Latency {
        /// How many times.
        factor: f64,
    },
    /// A share of the requests takes this long instead. Shares of overlapping ones add up.
    Hang {
        /// Which share, from 0 to 1.
        share: f64,
        /// How long.
        time: Duration,
    },
    /// It has so many times the workers. Those of overlapping ones multiply.
    Grown {
        /// How many times.
        factor: f64,
    },
    /// A share of the workers is gone. Shares of overlapping ones add up.
    Partial {
        /// Which share, from 0 to 1.
        share: f64,
    },
}

impl OutageKind {
    /// The kinds that take a service down as a whole.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Hole, Self::Stall];

    /// The word for it in files and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Hole => "hole",
            Self::Stall => "stall",
            Self::Brownout { .. } => "brownout",
            Self::Fatal { .. } => "fatal",
            Self::Latency { .. } => "latency",
            Self::Hang { .. } => "hang",
            Self::Grown { .. } => "grown",
            Self::Partial { .. } => "partial",
        }
    }

    pub(super) fn check(self) -> Result<(), Invalid> {
        match self {
            Self::Brownout { share }
            | Self::Fatal { share, .. }
            | Self::Hang { share, .. }
            | Self::Partial { share }
                if !(0.0..=1.0).contains(&share) =>
            {
                wrong("outage.share", "is out of range: write a number from 0 to 1")
            }
            Self::Grown { factor } if !(0.0..=1e6).contains(&factor) => wrong(
                "outage.factor",
                "is out of range: write how many times the workers, such as 2",
            ),
            Self::Latency { factor } if !(0.0..=1e6).contains(&factor) => {
                wrong("outage.factor", "is out of range: write how many times slower, such as 10")
            }
            _ => Ok(()),
        }
    }
}

impl Outage {
    /// When it is over.
    pub fn end(&self) -> Duration {
        self.at.saturating_add(self.length)
    }

    /// The same, on and off: down for `down`, up for `up`, and so on to the end. At most 10,000 times.
    ///
    /// ```
    /// use core::time::Duration;
    /// use quell_sim::scenario::{Outage, OutageKind};
    ///
    /// let s = Duration::from_secs;
    /// let whole = Outage { kind: OutageKind::Fail, at: s(30), length: s(9) };
    /// let parts = whole.flapping(s(2), s(2));
    /// let times: Vec<_> = parts.iter().map(|part| (part.at.as_secs(), part.length.as_secs())).collect();
    /// assert_eq!(times, [(30, 2), (34, 2), (38, 1)]);
    /// ```
    pub fn flapping(self, down: Duration, up: Duration) -> Vec<Self> {
        let every = (down + up).max(Duration::from_millis(1));
        let starts = (0..10_000).map(|i| self.at + every * i).take_while(|at| *at < self.end());
        starts.map(|at| Self { at, length: down.min(self.end() - at), ..self }).collect()
    }

    /// A bad deploy: one instance of `instances` after the other, `step` apart, answers with errors until the
    /// rollback at the end mends them all.
    pub fn bad_deploy(at: Duration, length: Duration, instances: u32, step: Duration) -> Vec<Self> {
        let kind = OutageKind::Brownout { share: 1.0 / f64::from(instances.max(1)) };
        let starts =
            (0..instances).map(|i| step.saturating_mul(i)).take_while(|wait| *wait < length);
        starts.map(|wait| Self { kind, at: at + wait, length: length - wait }).collect()
    }
}
