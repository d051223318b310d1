//! A client that is served on the volume's thread: its requests wake that thread and no other, and
//! are answered by it. What was received together goes to the volume together, and what the volume
//! has answered by the end of a pass is sent together. A request that is not for this thread sends
//! the client back to its task.
//!
//! Invariants:
//! - What the kernel may still receive into is never unmapped or used for anything else, not even
//!   when the ring is gone.
//! - What was received and not served, and what was answered and not sent, goes back to the task with
//!   the socket. The kernel has no command for it by then, and the volume no request of it.
//! - Nothing of a connection that is cut is given to the volume after the cut, neither here nor by
//!   the task: the client may have connected again, and written the same blocks anew.
//! - Nothing waits for the client, and no pass moves more than [`MOVE_BYTES`] each way for it.
//! - Buffers that wait for the client (its payloads, its taking of replies) are given back when they
//!   have done so for a while and others have none: the client goes to its task without them.
#![allow(unsafe_code)]

mod incoming;
mod outgoing;
mod turn;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::Timespec;
use raidcore::engine::{Op, RequestError};
use tokio::sync::oneshot;

use super::NbdLimits;
use super::checks::Checks;
use super::ledger::{Message, Part, Unsent};
use super::pace::Pace;
use super::wire::{Command as Asks, Errno, Header};
use crate::front::MOVE_BYTES;
use crate::front::extent::Extent;
use crate::resident::{Came, Command, Resident, Todo};
use crate::volume::{Buffer, Share, Submit};
pub(super) use incoming::{AHEAD_BYTES_MAX, Incoming};
use incoming::{Next, Received};
use outgoing::{Outgoing, Sent};
pub(super) use turn::{Turn, Way};

/// The longest time that the kernel is to wait for.
const LINGER_MAX: Duration = Duration::from_secs(3600);

/// The commands' numbers.
const CONTINUE: u16 = 0;
const RECEIVE: u16 = 1;
const TAKES: u16 = 2;
const CALLED: u16 = 3;
const TICK: u16 = 4;
/// How many there are. The one that cancels another has its number and this.
const COMMANDS: u16 = 5;

/// Whether a request is one for this thread, as far as its header tells.
pub(super) fn suits(header: &Header, buffer_bytes: u64) -> bool {
    match header.command {
        Asks::Read | Asks::Write => u64::from(header.length) <= buffer_bytes,
        Asks::Flush | Asks::Trim | Asks::WriteZeroes => true,
        Asks::Disconnect | Asks::BlockStatus | Asks::Other(_) => false,
    }
}

/// A client that is left to its task again.
pub(super) struct Left {
    pub(super) socket: OwnedFd,
    /// What was received and not served.
    pub(super) ahead: Vec<u8>,
    /// What was answered and not sent.
    pub(super) unsent: Unsent,
}

/// A request that the volume has.
#[derive(Clone, Copy, Debug)]
struct Asked {
    handle: u64,
    op: Op,
    extent: Extent,
}

/// A set of commands.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Commands(u16);

impl Commands {
    fn has(self, number: u16) -> bool {
        self.0 & 1 << number != 0
    }

    fn add(&mut self, number: u16) {
        self.0 |= 1 << number;
    }

    fn remove(&mut self, number: u16) {
        self.0 &= !(1 << number);
    }

    fn pop(&mut self) -> Option<u16> {
        let number = (self.0 != 0).then(|| self.0.trailing_zeros() as u16)?;
        self.remove(number);
        Some(number)
    }
}

/// How it is with the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Served,
    /// It goes back to its task as soon as nothing is under way.
    Leaves,
    /// The same, and buffers are needed elsewhere.
    LeavesWithout,
}

/// What held buffers when a time began.
#[derive(Clone, Copy, Default, Debug)]
struct Held {
    /// The turn of the payload.
    payload: Option<u64>,
    /// There have been replies ever since.
    replies: bool,
}

/// See the [module](self).
pub(super) struct Direct {
    /// Gone when it has left.
    client: Option<(OwnedFd, oneshot::Sender<io::Result<Left>>)>,
    checks: Checks,
    share: Share,
    turn: Arc<Turn>,
    /// The most requests that are with the volume or have replies.
    most: usize,
    state: State,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Requests that the volume has.
    asked: Vec<Option<Asked>>,
    free: Vec<u16>,
    /// Requests that it gets next.
    next: VecDeque<(u16, Submit, Buffer)>,
    /// A request waits for the replies to others.
    is_stuck: bool,
    /// Commands that the kernel has, and gets next.
    under_way: Commands,
    wanted: Commands,
    linger: Box<Timespec>,
    held: Held,
}

