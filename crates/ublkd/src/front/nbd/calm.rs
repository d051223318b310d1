//! A client that asks for one small thing at a time is served on the volume's thread: a request wakes
//! that thread and no other, and is answered by it. Whatever else a client does is left to the
//! connection's task.
//!
//! Invariants:
//! - The kernel receives into the memory at most once at a time. What is not yet served of what it
//!   has received goes back to the task with the socket, which the kernel has let go of then.
//! - Memory that the kernel may still receive into or send from is never unmapped, not even when the
//!   ring is gone.
//! - Nothing of a connection that is cut is given to the volume after the cut, neither here nor by
//!   the task: the client may have connected again, and written the same blocks anew.
//! - Nothing waits for the client: it is sent what its socket takes, and the rest as that takes more.
//! - No buffer is held for a client that is slow to send or to take.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use raidcore::engine::{Op, RequestError};
use rustix::io::Errno as SystemError;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use tokio::sync::oneshot;

use super::checks::{Checks, Task};
use super::wire::{Command as Asks, Errno, Header, flag};
use crate::front::extent::Extent;
use crate::region::Region;
use crate::resident::{Came, Command, Resident};
use crate::volume::{Buffer, Share, Submit};

/// The largest data of a request, which the volume's thread copies: 64 KiB, some microseconds.
const DATA_BYTES: usize = 64 << 10;

/// Room for a request, and for a reply.
const ROOM: usize = DATA_BYTES + 4096;

/// The commands' numbers.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;

/// Whether a request is one that a calm client makes.
pub(super) fn suits(header: &Header) -> bool {
    let known = matches!(header.command, Asks::Read | Asks::Write | Asks::Flush);
    known && header.length as usize <= DATA_BYTES
}

/// What the volume's thread and a client's task tell each other.
#[derive(Default)]
pub(super) struct Turn {
    /// Odd while the client makes the server wait.
    number: AtomicU64,
    cut: AtomicBool,
}

impl Turn {
    /// For as long as this number stays, the client makes the server wait for one thing.
    pub(super) fn waiting(&self) -> Option<u64> {
        let turn = self.number.load(Ordering::Relaxed);
        (turn % 2 == 1).then_some(turn)
    }

    fn set(&self, waits: bool) {
        let turn = self.number.load(Ordering::Relaxed);
        if (turn % 2 == 1) != waits {
            // Only the volume's thread changes it.
            self.number.store(turn + 1, Ordering::Relaxed);
        }
    }

