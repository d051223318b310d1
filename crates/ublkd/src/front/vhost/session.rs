//! One connection of a VMM, on a thread of its own.
//!
//! Invariants:
//! - A message is read only when it is there as a whole, and only if its reply can be sent: the
//!   thread waits for nothing but events.
//! - A VMM that begins a message and does not end it is cut off after a time. One that says nothing
//!   may be silent for any time.
//! - When the server stops, requests that were taken up are answered before the connection closes.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{RecvFlags, recv};
use tokio::time::Instant;
use vhost::vhost_user::{BackendReqHandler, Error};

use super::claim::{Claim, Disk, Entry};
use super::control::Control;
use super::device::{Device, QUEUE_EVENTS};
use super::notice::{Channel, HEAD_BYTES};
use crate::guests::{Busy, Guest};

/// Where a message's head has its number and its size.
const REQUEST_AT: usize = 0;
const SIZE_AT: usize = 8;
/// The largest message; `vhost` refuses what says that it is larger.
const BODY_BYTES_MAX: u64 = 4096;

/// How often a session that waits for the disk asks again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How long it asks while another session has it: that one's end may not have been noticed yet.
const GRACE: Duration = Duration::from_secs(1);

/// The event numbers.
const SOCKET: u64 = 0;
const BELL: u64 = 1;
const _: () = assert!(BELL < QUEUE_EVENTS);

/// Why a session ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the VMM has closed the connection")]
    Closed,
    #[error("the server stops")]
    Stopped,
    #[error("another connection took its place, as it has served nothing")]
    GaveWay,
    #[error("a message was not completed in time")]
    Slow,
    #[error("the VMM does not take its replies")]
    Deaf,
    #[error("a message was refused: {0}")]
    Refused(Error),
    #[error("the disk is used by another VM, {0}")]
    Taken(String),
    #[error("the VM's memory has vanished: its file was truncated, or there is no room for it")]
    Lost,
    #[error("the session can't go on: {0}")]
    System(#[from] io::Error),
}

/// See the [module](self).
pub(super) struct Session {
    stream: UnixStream,
    peer: String,
    epoll: Arc<rustix::fd::OwnedFd>,
    device: Arc<Mutex<Device>>,
    handler: BackendReqHandler<Mutex<Device>>,
    control: Arc<Control>,
    patience: Duration,
    /// Whether there may be something to read.
    may_hear: bool,
    /// Since when a message is not complete.
    incomplete: Option<Instant>,
    /// Since when it has not got the disk.
    shut_out: Option<Instant>,
}

