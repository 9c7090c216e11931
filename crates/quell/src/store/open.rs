//! Open: from the kind of store that people write to the store itself.
//!
//! **Why.** The file names one place for keys. If each host opened that place in its own way, the same word would mean
//! different things in a gateway and in a server. So there is one function, and a new kind of store is added here once.
//!
//! **How.** [`open`] takes a [`Kind`], which is read from the word in `[store]`. For `memory` it gives a [`Memory`]. A kind
//! that Quell can read but not open is an error which names the kind and says what to write.
//!
//! ```
//! use quell::store::{self, Kind};
//!
//! let keys = store::open("memory".parse()?)?;
//!
//! let error = store::open(Kind::Redis).err().unwrap();
//! assert_eq!(
//!     error.to_string(),
//!     "store.kind is \"redis\", which this version of Quell cannot open: write kind = \"memory\", or leave [store] out",
//! );
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::{fmt, str::FromStr, sync::Arc};

use super::{Memory, Store};

/// Where keys are kept, as `store.kind` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In the process; gone when the process ends.
    Memory,
    /// In files.
    Embedded,
    /// In Redis.
    Redis,
    /// In Postgres.
    Postgres,
}

impl Kind {
    /// All kinds, in the order in which they are told to people.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Embedded, Self::Redis, Self::Postgres];

    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded => "embedded",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no kind of store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("store.kind is \"{0}\": write \"memory\", \"embedded\", \"redis\" or \"postgres\"")]
pub struct NotKind(String);

impl FromStr for Kind {
    type Err = NotKind;

    fn from_str(word: &str) -> Result<Self, NotKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == word);
        found.ok_or_else(|| NotKind(word.to_owned()))
    }
}

/// Why a store was not opened. The message names the setting, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotOpened {
    /// The file may name this kind, but there is no store of this kind yet.
    #[error(
        "store.kind is \"{0}\", which this version of Quell cannot open: write kind = \"memory\", or leave [store] out"
    )]
    NotOffered(Kind),
}

/// Opens a store of this kind. Each call opens another one: keep the store and share it.
pub fn open(kind: Kind) -> Result<Arc<dyn Store>, NotOpened> {
    match kind {
        Kind::Memory => Ok(Arc::new(Memory::new())),
        Kind::Embedded | Kind::Redis | Kind::Postgres => Err(NotOpened::NotOffered(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_one_kind_and_any_other_word_is_told_all_of_them() {
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        let error = "mysql".parse::<Kind>().unwrap_err().to_string();
        assert!(error.starts_with("store.kind is \"mysql\""), "{error}");
        assert!(Kind::ALL.iter().all(|kind| error.contains(kind.as_str())), "{error}");
    }

    #[test]
    fn a_kind_that_is_not_offered_is_named_together_with_the_fix() {
        assert!(open(Kind::Memory).is_ok());
        for kind in [Kind::Embedded, Kind::Redis, Kind::Postgres] {
            let error = open(kind).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.starts_with(&format!("store.kind is \"{kind}\"")), "{error}");
            assert!(error.contains("write kind = \"memory\""), "{error}");
        }
    }
}
