//! The volume: a sans-IO state machine that turns requests into appends to a log, and keeps room in
//! it.
//!
//! Blocks that users write go to the users' *stream*: a chain of segments, which are filled in
//! memory and written in *batches*. A batch is a summary, data, and padding up to a whole stripe.
//! Each group's cleaner has a stream of its own, which stays within the group.
//!
//! The durable state is the last [checkpoint](checkpoint) and the chain of users' batches since,
//! which a [recovery](crate::recovery) replays. A crash undoes what cleaners did since then: the
//! blocks are still at their old places.
//!
//! Invariants:
//! - [`LogVolume::step`] does everything that can be done before it returns.
//! - The map tells where a block is: in a segment, whose bytes are in memory from a certain block
//!   on, and written before it.
//! - Nothing is ever written in place. A segment is reused only after a checkpoint that does not
//!   refer to it is durable, its reads have ended, and it was trimmed.
//! - Batches of a stream are numbered, and a number counts as durable only when all before it are
//!   durable.
//! - A flush ends when everything that was acknowledged before it began is durable.

mod api;
mod checkpoint;
mod clean;
mod flush;
mod paces;
mod policy;
mod request;
mod status;
mod stream;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use det::{Id, Instant, Slots};
use raidcore::engine::IoError;
use raidcore::units::{Lba, Tag};

pub use api::*;
pub(crate) use checkpoint::ios;
pub use stream::Batch;

use crate::codec::{Position, VolumeId};
use crate::map::Map;
use crate::segments::{SegmentState, Segments};
use crate::shape::Shape;
use crate::units::{GroupId, Segment};
use checkpoint::Checkpointer;
use clean::{Cleaner, Fill};
use flush::Flusher;
use paces::Paces;
use request::UserRequest;
use stream::{HOT, Stream};

/// Buffers of each cleaner's stream.
const COLD_BUFFERS: u16 = 2;

/// Trims under way at most.
const TRIMS: u32 = 8;

/// The purpose of an I/O under way.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Vacant,
    /// A part of a user's read.
    Read {
        tag: Tag,
        segment: Segment,
    },
    Write(BatchId),
    /// For a round of the flusher, with the number of users' batches written to the group by then.
    Flush {
        group: GroupId,
        writes: u64,
    },
    /// For a checkpoint.
    Sync(GroupId),
    Store(GroupId),
    Load(GroupId),
    Fill(Fill),
    Trim(Segment),
}

/// The state in which a volume begins: that of a recovery, or of a new volume.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) id: VolumeId,
    pub(crate) shape: Shape,
    pub(crate) run: u64,
    /// The last existing checkpoint.
    pub(crate) number: u64,
    /// The last batch of users' blocks.
    pub(crate) sequence: u64,
    pub(crate) clock: u64,
    pub(crate) map: Map,
    /// For each segment.
    pub(crate) ages: Vec<u64>,
    /// Where the streams continue. The users' next segment may have to be chosen.
    pub(crate) streams: Vec<(Position, bool)>,
}

/// A log volume: turns requests into appends to a log, and keeps room in it.
pub struct LogVolume {
    id: VolumeId,
    shape: Shape,
    config: Config,
    run: u64,
    now: Instant,
    map: Map,
    segments: Segments,
    /// Blocks that users have written since the volume was created: the clock of ages.
    clock: u64,
    streams: Vec<Stream>,
    /// For each buffer, batches under way in it.
    buffers: Vec<u16>,
    batches: Slots<Batch>,
    ops: Slots<Purpose>,
    requests: Vec<UserRequest>,
    /// Writes and discards that wait, the oldest first.
    writing: VecDeque<Tag>,
    /// Blocks of discards that this step may still process.
    may_forget: u32,
    /// The rest of a discard waits for the next step.
    forgets_on: bool,
    /// Reads whose I/O is not all begun.
    reading: VecDeque<Tag>,
    reads: u32,
    /// Users' reads under way in each group.
    group_reads: Vec<u32>,
    trims: u32,
    flusher: Flusher,
    checkpointer: Checkpointer,
    cleaners: Vec<Cleaner>,
    /// With paced cleaning: blocks that cleaners should move before users continue.
    allowance: i64,
    /// With blocking cleaning: it has begun, and goes on until enough is free.
    blocking: bool,
    /// Users' writes wait for a segment.
    stalled: bool,
    /// Since when users' writes have waited for cleaning: for a segment, or to keep pace.
    waits_since: Option<Instant>,
    paces: Paces,
    /// Victims that cleaners have finished.
    turns: u64,
    failed: bool,
    stopping: bool,
    stopped: bool,
    counters: Counters,
}

