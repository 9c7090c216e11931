//! Proves: trials on the simulator, for the choices that Quell makes for everybody.
//!
//! **Why.** A limit that finds itself, a default and a simulator are claims. Each is worth what it was tried against: other rules in
//! many worlds, its neighbours, and answers that are known. These trials are evidence for us, and no part of what ships.
//!
//! **How.** [`arena`] tries rules for the in-flight limit, [`defaults`] looks for defaults, and [`validate`] asks the simulator what others
//! have answered. All three are pure: same seed, same figures, on every machine. `cargo xtask lab` runs them and shows what came out.

pub mod arena;
pub mod defaults;
pub mod validate;
