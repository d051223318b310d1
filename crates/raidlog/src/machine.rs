//! The state machine that a host runs: the engine of an array, with or without a write cache in memory
//! above it, or a log volume with the engines of its groups.

use alloc::boxed::Box;
use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::{self, Command, Engine, JobId, SteeringPolicy};
use raidcore::meta::DeviceLabel;
use raidcore::plan::{BoundStep, Found};
use raidcore::units::{DeviceId, MEMBERS_MAX, Mem, Tag};

use crate::array::{Action, Input, LogArray, STOP};
use crate::cache::CachedArray;
use crate::units::GroupId;
use crate::volume::LogVolume;

/// The group number of an array that is no log volume.
pub const ONLY: GroupId = GroupId(0);

/// The machine that a host runs. Arrays and log volumes have the same interface, that of a
/// [`LogArray`]: an array is a group without a log above it.
pub enum Machine {
    /// An array.
    Array(Box<Engine>),
    /// An array behind a write cache in memory.
    Cached(Box<CachedArray>),
    /// A log volume.
    Log(Box<LogArray>),
}

/// Scratch buffers of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    /// How many.
    pub count: u16,
    /// How large each is.
    pub blocks: u32,
}

impl Pool {
    /// Those of an engine.
    pub(crate) fn of(engine: &Engine) -> Self {
        Self { count: engine.scratch_buffers(), blocks: engine.layout().chunk() }
    }
}

/// What a machine wants done, to be carried out by [`host`](crate::host).
#[derive(Debug, Default)]
pub struct Actions {
    /// Actions of an array's engine, if there is no log. [`STOP`] is the number of the command that
    /// stops it.
    pub of_array: Vec<engine::Action>,
    /// Actions of a log array, or of an array behind a cache.
    pub of_log: Vec<Action>,
}

impl Machine {
    /// Processes an input at `now`, as [`LogArray::step`].
    ///
    /// # Panics
    /// If an array without a log gets the answer to a look, for which it never asks.
    pub fn step(&mut self, now: Instant, input: Input<'_>, out: &mut Actions) {
        match self {
            Self::Log(array) => array.step(now, input, &mut out.of_log),
            Self::Cached(array) => array.step(now, input, &mut out.of_log),
            Self::Array(_) => match input {
                Input::Request(request) => {
                    self.tell(now, ONLY, engine::Input::Request(request), out);
                }
                Input::Array { group, input } => self.tell(now, group, input, out),
                Input::Stop => {
                    let stop = engine::Input::Command { number: STOP, command: Command::Stop };
                    self.tell(now, ONLY, stop, out);
                }
                Input::Tick => self.tell(now, ONLY, engine::Input::Tick, out),
                Input::Seen { .. } => panic!("an array looks at nothing"),
            },
        }
    }

    /// Passes an input to a group's engine: the shortest way for the most frequent event, the end
    /// of an I/O.
    #[inline]
    pub fn tell(&mut self, now: Instant, group: GroupId, input: engine::Input, out: &mut Actions) {
        match self {
            Self::Array(engine) => engine.step(now, input, &mut out.of_array),
            Self::Cached(array) => array.tell(now, input, &mut out.of_log),
            Self::Log(array) => array.step(now, Input::Array { group, input }, &mut out.of_log),
        }
    }

