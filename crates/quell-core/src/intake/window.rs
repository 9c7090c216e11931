//! Window: how much a consumer holds in memory before it stops fetching.
//!
//! **Why.** Records that wait for their due time are held in memory, or every one of them would have to be fetched twice.
//! Without a bound a long outage fills the memory. A consumer that stops fetching only when it is full and goes on only
//! when it is empty leaves its workers idle for a round trip to the broker each time.
//!
//! **How.** A [`Window`] counts records and bytes, of a partition or of whatever is paused as one. When either reaches its
//! bound, fetching pauses. It resumes when both have fallen to a share of their bounds, which is well before
//! nothing is left. The record that crosses the bound of bytes was fetched already, so it is held as well.
//!
//! ```
//! use quell_core::intake::window::{Flow, Spec, Window};
//!
//! let mut window = Window::new(Spec { records: 2, ..Spec::default() })?;
//! assert_eq!(window.arrives(100), None);
//! assert_eq!(window.arrives(100), Some(Flow::Pause));
//! assert_eq!(window.leaves(100), Some(Flow::Resume));
//! # Ok::<_, quell_core::intake::Invalid>(())
//! ```

use super::invalid::{self, Invalid};

/// The bounds, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Records held at most: from 1 to 1000000.
    pub records: u32,
    /// Bytes held at most, from 1 on; beyond it by the last record that came.
    pub bytes: u64,
    /// Fetching resumes when no more than this share of both is left.
    pub resume_below: f64,
}

impl Default for Spec {
    fn default() -> Self {
        Self { records: 64, bytes: 16 << 20, resume_below: 0.5 }
    }
}

/// What the consumer has to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// To stop fetching.
    Pause,
    /// To fetch again.
    Resume,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Window {
    spec: Spec,
    records: u32,
    bytes: u64,
    paused: bool,
}

impl Window {
    /// An empty one.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        let fix = "1 to 1000000 records, such as 64";
        invalid::count("records", spec.records.into(), (1, 1_000_000), fix)?;
        invalid::count("bytes", spec.bytes, (1, u64::MAX), "at least 1 byte, such as 16777216")?;
        if !(0.0..1.0).contains(&spec.resume_below) {
            return Err(Invalid::ResumeBelow(spec.resume_below)); // NaN ends up here too
        }
        Ok(Self { spec, records: 0, bytes: 0, paused: false })
    }

    /// A record of so many bytes was fetched.
    pub fn arrives(&mut self, bytes: u64) -> Option<Flow> {
        self.records = self.records.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.look()
    }

    /// A record of so many bytes has another home.
    pub fn leaves(&mut self, bytes: u64) -> Option<Flow> {
        self.records = self.records.saturating_sub(1);
        self.bytes = if self.records == 0 { 0 } else { self.bytes.saturating_sub(bytes) };
        self.look()
    }

    /// All are dropped, for the partition went to another consumer.
    pub const fn clear(&mut self) {
        (self.records, self.bytes, self.paused) = (0, 0, false);
    }

    /// Whether fetching is paused: a broker that was just assigned the partition again has to be told once more.
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Records held.
    pub const fn records(&self) -> u32 {
        self.records
    }

    /// Bytes held.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn look(&mut self) -> Option<Flow> {
        let below = |held: f64, most: f64| held <= most * self.spec.resume_below;
        let is_full = self.records >= self.spec.records || self.bytes >= self.spec.bytes;
        if !self.paused && is_full {
            self.paused = true;
            return Some(Flow::Pause);
        }
        let is_low = below(self.records.into(), self.spec.records.into())
            && below(self.bytes as f64, self.spec.bytes as f64);
        if self.paused && is_low {
            self.paused = false;
            return Some(Flow::Resume);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_pauses_when_full_and_resumes_when_half_is_left() {
        let mut window = Window::new(Spec { records: 8, ..Spec::default() }).unwrap();
        let flows: Vec<_> = (0..8).map(|_| window.arrives(1)).collect();
        assert_eq!((flows[6], flows[7]), (None, Some(Flow::Pause)));
        let flows: Vec<_> = (0..8).map(|_| window.leaves(1)).collect();
        let resumed = flows.iter().position(|flow| *flow == Some(Flow::Resume));
        assert_eq!(resumed, Some(3), "with four at hand");
    }

    #[test]
    fn bytes_bound_it_as_well_and_a_giant_is_held_as_well() {
        let spec = Spec { bytes: 100, ..Spec::default() };
        let mut window = Window::new(spec).unwrap();
        assert_eq!(window.arrives(60), None);
        assert_eq!(window.arrives(1_000), Some(Flow::Pause));
        assert_eq!(window.leaves(60), None);
        assert_eq!(window.leaves(1_000), Some(Flow::Resume));
    }

    #[test]
    fn a_partition_that_went_to_another_consumer_leaves_nothing_behind() {
        let mut window = Window::new(Spec { records: 1, ..Spec::default() }).unwrap();
        assert_eq!(window.arrives(5), Some(Flow::Pause));
        window.clear();
        assert_eq!((window.is_paused(), window.records(), window.bytes()), (false, 0, 0));
        assert_eq!(window.leaves(5), None, "one that was still in hand");
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let good = Spec::default();
        for wrong in [
            Spec { records: 0, ..good },
            Spec { records: u32::MAX, ..good },
            Spec { bytes: 0, ..good },
            Spec { resume_below: 1.0, ..good },
            Spec { resume_below: -0.1, ..good },
            Spec { resume_below: f64::NAN, ..good },
        ] {
            let message = Window::new(wrong).unwrap_err().to_string();
            assert!(message.starts_with("intake.") && message.contains("write"), "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

        /// A consumer that obeys holds no more than was said, is told each thing once, and is never paused with nothing at
        /// hand.
        #[test]
        fn a_consumer_that_obeys_holds_the_bounds_and_never_starves(
            records in 1..20u32, bytes in 1..500u64, resume_below in 0.0..0.99f64,
            acts in prop::collection::vec(prop::option::of(0..200u64), 1..300),
        ) {
            let mut window = Window::new(Spec { records, bytes, resume_below }).unwrap();
            let (mut held, mut paused) = (std::collections::VecDeque::new(), false);
            for act in acts {
                let flow = match act {
                    Some(size) if !paused => {
                        held.push_back(size);
                        window.arrives(size)
                    }
                    _ => match held.pop_front() {
                        Some(size) => window.leaves(size),
                        None => continue,
                    },
                };
                let same = if paused { Flow::Pause } else { Flow::Resume };
                prop_assert!(flow != Some(same));
                paused = flow.map_or(paused, |flow| flow == Flow::Pause);
                prop_assert_eq!(paused, window.is_paused());
                prop_assert!(held.len() <= records as usize);
                let before_last: u64 = held.iter().rev().skip(1).sum();
                prop_assert!(before_last < bytes);
                prop_assert_eq!(window.bytes(), held.iter().sum::<u64>());
                prop_assert!(!(paused && held.is_empty()));
            }
        }
    }
}
