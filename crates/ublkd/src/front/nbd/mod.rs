//! A volume over the network block device protocol, for `nbd-client`, qemu, libnbd, fio: fixed
//! newstyle handshake, simple and structured replies, `base:allocation`, several connections to one
//! export.
//!
//! Invariants:
//! - A request has one reply, or its connection is cut.
//! - For a client the server allocates at most the length of an option, and that of a buffer for
//!   data that the client is slow to take or send. It holds at most a connection's share of the
//!   volume's buffers, and not for long while others have none.
//! - With TLS, nothing but that is negotiated before it, and nothing that came before it counts after it.
//! - A client that makes the server wait (in the handshake, TLS's, too, within a payload, by not reading
//!   replies) is cut off after a time. Between requests a client may be idle for any time.
//! - A few clients are served on the volume's thread, and their connections' tasks wait until they ask
//!   for something else. A connection is cut if its task ends before.
//! - Nothing that a client has sent is given to the volume after its connection was cut.
//! - When the server stops, requests that the volume already has are answered before the connection
//!   closes.
//!
//! The protocol: `doc/proto.md` of the NBD project.

mod checks;
mod clients;
mod connection;
mod direct;
mod handshake;
mod ledger;
mod listen;
mod pace;
mod plain;
mod replies;
mod requests;
mod session;
mod tls;
mod wire;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::front::socket::SocketError;
use crate::front::{Admit, LogicalBlock};
use crate::guests::{Guests, Seldom};
use crate::host::HostHandle;
use crate::null::Null;
use crate::paths::shown;
use crate::volume::Volume;
use checks::Checks;
use clients::Clients;
use connection::connection;
use listen::Listener;
use session::Session;
use tls::Tls;
pub use tls::{NbdTls, TlsError};

/// The largest request in bytes, which every server should accept.
const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// The most clients at a time, of one address, that the volume's thread serves by itself. The kernel
/// copies their data on it, and it does nothing for others meanwhile. An idle client keeps its place.
const DIRECT_CLIENTS: usize = 4;

/// Where clients connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NbdAddress {
    /// A Unix socket, for this user only.
    Unix(PathBuf),
    /// TCP. NBD has no passwords: everyone who can connect can read and write, unless clients must
    /// have certificates. Port 0 lets the kernel choose one.
    Tcp(SocketAddr),
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => shown(path).fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// How a volume is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdConfig {
    /// Where clients connect.
    pub address: NbdAddress,
    /// Whether other machines may reach the address although clients need no certificates. Off by
    /// default. If clients must have certificates, they may anyway.
    pub allow_remote: bool,
    /// TLS, without which no client is served then.
    pub tls: Option<NbdTls>,
    /// The logical block size for clients.
    pub logical_block: LogicalBlock,
    /// What clients may take.
    pub limits: NbdLimits,
}

impl NbdConfig {
    /// Serves at `address`, to this machine only, without TLS, whole blocks, with the default limits.
    #[must_use]
    pub fn new(address: NbdAddress) -> Self {
        let (logical_block, limits) = (LogicalBlock::default(), NbdLimits::default());
        Self { address, allow_remote: false, tls: None, logical_block, limits }
    }
}

/// Limits for clients. Zero counts as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdLimits {
    /// Connections at a time. Beyond that, the one that has been negotiating longest is closed, or
    /// the new one if none is negotiating. 64 by default: a few clients with the usual 4 to 16
    /// connections.
    pub connections: u16,
    /// Requests of a connection that are read before the first one's reply is written. 128 by
    /// default, as many as the kernel's client has in flight.
    pub requests: u16,
    /// Parts of requests that are under way or wait for the client to take them; a part is at most
    /// as large as a buffer of the volume. 64 by default. The volume decides how many buffers they
    /// get.
    pub buffers: u16,
    /// How long the negotiation of a connection may take; 30 s by default.
    pub handshake: Duration,
    /// The time for the payload of a write, or for taking a reply, per buffer of the volume, and
    /// the time for which a client may go on sending when the server stops; 30 s by default.
    pub patience: Duration,
    /// How long buffers may wait for the client (its payloads, its taking of replies) while another
    /// user of the volume has none. Then they are given back, at the price of copying or reading
    /// again. 100 ms by default.
    pub linger: Duration,
}

impl Default for NbdLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            requests: 128,
            buffers: 64,
            handshake: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            linger: Duration::from_millis(100),
        }
    }
}

/// Why a volume can't be served.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// Other machines could connect, which is not allowed.
    #[error(
        "{address} can be reached from other machines, and NBD has no passwords: use 127.0.0.1, \
         [::1] or a Unix socket, or TLS with certificates of clients, or allow remote clients \
         explicitly"
    )]
    Remote {
        /// The address.
        address: SocketAddr,
    },
    /// TLS can't be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Its Unix socket can't be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The kernel refuses the address.
    #[error("can't listen on {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
}

/// A volume that is served over NBD. Dropping it stops it, without waiting for the end.
#[derive(Debug)]
pub struct NbdServer {
    address: NbdAddress,
    uri: String,
    clients: Clients,
    stop: watch::Sender<bool>,
    accepting: Option<JoinHandle<()>>,
}

impl NbdServer {
    /// Serves `volume` under its name, and as the default export, on the current tokio runtime,
    /// which must have I/O and time enabled.
    ///
    /// # Errors
    /// When the address is not allowed or can't be had.
    pub async fn start(volume: Volume, config: NbdConfig) -> Result<Self, NbdError> {
        Self::start_with(volume, None, config).await
    }

