//! The requests of a session that the volume has, or is to get.
//!
//! Data are copied once: from the VM's memory into a buffer of the volume before a write begins,
//! and back when a read has ended. So parity is of the same bytes as the data, although a guest may
//! change its memory at any time; and a member that answers late, when the array has long made up
//! for it, does not write into memory that the guest uses for something else.
//!
//! Invariants:
//! - A job is here from [`Jobs::begin`] until its last piece has ended.
//! - Nothing waits for a buffer while it holds one that it does not need.
//! - A look at them moves no more than [`MOVE_BYTES`] each way, and a piece: others that the thread serves
//!   have their turn in between.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use raidcore::engine::{Op, RequestError};
use raidcore::units::BLOCK_BYTES;

use super::events::Events;
use super::memory::{Ram, Segment, Segments};
use super::request::{FAILED, OK};
use crate::front::extent::Extent;
use crate::front::{MOVE_BYTES, RANGE_BLOCKS_MAX};
use crate::volume::{Bell, Buffer, Edges, Port, Share, Submit, Touched, Volume};

/// The most requests of a session at a time; the others stay in their rings.
pub(super) const JOBS_MAX: usize = 1024;

/// A request for the volume.
pub(super) struct Job {
    pub(super) ring: u16,
    pub(super) head: u16,
    pub(super) op: Op,
    pub(super) fua: bool,
    pub(super) data: Segments,
    pub(super) skip: u64,
    pub(super) status: Segment,
    extent: Extent,
    /// The next piece for the volume.
    next: u32,
    /// Pieces that have not ended.
    left: u32,
    result: Outcome,
}

/// How a job has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// With this status.
    Status(u8),
    /// The array has ended before: it is the next process's.
    Left,
}

impl Job {
    /// A request of these blocks.
    pub(super) fn new(
        volume: &Volume,
        (ring, head): (u16, u16),
        (op, fua): (Op, bool),
        range: Touched,
        (data, skip, status): (Segments, u64, Segment),
    ) -> Self {
        let most = match op {
            Op::Read | Op::Write => volume.max_request_blocks(),
            Op::Flush | Op::Discard | Op::WriteZeroes => RANGE_BLOCKS_MAX,
        };
        let extent = Extent::new(range, most, volume);
        let (left, result) = (extent.pieces(), Outcome::Status(OK));
        Self { ring, head, op, fua, data, skip, status, extent, next: 0, left, result }
    }

    /// The size of its data.
    pub(super) fn bytes(&self) -> u32 {
        self.extent.bytes()
    }

    /// A piece's place in the data.
    fn offset(&self, piece: u32) -> u64 {
        let (lba, _, edges) = self.extent.piece(piece);
        let at = lba.0 * BLOCK_BYTES as u64 + u64::from(edges.front);
        self.skip + (at - self.extent.offset())
    }
}

/// A piece that has ended.
struct Ended {
    cookie: u64,
    buffer: Buffer,
    result: Result<(), RequestError>,
}

/// Where the volume's answers come, and what wakes the session.
pub(super) struct Mailbox {
    ended: Mutex<Vec<Ended>>,
    /// Whether a buffer that is wanted has come. The bell does not keep that for a thread that is
    /// about to sleep.
    woken: AtomicBool,
    bell: Bell,
    /// What wakes the volume's thread, if that serves the device.
    events: Arc<Events>,
}

impl Mailbox {
    pub(super) fn new(events: Arc<Events>) -> std::io::Result<Arc<Self>> {
        let (ended, woken) = (Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(Self { ended, woken, bell: Bell::new()?, events }))
    }

