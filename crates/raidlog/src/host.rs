//! What it means to carry out what a machine says: the one way of all hosts, of arrays and log volumes
//! alike.
//!
//! A [`Host`] begins I/O, hears what concerns users and operators, and has [`Memory`], which does the
//! arithmetic. What is between these is here: a step's actions are carried out in their order, and all
//! of them before the next step. What a machine asks for without I/O, to compute or to look at what was
//! read, becomes [`Work`], which is done after the step: by [`settle`] at once, or one by one in any
//! order.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::{self, CommandError, Io, JobId, RequestError};
use raidcore::plan::{BoundStep, Found};
use raidcore::units::{BLOCK_BYTES, DeviceId, Mem, Tag};

use crate::array::{Action, Input, Looking, STOP};
use crate::machine::{Actions, Machine, ONLY};
use crate::recovery::{Answer, RecoveryError};
use crate::units::GroupId;
use crate::volume::Note;

/// What runs a machine.
pub trait Host {
    /// Where the bytes are.
    type Memory: Memory;

    /// The machine, what it has asked for, and what it names.
    fn parts(&mut self) -> (&mut Machine, &mut Work, &mut Self::Memory);

    /// The time.
    fn now(&self) -> Instant;

    /// The machine has made a step. Returns whether what it has come to is carried out.
    fn stepped(&mut self) -> bool {
        true
    }

    /// Begins an I/O on a device of a group. When it has ended, its engine is [told](tell).
    fn begin(&mut self, group: GroupId, io: Io);

    /// A user's request has ended; its tag is free.
    fn complete(&mut self, tag: Tag, result: Result<(), RequestError>);

    /// Something for operators and the host itself.
    fn hear(&mut self, said: Said);
}

/// The bytes of what machines name.
pub trait Memory {
    /// Whether pages of checkpoints are kept, for those who open a volume.
    const PAGES: bool = true;

    /// Carries out a step of arithmetic over so many blocks; returns what it has found, if it looks for
    /// something.
    fn compute(&mut self, step: BoundStep<'_>, blocks: u32) -> Option<Found>;

    /// The [checksum](crate::codec::checksum) of a block.
    fn checksum(&self, of: Mem) -> u32;

    /// Puts whole blocks somewhere, to be written to this block of a group if that is told.
    fn put(&mut self, to: Mem, bytes: &[u8], goes: Option<(GroupId, u64)>);

    /// Copies blocks to where they are not.
    fn copy(&mut self, from: Mem, to: Mem, blocks: u32);

    /// Shows what was read.
    fn show(&self, looking: &Looking, to: impl FnOnce(&[u8]));
}

/// What a machine says to operators and its host.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// A command to a group's engine has ended.
    Answer {
        /// Which.
        number: u64,
        /// How.
        result: Result<(), CommandError>,
    },
    /// Something of a group's array.
    Array(GroupId, engine::Note),
    /// Something of the log volume.
    Volume(Note),
    /// A group's engine no longer uses the device; the host may close it.
    Release(GroupId, DeviceId),
    /// The groups hold no volume that can be started. No user is served.
    Lost(RecoveryError),
    /// Everything has stopped; whether that is on record in every group's array.
    Stopped(Result<(), CommandError>),
}

/// What a machine has asked for that is done after the step.
#[derive(Debug, Default)]
pub struct Work {
    /// Arithmetic, in the order in which it was asked for.
    pub computes: VecDeque<(GroupId, JobId)>,
    /// What was read and is to be looked at.
    pub looks: VecDeque<Looking>,
    /// Scratch space, in a box since it is taken out for each step.
    actions: Option<Box<Actions>>,
    found: Vec<Found>,
    bytes: Vec<u8>,
    checksums: Vec<u32>,
}

/// Tells the machine what happened, and carries out what that comes to.
pub fn step<H: Host>(host: &mut H, input: Input<'_>) {
    let now = host.now();
    let (machine, work, _) = host.parts();
    let mut actions = work.actions.take().unwrap_or_default();
    machine.step(now, input, &mut actions);
    carry_out(host, actions);
}

/// The same, of what is for a group's engine.
pub fn tell<H: Host>(host: &mut H, group: GroupId, input: engine::Input) {
    let now = host.now();
    let (machine, work, _) = host.parts();
    let mut actions = work.actions.take().unwrap_or_default();
    machine.tell(now, group, input, &mut actions);
    carry_out(host, actions);
}

