//! Connections without TLS, whose sockets can go to the volume's thread and come back.

use std::io::{self, Cursor};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Chain};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::checks::Checks;
use super::direct::{AHEAD_BYTES_MAX, Direct, Incoming, Left, Turn, Way};
use super::ledger::Unsent;
use super::{NbdLimits, Stop};
use crate::front::Admit;
use crate::volume::Share;

/// A reader with what was read of the connection before.
pub(super) type Reader<R> = Chain<Cursor<Vec<u8>>, R>;

/// A socket of tokio's.
pub(super) trait Plain: Sized {
    type Reader: AsyncRead + Unpin;
    type Writer: AsyncWrite + Unpin;

    /// Its halves.
    fn split(self) -> (Self::Reader, Self::Writer);

    /// Without tokio.
    fn release(reader: Self::Reader, writer: Self::Writer) -> io::Result<OwnedFd>;

    /// With tokio again.
    fn take(socket: OwnedFd) -> io::Result<Self>;
}

/// Tokio's sockets have the same methods, and no trait for them.
macro_rules! plain {
    ($socket:ty, $halves:ident) => {
        impl Plain for $socket {
            type Reader = $halves::OwnedReadHalf;
            type Writer = $halves::OwnedWriteHalf;

            fn split(self) -> (Self::Reader, Self::Writer) {
                self.into_split()
            }

            fn release(reader: Self::Reader, writer: Self::Writer) -> io::Result<OwnedFd> {
                Ok(reader.reunite(writer).map_err(io::Error::other)?.into_std()?.into())
            }

            fn take(socket: OwnedFd) -> io::Result<Self> {
                Self::from_std(socket.into())
            }
        }
    };
}

plain!(UnixStream, unix);
plain!(TcpStream, tcp);

/// The halves of a socket.
pub(super) type Halves<S> = (Reader<<S as Plain>::Reader>, <S as Plain>::Writer);

/// The halves of a socket of which this was read already.
pub(super) fn halves<S: Plain>(socket: S, ahead: Vec<u8>) -> Halves<S> {
    let (reader, writer) = socket.split();
    (Cursor::new(ahead).chain(reader), writer)
}

/// A socket, and what was read of it and not taken.
pub(super) type Bare = (OwnedFd, Vec<u8>);

/// The socket, with what was read of it, this buffer first; the halves again if more was than goes
/// with it.
pub(super) fn whole<S: Plain>(
    halves: Halves<S>,
    buffer: Vec<u8>,
) -> io::Result<Result<Bare, Halves<S>>> {
    let (reader, writer) = halves;
    let (cursor, reader) = reader.into_inner();
    let mut ahead = buffer;
    let taken = cursor.position() as usize;
    ahead.extend(&cursor.get_ref()[taken..]);
    if ahead.len() > AHEAD_BYTES_MAX {
        return Ok(Err((Cursor::new(ahead).chain(reader), writer)));
    }
    Ok(Ok((S::release(reader, writer)?, ahead)))
}

/// A connection whose socket the volume's thread has. It is cut if this is dropped before the socket
/// is back.
struct Away {
    /// Gone when it is back.
    socket: Option<OwnedFd>,
    turn: Arc<Turn>,
}

impl Away {
    fn cut(&self) {
        if let Some(socket) = &self.socket {
            self.turn.cut(socket.as_fd());
        }
    }

    /// The socket is back.
    fn end(mut self) {
        self.socket = None;
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Has the volume's thread serve a client, of which this was read already, until it has something for
/// its task. A client that makes it wait for longer than the limits' patience, or twice that, is cut
/// off.
///
/// # Errors
/// If the thread has ended, or the connection was cut.
pub(super) async fn directly<S: Plain>(
    (socket, ahead): Bare,
    own: (Checks, Share),
    admit: &Admit,
    stop: &Stop,
    limits: &NbdLimits,
) -> io::Result<(S, Vec<u8>, Unsent)> {
    let taken = || Ok::<_, io::Error>((Turn::new()?, socket.try_clone()?, Incoming::new(&ahead)?));
    let Ok((turn, twin, incoming)) = taken() else {
        // As many files are open as may be: its task needs no more.
        return Ok((S::take(socket)?, ahead, Unsent::default()));
    };
    drop(ahead);
    ioctl_fionbio(&socket, false)?;
    let turn = Arc::new(turn);
    let away = Away { socket: Some(twin), turn: Arc::clone(&turn) };
    let (direct, left) = Direct::new((socket, incoming), own, limits, turn);
    admit(Box::new(direct));
    let ended = {
        let mut ended = pin!(unless_late(left, &away, limits.patience));
        tokio::select! {
            biased;
            ended = ended.as_mut() => ended,
            () = stop.wait() => {
                // It refuses what comes now.
                away.turn.call();
                ended.await
            }
        }
    };
    let Left { socket, ahead, unsent } = ended?;
    away.end();
    ioctl_fionbio(&socket, true)?;
    Ok((S::take(socket)?, ahead, unsent))
}

/// The client as it comes back, unless it is cut off.
async fn unless_late(
    mut left: oneshot::Receiver<io::Result<Left>>,
    away: &Away,
    patience: Duration,
) -> io::Result<Left> {
    tokio::select! {
        biased;
        left = &mut left => {
            return left.unwrap_or_else(|_| Err(io::Error::other("the array has ended")));
        }
        () = lateness(&away.turn, patience) => {}
    }
    away.cut();
    // The thread lets go of the socket first. Whatever it returns is not served.
    left.await.ok();
    let late = "the client did not send a request or take a reply in time";
    Err(io::Error::new(io::ErrorKind::TimedOut, late))
}

/// When the client has made the server wait for too long.
async fn lateness(turn: &Turn, patience: Duration) {
    let mut before = [None; 2];
    loop {
        sleep(patience).await;
        let now = [Way::In, Way::Out].map(|way| turn.waiting(way));
        if now.iter().zip(&before).any(|(now, before)| now.is_some() && now == before) {
            return;
        }
        before = now;
    }
}
