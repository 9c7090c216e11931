//! Twice: whether what is in a file is new, and whole.
//!
//! **Why.** A file may be caught half written. Its time and its length say nothing of that, and notifications get lost. So what is new is
//! believed only when a second look finds the same.
//!
//! **How.** Whoever looks makes a mark of the content, such as a hash, and asks [`Twice::look`]. Whoever takes or turns down a
//! content by another way says so by [`Twice::took`].

/// See the [module](self). `M` tells contents apart.
#[derive(Debug, Default)]
pub(super) struct Twice<M> {
    /// What is in force, or was turned down and told. `None` is a file that could not be read.
    taken: Option<M>,
    /// What was seen once.
    fresh: Option<M>,
}

impl<M: PartialEq> Twice<M> {
    /// Of a file whose content was just taken.
    pub(super) fn new(taken: Option<M>) -> Self {
        Self { taken, fresh: None }
    }

    /// Another content was taken, or turned down.
    pub(super) fn took(&mut self, mark: Option<M>) {
        *self = Self::new(mark);
    }

    /// Whether this is to be taken now: it is new, and the look before found the same. A file that is away is being written.
    pub(super) fn look(&mut self, mark: Option<M>) -> bool {
        let is_new = mark.is_some() && mark != self.taken;
        let is_whole = is_new && mark == self.fresh;
        self.fresh = mark.filter(|_| is_new && !is_whole);
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_taken_at_the_second_look_that_finds_it() {
        let mut file = Twice::new(Some(1));
        assert!(!file.look(Some(1)), "not new");
        assert!(!file.look(Some(2)) && !file.look(Some(3)), "still being written");
        assert!(file.look(Some(3)));
        file.took(Some(3));
        assert!(!file.look(Some(3)) && !file.look(Some(3)), "taken once");
    }

    #[test]
    fn a_file_that_is_away_is_waited_for() {
        let mut file = Twice::new(Some(1));
        assert!(!file.look(None) && !file.look(None));
        assert!(!file.look(Some(2)) && !file.look(None) && !file.look(Some(2)), "begun anew");
        assert!(file.look(Some(2)));
        let mut missing = Twice::new(None);
        assert!(!missing.look(Some(1)) && missing.look(Some(1)));
    }

    #[test]
    fn a_change_that_is_taken_back_in_time_is_none() {
        let mut file = Twice::new(Some(1));
        assert!(!file.look(Some(2)) && !file.look(Some(1)) && !file.look(Some(2)));
    }
}
