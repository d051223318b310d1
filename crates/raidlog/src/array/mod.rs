//! A log volume and the arrays below it, as one state machine. Every host of log arrays runs it.
//!
//! Each group is an [`Engine`], which serves the volume's I/O as user requests. Full stripes are
//! written without the journal. The few smaller writes (pages and headers) are handled like all
//! small writes.
//!
//! How a crash is kept from doing harm, with all members or one missing:
//! - A batch is whole stripes, and no stripe has blocks of two batches. So a stripe that was being
//!   written holds nothing that was durable before.
//! - A torn stripe reads as its members hold it, and the chunk of a missing member is computed from
//!   a parity that does not match. A [recovery](crate::Recovery) takes no batch whose checksums do
//!   not match, unless it is known to have been flushed.
//! - A stripe can be torn so that all its data is there and only its parity is old. The loss of
//!   another member would then take away data that was accepted. So if a recovery reads a stripe
//!   whose parity is in doubt, the stripe is written back before the recovery gets its content. The
//!   volume is built only on redundant data.
//! - Each header has stripes of its own, and so has each area of pages. Only the area that the
//!   durable header does not refer to is being written.
//!
//! Invariants:
//! - In a step, an engine gets at most one event, and then requests. Neither changes the
//!   [metadata](engine::IoOp::Store) that it has asked to write since the step began, so the host
//!   may encode the metadata after the step.
//! - An I/O of the volume is one request of its group's engine.

mod api;
mod groups;
mod start;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use det::Instant;
use raidcore::engine::{self, Command, CommandError, Engine, IoError, Op, Request, RequestError};
use raidcore::units::{Lba, Mem, Tag};

pub use api::*;

use crate::codec::VolumeId;
use crate::recovery::Answer;
use crate::shape::Shape;
use crate::units::GroupId;
use crate::volume::{self, Config, Io, IoId, IoOp, LogVolume, Pages};
use start::Start;

/// Blocks of a *slot*, a scratch buffer for the pages of an I/O, or a summary.
pub(crate) const SLOT_BLOCKS: u32 = 64;

/// The number of the command that stops an engine.
pub const STOP: u64 = u64::MAX;

/// The purpose of an engine's request.
#[derive(Clone, Copy, Debug)]
enum Carried {
    /// An I/O of the volume, and the number of the slot that it has.
    Io(Io, Option<u16>),
    /// A recovery reads into a slot, or writes back.
    Start(u16),
}

/// The array of a group.
struct Lower {
    engine: Engine,
    /// Which of all scratch buffers is the engine's first.
    scratch: u16,
    carried: Vec<Option<Carried>>,
    free: Vec<Tag>,
    /// I/Os of the volume for which there is no tag.
    waiting: VecDeque<Io>,
    /// The result of recording the stop.
    stopped: Option<Result<(), CommandError>>,
}

/// The volume, or the recovery that finds it.
enum Upper {
    Starting(Start),
    Running(Box<LogVolume>),
    /// There is none.
    Lost,
}

/// See the [module](self).
pub struct LogArray {
    upper: Upper,
    arrays: Vec<Lower>,
    /// The scratch buffers that are slots; those of segments are before them, those of engines after.
    slots: Range<u16>,
    free_slots: Vec<u16>,
    /// Requests that came before the volume was found.
    held: Vec<Request>,
    /// Requests of engines that have ended.
    ended: VecDeque<(GroupId, Tag, Result<(), RequestError>)>,
    above: Vec<volume::Action>,
    below: Vec<engine::Action>,
    stopping: bool,
    /// The volume has stopped.
    stopped: bool,
    stops: Stops,
}

/// How far the stop of the arrays has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stops {
    None,
    Sent,
    Done,
}

impl LogArray {
    /// The configuration of the engines below a volume; apart from what the volume needs, as
    /// `wanted`. Its batches are whole stripes, so nothing is kept in memory for partial writes.
    #[must_use]
    pub fn engine_config(config: &Config, wanted: engine::Config) -> engine::Config {
        engine::Config { tags: tags(config), warm_blocks: 0, undefined_discards: true, ..wanted }
    }

