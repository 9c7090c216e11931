//! Trouble: what is wrong with a service at the moment, and how it says so.

use core::time::Duration;

use super::shop::Shop;
use crate::{
    scenario::{Outage, OutageKind, Service},
    world::Reply,
};

/// What is wrong with the service at the moment: the sum of all faults that are on.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    pub(super) fail: bool,
    pub(super) hole: bool,
    pub(super) stall: bool,
    /// The share of requests that fail at once.
    pub(super) brownout: f64,
    /// The shares of requests that are themselves at fault: told so, and taken for what may pass.
    fatal: [f64; 2],
    /// How many times longer work takes.
    pub(super) slower: f64,
    /// The shares of requests that hang, and how long each.
    pub(super) hang: Vec<(f64, Duration)>,
    pub(super) workers: usize,
    /// Requests per second it can do.
    pub(super) capacity: f64,
}

impl Trouble {
    pub(super) fn of(service: &Service, faults: &[Outage]) -> Self {
        let has = |kind| faults.iter().any(|fault| fault.kind == kind);
        let (mut brownout, mut slower, mut gone, mut grown) = (0.0, 1.0, 0.0, 1.0);
        let (mut hang, mut fatal) = (vec![], [0.0; 2]);
        for fault in faults {
            match fault.kind {
                OutageKind::Brownout { share } => brownout += share,
                OutageKind::Fatal { share, misread } => fatal[usize::from(misread)] += share,
                OutageKind::Latency { factor } => slower *= factor,
                OutageKind::Hang { share, time } => hang.push((share, time)),
                OutageKind::Grown { factor } => grown *= factor,
                OutageKind::Partial { share } => gone += share,
                OutageKind::Fail | OutageKind::Hole | OutageKind::Stall => {}
            }
        }
        let left = (1.0_f64 - gone).max(0.0) * grown;
        Self {
            fail: has(OutageKind::Fail),
            hole: has(OutageKind::Hole),
            stall: has(OutageKind::Stall),
            brownout,
            fatal,
            slower,
            hang,
            workers: (f64::from(service.workers) * left).round() as usize,
            capacity: service.capacity() * left / slower,
        }
    }
}

impl Trouble {
    /// How long a request hangs that has drawn this, from 0 to 1; `None` if it does not.
    pub(super) fn hangs(&self, mut luck: f64) -> Option<Duration> {
        for &(share, time) in &self.hang {
            if luck < share {
                return Some(time);
            }
            luck -= share;
        }
        None
    }
}

impl Shop {
    /// Whether requests can be at fault themselves at the moment.
    pub(super) fn finds_fault(&self) -> bool {
        self.trouble.fatal != [0.0; 2]
    }

    /// What it finds wrong with a request about this key: the same for all its attempts.
    pub(super) fn fault(&mut self, key: u32) -> Option<Reply> {
        // The shard goes by the upper bits.
        let place = f64::from(key & 0xffff) / 65_536.0;
        let [told, misread] = self.trouble.fatal;
        let reply = match place {
            _ if place < told => Reply::Fatal,
            _ if place < told + misread => Reply::Conflict,
            _ => return None,
        };
        self.queueing.failed += 1;
        Some(reply)
    }

    /// How it says that it cannot, with or without a word on when it can.
    pub(super) fn says(&self, reply: Reply) -> Reply {
        if self.service.hint.is_some() { Reply::Later } else { reply }
    }
}
