//! Arena: worlds in which an in-flight limit is told nothing, and who does well in them.
//!
//! **Why.** A limit that is right for one service throttles the next one or lets it collapse. Whether a rule finds the limit by
//! itself is decided over many services, loads and troubles, not over the one it was made for.
//!
//! **How.** Every [world](worlds) is a scenario with naive callers and Quell in front of the service, of which nothing but the rule
//! for the limit is exchanged. A world is won if users have what is achievable from a second after the trouble on, and nobody
//! was refused before it.
//!
//! ```
//! use quell_lab::arena::{Cell, Rule, Standing, judge, worlds};
//!
//! let worlds: Vec<_> = worlds::all().into_iter().filter(|world| world.name == "fifo/fail-10").collect();
//! let runs = worlds.iter().map(|world| judge(world, Rule::Oracle, 1)).collect::<Result<Vec<_>, _>>()?;
//! let cells = runs.iter().filter_map(|run| Cell::of(std::slice::from_ref(run))).collect();
//! assert_eq!(Standing { rule: Rule::Oracle, cells }.won(), 1);
//! # Ok::<_, quell_sim::scenario::Invalid>(())
//! ```

mod crowds;
mod judged;
mod peers;
mod rule;
mod standing;
pub mod worlds;

use quell_sim::control::{Answered, Control, Load, Seen};

pub use judged::{Judged, judge};
pub use rule::Rule;
pub use standing::{Beside, Cell, Standing};
pub use worlds::Edition;

/// The seeds that worlds are judged with. Rules are tuned on others, from 1 on.
pub const SEEDS: [u64; 5] = [11, 12, 13, 14, 15];
