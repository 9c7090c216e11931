//! The trials of the library as commands: what is asked for, and how it is shown.

pub(crate) mod arena;
pub(crate) mod defaults;
pub(crate) mod validate;
