//! The array as its front ends see it: buffers, submission, completion.
//!
//! Invariants:
//! - A tag is on the free list, or held by exactly one [`Buffer`].
//! - Only the holder of a tag's buffer touches its memory: the front end before it submits and
//!   after completion, the data thread in between. Only the data thread exchanges the memory, while
//!   it holds the buffer.
//! - Every submission is completed exactly once, even if the data thread is gone. The closing
//!   thread drains the queue after it closes, and a submitter checks for the closure after it
//!   submits, so one of the two completes it.
#![allow(unsafe_code)]

mod bell;
mod bytes;
mod pool;
mod size;
mod tags;

use std::future::Future;
use std::io;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crossbeam_queue::ArrayQueue;
use raidcore::engine::{Op, RequestError};
use raidcore::units::{BLOCK_BYTES, Lba, Tag};

use crate::region::Region;
pub(crate) use bell::Bell;
pub use bytes::Edges;
pub(crate) use bytes::Touched;
use pool::{Held, Pool};
pub use size::Size;

/// The parameters of a volume.
#[derive(Clone, Debug)]
pub struct VolumeConfig {
    /// The array's name.
    pub name: String,
    /// Its capacity in blocks, at first.
    pub blocks: u64,
    /// Blocks in a chunk: I/O that stays within one is served by one member.
    pub chunk_blocks: u32,
    /// Blocks of data in a stripe: aligned writes of this size are the cheapest.
    pub stripe_blocks: u32,
    /// Aligned discards and write-zeroes of this size change a map and nothing else.
    pub discard_blocks: u32,
    /// The most blocks that a read or write moves: the size of a buffer.
    pub max_request_blocks: u32,
    /// How many buffers there are: the most requests in flight.
    pub tags: u16,
}

/// A request of a front end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submit {
    /// What to do.
    pub op: Op,
    /// The first block. Ignored for a flush.
    pub lba: Lba,
    /// How many blocks; at most [`Volume::max_request_blocks`] for reads and writes, ignored for a
    /// flush.
    pub blocks: u32,
    /// Durable before it completes (writes, discards, write-zeroes).
    pub fua: bool,
    /// The parts of its blocks that a write, discard or write-zeroes does not change. The content
    /// of a write's buffer there is ignored. The change is atomic with regard to others of these
    /// blocks. Ignored for reads and flushes.
    pub edges: Edges,
}

impl Submit {
    /// Whether a buffer of this many blocks is large enough for it.
    pub(crate) fn fits(&self, buffer_blocks: u32) -> bool {
        let moves_bytes = matches!(self.op, Op::Read | Op::Write);
        !moves_bytes || self.blocks <= buffer_blocks
    }
}

/// Where a front end receives completions.
pub trait Port: Send + Sync {
    /// The request submitted with `cookie` has ended; after a read without error the buffer begins
    /// with the blocks read. Called on the data thread, which serves nothing else meanwhile, or
    /// within [`Volume::submit`] if the request is refused at once. It must not block or submit.
    fn completed(&self, cookie: u64, buffer: Buffer, result: Result<(), RequestError>);
}

/// An array that can be read and written. Clones are handles to the same array.
#[derive(Clone)]
pub struct Volume {
    handle: Arc<Handle>,
}

impl Volume {
    /// A volume with no array behind it yet, and the receiving end for the one that will be.
    ///
    /// # Panics
    /// If the kernel refuses memory or an eventfd.
    #[must_use]
    pub fn channel(config: VolumeConfig) -> (Self, Submissions) {
        Self::try_channel(config).expect("memory and an eventfd for a volume")
    }

    /// The same, for a caller that can handle the errors.
    pub(crate) fn try_channel(config: VolumeConfig) -> io::Result<(Self, Submissions)> {
        let slot_bytes = config.max_request_blocks as usize * BLOCK_BYTES;
        let tags = usize::from(config.tags.max(1));
        let region = Region::new(slot_bytes * tags)?;
        let memory = (0..tags).map(|tag| AtomicPtr::new(region.at(tag * slot_bytes))).collect();
        let shared = Arc::new(Shared {
            size: Size::new(config.blocks),
            config,
            slot_bytes,
            memory,
            regions: Mutex::new(vec![region]),
            pool: Pool::new(tags as u16),
            queue: ArrayQueue::new(tags),
            closed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            bell: Arc::new(Bell::new()?),
        });
        let handle = Arc::new(Handle { shared: Arc::clone(&shared) });
        Ok((Self { handle }, Submissions { shared }))
    }

