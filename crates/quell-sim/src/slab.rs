//! Slab: things by number, where an old number never names a new thing.

/// Names a thing in a [`Slab`]; once that is gone the name is dead for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, thing: T) -> Key {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.1 = Some(thing);
            return Key { index, generation: place.0 };
        }
        self.places.push((0, Some(thing)));
        Key { index: self.places.len() as u32 - 1, generation: 0 }
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<&mut T> {
        let (generation, thing) = self.places.get_mut(key.index as usize)?;
        if *generation == key.generation { thing.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let place = &mut self.places[key.index as usize];
        place.0 = place.0.wrapping_add(1);
        self.free.push(key.index);
        place.1.take()
    }

    /// All keys, in no meaningful but always the same order.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let places = self.places.iter().enumerate().filter(|(_, (_, thing))| thing.is_some());
        places.map(|(i, &(generation, _))| Key { index: i as u32, generation }).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
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
