//! All worlds, by what they are about.

mod bodies;
mod crowds;
mod leavers;
mod mixes;
mod parts;

use std::time::Duration;

use super::schedule::Arrivals;
use super::world::{Flow, World};

pub(crate) fn all() -> Vec<World> {
    [mixes::worlds(), bodies::worlds(), parts::worlds(), crowds::worlds(), leavers::worlds()]
        .concat()
}

/// The calls that most worlds look at: good ones of a short time.
fn fast(rate: f64, time: u64) -> Flow {
    Flow::good("fast", "/fast", Arrivals::Poisson(rate)).takes(ms(time))
}

/// The same, 100 per second for four seconds of every five.
fn waves(time: u64) -> Flow {
    let waves = Arrivals::Bursts { of: 400, within: ms(4_000), every: ms(5_000) };
    Flow::good("fast", "/fast", waves).takes(ms(time))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::world::Who;

    #[test]
    fn every_world_has_a_name_of_its_own_and_good_callers_of_names_of_their_own() {
        let worlds = all();
        let mut names: Vec<_> = worlds.iter().map(|world| world.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), worlds.len());
        for world in &worlds {
            assert!(world.flows.iter().any(|flow| flow.who == Who::Good), "{}", world.name);
            let mut flows: Vec<_> = world.flows.iter().map(|flow| flow.name).collect();
            flows.sort_unstable();
            flows.dedup();
            assert_eq!(flows.len(), world.flows.len(), "{}", world.name);
        }
    }

    #[test]
    fn the_short_form_has_a_few_light_worlds() {
        let short: Vec<_> = all().into_iter().filter(|world| world.short).collect();
        assert!((6..=8).contains(&short.len()), "{}", short.len());
        for world in short {
            assert!(world.light && !world.saturated, "{}", world.name);
        }
    }
}
