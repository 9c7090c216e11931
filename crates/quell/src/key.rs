//! Key: chance from the operating system, for seeds and idempotency keys.
//!
//! Where the system has none to give (it then cannot be used for much else either), the keys of the standard
//! library's hash maps and a counter stand in: still different in every process and for every call.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// 64 bits nobody has seen before.
pub(crate) fn seed() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => stand_in(),
    }
}

/// 128 bits nobody has seen before, as 32 hexadecimal digits.
pub(crate) fn idempotency_key() -> String {
    format!("{:016x}{:016x}", seed(), seed())
}

#[cold]
fn stand_in() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_32_digits_and_differ() {
        let (one, other) = (idempotency_key(), idempotency_key());
        assert_ne!(one, other);
        assert!([one, other].iter().all(|key| key.len() == 32));
        assert_ne!(stand_in(), stand_in());
    }
}
