//! Member I/O, and the commands of residents, through an io_uring that belongs to one thread, and
//! those of the threads that it has for that.
//!
//! Invariants:
//! - A member's number is reused only when the kernel has ended all I/O on it, orphans included: a
//!   queued entry can't reach another device.
//! - I/O on a modelled SSD that succeeds is done only when the model has ended it, too. A stall of
//!   the model delays the device, but the device never counts as hanging for it.
//! - The kernel uses none of the ring's own memory, so the ring can be dropped at any time. The
//!   memory of I/O belongs to the arena, which knows what is in flight.
#![allow(unsafe_code)]

mod buffers;
mod commands;
mod crew;
mod ending;
mod flash;
mod hang_detector;
mod kernel;
mod opening;
mod passthrough;
mod queue;
mod run;
mod stats;
mod steered;
mod streams;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use det::Instant;
use flashsim::real::Ended;
use raidcore::engine::{IoError, Stream};
use raidcore::units::{BLOCK_BYTES, DeviceId, Mem, Pba};

use crate::arena::{Arena, PieceId};
use crate::health::Readings;
use crate::lease::{LeaseFile, Permit};
use crate::members::{Device, DurableBy, Kind};
use crate::nvme::placement::Placement;
use crate::open_members::{MEMBERS, MemberIndex, Members};
use crate::ops::{IoName, Lane, Model, OpId, OpKind, Ops, Sync};
use crate::volume::Bell;
use buffers::Buffers;
pub(crate) use commands::{CommandSlot, Completed};
use flash::Drives;
use hang_detector::HangDetector;
use kernel::Entries;
pub(crate) use kernel::probe;
use run::Run;
pub use stats::{IoStats, LATENCY_BOUNDS_NS, Transfers};
use steered::Leaving;
use watch::Size;

/// Completions that belong to no I/O.
const BELL: u64 = u64::MAX;
const CANCELLED: u64 = u64::MAX - 1;
/// A resident's command: its slot and number follow.
const COMMAND: u64 = 1 << 63;

struct Member {
    id: DeviceId,
    device: Device,
    /// I/Os that the kernel has not ended.
    in_flight: u32,
    /// To be closed when there are none.
    released: bool,
    /// Whether it has reported that it can't discard.
    keeps_everything: bool,
    /// It, or the kernel, can't discard without making zeros.
    is_not_trimmed: bool,
    /// Whether it is modelled as an SSD.
    flash: bool,
    /// Whether I/O goes past the block layer.
    passes: bool,
    /// Where writes can go that do.
    placement: Placement,
    /// How many write streams the block layer knows of it.
    block_streams: u8,
    size: Size,
    stats: IoStats,
}

/// With so many I/Os under way, or fewer, waking another thread takes longer than what it would do.
const CALM: usize = 2;

/// How to make a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingConfig {
    /// Entries that are handed over at once.
    pub(crate) entries: u32,
    /// Threads that talk to the kernel, the calling one included.
    pub(crate) threads: u16,
    /// Whether they are large enough for commands to NVMe drives; only then I/O goes past the block
    /// layer.
    pub(crate) large_entries: bool,
    /// How long an I/O may take before its device counts as hanging.
    pub(crate) io_timeout: Duration,
    /// Whether to register the memory of I/O with the kernel when it is used.
    pub(crate) register_memory: bool,
}

/// The memory of an I/O's data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The engine's memory.
    Mem(Mem),
    /// Metadata pages.
    Pages(PieceId),
}

