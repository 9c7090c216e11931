//! The file of a Unix socket: whose it is, who may use it, and when it goes.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// Its owner and its group may call.
const MODE: u32 = 0o660;

/// Our socket's file, which goes with us.
#[derive(Debug)]
pub(in crate::gateway) struct SocketFile {
    path: PathBuf,
    /// Device and number: another process may have put its own in the place of ours.
    identity: (u64, u64),
}

impl SocketFile {
    /// Takes charge of a file that was just bound.
    pub(super) fn protect(path: &Path) -> io::Result<Self> {
        let identity = identity(&fs::symlink_metadata(path)?);
        let file = Self { path: path.to_owned(), identity };
        fs::set_permissions(path, Permissions::from_mode(MODE))?;
        Ok(file)
    }

    /// Takes the file away if it is still ours: who comes later is told that nobody is there.
    pub(super) fn remove(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|now| identity(&now) == self.identity) {
            let _ = fs::remove_file(&self.path); // without it there is nothing to clean up
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Takes away a socket's file that nobody answers on, such as one left by a process that was killed.
pub(super) fn remove_stale(path: &Path, addr: &SockAddr) -> io::Result<()> {
    let in_use = |why: &str| Err(io::Error::new(ErrorKind::AddrInUse, why));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("there is a file that is no socket, so it was left alone");
    }
    let caller = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    caller.set_nonblocking(true)?; // a full queue would hold us up
    match caller.connect(addr) {
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => fs::remove_file(path),
            ErrorKind::NotFound => Ok(()), // gone by itself
            ErrorKind::PermissionDenied => Err(error),
            _ => in_use("another process listens on it"), // its queue is full
        },
        Ok(()) => in_use("another process listens on it"),
    }
}
