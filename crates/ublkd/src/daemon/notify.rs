//! Status messages to systemd: a datagram to the socket in `NOTIFY_SOCKET` (sd_notify(3)). Without
//! it nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager, if there is one.
pub(super) fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, state, "could not notify the service manager");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        // An abstract name, which is not in the file system.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sent = UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    if sent == state.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_socket_are_told() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("notify");
        let name = format!("@evenkeel-test-{}", std::process::id());
        let hidden = SocketAddr::from_abstract_name(&name[1..]).expect("a name");
        let sockets = [
            (path.as_os_str(), UnixDatagram::bind(&path)),
            (OsStr::new(&name), UnixDatagram::bind_addr(&hidden)),
        ];
        for (address, socket) in sockets {
            let socket = socket.expect("a socket");
            send(address, "READY=1").expect("it is sent");
            let mut told = [0; 16];
            let bytes = socket.recv(&mut told).expect("it is received");
            assert_eq!(&told[..bytes], b"READY=1");
        }
        assert!(send(dir.path().join("none").as_os_str(), "READY=1").is_err());
    }
}
