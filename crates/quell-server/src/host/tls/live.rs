//! A configuration made of files, and made anew when they change.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::TlsError;
use super::files::{Contents, Files, Mark};
use crate::host::twice::Twice;

type Build<T> = Box<dyn Fn(&Contents) -> Result<T, TlsError> + Send + Sync>;

/// See the [module](self). Both ways to take new files read them at once, so call them where waiting is allowed.
pub(crate) struct Live<T> {
    files: Files,
    build: Build<T>,
    current: ArcSwap<T>,
    seen: Mutex<Twice<Mark>>,
}

impl<T> Live<T> {
    pub(super) fn new(
        files: Files,
        build: impl Fn(&Contents) -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let contents = files.read();
        let current = ArcSwap::from_pointee(build(&contents)?);
        let seen = Mutex::new(Twice::new(Some(contents.mark())));
        Ok(Self { files, build: Box::new(build), current, seen })
    }

    /// What is in force.
    pub(super) fn load(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Reads the files as they are now. What is returned puts them in force; until it is called, what is in force stays.
    pub(crate) fn prepare(&self) -> Result<impl FnOnce() + '_, TlsError> {
        let contents = self.files.read();
        self.seen.lock().took(Some(contents.mark()));
        let next = Arc::new((self.build)(&contents)?);
        Ok(move || self.current.store(next))
    }

    /// For a look every few seconds: takes other contents once they were seen twice, and says whether it did. Contents
    /// that cannot be used are told once, and what is in force stays.
    pub(crate) fn look(&self) -> Result<bool, TlsError> {
        let contents = self.files.read();
        let mark = Some(contents.mark());
        let mut seen = self.seen.lock();
        if !seen.look(mark) {
            return Ok(false);
        }
        seen.took(mark);
        self.current.store(Arc::new((self.build)(&contents)?));
        Ok(true)
    }

    /// A line for people if the key can be read by others.
    pub(crate) fn warning(&self) -> Option<String> {
        self.files.warning()
    }
}

impl<T> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("files", &self.files).finish_non_exhaustive()
    }
}