impl Session {
    /// Serves a connection by a device that `make` makes; it is told what its queues' events are
    /// added to.
    pub(super) fn new(
        stream: UnixStream,
        peer: String,
        control: Arc<Control>,
        patience: Duration,
        make: impl FnOnce(Arc<rustix::fd::OwnedFd>) -> Device,
    ) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let edges = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&*epoll, &stream, epoll::EventData::new_u64(SOCKET), edges)?;
        let bell = control.mailbox().bell().file();
        epoll::add(&*epoll, bell, epoll::EventData::new_u64(BELL), edges)?;
        let device = Arc::new(Mutex::new(make(Arc::clone(&epoll))));
        let handler = BackendReqHandler::from_stream(stream.try_clone()?, Arc::clone(&device));
        Ok(Self {
            stream,
            peer,
            epoll,
            device,
            handler,
            control,
            patience,
            may_hear: true,
            incomplete: None,
            shut_out: None,
        })
    }

    /// Serves until the end.
    pub(super) fn run(mut self, disk: &Disk, guest: &Guest) -> Ended {
        let (mut claim, mut busy) = (None, None);
        let Err(ended) = self.serve(disk, guest, &mut claim, &mut busy);
        if let Some(claim) = &claim {
            claim.leaves();
        }
        // The VMM sees it now, and is not kept waiting for what the volume has.
        self.stream.shutdown(std::net::Shutdown::Both).ok();
        self.device().forsake();
        ended
    }

    fn serve<'a>(
        &mut self,
        disk: &Disk,
        guest: &'a Guest,
        claim: &mut Option<Claim>,
        busy: &mut Option<Busy<'a>>,
    ) -> Result<std::convert::Infallible, Ended> {
        loop {
            if self.control.is_cut() {
                return Err(Ended::GaveWay);
            }
            self.hear()?;
            let stops = self.control.stops();
            let waits = !stops && self.wants_in(disk, guest, claim, busy)?;
            let mut device = self.device();
            let takes = claim.is_some() && !stops;
            if takes {
                device.start_rings();
                device.tell_size();
            }
            let again = device.turn(takes);
            if device.is_lost() {
                return Err(Ended::Lost);
            }
            if stops && device.is_idle() {
                return Err(Ended::Stopped);
            }
            drop(device);
            self.sleep(again, waits, stops)?;
        }
    }

    /// Takes the disk when it is needed. Whether it has to wait for it.
    fn wants_in<'a>(
        &mut self,
        disk: &Disk,
        guest: &'a Guest,
        claim: &mut Option<Claim>,
        busy: &mut Option<Busy<'a>>,
    ) -> Result<bool, Ended> {
        let device = self.device();
        let (wants, can_wait) = (device.wants_the_disk(), device.can_wait());
        drop(device);
        if !wants {
            self.shut_out = None;
            return Ok(false);
        }
        // It keeps it when its queues stop: a guest that is paused has its file systems in memory.
        if claim.is_some() {
            return Ok(false);
        }
        match disk.enter(&self.peer, can_wait) {
            Entry::Taken(by) => {
                let since = *self.shut_out.get_or_insert_with(Instant::now);
                return if since.elapsed() < GRACE { Ok(true) } else { Err(Ended::Taken(by)) };
            }
            Entry::Soon => return Ok(true),
            Entry::In(entered) => (*claim, self.shut_out) = (Some(entered), None),
        }
        *busy = Some(guest.busy().ok_or(Ended::GaveWay)?);
        Ok(false)
    }

    /// Carries out the messages that are there.
    fn hear(&mut self) -> Result<(), Ended> {
        while self.may_hear {
            if !self.is_complete()? {
                self.may_hear = false;
                if self.there()? == 0 {
                    self.incomplete = None;
                    return Ok(());
                }
                let since = *self.incomplete.get_or_insert_with(Instant::now);
                return if since.elapsed() < self.patience { Ok(()) } else { Err(Ended::Slow) };
            }
            self.incomplete = None;
            let mut writable = [PollFd::new(&self.stream, PollFlags::OUT)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut writable, Some(&at_once)).map_err(io::Error::from)? == 0 {
                return Err(Ended::Deaf);
            }
            match self.handler.handle_request() {
                Ok(()) => {}
                Err(Error::Disconnected) => return Err(Ended::Closed),
                Err(error) => return Err(Ended::Refused(error)),
            }
        }
        Ok(())
    }

    /// Whether a whole message is there.
    fn is_complete(&self) -> Result<bool, Ended> {
        let mut head = [0; HEAD_BYTES];
        let peeked = recv(&self.stream, &mut head, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        let got = match peeked {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => return Err(Ended::Closed),
            Ok((got, _)) => got,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(Ended::System(error.into())),
        };
        if got < HEAD_BYTES {
            return Ok(false);
        }
        let word = |at| u32::from_ne_bytes(std::array::from_fn(|i| head[at + i]));
        let size = u64::from(word(SIZE_AT));
        let there = self.there()?;
        let complete = size > BODY_BYTES_MAX || there >= HEAD_BYTES as u64 + size;
        if complete && Channel::is_brought_by(word(REQUEST_AT)) {
            let channel = Channel::of_next_message(&self.stream)?;
            self.device().set_channel(channel);
        }
        Ok(complete)
    }

    /// How many bytes can be read.
    fn there(&self) -> io::Result<u64> {
        Ok(rustix::io::ioctl_fionread(&self.stream)?)
    }

    /// Waits for events, unless there is something to be done at once.
    fn sleep(&mut self, again: bool, waits: bool, stops: bool) -> Result<(), Ended> {
        let control = Arc::clone(&self.control);
        let bell = control.mailbox().bell();
        let changed = || control.stops() != stops || control.is_cut();
        let has_work = |device: &Device| !device.is_quiet() || device.is_behind();
        let sleeps = !again && bell.park(|| has_work(&self.device()) || changed());
        let left = self.incomplete.map(|since| self.patience.saturating_sub(since.elapsed()));
        let longest = match (sleeps, waits) {
            (false, _) => Some(Duration::ZERO),
            (true, true) => Some(ASK_AGAIN),
            (true, false) => left,
        };
        let timeout = longest.map(|longest| Timespec {
            tv_sec: longest.as_secs() as i64,
            tv_nsec: longest.subsec_nanos().into(),
        });
        let mut events = Vec::with_capacity(16);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        let waited = epoll::wait(&*self.epoll, buffer, timeout.as_ref());
        bell.unpark();
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Ended::System(error.into())),
        }
        // A message that is not complete is looked at again when its time is over.
        self.may_hear |= self.incomplete.is_some();
        for event in events {
            match event.data.u64() {
                SOCKET => self.may_hear = true,
                BELL => {}
                number => self.device().kicked(number),
            }
        }
        Ok(())
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