/// Does what there is to be done after a step, and after those that follow from it; returns whether
/// there was something.
pub fn settle<H: Host>(host: &mut H) -> bool {
    let mut settled = false;
    loop {
        let work = host.parts().1;
        if let Some((group, job)) = work.computes.pop_front() {
            compute(host, group, job);
        } else if let Some(looking) = work.looks.pop_front() {
            look(host, looking);
        } else {
            return settled;
        }
        settled = true;
    }
}

/// Does arithmetic that was asked for.
pub fn compute<H: Host>(host: &mut H, group: GroupId, job: JobId) {
    let (machine, work, memory) = host.parts();
    let found = &mut work.found;
    machine.steps(group, job, |step, blocks| found.extend(memory.compute(step, blocks)));
    found.drain(..).for_each(|found| machine.found(group, job, found));
    tell(host, group, engine::Input::Computed(job));
}

/// Looks at what was read.
pub fn look<H: Host>(host: &mut H, looking: Looking) {
    let now = host.now();
    let (machine, work, memory) = host.parts();
    let mut actions = work.actions.take().unwrap_or_default();
    let Looking { look, from, blocks, checksums, .. } = looking;
    let mut seen =
        |answer: Answer<'_>| machine.step(now, Input::Seen { look, answer }, &mut actions);
    if checksums {
        work.checksums.clear();
        work.checksums.extend((0..blocks).map(|n| memory.checksum(from.plus(n))));
        seen(Answer::Checksums(&work.checksums));
    } else {
        memory.show(&looking, |bytes| seen(Answer::Bytes(bytes)));
    }
    carry_out(host, actions);
}

fn carry_out<H: Host>(host: &mut H, mut actions: Box<Actions>) {
    if host.stepped() {
        for action in actions.of_array.drain(..) {
            of_array(host, ONLY, action);
        }
        for action in actions.of_log.drain(..) {
            of_log(host, action);
        }
    }
    actions.of_array.clear();
    actions.of_log.clear();
    host.parts().1.actions = Some(actions);
}

#[inline]
fn of_array<H: Host>(host: &mut H, group: GroupId, action: engine::Action) {
    match action {
        engine::Action::Io(io) => host.begin(group, io),
        engine::Action::Compute(job) => host.parts().1.computes.push_back((group, job)),
        engine::Action::Complete { tag, result } => host.complete(tag, result),
        engine::Action::Answer { number: STOP, result } => host.hear(Said::Stopped(result)),
        engine::Action::Answer { number, result } => host.hear(Said::Answer { number, result }),
        engine::Action::Note(note) => host.hear(Said::Array(group, note)),
        engine::Action::Release(device) => host.hear(Said::Release(group, device)),
    }
}

fn of_log<H: Host>(host: &mut H, action: Action) {
    let (machine, work, memory) = host.parts();
    match action {
        Action::Array { group, action } => of_array(host, group, action),
        Action::Summary { batch, to, group, at } => {
            let volume = machine.volume().expect("a volume writes batches");
            work.bytes.resize(volume.shape().summary() as usize * BLOCK_BYTES, 0);
            volume.encode_summary(batch, &mut work.bytes, |mem| memory.checksum(mem));
            memory.put(to, &work.bytes, Some((group, at)));
        }
        Action::Pages { .. } if !H::Memory::PAGES => {}
        Action::Pages { group, pages, blocks, to } => {
            let volume = machine.volume().expect("a volume stores pages");
            work.bytes.resize(blocks as usize * BLOCK_BYTES, 0);
            for (n, into) in (0..).zip(work.bytes.chunks_exact_mut(BLOCK_BYTES)) {
                volume.encode_page(group, pages.plus(n), into);
            }
            memory.put(to, &work.bytes, None);
        }
        Action::Look(looking) => work.looks.push_back(looking),
        Action::Copy { from, to, blocks } => memory.copy(from, to, blocks),
        Action::Complete { tag, result } => host.complete(tag, result),
        Action::Note(note) => host.hear(Said::Volume(note)),
        Action::Lost(error) => host.hear(Said::Lost(error)),
        Action::Stopped(result) => host.hear(Said::Stopped(result)),
    }
}
