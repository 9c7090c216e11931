//! Proxies that take turns under the same load, so that a noisy minute disturbs all of them.

use anyhow::{Result, ensure};

use super::load::{self, Ask};
use super::proxy::Proxy;

/// What one turn showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) micros_per_request: f64,
    pub(super) requests_per_second: f64,
    /// Share of requests that got no good reply.
    pub(super) failed: f64,
    pub(super) p99_ms: f64,
}

/// All turns of one proxy.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) turns: Vec<Turn>,
}

/// How often, and for how long each time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    pub(super) rounds: usize,
    pub(super) seconds: u32,
}

impl Turns {
    /// The middle one of the turns.
    pub(super) fn median(&self, pick: fn(&Turn) -> f64) -> f64 {
        let mut values: Vec<_> = self.turns.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    pub(super) fn micros(&self) -> f64 {
        self.median(|turn| turn.micros_per_request)
    }

    pub(super) fn failed_per_million(&self) -> f64 {
        self.turns.iter().map(|turn| turn.failed).sum::<f64>() * 1e6 / self.turns.len() as f64
    }
}

/// Each of these in turn, several times over, after a second of warm-up. In their order.
pub(super) fn take(
    what: &str,
    proxies: &[&Proxy],
    ask: Ask<'_>,
    Length { rounds, seconds }: Length,
) -> Result<Vec<Turns>> {
    for proxy in proxies {
        load::run(proxy.port, ask, 1)?; // connections are made, limits are learned
    }
    let mut all: Vec<_> = proxies.iter().map(|_| Turns { turns: Vec::new() }).collect();
    for round in 1..=rounds {
        let mut said = String::new();
        for (proxy, turns) in proxies.iter().zip(&mut all) {
            let turn = one(proxy, ask, seconds)?;
            said += &format!("  {} {:.1}", proxy.kind.name(), turn.micros_per_request);
            turns.turns.push(turn);
        }
        eprintln!("gateway: {what}, round {round} of {rounds}, µs per request:{said}");
    }
    Ok(all)
}

fn one(proxy: &Proxy, ask: Ask<'_>, seconds: u32) -> Result<Turn> {
    let name = proxy.kind.name();
    let before = proxy.process.cpu()?;
    let load = load::run(proxy.port, ask, seconds)?;
    let used = proxy.process.cpu()? - before;
    // By good replies: a refusal is cheap, and would flatter whoever refuses.
    let (good, bad) = (load.requests.saturating_sub(load.errors), load.errors);
    let counted = if proxy.kind.refuses() { bad } else { good };
    ensure!(counted > 0, "{name} answered nobody as it should");
    let share = counted as f64 / load.requests as f64;
    Ok(Turn {
        micros_per_request: used * 1e6 / counted as f64,
        requests_per_second: load.rate * share,
        failed: 1.0 - share,
        p99_ms: load.p99_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_turns_counts() {
        let turn = |micros_per_request| Turn {
            micros_per_request,
            requests_per_second: 1e3,
            failed: 0.0,
            p99_ms: 1.0,
        };
        let turns = Turns { turns: [30.0, 20.0, 90.0].map(turn).into() };
        assert_eq!(turns.micros(), 30.0);
    }
}
