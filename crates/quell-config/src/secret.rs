//! Secret: where a secret is, never what it is.

use std::{fmt, io, path::PathBuf};

/// Most bytes that a secret's file may hold.
const LONGEST: u64 = 64 * 1024;

/// Where a secret is: `env:NAME` or `file:PATH`. It is looked up when it is used and kept nowhere.
///
/// ```
/// use quell_config::Secret;
///
/// let key: Secret = "env:SHOP_KEY_HASH".parse().unwrap();
/// assert_eq!(key.to_string(), "env:SHOP_KEY_HASH");
/// assert!("hunter2".parse::<Secret>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Secret {
    /// A variable of the environment.
    Env(String),
    /// A file, without the line break at its end.
    File(PathBuf),
}

/// A text that says no place. It may be a secret itself, so it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write where the secret is, \"env:NAME\" or \"file:PATH\", never the secret itself")]
pub struct NoPlace;

/// Why a secret cannot be had. The message names its place.
#[derive(Debug, thiserror::Error)]
#[error("{place} cannot be read: {error}")]
pub struct Unreadable {
    place: Secret,
    error: io::Error,
}

impl std::str::FromStr for Secret {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        match text.split_once(':') {
            Some(("env", name)) if is_name(name) => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => {
                Ok(Self::File(path.into()))
            }
            _ => Err(NoPlace),
        }
    }
}

fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(legal)
}

/// The place.
impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Secret {
    /// Looks it up. What it returns is the secret: print it nowhere.
    pub fn reveal(&self) -> Result<String, Unreadable> {
        let found = match self {
            Self::Env(name) => std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => io::Error::other("it is not set"),
                // The error would hold the value.
                std::env::VarError::NotUnicode(_) => io::Error::other("it is no text"),
            }),
            Self::File(path) => std::fs::metadata(path).and_then(|file| match file.len() {
                0..=LONGEST => std::fs::read_to_string(path),
                _ => Err(io::Error::other("it is longer than 64KiB")),
            }),
        };
        let found = found.map_err(|error| Unreadable { place: self.clone(), error })?;
        Ok(found.trim_end_matches(['\r', '\n']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_looked_up_where_it_says_and_shown_as_its_place() {
        let home: Secret = "env:CARGO_MANIFEST_DIR".parse().unwrap();
        assert_eq!(home.reveal().unwrap(), env!("CARGO_MANIFEST_DIR"));
        assert_eq!(format!("{home:?}"), "Env(\"CARGO_MANIFEST_DIR\")");
        let file: Secret =
            format!("file:{}/Cargo.toml", env!("CARGO_MANIFEST_DIR")).parse().unwrap();
        assert!(file.reveal().unwrap().starts_with("[package]"));
        let gone: Secret = "env:QUELL_TEST_NO_SUCH".parse().unwrap();
        let message = gone.reveal().unwrap_err().to_string();
        assert_eq!(message, "env:QUELL_TEST_NO_SUCH cannot be read: it is not set");
    }

    #[test]
    fn a_secret_itself_is_refused_and_not_repeated() {
        for text in ["hunter2", "", "env:", "file:", "env:a b", "ENV:X", "vault:x"] {
            let error = text.parse::<Secret>().unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{text}");
        }
    }
}