impl Direct {
    /// The socket blocks, and this has arrived by it. It comes back by the receiver, or an error if the
    /// connection was cut.
    pub(super) fn new(
        (socket, incoming): (OwnedFd, Incoming),
        (checks, share): (Checks, Share),
        limits: &NbdLimits,
        turn: Arc<Turn>,
    ) -> (Self, oneshot::Receiver<io::Result<Left>>) {
        let (told, left) = oneshot::channel();
        let pace = Pace::of(limits);
        let direct = Self {
            client: Some((socket, told)),
            checks,
            share,
            turn,
            most: limits.requests.min(limits.buffers).max(1).into(),
            state: State::Served,
            incoming,
            outgoing: Outgoing::default(),
            asked: Vec::new(),
            free: Vec::new(),
            next: VecDeque::new(),
            is_stuck: false,
            under_way: Commands::default(),
            wanted: Commands::default(),
            linger: Box::new(Timespec::from(pace.turn(pace.patience).min(LINGER_MAX))),
            held: Held::default(),
        };
        (direct, left)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(|(socket, _)| socket.as_fd())
    }

    /// Requests that the volume has.
    fn with_volume(&self) -> usize {
        self.asked.len() - self.free.len()
    }

    fn want(&mut self, number: u16) {
        if !self.under_way.has(number) {
            self.wanted.add(number);
        }
    }

    /// Gives the volume what was received, as far as that is whole requests, and receives more.
    fn take_in(&mut self) {
        if self.state != State::Served || self.under_way.has(RECEIVE) {
            return;
        }
        self.is_stuck = false;
        let mut budget = self.incoming.left_of(MOVE_BYTES);
        loop {
            let in_flight = self.with_volume() + self.outgoing.len();
            let next = self.incoming.next(&self.checks, &self.share, in_flight < self.most);
            match next {
                Next::Request(asked, submit, buffer) => {
                    self.turn.set(Way::In, false);
                    let number = self.slot(asked);
                    self.next.push_back((number, submit, buffer));
                }
                // The task waits for a buffer, which takes as long as others have all.
                Next::Blocked if in_flight == 0 => return self.leave(),
                Next::Blocked => {
                    // The client has done its part.
                    self.turn.set(Way::In, false);
                    self.is_stuck = true;
                    return;
                }
                Next::NotHere => return self.leave(),
                Next::More if budget > 0 && self.incoming.fills() => {
                    let Some((socket, _)) = &self.client else { return };
                    match self.incoming.receive_now(socket.as_fd(), budget) {
                        Received::Some(bytes) => budget = budget.saturating_sub(bytes),
                        Received::All => budget = 0,
                        Received::End => return self.leave(),
                    }
                }
                Next::More => {
                    self.turn.set(Way::In, self.incoming.is_amid());
                    return self.want(RECEIVE);
                }
            }
        }
    }

    /// A name for a request.
    fn slot(&mut self, asked: Asked) -> u16 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.asked.push(None);
            // At most as many as there are requests in flight.
            (self.asked.len() - 1) as u16
        });
        self.asked[usize::from(slot)] = Some(asked);
        slot
    }

    /// Sends what was answered, as far as the socket takes it now.
    fn send(&mut self) {
        if self.outgoing.is_empty() || self.under_way.has(TAKES) || self.wanted.has(TAKES) {
            return;
        }
        let Some((socket, _)) = &self.client else { return };
        match self.outgoing.send(socket.as_fd(), MOVE_BYTES) {
            Ok(Sent { messages, is_all }) => {
                if messages > 0 {
                    self.turn.set(Way::Out, false);
                    if self.is_stuck {
                        // Other front ends have their turn in between.
                        self.want(CONTINUE);
                    }
                }
                if is_all {
                    self.turn.set(Way::Out, false);
                    self.held.replies = false;
                } else if self.state == State::Served {
                    self.turn.set(Way::Out, true);
                    self.want(TAKES);
                }
            }
            Err(_) => self.cut(),
        }
    }

    /// A reply is lost: the connection ends.
    fn cut(&mut self) {
        if let Some(socket) = self.socket() {
            self.turn.cut(socket);
        }
        self.leave();
    }

    fn leave(&mut self) {
        if self.state == State::Served {
            self.state = State::Leaves;
            // From now on the volume is waited for.
            for way in [Way::In, Way::Out] {
                self.turn.set(way, false);
            }
        }
    }

    /// Buffers have waited for the client for a while.
    fn tick(&mut self) {
        let payload = self.held.payload.is_some() && self.held.payload == self.waits_for_payload();
        if (payload || self.held.replies) && self.checks.volume.is_starved() {
            self.leave();
            self.state = State::LeavesWithout;
            self.outgoing.give_back();
        }
    }

    fn waits_for_payload(&self) -> Option<u64> {
        self.turn.waiting(Way::In).filter(|_| self.incoming.fills())
    }

    /// What follows from what has happened.
    fn conclude(&mut self) {
        if self.turn.is_called() || self.turn.is_cut() {
            self.leave();
        }
        if self.state == State::Served {
            let payload = self.waits_for_payload();
            let replies = !self.outgoing.is_empty();
            if (payload.is_some() || replies) && !self.under_way.has(TICK) {
                self.held = Held { payload, replies };
                self.want(TICK);
            }
            return;
        }
        self.wanted.0 &= u16::MAX << COMMANDS;
        for number in 0..COMMANDS {
            let cancels = number + COMMANDS;
            if self.under_way.has(number) && !self.under_way.has(cancels) {
                self.want(cancels);
            }
        }
        let is_quiet = self.under_way == Commands::default() && self.wanted.0 == 0;
        if is_quiet && self.with_volume() == 0 && self.next.is_empty() {
            self.hand_over();
        }
    }

    /// Gives the client to its task, or an error if the connection is cut.
    fn hand_over(&mut self) {
        let Some((socket, told)) = self.client.take() else { return };
        let left = if self.turn.is_cut() {
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "a reply could not be sent"))
        } else {
            Ok(Left { socket, ahead: self.incoming.take(), unsent: self.outgoing.take() })
        };
        // Without a receiver the server has gone.
        told.send(left).ok();
    }

    fn command(&mut self, number: u16) -> Option<Command> {
        let socket = self.client.as_ref()?.0.as_fd();
        let command = match number {
            CONTINUE => Command::nothing(CONTINUE),
            RECEIVE => {
                let (to, room) = self.incoming.room(MOVE_BYTES);
                // SAFETY: the memory stays mapped and untouched until the command has completed, for
                // ever if it has not when this is dropped.
                unsafe { Command::receive(RECEIVE, socket, to, room) }
            }
            TAKES => Command::when_writable(TAKES, socket),
            CALLED => Command::when_readable(CALLED, self.turn.bell()),
            // SAFETY: the limit goes when this does, which is after the command has completed, or
            // after the ring.
            TICK => unsafe { Command::wait(TICK, &self.linger) },
            cancels => Command::cancel(cancels, cancels - COMMANDS),
        };
        self.under_way.add(number);
        Some(command)
    }
}