/// See the [module](self).
pub(crate) struct Ring {
    // It goes first: the rings of its threads are gone before what entries name is.
    entries: Entries,
    /// The lanes of residents, by [`CommandSlot`].
    lanes: Vec<Lane>,
    ops: Ops,
    /// Writes that are begun and not handed over yet.
    runs: Vec<Run>,
    /// Few I/Os were under way when the last were handed over.
    is_calm: bool,
    /// By [`MemberIndex`].
    members: Vec<Option<Member>>,
    large_entries: bool,
    registered_files: bool,
    buffers: Buffers,
    drives: Drives,
    /// Whether a member keeps streams apart, or one did.
    keeps_streams: bool,
    windows: Leaving,
    /// What real drives tell of themselves, as far as it is known.
    pub(crate) readings: Readings,
    /// Scratch space.
    modelled: Vec<Ended>,
    /// Results for the engine.
    done: VecDeque<(IoName, Result<(), IoError>)>,
    /// Completions for residents.
    completed: VecDeque<Completed>,
    hang_detector: HangDetector,
    /// The members that hang now, if that is not reported yet.
    hung: Option<Members>,
    /// The earliest time at which a member can become silent, or earlier.
    expiry: Option<Instant>,
    /// Counts how often completions were taken in, or members looked at.
    turn: u64,
    /// When members without I/O are looked at next, if any is to be.
    next_watch: Option<Instant>,
    /// Devices that have lost data, if that is not reported yet.
    gone: Vec<DeviceId>,
}

impl Ring {
    /// A ring for the calling thread, which is woken when the bell is rung.
    pub(crate) fn new(config: RingConfig, arena: &Arena, bell: &Arc<Bell>) -> io::Result<Self> {
        let large_entries = config.large_entries;
        let mut entries = Entries::new(config.entries, large_entries, config.threads, bell)?;
        let files = opening::files(large_entries);
        let registered_files =
            entries.register(move |ring| ring.register_files_sparse(files)).is_ok();
        let buffers = if config.register_memory {
            Buffers::new(&mut entries, arena.registrable())
        } else {
            Buffers::without()
        };
        let room = config.entries as usize * 2;
        Ok(Self {
            entries,
            lanes: Vec::new(),
            ops: Ops::new(room),
            runs: Vec::new(),
            is_calm: true,
            members: (0..MEMBERS).map(|_| None).collect(),
            large_entries: config.large_entries,
            registered_files,
            buffers,
            drives: Drives::default(),
            keeps_streams: false,
            windows: Leaving::default(),
            readings: Readings::default(),
            modelled: Vec::new(),
            done: VecDeque::with_capacity(room),
            completed: VecDeque::with_capacity(room),
            hang_detector: HangDetector::new(config.io_timeout),
            hung: None,
            expiry: None,
            turn: 0,
            next_watch: None,
            gone: Vec::new(),
        })
    }

    /// Nothing is handed over without this permission from now on.
    pub(crate) fn under(&mut self, permit: Permit) {
        self.entries.under(&permit);
    }

