//! One connection of a VMM, on a thread of its own. The device is served by this thread, too, or by the
//! volume's.
//!
//! Invariants:
//! - A message is read only when it is there as a whole, and only if its reply can be sent: the
//!   thread waits for nothing but events.
//! - A VMM that begins a message and does not end it is cut off after a time. One that says nothing
//!   may be silent for any time.
//! - When the server stops, requests that were taken up are answered before the connection closes.
//! - The volume's thread serves the device only while nothing in it has to be waited for. It is taken back
//!   before the end.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{RecvFlags, recv};
use tokio::time::Instant;
use vhost::vhost_user::{BackendReqHandler, Error};

use super::VhostThread;
use super::claim::{Claim, Disk, Entry};
use super::control::Control;
use super::device::Device;
use super::direct::Direct;
use super::notice::{Channel, HEAD_BYTES};
use crate::front::Admit;
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
const ANSWERS: u64 = 2;
const EVENTS: u64 = 3;

const EDGES: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);

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

/// Where the device can be served.
pub(super) struct Place {
    /// How the volume's thread takes it on; none if it does not.
    pub(super) admit: Option<Admit>,
    pub(super) thread: VhostThread,
}

/// The device while the session looks at it. The volume's thread may have wanted to, and is told then.
struct Seen<'a> {
    // Let go of first.
    device: MutexGuard<'a, Device>,
    _then: LetGo<'a>,
}

struct LetGo<'a>(&'a Control);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.events().let_go();
    }
}

impl Deref for Seen<'_> {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl DerefMut for Seen<'_> {
    fn deref_mut(&mut self) -> &mut Device {
        &mut self.device
    }
}

/// See the [module](self).
pub(super) struct Session {
    stream: UnixStream,
    peer: String,
    epoll: OwnedFd,
    device: Arc<Mutex<Device>>,
    handler: BackendReqHandler<Mutex<Device>>,
    control: Arc<Control>,
    place: Place,
    patience: Duration,
    /// Whether there may be something to read.
    may_hear: bool,
    /// Whether a message has changed the device since its place was looked at.
    has_heard: bool,
    /// Whether the volume's thread serves the device.
    is_direct: bool,
    /// Since when a message is not complete.
    incomplete: Option<Instant>,
    /// Since when it has not got the disk.
    shut_out: Option<Instant>,
    /// The use of the disk, once it has it.
    claim: Option<Claim>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // While it has the disk, however it has ended.
        self.take_back();
        self.device().forsake();
    }
}

