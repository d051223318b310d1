//! Where clients connect: a Unix socket, or TCP.

use std::io;
use std::net::SocketAddr;

use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use super::{NbdAddress, NbdConfig, NbdError};
use crate::front::socket::{BACKLOG, SocketFile, bind_unix, peer};

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
            Self::Unix(stream) => peer(stream),
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
                let asks = config.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
                let is_open = !config.allow_remote && !asks;
                if is_open && !address.ip().to_canonical().is_loopback() {
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
            Self::Unix(_, file) => Ok(NbdAddress::Unix(file.path().to_owned())),
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