    /// Begins a read.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        arena: &mut Arena,
        io: (IoName, DeviceId),
        to: Mem,
        range: (Pba, u32),
    ) {
        let Some(id) = self.begin(now, io, OpKind::Read(to), range) else {
            return;
        };
        let (base, piece) = arena.resolve(to, range.1);
        self.attach(arena, id, base, piece);
        self.start(now, id, arena);
    }

    /// Begins a write.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        arena: &mut Arena,
        io: (IoName, DeviceId),
        from: Source,
        (durable, stream): (bool, Stream),
        range: (Pba, u32),
    ) {
        let Some(id) = self.begin(now, io, OpKind::Write { durable, stream }, range) else {
            if let Source::Pages(pages) = from {
                arena.give_back(pages);
            }
            return;
        };
        let (base, piece) = match from {
            Source::Mem(mem) => arena.resolve(mem, range.1),
            Source::Pages(piece) => (arena.base(piece), piece),
        };
        self.attach(arena, id, base, piece);
        self.start(now, id, arena);
    }

    /// Begins a durable write of pages and then the memory that `payload` visits.
    pub(crate) fn gather(
        &mut self,
        now: Instant,
        arena: &mut Arena,
        io: (IoName, DeviceId),
        (pages, page_blocks): (PieceId, u32),
        (at, stream): (Pba, Stream),
        payload: impl FnOnce(&mut dyn FnMut(Mem, u32)),
    ) {
        let Some(id) = self.begin(now, io, OpKind::Gather { stream }, (at, 0)) else {
            arena.give_back(pages);
            return;
        };
        let op = self.ops.get(id);
        let mut part = |arena: &mut Arena, base: *mut u8, piece, blocks| {
            let iov_len = blocks as usize * BLOCK_BYTES;
            op.iovecs.push(libc::iovec { iov_base: base.cast(), iov_len });
            op.bytes += iov_len;
            if !op.pieces.contains(&piece) {
                arena.begin(piece);
                op.pieces.push(piece);
            }
        };
        let base = arena.base(pages);
        part(arena, base, pages, page_blocks);
        payload(&mut |mem, blocks| {
            let (base, piece) = arena.resolve(mem, blocks);
            part(arena, base, piece, blocks);
        });
        self.start(now, id, arena);
    }

    /// Begins a flush.
    pub(crate) fn flush(&mut self, now: Instant, arena: &mut Arena, io: (IoName, DeviceId)) {
        if self.needs_no_flush(io.1) {
            self.done.push_back((io.0, Ok(())));
            return;
        }
        let Some(id) = self.begin(now, io, OpKind::Flush, (Pba(0), 0)) else {
            return;
        };
        self.start(now, id, arena);
    }

    /// Begins to give a range back. If it is `rewritten` soon, what it reads as does not matter, and a file
    /// keeps it.
    pub(crate) fn discard(
        &mut self,
        now: Instant,
        arena: &mut Arena,
        io: (IoName, DeviceId),
        range: (Pba, u32),
        rewritten: bool,
    ) {
        let member = self.find(io.1).and_then(|index| self.members[usize::from(index.0)].as_ref());
        let trims = member.is_some_and(|member| rewritten && !member.flash);
        let keeps = |member: &Member| match trims {
            true => member.is_not_trimmed || member.device.kind() == Kind::File,
            false => member.keeps_everything,
        };
        if member.is_some_and(keeps) {
            self.done.push_back((io.0, Ok(())));
            return;
        }
        let kind = if trims { OpKind::Trim } else { OpKind::Discard };
        let Some(id) = self.begin(now, io, kind, range) else {
            return;
        };
        self.start(now, id, arena);
    }

    /// An I/O that has ended; every I/O is returned once.
    pub(crate) fn next_done(&mut self) -> Option<(IoName, Result<(), IoError>)> {
        self.done.pop_front()
    }

    /// Processes what the kernel and the models have ended, and finds out which members hang.
    pub(crate) fn reap(&mut self, now: Instant, arena: &mut Arena) {
        self.take_completions(now, arena);
        if self.drives.next().is_some_and(|next| next <= now) {
            self.poll_drives(now, arena);
        }
        self.watch(now, arena);
        if self.expiry.is_some_and(|expiry| expiry <= now) || !self.hang_detector.is_over() {
            self.listen_to_members(now, arena);
        }
    }

    /// Processes what the kernel has completed, and gives up all the rest.
    pub(crate) fn give_up_all(&mut self, now: Instant, arena: &mut Arena) {
        self.take_completions(now, arena);
        for index in 0..self.members.len() {
            self.give_up_on(MemberIndex(index as u16), arena);
        }
    }

    /// When [`Ring::reap`] has to be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.expiry.into_iter().chain(self.drives.next()).chain(self.next_watch).min()
    }

    /// The I/O statistics of a device.
    pub(crate) fn stats(&self, device: DeviceId) -> IoStats {
        let member = self.find(device).and_then(|at| self.members[usize::from(at.0)].as_ref());
        member.map_or_else(IoStats::default, |member| member.stats)
    }

    /// How many I/Os have not been returned as done.
    pub(crate) fn outstanding(&self) -> usize {
        self.ops.flying() + self.done.len()
    }

    /// Whether other threads of the ring have something to tell.
    pub(crate) fn has_news(&self) -> bool {
        self.entries.has_news()
    }

    /// Whether an I/O that has ended has not been returned yet.
    pub(crate) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Gives other threads what was begun for them.
    pub(crate) fn hand_over(&mut self, now: Instant, arena: &mut Arena) -> io::Result<()> {
        self.begin_all(now, arena);
        self.entries.hand_over()
    }

    /// Returns when everything begun is with the kernel.
    pub(crate) fn reach_kernel(&mut self, now: Instant, arena: &mut Arena) -> io::Result<()> {
        self.begin_all(now, arena);
        self.entries.reach_kernel()
    }

    /// Hands everything begun to the kernel, without waiting.
    pub(crate) fn submit(&mut self, now: Instant, arena: &mut Arena) -> io::Result<()> {
        self.begin_all(now, arena);
        self.entries.submit()
    }

    /// Hands everything begun to the kernel, and sleeps until something completes, the bell rings,
    /// or `limit` is over.
    pub(crate) fn submit_and_sleep(
        &mut self,
        now: Instant,
        arena: &mut Arena,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        self.begin_all(now, arena);
        self.entries.submit_and_sleep(limit)
    }

    /// Begins what was joined, before it is handed over.
    fn begin_all(&mut self, now: Instant, arena: &mut Arena) {
        self.start_runs(now, arena);
        self.is_calm = self.ops.flying() <= CALM;
    }

    /// Whether it matters what writes are of.
    pub(crate) fn keeps_streams(&self) -> bool {
        self.keeps_streams
    }

    /// A device's file for the lease's agent, if it is open.
    pub(crate) fn lease_file(&self, id: DeviceId) -> Option<LeaseFile> {
        let member = self.find(id).and_then(|at| self.members[usize::from(at.0)].as_ref())?;
        member.device.lease_file().ok()
    }

    /// Whether the kernel has no I/O on any device, closed or not.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.members.iter().flatten().all(|member| member.in_flight == 0)
    }

    /// Whether the kernel still has I/O on a device, closed or not.
    pub(crate) fn is_open(&self, id: DeviceId) -> bool {
        self.members.iter().flatten().any(|member| member.id == id)
    }

    fn find(&self, id: DeviceId) -> Option<MemberIndex> {
        let here = |m: &Option<Member>| m.as_ref().is_some_and(|m| m.id == id && !m.released);
        self.members.iter().position(here).map(|index| MemberIndex(index as u16))
    }

    fn begin(
        &mut self,
        now: Instant,
        (io, device): (IoName, DeviceId),
        kind: OpKind,
        (at, blocks): (Pba, u32),
    ) -> Option<OpId> {
        let Some(index) = self.find(device) else {
            self.done.push_back((io, Err(IoError::Gone)));
            return None;
        };
        let offset = at.0 * BLOCK_BYTES as u64;
        let bytes = blocks as usize * BLOCK_BYTES;
        let mut sync = Sync::None;
        if let Some(member) = &self.members[usize::from(index.0)] {
            let durable =
                matches!(kind, OpKind::Write { durable: true, .. } | OpKind::Gather { .. });
            if durable && member.device.durable_by() == DurableBy::Flush {
                sync = Sync::Due;
            }
        }
        let mut asks = false;
        if matches!(kind, OpKind::Write { .. }) {
            match self.look_before(index, offset, bytes) {
                Ok(asked) => asks = asked,
                Err(error) => {
                    self.done.push_back((io, Err(error)));
                    return None;
                }
            }
        }
        let id = self.add(now, Some(io), index, kind);
        let op = self.ops.get(id);
        (op.offset, op.bytes, op.sync, op.asks) = (offset, bytes, sync, asks);
        Some(id)
    }

    fn add(&mut self, now: Instant, io: Option<IoName>, index: MemberIndex, kind: OpKind) -> OpId {
        if let Some(member) = &mut self.members[usize::from(index.0)] {
            member.in_flight += 1;
        }
        let silent = now + self.hang_detector.patience();
        self.expiry = Some(self.expiry.map_or(silent, |expiry| expiry.min(silent)));
        self.ops.add(io, index, kind, now)
    }

    fn attach(&mut self, arena: &mut Arena, id: OpId, base: *mut u8, piece: PieceId) {
        arena.begin(piece);
        let op = self.ops.get(id);
        op.base = base;
        op.pieces.push(piece);
        if op.asks {
            self.make_room_for_answer(arena, id);
        }
    }

    /// Starts a new op: in the kernel, and in the model if there is one.
    fn start(&mut self, now: Instant, id: OpId, arena: &mut Arena) {
        let op = self.ops.get(id);
        op.lane = if self.is_calm { Lane::OWN } else { self.entries.lane(op.member.0) };
        if let Some(member) = &self.members[usize::from(op.member.0)] {
            op.way = member.way(op);
            if member.flash {
                op.model = Model::Busy;
                self.drives.begin(now, id, op);
            }
        }
        self.go(id, arena);
    }
}

#[cfg(test)]
mod tests;
