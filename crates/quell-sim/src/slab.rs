//! Slab: things by number, where an old number never names a new thing.

/// Names a thing in a [`Slab`]; once that is gone the name is dead for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

/// Generations lie apart from the things: most questions are about what is gone, and a row of numbers stays at hand.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    generations: Vec<u32>,
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { generations: Vec::new(), things: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, thing: T) -> Key {
        if let Some(index) = self.free.pop() {
            self.things[index as usize] = Some(thing);
            return Key { index, generation: self.generations[index as usize] };
        }
        self.generations.push(0);
        self.things.push(Some(thing));
        Key { index: self.things.len() as u32 - 1, generation: 0 }
    }

    #[inline]
    pub(crate) fn has(&self, key: Key) -> bool {
        self.generations.get(key.index as usize) == Some(&key.generation)
    }

    #[inline]
    pub(crate) fn get(&mut self, key: Key) -> Option<&mut T> {
        if self.has(key) { self.things[key.index as usize].as_mut() } else { None }
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        if !self.has(key) {
            return None;
        }
        self.generations[key.index as usize] = key.generation.wrapping_add(1);
        self.free.push(key.index);
        self.things[key.index as usize].take()
    }

    /// All keys, in no meaningful but always the same order.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let things = (0..).zip(&self.things).filter(|(_, thing)| thing.is_some());
        things
            .map(|(index, _)| Key { index, generation: self.generations[index as usize] })
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_never_opens_a_new_thing() {
        let mut slab = Slab::new();
        let old = slab.insert("old");
        assert_eq!(slab.remove(old), Some("old"));
        let new = slab.insert("new");
        assert_eq!(slab.get(old), None);
        assert_eq!(slab.get(new), Some(&mut "new"));
        assert_eq!(slab.len(), 1);
    }
}
