//! Ring: first in, first out, for what is copied.
//!
//! `VecDeque` hands things over by reference to a function of its own, and an event that was just put together in pieces is read
//! back whole there, which a processor has to wait for. A simulation does little else, so this one is short enough to be inlined.

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// A power of two of them, or none yet; those that are not in use hold whatever was there.
    places: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Copy> Ring<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), first: 0, len: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, thing: T) {
        if self.len == self.places.len() {
            self.grow(thing);
        }
        let last = (self.first + self.len) & (self.places.len() - 1);
        self.places[last] = thing;
        self.len += 1;
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&T> {
        if self.len == 0 { None } else { self.places.get(self.first) }
    }

    #[inline(always)]
    pub(crate) fn drop_first(&mut self) {
        if self.len > 0 {
            self.first = (self.first + 1) & (self.places.len() - 1);
            self.len -= 1;
        }
    }

    #[cold]
    fn grow(&mut self, filler: T) {
        self.places.rotate_left(self.first);
        self.first = 0;
        self.places.resize((2 * self.places.len()).max(16), filler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_out_as_they_went_in_however_often_it_grew() {
        let mut ring = Ring::new();
        let pop = |ring: &mut Ring<usize>| {
            let first = ring.first().copied();
            ring.drop_first();
            first
        };
        let (mut next, mut expected) = (0, 0);
        for round in 0..200 {
            (0..round % 7 + 5).for_each(|_| {
                ring.push(next);
                next += 1;
            });
            for _ in 0..round % 5 + 4 {
                assert_eq!(pop(&mut ring), (expected < next).then_some(expected));
                expected = (expected + 1).min(next);
            }
        }
        assert_eq!(ring.first(), Some(&expected));
        assert_eq!(core::iter::from_fn(|| pop(&mut ring)).count(), next - expected);
        assert_eq!(ring.first(), None);
    }
}