    /// A new volume on arrays whose content does not matter.
    ///
    /// # Panics
    /// If there are not as many arrays as the shape has groups.
    #[must_use]
    pub fn create(config: Config, id: VolumeId, shape: Shape, engines: Vec<Engine>) -> Self {
        assert_eq!(engines.len(), shape.groups(), "an array for each group");
        let volume = Box::new(LogVolume::create(config, id, shape));
        Self::new(Upper::Running(volume), &config, engines)
    }

    /// The volume that these arrays hold, which are given in order.
    #[must_use]
    pub fn open(config: Config, id: VolumeId, engines: Vec<Engine>) -> Self {
        let start = Start::new(config, id, &engines);
        Self::new(Upper::Starting(start), &config, engines)
    }

    fn new(upper: Upper, config: &Config, engines: Vec<Engine>) -> Self {
        // One for the start, one for the cleaner of each group, and as many as a checkpoint has I/Os.
        let slots = 1 + engines.len() as u16 + volume::ios(engines.len()) as u16;
        let segments = config.buffers_in_all(engines.len());
        let slots = segments..segments.saturating_add(slots);
        let tags = tags(config);
        let mut next = slots.end;
        let lower = |engine: Engine| Lower {
            scratch: {
                // Where there are more than numbers, a host refuses what it is asked for.
                let after = next.saturating_add(engine.scratch_buffers());
                core::mem::replace(&mut next, after)
            },
            engine,
            carried: alloc::vec![None; tags.into()],
            free: (0..tags).rev().map(Tag).collect(),
            waiting: VecDeque::new(),
            stopped: None,
        };
        Self {
            upper,
            arrays: engines.into_iter().map(lower).collect(),
            free_slots: (slots.start + 1..slots.end).rev().collect(),
            slots,
            held: Vec::new(),
            ended: VecDeque::new(),
            above: Vec::new(),
            below: Vec::new(),
            stopping: false,
            stopped: false,
            stops: Stops::None,
        }
    }

    /// Processes an input at `now`; appends to `out` the actions to be begun, in this order, before
    /// the next call.
    ///
    /// # Panics
    /// If a group's array is given an input that is not for it.
    pub fn step(&mut self, now: Instant, input: Input<'_>, out: &mut Vec<Action>) {
        match input {
            Input::Request(request) => self.request(now, request, out),
            Input::Array { group, input } => {
                let is_ours = matches!(
                    input,
                    engine::Input::Request(_)
                        | engine::Input::Command { command: Command::Stop, .. }
                );
                assert!(!is_ours, "{input:?} is for the whole of it");
                self.tell(now, group, input, out);
            }
            Input::Seen { look: Look(Some(id), slot), answer } => {
                self.free_slots.push(slot);
                self.seen(now, id, answer, out);
            }
            Input::Seen { look: Look(None, _), answer } => self.start_seen(now, answer, out),
            Input::Stop => {
                self.stopping = true;
                self.upper(now, volume::Input::Stop, out);
            }
            Input::Tick => self.tick(now, out),
        }
        self.settle(now, out);
    }

