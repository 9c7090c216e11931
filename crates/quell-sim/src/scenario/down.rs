//! Down: a service that is down for a while, by a name that says all of it.
//!
//! **Why.** Rules for the in-flight limit are tried in front of such a service on virtual time, and `quell demo --world` puts the same service
//! on sockets. One name has to mean the same in both.
//!
//! **How.** `SERVICE/TROUBLE-SECONDS`, and behind it what differs from [`Down::BASE`]: `fifo/fail-10`, `degrading-0.5/stall-10/load-50`.
//!
//! ```
//! use quell_sim::scenario::Down;
//!
//! let down = Down::named("sharing/hole-30/4-workers").unwrap();
//! assert_eq!((down.workers, down.seconds), (4, 30));
//! assert_eq!(down.to_string(), "sharing/hole-30/4-workers");
//! assert_eq!(Down::named("moon"), None);
//! ```

use core::{fmt, time::Duration};

use super::{Callers, Outage, OutageKind, Scenario, Service, Sharing};
use crate::dist::Dist;

/// A service that is down for a while. Its name says all of it: `SERVICE/TROUBLE-SECONDS`, and behind it what differs from [`Down::BASE`],
/// such as `degrading-0.5/stall-10/load-50`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Down {
    /// All calls at once, with what a crowd of them costs; `None` is one call at a time for each worker.
    pub sharing: Option<Sharing>,
    /// How the times of calls lie apart.
    pub spread: Spread,
    /// How many calls can be worked on at once.
    pub workers: u32,
    /// How long a call takes on average, in milliseconds.
    pub time_ms: u64,
    /// The share of its capacity that is asked for.
    pub load: f64,
    /// How long callers wait, in milliseconds; never less than three times as long as a call takes.
    pub patience_ms: u64,
    /// How it is down: stall, hole or fail; or latency, ten times as long, which is called slow.
    pub kind: OutageKind,
    /// For how long.
    pub seconds: u64,
}

/// How the times of calls lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// All the same.
    Constant,
    /// Memoryless.
    Exponential,
    /// A 99th percentile of eight times the median.
    Lognormal,
    /// One in ten takes 41 times as long as the others.
    Bimodal,
}

impl Spread {
    const ALL: [Self; 4] = [Self::Constant, Self::Exponential, Self::Lognormal, Self::Bimodal];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Exponential => "exponential",
            Self::Lognormal => "lognormal",
            Self::Bimodal => "bimodal",
        }
    }

    fn dist(self, mean: Duration) -> Dist {
        match self {
            Self::Constant => Dist::Constant(mean),
            // A p99 of eight times the median has a mean of 1.49 times the median.
            Self::Lognormal => {
                let p50 = mean.mul_f64(0.670);
                Dist::Lognormal { p50, p99: p50.mul_f64(8.0) }
            }
            Self::Bimodal => {
                Dist::Bimodal { fast: mean.mul_f64(0.2), slow: mean.mul_f64(8.2), share: 0.1 }
            }
            Self::Exponential => Dist::Exponential { mean },
        }
    }
}

/// The trouble that is called slow.
const SLOW: OutageKind = OutageKind::Latency { factor: 10.0 };
/// No outage by name is longer.
const LONGEST: u64 = 3_600;

impl Down {
    /// 36 workers of 100 ms, busy to 83 %, that stall for ten seconds; callers wait a second.
    pub const BASE: Self = Self {
        sharing: None,
        spread: Spread::Constant,
        workers: 36,
        time_ms: 100,
        load: 0.83,
        patience_ms: 1000,
        kind: OutageKind::Stall,
        seconds: 10,
    };
    /// Seconds until the trouble.
    pub const AT: u64 = 30;
    /// Seconds that are watched after it.
    pub const WATCH: u64 = 46;

    /// The one of this name, if the name means one.
    pub fn named(name: &str) -> Option<Self> {
        let mut parts = name.split('/');
        let loss = match parts.next()? {
            "fifo" => None,
            "sharing" => Some(0.0),
            service => Some(service.strip_prefix("degrading-")?.parse().ok()?),
        };
        let (kind, seconds) = parts.next()?.split_once('-')?;
        let kind = match kind {
            "slow" => SLOW,
            kind => [OutageKind::Stall, OutageKind::Hole, OutageKind::Fail]
                .into_iter()
                .find(|known| known.as_str() == kind)?,
        };
        let seconds = seconds.parse().ok().filter(|seconds| (1..=LONGEST).contains(seconds))?;
        let sharing = loss.map(|loss| Sharing { loss });
        let down = Self { sharing, kind, seconds, ..Self::BASE };
        let down = parts.try_fold(down, Self::but)?;
        // One name for each, and none for what cannot be run.
        (down.to_string() == name && down.scenario().check().is_ok()).then_some(down)
    }