impl Resident for Direct {
    fn begin(&mut self) -> Vec<Command> {
        self.turn.listen();
        [CONTINUE, CALLED].into_iter().filter_map(|number| self.command(number)).collect()
    }

    fn came(&mut self, number: u16, result: i32) -> Came {
        self.under_way.remove(number);
        // The thread looks for a cut before it gives the volume anything.
        if self.turn.is_called() || self.turn.is_cut() {
            self.leave();
        }
        match number {
            // An error of the socket shows again in the task.
            RECEIVE if result <= 0 => self.leave(),
            RECEIVE => self.incoming.received(result as usize),
            TICK => self.tick(),
            _ => {}
        }
        self.take_in();
        self.conclude();
        Came::Several
    }

    fn answered(
        &mut self,
        number: u16,
        buffer: Buffer,
        result: Result<(), RequestError>,
    ) -> Option<Command> {
        let asked = self.asked.get_mut(usize::from(number)).and_then(Option::take);
        let Some(Asked { handle, op, extent }) = asked else {
            unreachable!("request {number} was not with the volume");
        };
        self.free.push(number);
        let session = self.checks.session;
        let reads = op == Op::Read && result.is_ok();
        let head = match result {
            Ok(()) if reads => session.data(handle, true, extent.offset(), extent.bytes()),
            Ok(()) => session.success(handle, false),
            Err(error) => session.failure(handle, Errno::from(error)),
        };
        let (lba, blocks, edges) = extent.piece(0);
        let part = reads.then(|| Part { handle, lba, blocks, edges, buffer: Some(buffer) });
        let mut message = Message { head, part, last: true };
        if self.state == State::LeavesWithout {
            message.give_back();
        }
        self.outgoing.push(message);
        None
    }

    fn settle(&mut self) -> bool {
        if self.client.is_none() {
            return false;
        }
        if self.state != State::LeavesWithout {
            self.send();
        }
        self.conclude();
        self.wanted.0 != 0 || self.client.is_none()
    }

    fn next(&mut self) -> Option<Todo> {
        if let Some((number, submit, buffer)) = self.next.pop_front() {
            return Some(Todo::Request(number, submit, buffer));
        }
        let number = self.wanted.pop()?;
        self.command(number).map(Todo::Command)
    }

    fn has_ended(&self) -> bool {
        self.client.is_none()
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // The ring is gone, but the kernel cancels what was under way only later. What it receives
        // into is leaked then: some pages, or a buffer, for each client that is served when a volume ends.
        if self.under_way.has(RECEIVE) {
            self.incoming.leak();
        }
        if let Some(socket) = self.socket() {
            self.turn.cut(socket);
        }
    }
}

#[cfg(test)]
mod tests;
