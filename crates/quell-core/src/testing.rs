//! What the tests of this crate share.

/// Cases for a property: the usual number, or the full one when it is asked for at build time.
pub(crate) fn cases() -> u32 {
    if option_env!("QUELL_FULL").is_some() { 20_000 } else { 2_000 }
}