    /// Whether no answer has come.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Whether nothing has come. That a buffer has is told once.
    fn is_quiet(&self) -> bool {
        !self.woken.swap(false, Ordering::SeqCst) && self.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Mailbox {
    fn completed(&self, cookie: u64, buffer: Buffer, result: Result<(), RequestError>) {
        self.lock().push(Ended { cookie, buffer, result });
        self.bell.ring();
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.bell.ring();
        self.events.nudge();
    }
}

type Wanted = Pin<Box<dyn Future<Output = Buffer> + Send>>;

/// See the [module](self).
pub(super) struct Jobs {
    volume: Volume,
    share: Share,
    mailbox: Arc<Mailbox>,
    port: Arc<dyn Port>,
    slots: Vec<Option<Job>>,
    free: Vec<u32>,
    /// Jobs with pieces that the volume has not got.
    backlog: VecDeque<u32>,
    /// A buffer that the first of them waits for.
    wanted: Option<Wanted>,
    /// Answers that have not been looked at.
    answers: VecDeque<Ended>,
    /// Whether the last look was over before all was moved.
    is_amid: bool,
}

impl Jobs {
    pub(super) fn new(volume: Volume, mailbox: Arc<Mailbox>) -> Self {
        let port: Arc<dyn Port> = Arc::<Mailbox>::clone(&mailbox);
        Self {
            share: volume.share(),
            volume,
            mailbox,
            port,
            slots: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            wanted: None,
            answers: VecDeque::new(),
            is_amid: false,
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing has come that was not looked at: no answer, and no buffer. That a buffer has
    /// is told once, and then [`Jobs::submit`] is due.
    pub(super) fn is_quiet(&self) -> bool {
        self.mailbox.is_quiet() && !self.has_more()
    }

    /// Whether there is more to be done at once.
    pub(super) fn has_more(&self) -> bool {
        self.is_amid || !self.answers.is_empty()
    }

    /// No buffer is waited for any more.
    pub(super) fn want_nothing(&mut self) {
        self.wanted = None;
    }

    /// Takes a request up.
    pub(super) fn begin(&mut self, job: Job) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // At most as many as all rings have descriptors.
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(job);
        self.backlog.push_back(slot);
    }

    /// Gives the volume as much as there are buffers for. What a guest writes is had from `ram`; a
    /// request without is not to be carried out any more, and its other pieces end as they have.
    pub(super) fn submit(&mut self, ram: Option<&Ram>, mut ended: impl FnMut(Job, Outcome)) {
        let mut moved = 0;
        self.is_amid = false;
        while let Some(&slot) = self.backlog.front() {
            if moved >= MOVE_BYTES {
                self.is_amid = true;
                return;
            }
            let Some(job) = self.slots[slot as usize].as_mut() else {
                self.backlog.pop_front();
                continue;
            };
            let parts = job.extent.pieces();
            if job.next == parts {
                self.backlog.pop_front();
                continue;
            }
            let Some(ram) = ram else {
                job.left -= parts - job.next;
                (job.next, job.result) = (parts, Outcome::Left);
                self.end_if_done(slot, &mut ended);
                continue;
            };
            let Some(mut buffer) = self.buffer() else { return };
            let Some(job) = self.slots[slot as usize].as_mut() else { continue };
            let piece = job.next;
            job.next += 1;
            let (lba, blocks, edges) = job.extent.piece(piece);
            let here = edges.within(blocks);
            let offset = job.offset(piece);
            moved += if job.op == Op::Write { here.len() } else { 0 };
            let is_had = job.op != Op::Write || ram.read(&job.data, offset, &mut buffer[here]);
            // What has vanished reads as zeros, which the guest has not written.
            if !is_had || ram.is_lost() {
                drop(buffer);
                (job.left, job.result) = (job.left - 1, Outcome::Status(FAILED));
                self.end_if_done(slot, &mut ended);
                continue;
            }
            let submit = Submit { op: job.op, lba, blocks, fua: job.fua, edges };
            let cookie = u64::from(piece) << 32 | u64::from(slot);
            self.volume.submit(&self.port, cookie, submit, buffer);
        }
    }

    /// Looks at what has ended. What was read goes to `ram`, if that is to be touched any more.
    pub(super) fn collect(&mut self, ram: Option<&Ram>, mut ended: impl FnMut(Job, Outcome)) {
        self.answers.extend(self.mailbox.lock().drain(..));
        let mut moved = 0;
        while moved < MOVE_BYTES
            && let Some(Ended { cookie, buffer, result }) = self.answers.pop_front()
        {
            let (slot, piece) = (cookie as u32, (cookie >> 32) as u32);
            let Some(job) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else {
                tracing::error!(cookie, "an answer to no request of a VM");
                continue;
            };
            job.left -= 1;
            match result {
                Err(RequestError::Stopping) => job.result = Outcome::Left,
                Err(RequestError::Io | RequestError::OutOfRange) => job.fail(),
                Ok(()) if job.op == Op::Read => {
                    let (_, blocks, edges): (_, u32, Edges) = job.extent.piece(piece);
                    let data = &buffer[edges.within(blocks)];
                    let offset = job.offset(piece);
                    moved += data.len();
                    if ram.is_some_and(|ram| !ram.write(&job.data, offset, data)) {
                        job.fail();
                    }
                }
                Ok(()) => {}
            }
            drop(buffer);
            self.end_if_done(slot, &mut ended);
        }
    }

    fn end_if_done(&mut self, slot: u32, ended: &mut impl FnMut(Job, Outcome)) {
        let at = &mut self.slots[slot as usize];
        if let Some(job) = at.take_if(|job| job.left == 0) {
            self.free.push(slot);
            let outcome = job.result;
            ended(job, outcome);
        }
    }

    /// A buffer, or a note that one is wanted: the session is woken when it is there.
    fn buffer(&mut self) -> Option<Buffer> {
        if self.wanted.is_none() {
            if let Some(buffer) = self.share.try_buffer() {
                return Some(buffer);
            }
            let share = self.share.clone();
            self.wanted = Some(Box::pin(async move { share.buffer().await }));
        }
        let waker = Waker::from(Arc::clone(&self.mailbox));
        let mut context = Context::from_waker(&waker);
        match self.wanted.as_mut()?.as_mut().poll(&mut context) {
            Poll::Pending => None,
            Poll::Ready(buffer) => {
                self.wanted = None;
                Some(buffer)
            }
        }
    }
}

impl Job {
    fn fail(&mut self) {
        if self.result != Outcome::Left {
            self.result = Outcome::Status(FAILED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_comes_before_the_session_sleeps_is_not_missed() {
        let events = Arc::new(Events::new().expect("descriptors"));
        let mailbox = Mailbox::new(events).expect("a bell");
        Waker::from(Arc::clone(&mailbox)).wake();
        assert!(!mailbox.bell().park(|| !mailbox.is_quiet()), "there is something to be done");
        assert!(mailbox.bell().park(|| !mailbox.is_quiet()), "it was done");
    }
}