    /// The same, with clients without TLS served on the thread of the volume's host: then no other
    /// thread has to be woken for a request. There are places for four of them at this address; others
    /// are served as by [`NbdServer::start`].
    ///
    /// # Errors
    /// As of [`NbdServer::start`].
    ///
    /// # Panics
    /// If `host` is not the array behind `volume`.
    pub async fn start_at(
        volume: Volume,
        host: &HostHandle,
        config: NbdConfig,
    ) -> Result<Self, NbdError> {
        assert!(host.serves(&volume), "a volume of another array");
        let host = host.clone();
        let admit = move |client| drop(host.admit(client));
        Self::start_with(volume, Some(Arc::new(admit)), config).await
    }

    /// The same for a volume that answers at once.
    ///
    /// # Errors
    /// As of [`NbdServer::start`].
    pub async fn start_null(null: Null, config: NbdConfig) -> Result<Self, NbdError> {
        let volume = null.volume().clone();
        let admit = move |client| drop(null.admit(client));
        Self::start_with(volume, Some(Arc::new(admit)), config).await
    }

    async fn start_with(
        volume: Volume,
        admit: Option<Admit>,
        config: NbdConfig,
    ) -> Result<Self, NbdError> {
        let tls = match config.tls.clone() {
            Some(files) => Some(Arc::new(Tls::open(files).await?)),
            None => None,
        };
        let listener = Listener::bind(&config).await?;
        let address = listener
            .address()
            .map_err(|source| NbdError::Bind { address: config.address.to_string(), source })?;
        let uri = uri(&address, volume.name(), tls.is_some());
        let (stop, stopping) = watch::channel(false);
        let NbdConfig { logical_block, limits, .. } = config;
        let clients = Clients::default();
        let service = Service {
            volume,
            logical_block,
            limits,
            tls,
            clients: clients.clone(),
            places: admit.as_ref().map(|_| Arc::new(Semaphore::new(DIRECT_CLIENTS))),
            admit,
            stop: Stop(stopping),
            log: Arc::default(),
        };
        let accepting = tokio::spawn(accept(listener, service));
        Ok(Self { address, uri, clients, stop, accepting: Some(accepting) })
    }

    /// Where it listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> &NbdAddress {
        &self.address
    }

    /// What to tell a client, such as `nbd+unix:///tank?socket=/run/tank.sock`.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The clients that have chosen the export: processes, or addresses.
    #[must_use]
    pub fn clients(&self) -> Vec<String> {
        self.clients.names()
    }

    /// Admits no more clients, if there are none.
    ///
    /// # Errors
    /// The names of the clients, if there are any; then nothing has changed.
    pub fn shut(&self) -> Result<(), Vec<String>> {
        self.clients.shut()
    }

    /// Undoes [`NbdServer::shut`].
    pub fn reopen(&self) {
        self.clients.reopen();
    }

    /// Stops: accepts no connection, refuses new requests, answers those that the volume has, then
    /// closes all connections. A client may end what it has begun within the limits' `patience`.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(accepting) = self.accepting.take()
            && let Err(error) = accepting.await
        {
            tracing::error!(%error, "the NBD server has ended early");
        }
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// What every connection has.
#[derive(Clone)]
struct Service {
    volume: Volume,
    logical_block: LogicalBlock,
    limits: NbdLimits,
    tls: Option<Arc<Tls>>,
    clients: Clients,
    /// Free places on the volume's thread, if clients may go there.
    places: Option<Arc<Semaphore>>,
    admit: Option<Admit>,
    stop: Stop,
    /// Clients' errors are logged at intervals.
    log: Arc<Mutex<Seldom>>,
}

impl Service {
    /// What a client's requests are checked by.
    fn checks(&self, session: Session) -> Checks {
        let (volume, logical_block) = (self.volume.clone(), self.logical_block);
        Checks { volume, session, logical_block }
    }
}

/// Whether the server is to stop.
#[derive(Clone)]
struct Stop(watch::Receiver<bool>);

impl Stop {
    fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    async fn wait(&self) {
        // An error would mean that the server object is gone, which sets the flag before.
        self.0.clone().wait_for(|stop| *stop).await.ok();
    }
}

async fn accept(listener: Listener, service: Service) {
    let most = usize::from(service.limits.connections.max(1));
    let mut connections = Guests::new("NBD", most);
    loop {
        let socket = tokio::select! {
            biased;
            () = service.stop.wait() => break,
            socket = connections.newcomer(|| listener.accept()) => socket,
        };
        let service = service.clone();
        connections.admit(|guest| connection(socket, service, guest));
    }
    drop(listener);
    while connections.left().await.is_some() {}
}

/// As in the NBD project's `doc/uri.md`.
fn uri(address: &NbdAddress, name: &str, secure: bool) -> String {
    let (scheme, name) = (if secure { "nbds" } else { "nbd" }, escaped(name.as_bytes()));
    match address {
        NbdAddress::Unix(path) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{scheme}+unix:///{name}?socket={}", escaped_path(&absolute))
        }
        NbdAddress::Tcp(address) => format!("{scheme}://{address}/{name}"),
    }
}

fn escaped_path(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    escaped(path.as_os_str().as_bytes())
}

/// All but what RFC 3986 leaves free everywhere, and slashes, becomes `%XX`.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_says_where() {
        let unix = NbdAddress::Unix("/run/a b?.sock".into());
        assert_eq!(uri(&unix, "tank", false), "nbd+unix:///tank?socket=/run/a%20b%3F.sock");
        let tcp = NbdAddress::Tcp("[::1]:10809".parse().expect("an address"));
        assert_eq!(uri(&tcp, "tank", false), "nbd://[::1]:10809/tank");
        assert_eq!(uri(&tcp, "tank", true), "nbds://[::1]:10809/tank");
    }
}