    /// When it wants an [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Array(engine) => engine.deadline().map(|(at, _)| at),
            Self::Cached(array) => array.deadline(),
            Self::Log(array) => array.deadline(),
        }
    }

    /// Its groups: an array is one.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        let count = match self {
            Self::Array(_) | Self::Cached(_) => 1,
            Self::Log(array) => array.groups(),
        };
        (0..count).map(GroupId::at)
    }

    /// The volume, if it is a log volume and there is one.
    #[must_use]
    pub fn volume(&self) -> Option<&LogVolume> {
        self.log().and_then(LogArray::volume)
    }

    /// The log array, if it is one.
    #[inline]
    #[must_use]
    pub fn log(&self) -> Option<&LogArray> {
        match self {
            Self::Array(_) | Self::Cached(_) => None,
            Self::Log(array) => Some(array),
        }
    }

    /// The array behind a write cache in memory, if it is one.
    #[must_use]
    pub fn cached(&self) -> Option<&CachedArray> {
        match self {
            Self::Array(_) | Self::Log(_) => None,
            Self::Cached(array) => Some(array),
        }
    }

    /// What a write cache in memory holds comes home in another order from now on, if there is one.
    pub fn set_cache_order(&mut self, order: Option<Box<dyn engine::Hold>>) {
        if let Self::Cached(array) = self {
            array.set_order(order);
        }
    }

    /// The engine of a group, to look at and to encode its writes.
    ///
    /// # Panics
    /// If there is no such group; as the methods below.
    #[must_use]
    pub fn engine(&self, group: GroupId) -> &Engine {
        match self {
            Self::Array(engine) => engine,
            Self::Cached(array) => array.engine(),
            Self::Log(array) => array.array(group),
        }
    }

    /// The scratch buffers that the host provides, in the order of their numbers. Segments, if it is a
    /// log volume, have `segment` blocks.
    #[must_use]
    pub fn pools(&self, segment: u32) -> Vec<Pool> {
        match self {
            Self::Array(engine) => [Pool::of(engine)].into(),
            Self::Cached(array) => array.pools().collect(),
            Self::Log(array) => array.pools(segment).collect(),
        }
    }

    /// Those of them that are in no use: what they hold means nothing until the next step.
    pub fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        let (array, cached, log) = match self {
            Self::Array(engine) => (Some(engine.free_scratch()), None, None),
            Self::Cached(array) => (None, Some(array.free_buffers()), None),
            Self::Log(array) => (None, None, Some(array.free_buffers())),
        };
        let cached = cached.into_iter().flatten();
        array.into_iter().flatten().chain(cached).chain(log.into_iter().flatten())
    }

    /// Where the memory is that a group's engine names.
    #[inline]
    fn place(&self, group: GroupId, mem: Mem) -> Mem {
        match self {
            Self::Array(_) => mem,
            Self::Cached(array) => array.place(mem),
            Self::Log(array) => array.place(group, mem),
        }
    }

    /// Visits the arithmetic of a job of a group's engine, as [`Engine::steps`].
    pub fn steps(&self, group: GroupId, job: JobId, mut visit: impl FnMut(BoundStep<'_>, u32)) {
        match self {
            Self::Array(engine) => engine.steps(job, visit),
            Self::Cached(_) | Self::Log(_) => self.engine(group).steps(job, |step, blocks| {
                let mut room = [Mem::Zero; MEMBERS_MAX + 2];
                visit(step.rebind(|mem| self.place(group, mem), &mut room), blocks);
            }),
        }
    }

    /// Visits the payload of a group's [`IoOp::Journal`](engine::IoOp::Journal), as
    /// [`Engine::journal_payload`].
    pub fn journal_payload(
        &self,
        group: GroupId,
        io: engine::IoId,
        mut visit: impl FnMut(Mem, u32),
    ) {
        let visit = |mem, blocks| visit(self.place(group, mem), blocks);
        self.engine(group).journal_payload(io, visit);
    }

    /// Encodes the header of a group's [`IoOp::Journal`](engine::IoOp::Journal), as
    /// [`Engine::encode_journal`].
    pub fn encode_journal(
        &self,
        group: GroupId,
        io: engine::IoId,
        mut crc_of: impl FnMut(Mem) -> u32,
        into: &mut [u8],
    ) {
        self.engine(group).encode_journal(io, |mem| crc_of(self.place(group, mem)), into);
    }

    /// Visits the users' requests that an I/O of a group's engine is for.
    pub fn waiting_for(&self, group: GroupId, io: engine::IoId, visit: impl FnMut(Tag)) {
        match self {
            Self::Array(engine) => engine.waiting_for(io).for_each(visit),
            Self::Cached(array) => array.waiting_for(io).for_each(visit),
            Self::Log(array) => array.waiting_for(group, io).for_each(visit),
        }
    }

    /// Passes the finding of an arithmetic step to a group's engine, as [`Engine::found`].
    pub fn found(&mut self, group: GroupId, job: JobId, found: Found) {
        match self {
            Self::Array(engine) => engine.found(job, found),
            Self::Cached(array) => array.engine_mut().found(job, found),
            Self::Log(array) => array.found(group, job, found),
        }
    }

    /// Sets a device's label in a group's engine, as [`Engine::label`].
    pub fn label(&mut self, group: GroupId, device: DeviceId, label: DeviceLabel) {
        match self {
            Self::Array(engine) => engine.label(device, label),
            Self::Cached(array) => array.engine_mut().label(device, label),
            Self::Log(array) => array.label(group, device, label),
        }
    }

    /// Sets the policy that says where a group's reads and writes go, as [`Engine::set_steering`].
    pub fn set_steering(&mut self, group: GroupId, policy: Option<Box<dyn SteeringPolicy>>) {
        match self {
            Self::Array(engine) => engine.set_steering(policy),
            Self::Cached(array) => array.engine_mut().set_steering(policy),
            Self::Log(array) => array.set_steering(group, policy),
        }
    }
}
