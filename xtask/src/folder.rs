//! A folder for what servers want to read or write, which goes when it is dropped.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// See the [module](self).
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// One of this process, in the system's temporary folder.
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("quell-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what is left is in the system's temporary folder
    }
}
