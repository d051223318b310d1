//! Where clients connect: a Unix socket, or TCP.
//!
//! Invariants:
//! - A Unix socket's file is for its owner only before the first client can connect.
//! - A file is replaced only if it is a socket without a listener. Servers that start in the same
//!   directory take turns (a lock on the directory), so that no server takes another's socket for
//!   stale between its bind and listen.
//! - At the end the file is removed if it is still ours.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};

use super::{NbdAddress, NbdConfig, NbdError};
use crate::paths::shown;
use crate::users;

/// How many clients may wait to be accepted.
const BACKLOG: u32 = 128;

/// The send buffer of a Unix socket, which holds data for a busy client. With the default of 208
/// KiB there is a thread switch for every 208 KiB. The kernel may allow less.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// A client.
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// The name of the client at the other end.
    pub(super) fn peer(&self) -> String {
        match self {
            Self::Unix(stream) => {
                let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
                let process = process.and_then(|process| u32::try_from(process).ok());
                process.map_or_else(|| "a process".to_owned(), users::process)
            }
            Self::Tcp(stream) => match stream.peer_addr() {
                Ok(address) => address.to_string(),
                Err(_) => "a client over TCP".to_owned(),
            },
        }
    }
}

/// See the [module](self).
pub(super) enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) async fn bind(config: &NbdConfig) -> Result<Self, NbdError> {
        match &config.address {
            NbdAddress::Unix(path) => {
                let (listener, file) = bind_unix(path).await?;
                Ok(Self::Unix(listener, file))
            }
            &NbdAddress::Tcp(address) => {
                if !config.allow_remote && !address.ip().to_canonical().is_loopback() {
                    return Err(NbdError::Remote { address });
                }
                bind_tcp(address).map(Self::Tcp).map_err(|source| NbdError::Bind {
                    address: config.address.to_string(),
                    source,
                })
            }
        }
    }

    /// The address, with the port that the kernel chose if it was 0.
    pub(super) fn address(&self) -> io::Result<NbdAddress> {
        match self {
            Self::Unix(_, file) => Ok(NbdAddress::Unix(file.path.clone())),
            Self::Tcp(listener) => listener.local_addr().map(NbdAddress::Tcp),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                if let Err(error) = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES) {
                    tracing::debug!(%error, "the socket keeps its send buffer");
                }
                Ok(Socket::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

/// The file of a Unix socket, removed when this is dropped.
pub(super) struct SocketFile {
    path: PathBuf,
    /// Its device and inode.
    identity: (u64, u64),
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

/// Accepted sockets inherit these options.
fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn bind_unix(path: &Path) -> Result<(UnixListener, SocketFile), NbdError> {
    let failed = |source| NbdError::Bind { address: shown(path).to_string(), source };
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let turn = File::open(dir).map_err(failed)?;
    flock(&turn, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => NbdError::Locked { dir: dir.to_owned() },
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
async fn remove_stale(path: &Path) -> Result<(), NbdError> {
    let failed = |source| NbdError::Bind { address: shown(path).to_string(), source };
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    if !metadata.file_type().is_socket() {
        return Err(NbdError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Ok(_) => {
            return Err(NbdError::InUse { path: path.to_owned() });
        }
        // A full backlog (EAGAIN) means a listener, too; other errors don't prove that there is
        // none.
        Err(source) => return Err(failed(source)),
    }
    tracing::warn!(path = %shown(path), "removing the socket that a dead server left");
    fs::remove_file(path).map_err(failed)
}