    /// The same, but for one thing.
    fn but(self, part: &str) -> Option<Self> {
        if let Some(spread) = Spread::ALL.into_iter().find(|spread| spread.as_str() == part) {
            return Some(Self { spread, ..self });
        }
        if let Some(workers) = part.strip_suffix("-workers") {
            return Some(Self { workers: workers.parse().ok()?, ..self });
        }
        if let Some(percent) = part.strip_prefix("load-") {
            let percent: u32 = percent.parse().ok()?;
            return Some(Self { load: f64::from(percent) / 100.0, ..self });
        }
        let ms = part.strip_suffix("ms")?;
        match ms.strip_prefix("patience-") {
            Some(ms) => Some(Self { patience_ms: u64::from(ms.parse::<u32>().ok()?), ..self }),
            None => Some(Self { time_ms: u64::from(ms.parse::<u32>().ok()?), ..self }),
        }
    }

    /// How its service treats those inside: the first part of its name.
    pub fn service(&self) -> String {
        match self.sharing {
            None => "fifo".to_owned(),
            Some(Sharing { loss: 0.0 }) => "sharing".to_owned(),
            Some(Sharing { loss }) => format!("degrading-{loss}"),
        }
    }

    /// How long a call takes on average.
    pub const fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    /// Calls per second that it can do.
    pub fn capacity(&self) -> f64 {
        f64::from(self.workers) / self.time().as_secs_f64()
    }

    /// All of it but the gateway, with naive callers.
    pub fn scenario(&self) -> Scenario {
        let s = Duration::from_secs;
        let mut service = Service::new(self.workers, self.spread.dist(self.time()));
        service.sharing = self.sharing;
        Scenario {
            load: self.capacity() * self.load,
            instances: 1,
            patience: Duration::from_millis(self.patience_ms).max(self.time() * 3),
            callers: Callers::NAIVE,
            service,
            outage: Outage { kind: self.kind, at: s(Self::AT), length: s(self.seconds) },
            watch: s(Self::WATCH),
            ..Scenario::storm(OutageKind::Stall)
        }
    }
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (base, kind) = (Self::BASE, self.kind);
        let kind = if matches!(kind, OutageKind::Latency { .. }) { "slow" } else { kind.as_str() };
        write!(f, "{}/{kind}-{}", self.service(), self.seconds)?;
        if self.spread != base.spread {
            write!(f, "/{}", self.spread.as_str())?;
        }
        if self.workers != base.workers {
            write!(f, "/{}-workers", self.workers)?;
        }
        if self.time_ms != base.time_ms {
            write!(f, "/{}ms", self.time_ms)?;
        }
        if self.load != base.load {
            write!(f, "/load-{:.0}", self.load * 100.0)?;
        }
        if self.patience_ms != base.patience_ms {
            write!(f, "/patience-{}ms", self.patience_ms)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_all_of_it_and_nothing_else_has_it() {
        for name in [
            "fifo/stall-10",
            "sharing/slow-10",
            "degrading-0.5/hole-30/lognormal/400-workers/10ms/load-95/patience-300ms",
        ] {
            let down = Down::named(name).unwrap();
            assert_eq!(down.to_string(), name);
            assert_eq!(down.scenario().outage.length, Duration::from_secs(down.seconds));
        }
    }

    #[test]
    fn what_means_nothing_or_cannot_be_run_has_no_name() {
        for name in [
            "",
            "fifo",
            "fifo/halved",
            "lifo/stall-10",
            "fifo/stall-010",
            "fifo/stall-0",
            "fifo/stall-99999999999999999999",
            "fifo/stall-18446744073709551615",
            "fifo/stall-10/36-workers",
            "fifo/stall-10/0-workers",
            "fifo/stall-10/0ms",
            "fifo/stall-10/load-0",
            "fifo/stall-10/moon",
            "degrading-NaN/stall-10",
            "degrading-inf/stall-10",
            "degrading--1/stall-10",
        ] {
            assert_eq!(Down::named(name), None, "{name}");
        }
    }
}