    /// When it wants an [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let volume = self.volume().and_then(LogVolume::deadline);
        let arrays = self.arrays.iter().filter_map(|lower| lower.engine.deadline());
        arrays.map(|(at, _)| at).chain(volume).min()
    }

    /// The volume, once there is one.
    #[must_use]
    pub fn volume(&self) -> Option<&LogVolume> {
        match &self.upper {
            Upper::Running(volume) => Some(volume),
            Upper::Starting(_) | Upper::Lost => None,
        }
    }

    fn request(&mut self, now: Instant, request: Request, out: &mut Vec<Action>) {
        match self.upper {
            Upper::Starting(_) if !self.stopping => self.held.push(request),
            Upper::Running(_) => self.upper(now, volume::Input::Request(request), out),
            Upper::Starting(_) | Upper::Lost => {
                self.held.push(request);
                self.refuse_held(out);
            }
        }
    }

    /// Passes an input to the volume, and carries out its actions.
    fn upper(&mut self, now: Instant, input: volume::Input<'_>, out: &mut Vec<Action>) {
        let Upper::Running(volume) = &mut self.upper else { return };
        let mut actions = core::mem::take(&mut self.above);
        volume.step(now, input, &mut actions);
        for action in actions.drain(..) {
            match action {
                volume::Action::Io(io) => self.carry(now, io, out),
                volume::Action::Copy { from, to, blocks } => {
                    out.push(Action::Copy { from, to, blocks });
                }
                volume::Action::Complete { tag, result } => {
                    out.push(Action::Complete { tag, result });
                }
                volume::Action::Note(note) => out.push(Action::Note(note)),
                volume::Action::Stopped => self.stopped = true,
            }
        }
        self.above = actions;
    }

    /// Turns an I/O of the volume into a request of an array.
    fn carry(&mut self, now: Instant, io: Io, out: &mut Vec<Action>) {
        let Io { group, at, blocks, .. } = io;
        let lower = &mut self.arrays[group.index()];
        if lower.free.is_empty() {
            lower.waiting.push_back(io);
            return;
        }
        let has_slot = matches!(io.op, IoOp::Load | IoOp::Store(_));
        let slot = has_slot.then(|| self.free_slots.pop().expect("there is a slot for each"));
        let op = match io.op {
            IoOp::Read(_) | IoOp::Load => Op::Read,
            IoOp::Write { batch, from } => {
                out.push(Action::Summary { batch, to: from, group, at });
                Op::Write
            }
            IoOp::Store(pages) => {
                let to = slot.map(slot_at);
                out.extend(to.map(|to| Action::Pages { group, pages, blocks, to }));
                Op::Write
            }
            IoOp::Flush => Op::Flush,
            IoOp::Discard => Op::Discard,
        };
        let fua = io.op == IoOp::Store(Pages::Header);
        self.ask(now, group, Carried::Io(io, slot), (op, at, blocks, fua), out);
    }

    fn ask(
        &mut self,
        now: Instant,
        group: GroupId,
        carried: Carried,
        (op, at, blocks, fua): (Op, u64, u32, bool),
        out: &mut Vec<Action>,
    ) {
        let lower = &mut self.arrays[group.index()];
        let tag = lower.free.pop().expect("who asks has seen that there is a tag");
        lower.carried[usize::from(tag.0)] = Some(carried);
        let request = Request { tag, op, lba: Lba(at), blocks, fua };
        self.tell(now, group, engine::Input::Request(request), out);
    }

    /// Passes an input to an engine.
    fn tell(&mut self, now: Instant, group: GroupId, input: engine::Input, out: &mut Vec<Action>) {
        let lower = &mut self.arrays[group.index()];
        lower.engine.step(now, input, &mut self.below);
        for action in self.below.drain(..) {
            match action {
                engine::Action::Complete { tag, result } => {
                    self.ended.push_back((group, tag, result));
                }
                engine::Action::Answer { number: STOP, result } => lower.stopped = Some(result),
                engine::Action::Io(mut io) => {
                    if let engine::IoOp::Read(mem) | engine::IoOp::Write { from: mem, .. } =
                        &mut io.op
                    {
                        *mem = lower.place(*mem);
                    }
                    out.push(Action::Array { group, action: engine::Action::Io(io) });
                }
                action @ (engine::Action::Compute(_)
                | engine::Action::Answer { .. }
                | engine::Action::Note(_)
                | engine::Action::Release(_)) => out.push(Action::Array { group, action }),
            }
        }
    }

    /// Processes everything that has ended, until nothing is left.
    fn settle(&mut self, now: Instant, out: &mut Vec<Action>) {
        self.start(now, out);
        while let Some((group, tag, result)) = self.ended.pop_front() {
            let lower = &mut self.arrays[group.index()];
            let carried = lower.carried[usize::from(tag.0)].take();
            lower.free.push(tag);
            if let Some(io) = lower.waiting.pop_front() {
                self.carry(now, io, out);
            }
            match carried {
                Some(Carried::Io(io, slot)) => self.carried(now, io, slot, result, out),
                Some(Carried::Start(_)) => self.start_carried(now, result, out),
                None => {}
            }
            self.start(now, out);
        }
        self.stop(now, out);
    }

    /// An I/O of the volume has ended.
    fn carried(
        &mut self,
        now: Instant,
        io: Io,
        slot: Option<u16>,
        result: Result<(), RequestError>,
        out: &mut Vec<Action>,
    ) {
        let Io { id, op, group, at, blocks } = io;
        if let (IoOp::Load, Some(slot), Ok(())) = (op, slot, result) {
            // The slot is free when the bytes have been seen.
            let look = Look(Some(id), slot);
            let from = slot_at(slot);
            let looking = Looking { look, from, group, at, blocks, checksums: false };
            out.push(Action::Look(looking));
            return;
        }
        self.free_slots.extend(slot);
        let result = result.map_err(|_| match op {
            IoOp::Read(_) | IoOp::Load => IoError::Medium,
            IoOp::Write { .. } | IoOp::Store(_) | IoOp::Flush | IoOp::Discard => IoError::Gone,
        });
        match (op, result) {
            (IoOp::Load, Err(error)) => {
                self.upper(now, volume::Input::Loaded { id, result: Err(error) }, out);
            }
            _ => self.upper(now, volume::Input::IoDone { id, result }, out),
        }
    }

    fn seen(&mut self, now: Instant, id: IoId, answer: Answer<'_>, out: &mut Vec<Action>) {
        let result = match answer {
            Answer::Bytes(bytes) => Ok(bytes),
            Answer::Checksums(_) => Err(IoError::Medium),
            Answer::Failed(error) => Err(error),
        };
        self.upper(now, volume::Input::Loaded { id, result }, out);
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<Action>) {
        for group in self.all_groups() {
            self.tell(now, group, engine::Input::Tick, out);
        }
        self.upper(now, volume::Input::Tick, out);
    }

    /// Stops the arrays when the volume has stopped, or there is none.
    fn stop(&mut self, now: Instant, out: &mut Vec<Action>) {
        let at_rest = match &self.upper {
            Upper::Running(_) => self.stopped,
            Upper::Starting(start) => start.is_at_rest(),
            Upper::Lost => true,
        };
        if self.stopping && at_rest && self.stops == Stops::None {
            self.stops = Stops::Sent;
            self.refuse_held(out);
            for group in self.all_groups() {
                let stop = engine::Input::Command { number: STOP, command: Command::Stop };
                self.tell(now, group, stop, out);
            }
        }
        let mut stopped = self.arrays.iter().map(|lower| lower.stopped);
        if self.stops == Stops::Sent && stopped.clone().all(|result| result.is_some()) {
            self.stops = Stops::Done;
            out.push(Action::Stopped(stopped.try_for_each(|result| result.unwrap_or(Ok(())))));
        }
    }

    /// Refuses the requests that waited for a volume.
    fn refuse_held(&mut self, out: &mut Vec<Action>) {
        let error = if self.stopping { RequestError::Stopping } else { RequestError::Io };
        let refused = |request: Request| Action::Complete { tag: request.tag, result: Err(error) };
        out.extend(self.held.drain(..).map(refused));
    }

    fn all_groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.arrays.len()).map(GroupId::at)
    }
}

/// The requests that an engine serves at a time: users' reads, and the volume's writes.
fn tags(config: &Config) -> u16 {
    config.tags.saturating_mul(2).saturating_add(256)
}

/// The beginning of a slot.
fn slot_at(slot: u16) -> Mem {
    Mem::Scratch { buffer: slot, at: 0 }
}