impl LogVolume {
    /// A new volume. The content of the groups does not matter. The host must call [`LogVolume::step`]
    /// with [`Input::Tick`] once to start it.
    #[must_use]
    pub fn create(config: Config, id: VolumeId, shape: Shape) -> Self {
        let first = |group: usize| shape.segments_of(GroupId::at(group));
        let position = |mut from: alloc::boxed::Box<dyn Iterator<Item = Segment>>| Position {
            segment: from.next().unwrap_or_default(),
            at: 0,
            next: from.next().unwrap_or_default(),
        };
        let hot = position(alloc::boxed::Box::new(first(0).skip(2)));
        let cold = (0..shape.groups()).map(|group| position(alloc::boxed::Box::new(first(group))));
        let origin = Origin {
            id,
            shape,
            run: 1,
            number: 0,
            sequence: 0,
            clock: 0,
            map: Map::new(shape.capacity(), shape.pages()),
            ages: alloc::vec![0; shape.segment_count() as usize],
            streams: core::iter::once(hot).chain(cold).map(|position| (position, true)).collect(),
        };
        Self::begin(config, origin)
    }

    /// A volume in a given state.
    pub(crate) fn begin(config: Config, origin: Origin) -> Self {
        let Origin { id, shape, run, number, sequence, clock, map, ages, streams } = origin;
        let segments = survey(shape, &map, &ages, &streams);
        let groups = shape.groups();
        let mut first = 0;
        let mut buffers = |count: u16| {
            let own = first..first + count;
            first += count;
            own.rev().collect::<Vec<u16>>()
        };
        let hot = Stream::new(streams[HOT].0, buffers(config.buffers.max(2)), sequence);
        let cold = streams[1..].iter();
        let cold: Vec<_> = cold.map(|&(at, _)| Stream::new(at, buffers(COLD_BUFFERS), 0)).collect();
        let buffers = usize::from(config.buffers_in_all(groups));
        debug_assert_eq!(buffers, usize::from(first));
        let batches = buffers * (shape.segment_blocks() / shape.unit()) as usize;
        let tags = usize::from(config.tags);
        let ops = tags * request::READS
            + batches
            + TRIMS as usize
            + groups * (clean::READS as usize + 24)
            + ios(groups) as usize
            + 16;
        let mut volume = Self {
            id,
            shape,
            config,
            run,
            now: Instant::ORIGIN,
            map,
            segments,
            clock,
            streams: core::iter::once(hot).chain(cold).collect(),
            buffers: alloc::vec![0; buffers],
            batches: Slots::new(batches, Batch::default),
            ops: Slots::new(ops, || Purpose::Vacant),
            requests: (0..tags).map(|_| UserRequest::default()).collect(),
            writing: VecDeque::with_capacity(tags),
            may_forget: 0,
            forgets_on: false,
            reading: VecDeque::with_capacity(tags),
            reads: 0,
            group_reads: alloc::vec![0; groups],
            trims: 0,
            flusher: Flusher::new(groups, tags),
            checkpointer: Checkpointer::new(number),
            cleaners: (0..groups).map(|_| Cleaner::default()).collect(),
            allowance: 0,
            blocking: false,
            stalled: false,
            waits_since: None,
            paces: Paces::default(),
            turns: 0,
            failed: false,
            stopping: false,
            stopped: false,
            counters: Counters::default(),
        };
        if !streams[HOT].1 {
            volume.choose_next();
        }
        volume
    }

    /// Processes an input at `now`; appends to `out` the actions, all of which have to be begun
    /// before the next call.
    pub fn step(&mut self, now: Instant, input: Input<'_>, out: &mut Vec<Action>) {
        self.now = self.now.max(now);
        (self.may_forget, self.forgets_on) = (self.config.forget.max(1), false);
        match input {
            Input::Request(request) => self.request(request, out),
            Input::IoDone { id, result } => self.io_done(id, result, out),
            Input::Loaded { id, result } => self.loaded(id, result, out),
            Input::Stop => self.stopping = true,
            Input::Tick => {}
        }
        self.run(out);
    }

    /// Does all that can be done now.
    fn run(&mut self, out: &mut Vec<Action>) {
        if self.stopped {
            return;
        }
        self.read_waiting(out);
        self.write_what_waited(out);
        // Progress of one of them may unblock another.
        while !self.failed {
            let before = (out.len(), self.turns, self.blocking, self.stalled);
            self.write_waiting(out);
            self.clean(out);
            self.flush(out);
            self.checkpoint(out);
            self.trim(out);
            if before == (out.len(), self.turns, self.blocking, self.stalled) {
                break;
            }
        }
        if self.failed {
            self.refuse_writes(out);
        }
        self.stop(out);
    }