    /// Cuts the connection. The thread looks before it gives the volume a request. What it has given
    /// before comes before whatever another connection of the client asks for, which takes the same
    /// thread.
    pub(super) fn cut(&self, socket: BorrowedFd<'_>) {
        self.cut.store(true, Ordering::SeqCst);
        // The client may be gone already.
        shutdown(socket, Shutdown::Both).ok();
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

/// A client that is left to its task again.
pub(super) struct Left {
    pub(super) socket: OwnedFd,
    /// What was received and not served.
    pub(super) ahead: Vec<u8>,
}

/// What it does beside receiving.
enum State {
    Nothing,
    /// The volume has a request.
    Asks {
        handle: u64,
        op: Op,
        extent: Extent,
    },
    /// The client takes the rest of a reply, which is so many bytes, of which some are sent.
    Replies {
        bytes: usize,
        sent: usize,
    },
}

/// See the [module](self).
pub(super) struct Calm {
    /// Gone when it has left.
    client: Option<(OwnedFd, oneshot::Sender<io::Result<Left>>)>,
    checks: Checks,
    share: Share,
    turn: Arc<Turn>,
    state: State,
    /// Whether the kernel receives.
    receives: bool,
    /// What was received, and behind it the rest of a reply.
    memory: ManuallyDrop<Region>,
    received: usize,
}

impl Calm {
    /// The socket blocks. It comes back by the receiver, or an error if the connection was cut.
    ///
    /// # Errors
    /// If the kernel refuses memory.
    pub(super) fn new(
        socket: OwnedFd,
        checks: Checks,
        share: Share,
        turn: Arc<Turn>,
    ) -> io::Result<(Self, oneshot::Receiver<io::Result<Left>>)> {
        let (told, left) = oneshot::channel();
        let calm = Self {
            client: Some((socket, told)),
            checks,
            share,
            turn,
            state: State::Nothing,
            receives: false,
            memory: ManuallyDrop::new(Region::new(2 * ROOM)?),
            received: 0,
        };
        Ok((calm, left))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(|(socket, _)| socket.as_fd())
    }

    /// What was received. The kernel must not be receiving.
    fn ahead(&self) -> &[u8] {
        // SAFETY: the region is longer, and the kernel has let go of its beginning.
        unsafe { std::slice::from_raw_parts(self.memory.at(0), self.received) }
    }

    fn receive(&mut self) -> Option<Command> {
        let (to, room) = (self.memory.at(self.received), ROOM - self.received);
        // SAFETY: the memory stays mapped until the command has completed, for ever if it has not
        // when this is dropped, and nothing reads it before.
        let command = unsafe { Command::receive(RECEIVE, self.socket()?, to, room as u32) };
        self.receives = true;
        Some(command)
    }

    /// Takes what has arrived without waiting; false if nothing has.
    fn receive_now(&mut self) -> bool {
        let Some(socket) = self.socket() else { return false };
        // SAFETY: the region is as long, and the kernel is not receiving.
        let room = unsafe {
            std::slice::from_raw_parts_mut(self.memory.at(self.received), ROOM - self.received)
        };
        let got = recv(socket, room, RecvFlags::DONTWAIT).map_or(0, |(got, _)| got);
        self.received += got;
        got > 0
    }

    /// Serves what was received, if it is one whole request.
    fn serve(&mut self) -> Came {
        let mut asked = self.request();
        // The rest is often there when its beginning was noticed. A client that sends a byte at a
        // time is not waited for, though: others have their turn in between.
        if matches!(asked, Ok(None)) && self.receive_now() {
            asked = self.request();
        }
        match asked {
            Ok(Some((state, request, buffer))) => {
                self.turn.set(false);
                (self.state, self.received) = (state, 0);
                // By this it is noticed if the client sends more before it is answered.
                match self.receive() {
                    Some(command) => Came::RequestAndCommand(request, buffer, command),
                    None => Came::Request(request, buffer),
                }
            }
            Ok(None) => {
                self.turn.set(true);
                self.receive().map_or(Came::Nothing, Came::Again)
            }
            Err(NotHere) => {
                self.leave();
                Came::Nothing
            }
        }
    }

    /// The request that was received; nothing if it is incomplete.
    fn request(&self) -> Result<Option<(State, Submit, Buffer)>, NotHere> {
        let Some((head, payload)) = self.ahead().split_first_chunk() else { return Ok(None) };
        let header = Header::decode(head).filter(suits).ok_or(NotHere)?;
        let Ok(Task::Volume { op, extent }) = self.checks.check(&header) else {
            return Err(NotHere);
        };
        let expected = if op == Op::Write { header.length as usize } else { 0 };
        if extent.pieces() > 1 || payload.len() > expected {
            return Err(NotHere);
        }
        if payload.len() < expected {
            return Ok(None);
        }
        let (lba, blocks, edges) = extent.piece(0);
        let mut buffer = self.share.try_buffer().ok_or(NotHere)?;
        if op == Op::Write {
            buffer[edges.within(blocks)].copy_from_slice(payload);
        }
        let fua = header.flags & flag::FUA != 0;
        let state = State::Asks { handle: header.handle, op, extent };
        Ok(Some((state, Submit { op, lba, blocks, fua, edges }, buffer)))
    }

    /// Sends a reply, or as much of it as the socket takes. The rest is kept without its buffer.
    fn reply(&mut self, parts: [&[u8]; 3]) -> Option<Command> {
        let slices = parts.map(IoSlice::new);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut nothing = SendAncillaryBuffer::default();
        let mut sent = match sendmsg(self.socket()?, &slices, &mut nothing, flags) {
            Ok(sent) => sent,
            Err(SystemError::AGAIN | SystemError::INTR) => 0,
            Err(_) => {
                self.cut();
                return self.replied();
            }
        };
        let mut bytes = 0;
        for part in parts {
            let rest = &part[sent.min(part.len())..];
            sent -= part.len() - rest.len();
            assert!(bytes + rest.len() <= ROOM, "a reply is at most as large as this room");
            // SAFETY: there is as much room, of which the kernel has nothing.
            unsafe {
                let to = self.memory.at(ROOM + bytes);
                std::ptr::copy_nonoverlapping(rest.as_ptr(), to, rest.len());
            }
            bytes += rest.len();
        }
        if bytes == 0 {
            return self.replied();
        }
        self.state = State::Replies { bytes, sent: 0 };
        self.send(0, bytes)
    }

    /// Sends the rest of a reply as soon as the socket takes more.
    fn send(&mut self, sent: usize, bytes: usize) -> Option<Command> {
        self.turn.set(true);
        let (from, left) = (self.memory.at(ROOM + sent), bytes - sent);
        // SAFETY: the memory stays mapped until the command has completed, for ever if it has not
        // when this is dropped, and nothing writes to it before.
        Some(unsafe { Command::send(SEND, self.socket()?, from, left as u32) })
    }

    /// So many more bytes of a reply were sent; none if the client is gone.
    fn sent_more(&mut self, more: usize) -> Option<Command> {
        let State::Replies { bytes, sent } = self.state else { return None };
        let sent = sent + more;
        if more > 0 && sent < bytes {
            self.state = State::Replies { bytes, sent };
            return self.send(sent, bytes);
        }
        if more == 0 {
            self.cut();
        }
        self.replied()
    }

    /// The request is over. If the client has not waited for that, it is not calm.
    fn replied(&mut self) -> Option<Command> {
        self.turn.set(false);
        self.state = State::Nothing;
        if !self.receives {
            self.leave();
        }
        None
    }

    /// A reply is lost: the connection ends.
    fn cut(&self) {
        if let Some(socket) = self.socket() {
            self.turn.cut(socket);
        }
    }

    /// Goes back to the task, or ends if the connection is cut.
    fn leave(&mut self) {
        let cut = self.turn.is_cut();
        let ahead = if cut { Vec::new() } else { self.ahead().to_vec() };
        if let Some((socket, told)) = self.client.take() {
            let lost = || io::Error::new(io::ErrorKind::BrokenPipe, "a reply could not be sent");
            // Without a receiver the server has gone.
            told.send(if cut { Err(lost()) } else { Ok(Left { socket, ahead }) }).ok();
        }
    }
}

/// What was received is not for this thread.
struct NotHere;

impl Resident for Calm {
    fn begin(&mut self) -> Vec<Command> {
        self.receive().into_iter().collect()
    }

    fn came(&mut self, number: u16, result: i32) -> Came {
        // An error of the socket shows again in the task.
        let bytes = usize::try_from(result).unwrap_or(0);
        if number == SEND {
            return self.sent_more(bytes).map_or(Came::Nothing, Came::Again);
        }
        self.receives = false;
        self.received += bytes;
        match self.state {
            State::Nothing if bytes > 0 && !self.turn.is_cut() => self.serve(),
            State::Nothing => {
                self.leave();
                Came::Nothing
            }
            State::Asks { .. } | State::Replies { .. } => Came::Nothing,
        }
    }

    fn answered(
        &mut self,
        _: u16,
        buffer: Buffer,
        result: Result<(), RequestError>,
    ) -> Option<Command> {
        let State::Asks { handle, op, extent } = self.state else { return None };
        let session = self.checks.session;
        let (_, blocks, edges) = extent.piece(0);
        let head = match result {
            Ok(()) if op == Op::Read => session.data(handle, true, extent.offset(), extent.bytes()),
            Ok(()) => session.success(handle, false),
            Err(error) => session.failure(handle, Errno::from(error)),
        };
        let [numbers, text] = head.parts();
        let sends = op == Op::Read && result.is_ok();
        let data = if sends { &buffer[edges.within(blocks)] } else { &[] };
        self.reply([numbers, text, data])
    }

    fn has_ended(&self) -> bool {
        self.client.is_none()
    }
}

impl Drop for Calm {
    fn drop(&mut self) {
        if self.receives || matches!(self.state, State::Replies { .. }) {
            // The ring is gone, but the kernel cancels what was under way only later. The memory is
            // leaked, which is rare and little.
            self.cut();
        } else {
            // SAFETY: the kernel has nothing of it, and it is not used again.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

#[cfg(test)]
mod tests;
