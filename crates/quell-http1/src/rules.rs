//! Rules for fields: what only the host of a connection can know about names.
//!
//! **Why.** Which fields may stand behind a body, and which a peer may take away by naming them in `Connection`, depends
//! on what the fields mean to the host: its own fields must survive every peer. This crate knows the fields that frame a
//! message, and no others.

use http::HeaderName;

/// What its host forbids or adds among the fields of a head.
#[derive(Debug, Clone, Copy)]
pub struct FieldRules {
    /// Whether a field may stand before a reply (1xx) or behind a body. Say no to every field that frames, routes or
    /// vouches for a message.
    pub may_trail: fn(&HeaderName) -> bool,
    /// Whether `Connection` may keep a field to itself. Say no to every field that frames or routes a message.
    pub may_be_nominated: fn(&HeaderName) -> bool,
}

impl FieldRules {
    /// Every field may do everything: for tests that look at bytes alone. Not fit to talk to strangers with.
    pub const ANY: Self = Self { may_trail: |_| true, may_be_nominated: |_| true };
}