    fn io_done(&mut self, id: IoId, result: Result<(), IoError>, out: &mut Vec<Action>) {
        let Some(op) = self.take_op(id) else { return };
        match op {
            Purpose::Read { tag, segment } => self.read_done(tag, segment, result, out),
            Purpose::Write(batch) => self.batch_done(batch, result, out),
            Purpose::Flush { group, writes } => self.flush_done(group, writes, result, out),
            Purpose::Sync(group) | Purpose::Store(group) => {
                self.checkpoint_io_done(group, result, out)
            }
            Purpose::Fill(fill) => self.filled(fill, result, out),
            Purpose::Trim(segment) => {
                // A failed trim does not matter.
                self.trims -= 1;
                self.segments.trimmed(segment);
                self.counters.trimmed += 1;
            }
            Purpose::Load(group) => self.load_failed(group, out),
            Purpose::Vacant => {}
        }
    }

    fn loaded(&mut self, id: IoId, result: Result<&[u8], IoError>, out: &mut Vec<Action>) {
        match (self.take_op(id), result) {
            (Some(Purpose::Load(group)), Ok(bytes)) => self.summary_loaded(group, bytes, out),
            (Some(Purpose::Load(group)), Err(_)) => self.load_failed(group, out),
            _ => {}
        }
    }

    fn take_op(&mut self, id: IoId) -> Option<Purpose> {
        let id = Id::from_bits(id.0);
        let op = core::mem::replace(self.ops.get_mut(id)?, Purpose::Vacant);
        self.ops.vacate(id);
        Some(op)
    }

    /// Begins an I/O.
    fn issue(
        &mut self,
        op: Purpose,
        group: GroupId,
        what: IoOp,
        (at, blocks): (u64, u32),
        out: &mut Vec<Action>,
    ) {
        let id = self.ops.occupy().expect("there is an op for everything that can be under way");
        self.ops[id] = op;
        let id = IoId(id.to_bits());
        out.push(Action::Io(Io { id, group, op: what, at, blocks }));
    }

    /// Trims what is not needed.
    fn trim(&mut self, out: &mut Vec<Action>) {
        while self.trims < TRIMS {
            let Some(segment) = self.segments.trim_one() else { return };
            self.trims += 1;
            let group = self.shape.group_of(segment);
            let at = self.shape.start_of(segment);
            let all = (at, self.shape.segment_blocks());
            self.issue(Purpose::Trim(segment), group, IoOp::Discard, all, out);
        }
    }

    /// A group failed an I/O that the volume depends on.
    fn fail(&mut self, group: GroupId, error: IoError, out: &mut Vec<Action>) {
        if !self.failed {
            self.failed = true;
            out.push(Action::Note(Note::Failed(group, error)));
        }
    }

    /// Moves on to a stop, when it was asked for and everything has ended.
    fn stop(&mut self, out: &mut Vec<Action>) {
        let works = self.ops.occupied() > 0 || self.segments.is_freeing() && !self.failed;
        if !self.is_winding_up() || works {
            return;
        }
        if self.failed || self.checkpointer.has_recorded_stop() {
            self.stopped = true;
            out.push(Action::Stopped);
        }
    }

    /// Whether the volume is stopping and no request is left.
    fn is_winding_up(&self) -> bool {
        self.stopping && !self.requests.iter().any(UserRequest::is_active)
    }

    /// Sets where a block is; the segment that it was in loses it.
    fn remap(&mut self, lba: Lba, to: Option<crate::units::Pba>) {
        if let Some(old) = self.map.set(lba, to) {
            self.segments.remove(self.shape.locate(old).0);
        }
        if let Some(new) = to {
            self.segments.add(self.shape.locate(new).0);
        }
    }

    /// Notes how old a segment's blocks are.
    fn age(&mut self, segment: Segment, age: u64) {
        let info = self.segments.get_mut(segment);
        if info.age != age {
            info.age = age;
            let page = u64::from(segment.0) / crate::sizes::AGES_PER_PAGE;
            self.map.touch(self.shape.map_pages() + page as u32);
        }
    }
}

/// The state of all segments when a volume begins.
fn survey(shape: Shape, map: &Map, ages: &[u64], streams: &[(Position, bool)]) -> Segments {
    let mut live = alloc::vec![0; shape.segment_count() as usize];
    for pba in (0..map.blocks()).filter_map(|lba| map.get(Lba(lba))) {
        live[shape.locate(pba).0.index()] += 1;
    }
    let open = streams.iter().map(|(position, _)| (position.segment, SegmentState::Open));
    let next = streams.iter().filter(|(_, chosen)| *chosen);
    let next = next.map(|(position, _)| (position.next, SegmentState::Held));
    let held: Vec<_> = open.chain(next).collect();
    Segments::new(shape, &live, ages, &held)
}
