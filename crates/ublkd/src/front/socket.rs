//! Unix sockets on which front ends listen.
//!
//! Invariants:
//! - A socket's file is for its owner only before the first client can connect.
//! - A file is replaced only if it is a socket without a listener. Servers that start in the same
//!   directory take turns (a lock on the directory), so that no server takes another's socket for
//!   stale between its bind and listen.
//! - At the end the file is removed if it is still ours.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::paths::shown;
use crate::users;

/// How many clients may wait to be accepted.
pub(super) const BACKLOG: u32 = 128;

/// Why a front end can't listen on a Unix socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A server listens there.
    #[error("{} is in use by another server: stop it or choose another path", shown(.path))]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has this name.
    #[error("{} exists and is no socket: choose another path or remove it", shown(.path))]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// Another server is starting there.
    #[error(
        "{} is locked, perhaps by a server that starts in these moments: try again",
        shown(.dir)
    )]
    Locked {
        /// The socket's directory.
        dir: PathBuf,
    },
    /// The kernel refuses the path.
    #[error("can't listen on {}: {source}", shown(.path))]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The name of the process at the other end.
pub(super) fn peer(stream: &UnixStream) -> String {
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let process = process.and_then(|process| u32::try_from(process).ok());
    process.map_or_else(|| "a process".to_owned(), users::process)
}

/// The file of a Unix socket, removed when this is dropped.
pub(super) struct SocketFile {
    path: PathBuf,
    /// Its device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if !ours {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %shown(&self.path), "a socket stays behind");
        }
    }
}

/// Listens on a Unix socket.
///
/// # Errors
/// If the path can't be had.
pub(super) async fn bind_unix(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let failed = |source| SocketError::Listen { path: path.to_owned(), source };
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let turn = File::open(dir).map_err(failed)?;
    flock(&turn, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => SocketError::Locked { dir: dir.to_owned() },
        other => failed(other.into()),
    })?;
    let mut socket = UnixSocket::new_stream().map_err(failed)?;
    if let Err(error) = socket.bind(path) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(failed(error));
        }
        remove_stale(path).await?;
        socket = UnixSocket::new_stream().map_err(failed)?;
        socket.bind(path).map_err(failed)?;
    }
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    let file = SocketFile { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) };
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    let listener = socket.listen(BACKLOG).map_err(failed)?;
    Ok((listener, file))
}

/// Removes the socket that a dead server left.
async fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Listen { path: path.to_owned(), source };
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Ok(_) => {
            return Err(SocketError::InUse { path: path.to_owned() });
        }
        // A full backlog (EAGAIN) means a listener, too; other errors don't prove that there is
        // none.
        Err(source) => return Err(failed(source)),
    }
    tracing::warn!(path = %shown(path), "removing the socket that a dead server left");
    fs::remove_file(path).map_err(failed)
}