impl Session {
    /// Serves a connection.
    pub(super) fn new(
        stream: UnixStream,
        peer: String,
        (control, device): (Arc<Control>, Device),
        place: Place,
        patience: Duration,
    ) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let hear_of = |file: BorrowedFd<'_>, number| {
            epoll::add(&epoll, file, epoll::EventData::new_u64(number), EDGES)
        };
        hear_of(stream.as_fd(), SOCKET)?;
        hear_of(control.bell().file(), BELL)?;
        hear_of(control.mailbox().bell().file(), ANSWERS)?;
        hear_of(control.events().file(), EVENTS)?;
        let device = Arc::new(Mutex::new(device));
        let handler = BackendReqHandler::from_stream(stream.try_clone()?, Arc::clone(&device));
        Ok(Self {
            stream,
            peer,
            epoll,
            device,
            handler,
            control,
            place,
            patience,
            may_hear: true,
            has_heard: false,
            is_direct: false,
            incomplete: None,
            shut_out: None,
            claim: None,
        })
    }

    /// Serves until the end.
    pub(super) fn run(mut self, disk: &Disk, guest: &Guest) -> Ended {
        let mut busy = None;
        let Err(ended) = self.serve(disk, guest, &mut busy);
        if let Some(claim) = &self.claim {
            claim.leaves();
        }
        // Nothing of the VM is touched when its VMM sees the end.
        self.take_back();
        // It sees it now, and is not kept waiting for what the volume has.
        self.stream.shutdown(std::net::Shutdown::Both).ok();
        ended
    }

    fn serve<'a>(
        &mut self,
        disk: &Disk,
        guest: &'a Guest,
        busy: &mut Option<Busy<'a>>,
    ) -> Result<std::convert::Infallible, Ended> {
        loop {
            if self.control.is_cut() {
                return Err(Ended::GaveWay);
            }
            self.hear()?;
            let stops = self.control.stops();
            let waits = !stops && self.wants_in(disk, guest, busy)?;
            let mut device = self.device();
            let takes = self.claim.is_some() && !stops;
            if takes {
                device.start_rings();
                device.tell_size();
            }
            drop(device);
            self.find_place(takes)?;
            let mut device = self.device();
            let again = !self.is_direct && device.turn(takes);
            device.tell_broken();
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
        if self.claim.is_some() {
            return Ok(false);
        }
        match disk.enter(&self.peer, can_wait) {
            Entry::Taken(by) => {
                let since = *self.shut_out.get_or_insert_with(Instant::now);
                return if since.elapsed() < GRACE { Ok(true) } else { Err(Ended::Taken(by)) };
            }
            Entry::Soon => return Ok(true),
            Entry::In(entered) => (self.claim, self.shut_out) = (Some(entered), None),
        }
        *busy = Some(guest.busy().ok_or(Ended::GaveWay)?);
        Ok(false)
    }

    /// Has the device served where it is to be, if it is to be served at all.
    fn find_place(&mut self, takes: bool) -> Result<(), Ended> {
        if self.control.is_returned() {
            self.place.admit = None;
        }
        let Some(admit) = self.place.admit.clone().filter(|_| takes) else {
            self.take_back();
            return Ok(());
        };
        if !std::mem::take(&mut self.has_heard) {
            return Ok(());
        }
        let can_be_direct = match self.place.thread {
            VhostThread::Own => false,
            VhostThread::Volume => true,
            VhostThread::ByMemory => self.device().stays_in_memory(),
        };
        match (can_be_direct, self.is_direct) {
            (true, false) => self.hand_over(&admit)?,
            // Queues may have been started, or enabled.
            (true, true) => self.control.events().nudge(),
            (false, _) => self.take_back(),
        }
        Ok(())
    }

    /// Leaves the device to the volume's thread.
    fn hand_over(&mut self, admit: &Admit) -> io::Result<()> {
        let control = Arc::clone(&self.control);
        // What was heard of before stays.
        control.events().hear()?;
        epoll::delete(&self.epoll, control.events().file())?;
        self.is_direct = true;
        let hand = self.device().hand_over();
        admit(Box::new(Direct::new(hand, Arc::clone(&self.device), control)));
        tracing::debug!(self.peer, "the volume's thread serves the queues of a VM");
        Ok(())
    }

    /// Serves the device here from now on.
    fn take_back(&mut self) {
        if !std::mem::take(&mut self.is_direct) {
            return;
        }
        self.device().take_back();
        // The volume's thread sees that, and lets go of it.
        let events = self.control.events();
        events.nudge();
        let data = epoll::EventData::new_u64(EVENTS);
        if let Err(error) = epoll::add(&self.epoll, events.file(), data, EDGES) {
            tracing::error!(%error, "a VM's kicks are not heard any more");
            self.control.cut();
        }
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
            let handled = self.handler.handle_request();
            self.has_heard = true;
            // It has looked at the device.
            self.control.events().let_go();
            match handled {
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
        let (bell, answers) = (control.bell(), control.mailbox().bell());
        let changed = || {
            let comes_back = self.is_direct && control.is_returned();
            let device = self.device();
            let is_asked = device.is_behind() || device.is_lost() || device.has_news();
            control.stops() != stops || control.is_cut() || comes_back || is_asked
        };
        // The volume's thread may have heard of a kick when the device was not its any more.
        let has_work = || !self.device().is_quiet() || control.events().has_kicks();
        let may_sleep = !again && bell.park(changed);
        // The volume's thread looks for answers by itself.
        let sleeps = may_sleep && (self.is_direct || answers.park(has_work));
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
        let waited = epoll::wait(&self.epoll, buffer, timeout.as_ref());
        bell.unpark();
        answers.unpark();
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Ended::System(error.into())),
        }
        // A message that is not complete is looked at again when its time is over.
        self.may_hear |= self.incomplete.is_some();
        for event in events {
            match event.data.u64() {
                SOCKET => self.may_hear = true,
                EVENTS => control.events().hear()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn device(&self) -> Seen<'_> {
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        Seen { device, _then: LetGo(&self.control) }
    }
}
