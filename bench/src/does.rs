//! Does: work that is one closure, and counts how often the closure said no.
//!
//! **Why.** A limiter that refuses is quick. What is timed must be what was meant, so every piece of work says each time
//! whether it went as meant, and one that ever did not has no figure.

use std::hint::black_box;

use anyhow::{Result, ensure};

use crate::work::Work;

/// See the [module](self).
#[derive(Clone)]
pub struct Does<F> {
    does: F,
    missed: u64,
}

/// Work that answers whether it went as meant.
pub fn does<F: FnMut() -> bool>(does: F) -> Does<F> {
    Does { does, missed: 0 }
}

impl<F: FnMut() -> bool> Work for Does<F> {
    #[inline]
    fn once(&mut self) {
        self.missed += u64::from(!black_box((self.does)()));
    }

    fn check(&mut self) -> Result<()> {
        ensure!(self.missed == 0, "{} times it did not go as meant", self.missed);
        Ok(())
    }
}
