//! File: from a path or a text to what a host makes of it, or to all that is wrong in it.

use std::{io::Read as _, path::Path};

use super::{
    document::{Document, Idle, LONGEST, Override},
    fields::Fields,
    problem::Problems,
};

/// The version that is read.
const VERSION: u32 = 1;

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be had.
    #[error("cannot read {name}: {error}")]
    Read {
        /// Which file.
        name: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

/// Reads a file, with the environment over it and flags over both. `read` takes what it wants from the outermost table. Beside
/// what it makes of that stands what no host acts on yet.
pub fn load<T>(
    path: &Path,
    flags: &[Override],
    read: impl FnOnce(&Fields<'_>) -> T,
) -> Result<(T, Vec<Idle>), Error> {
    let text = text(path)?;
    Ok(parse(&name(path), &text, &Override::over_env(flags), read)?)
}

/// The same for a text. Later overrides go over earlier ones. The name stands in problems.
pub fn parse<T>(
    name: &str,
    text: &str,
    overrides: &[Override],
    read: impl FnOnce(&Fields<'_>) -> T,
) -> Result<(T, Vec<Idle>), Problems> {
    let document = Document::parse(name, text, overrides)?;
    let root = document.root();
    let made = read(&root);
    drop(root); // reports what nobody asked for
    document.finish()?;
    Ok((made, document.idle()))
}

/// Asks for the version, which every file begins with.
pub fn version(root: &Fields<'_>) {
    root.means("version", "which form the file has: 1");
    root.needs("version", "version = 1 in the first line");
    if let Some(other) = root.get::<u32>("version").filter(|version| *version != VERSION) {
        root.wrong("version", format_args!("is {other}: write 1, which is what this quell reads"));
    }
}

/// A file's text. No more of it is read than it takes to see that it is too long.
pub fn text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text))
        .map_err(|error| Error::Read { name: name(path), error })?;
    Ok(text)
}

/// What a file is called in problems.
fn name(path: &Path) -> String {
    path.display().to_string()
}
