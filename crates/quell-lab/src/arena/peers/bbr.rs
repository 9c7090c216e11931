//! Peak rate × least latency: what Alibaba's Sentinel calls system adaptive protection (<https://sentinelguard.io>) and go-kratos a
//! `bbr` limiter (<https://github.com/go-kratos/aegis>), whose defaults these are.
//!
//! Ten seconds in tenths: the most answers of one tenth × the least mean latency of one tenth, both of whole tenths; one more
//! than that are let in, and at least two. Latencies are whole milliseconds, at least one, and errors are answers. Both only refuse
//! while a processor's load is above a threshold; here no rule is told of one, and it always holds. Until something is known it lets
//! 1,024 in.

use core::time::Duration;

use quell_core::Time;

use super::super::{Answered, Control};

const TENTHS: u64 = 100;

#[derive(Debug, Clone, Copy, Default)]
struct Tenth {
    answers: u32,
    millis: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Bbr {
    tenths: [Tenth; TENTHS as usize],
    tenth: u64,
    limit: u32,
}

impl Default for Bbr {
    fn default() -> Self {
        Self { tenths: [Tenth::default(); TENTHS as usize], tenth: 0, limit: 1024 }
    }
}

impl Bbr {
    fn decides(&mut self) {
        let known = self.tenths.iter().filter(|tenth| tenth.answers > 0);
        let peak = known.clone().map(|tenth| tenth.answers).max();
        let least = known.map(|tenth| tenth.millis as f64 / f64::from(tenth.answers));
        let least = least.fold(f64::MAX, f64::min).ceil().max(1.0);
        if let Some(peak) = peak {
            let inside = f64::from(peak) * 10.0 * least / 1e3;
            self.limit = (inside as u32).max(1) + 1;
        }
    }
}

impl Control for Bbr {
    fn answered(&mut self, seen: &Answered) {
        let tenth = seen.now.as_nanos() / 100_000_000;
        if tenth != self.tenth {
            let gone = (tenth - self.tenth).min(TENTHS);
            (0..gone).for_each(|i| self.tenths[((tenth - i) % TENTHS) as usize] = Tenth::default());
            self.tenth = tenth;
            self.decides();
        }
        let open = &mut self.tenths[(tenth % TENTHS) as usize];
        open.answers += 1;
        open.millis += seen.took.as_millis() as u64;
    }
    fn left(&mut self, _: Time, _: Duration, _: bool) {}
    fn limit(&self) -> u32 {
        self.limit
    }
}