    /// The array's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared().config.name
    }

    /// Its capacity in blocks, which may grow.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.shared().size.blocks()
    }

    /// Its size, to be followed.
    #[must_use]
    pub fn size(&self) -> &Size {
        &self.shared().size
    }

    /// Blocks in a chunk.
    #[must_use]
    pub fn chunk_blocks(&self) -> u32 {
        self.shared().config.chunk_blocks
    }

    /// Blocks of data in a stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u32 {
        self.shared().config.stripe_blocks
    }

    /// Blocks whose aligned discards and write-zeroes change a map and nothing else.
    #[must_use]
    pub fn discard_blocks(&self) -> u32 {
        self.shared().config.discard_blocks
    }

    /// The most blocks that a read or write moves.
    #[must_use]
    pub fn max_request_blocks(&self) -> u32 {
        self.shared().config.max_request_blocks
    }

    /// How many buffers there are: the most requests in flight.
    #[must_use]
    pub fn tags(&self) -> u16 {
        self.shared().config.tags
    }

    /// A share of the buffers, which holds none yet.
    #[must_use]
    pub fn share(&self) -> Share {
        Share { shared: Arc::clone(self.shared()), held: Some(Arc::default()) }
    }

    /// A buffer, once one is free, in the order of requests. It counts in no share.
    pub async fn buffer(&self) -> Buffer {
        self.shared().buffer(&None).await
    }

    /// A buffer, once one is free; the thread sleeps until then. It counts in no share.
    #[must_use]
    pub fn buffer_blocking(&self) -> Buffer {
        self.try_buffer().unwrap_or_else(|| block_on(self.buffer()))
    }

    /// A buffer, if one is free. It counts in no share.
    #[must_use]
    pub fn try_buffer(&self) -> Option<Buffer> {
        self.shared().try_buffer(&None)
    }

    /// Whether a share without any buffer waits for one: buffers that wait for something else than
    /// the array should be given back.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        self.shared().is_starved()
    }

    /// Submits `request`; `port` gets `cookie`, the buffer and the result when it has ended. The
    /// buffer holds the data to write, or receives the data read; every request needs one. A
    /// request that is larger than the buffer, or that comes after the end, completes before this
    /// returns.
    pub fn submit(&self, port: &Arc<dyn Port>, cookie: u64, request: Submit, buffer: Buffer) {
        let shared = self.shared();
        assert!(Arc::ptr_eq(&buffer.shared, shared), "a buffer of another volume");
        let submission = Submission { port: Arc::clone(port), cookie, request, buffer };
        if !request.fits(shared.config.max_request_blocks) {
            submission.complete(Err(RequestError::OutOfRange));
            return;
        }
        if let Err(submission) = shared.queue.push(submission) {
            unreachable!("more submissions than buffers: {:?}", submission.request);
        }
        fence(Ordering::SeqCst);
        if shared.closed.load(Ordering::SeqCst) {
            shared.refuse_queued();
        } else {
            shared.bell.ring();
        }
    }

    /// Whether this is the bell of its thread.
    pub(crate) fn is_woken_by(&self, bell: &Arc<Bell>) -> bool {
        Arc::ptr_eq(&self.shared().bell, bell)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

/// A connection's or front end's share of a volume's buffers. It gets at most as many as it leaves
/// free, so that another share always finds some, unless there are very many of them.
#[derive(Clone)]
pub struct Share {
    shared: Arc<Shared>,
    held: Held,
}

impl Share {
    /// A buffer, once this share may have one, in the order of requests.
    pub async fn buffer(&self) -> Buffer {
        self.shared.buffer(&self.held).await
    }

    /// The same; the thread sleeps until then.
    #[must_use]
    pub fn buffer_blocking(&self) -> Buffer {
        block_on(self.buffer())
    }

    /// A buffer, if this share may have one.
    #[must_use]
    pub fn try_buffer(&self) -> Option<Buffer> {
        self.shared.try_buffer(&self.held)
    }
}

/// A request's place in the array, and its memory: `max_request_blocks` blocks with the content of
/// its last use. Dropping it frees the place.
pub struct Buffer {
    shared: Arc<Shared>,
    tag: Tag,
    held: Held,
}

impl Buffer {
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let base = self.shared.memory[usize::from(self.tag.0)].load(Ordering::Relaxed);
        // SAFETY: the memory of a tag is `slot_bytes` long, lives as long as `shared`, and belongs
        // to the holder of the tag's only buffer; giving the buffer to the data thread and back
        // orders its accesses after and before ours.
        unsafe { std::slice::from_raw_parts(base, self.shared.slot_bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let base = self.shared.memory[usize::from(self.tag.0)].load(Ordering::Relaxed);
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(base, self.shared.slot_bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.shared.free(self.tag, &self.held);
    }
}

/// A submitted request.
pub struct Submission {
    /// Where the answer goes.
    pub port: Arc<dyn Port>,
    /// The submitter's name for it.
    pub cookie: u64,
    /// What is asked.
    pub request: Submit,
    /// Its memory.
    pub buffer: Buffer,
}

impl Submission {
    /// Sends the result to the submitter.
    pub fn complete(self, result: Result<(), RequestError>) {
        self.port.completed(self.cookie, self.buffer, result);
    }
}

/// The receiving end of a volume. When it is dropped, queued and later submissions complete with
/// [`RequestError::Stopping`].
pub struct Submissions {
    shared: Arc<Shared>,
}

impl Submissions {
    /// The next request, if there is one.
    pub fn pop(&mut self) -> Option<Submission> {
        self.shared.queue.pop()
    }

    /// The next request, as soon as there is one; `None` when the last [`Volume`] is gone.
    pub fn recv(&mut self) -> Option<Submission> {
        loop {
            if let Some(submission) = self.pop() {
                return Some(submission);
            }
            if self.is_abandoned() {
                return self.pop();
            }
            let bell = &self.shared.bell;
            if bell.park(|| self.has_work() || self.is_abandoned()) {
                bell.listen();
                bell.unpark();
            }
        }
    }

    /// Whether a request is waiting.
    pub(crate) fn has_work(&self) -> bool {
        !self.shared.queue.is_empty()
    }

    /// Whether the last [`Volume`] is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::SeqCst)
    }

    /// What wakes the receiver.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.shared.bell
    }

    /// How large the volume is.
    #[must_use]
    pub fn size(&self) -> &Size {
        &self.shared.size
    }

    /// How the volume was configured.
    pub(crate) fn config(&self) -> &VolumeConfig {
        &self.shared.config
    }

    /// The memory of the tags.
    pub(crate) fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Submissions {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.shared.refuse_queued();
    }
}

/// The memory of all tags, for the data thread.
pub(crate) struct PayloadMemory {
    shared: Arc<Shared>,
}

impl PayloadMemory {
    /// The address and size of what all tags have at first, one after the other.
    pub(crate) fn initial(&self) -> (*mut u8, usize) {
        let regions = self.regions();
        (regions[0].at(0), regions[0].bytes())
    }

    /// The size of a tag's memory.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.shared.slot_bytes
    }

    /// The tags whose buffers were taken since the last call.
    pub(crate) fn taken(&self, visit: impl FnMut(Tag)) {
        self.shared.taken(visit);
    }

    /// The buffer of a tag, if it is free; it can't be taken until this is dropped.
    pub(crate) fn take(&self, tag: Tag) -> Option<Buffer> {
        self.shared.buffer_of(tag)
    }

    /// Gives a tag other memory of the same size, which is kept. The data thread must hold its
    /// buffer.
    pub(crate) fn exchange(&self, tag: Tag, memory: *mut u8) {
        self.shared.memory[usize::from(tag.0)].store(memory, Ordering::Relaxed);
    }

    /// Keeps memory mapped for as long as a buffer may lie in it.
    pub(crate) fn keep(&self, region: Region) {
        self.regions().push(region);
    }

    /// Keeps all memory mapped for ever, since a device may still write into it.
    pub(crate) fn leak(&self) {
        std::mem::forget(Arc::clone(&self.shared));
    }

    fn regions(&self) -> MutexGuard<'_, Vec<Region>> {
        self.shared.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::SeqCst);
        self.shared.bell.ring();
    }
}

struct Shared {
    config: VolumeConfig,
    size: Size,
    slot_bytes: usize,
    /// Where each tag's memory is.
    memory: Box<[AtomicPtr<u8>]>,
    /// Owns that memory, and all memory from before.
    regions: Mutex<Vec<Region>>,
    pool: Pool,
    queue: ArrayQueue<Submission>,
    closed: AtomicBool,
    abandoned: AtomicBool,
    bell: Arc<Bell>,
}

impl Shared {
    fn refuse_queued(&self) {
        while let Some(submission) = self.queue.pop() {
            submission.complete(Err(RequestError::Stopping));
        }
    }
}

/// Runs a future that waits only for other threads, without a runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
