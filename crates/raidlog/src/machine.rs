//! The state machine that a host runs: the engine of an array, or a log volume with the engines of
//! its groups.

use alloc::boxed::Box;
use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::{self, Command, Engine, JobId, SteeringPolicy};
use raidcore::meta::DeviceLabel;
use raidcore::plan::Found;
use raidcore::units::{DeviceId, Tag};

use crate::array::{Action, Input, LogArray, STOP};
use crate::units::GroupId;
use crate::volume::Volume;

/// The group number of an array that is no log volume.
pub const ONLY: GroupId = GroupId(0);

/// The machine that a host runs. Arrays and log volumes have the same interface, that of a
/// [`LogArray`]: an array is a group without a log above it.
pub enum Machine {
    /// An array.
    Array(Box<Engine>),
    /// A log volume.
    Log(Box<LogArray>),
}

/// The actions of a machine. They have to be taken out and begun in this order before the next
/// step.
#[derive(Debug, Default)]
pub struct Actions {
    /// Actions of an array's engine, if there is no log. [`STOP`] is the number of the command that
    /// stops it.
    pub of_array: Vec<engine::Action>,
    /// Actions of a log array.
    pub of_log: Vec<Action>,
}

impl Actions {
    /// Takes all actions out, as those of a log array.
    pub fn drain(&mut self) -> impl Iterator<Item = Action> + use<'_> {
        self.of_log.drain(..).chain(self.of_array.drain(..).map(|action| match action {
            engine::Action::Complete { tag, result } => Action::Complete { tag, result },
            engine::Action::Answer { number: STOP, result } => Action::Stopped(result),
            action @ (engine::Action::Io(_)
            | engine::Action::Compute(_)
            | engine::Action::Answer { .. }
            | engine::Action::Note(_)
            | engine::Action::Release(_)) => Action::Array { group: ONLY, action },
        }))
    }
}

impl Machine {
    /// Processes an input at `now`, as [`LogArray::step`].
    ///
    /// # Panics
    /// If an array gets the answer to a look, for which it never asks.
    pub fn step(&mut self, now: Instant, input: Input<'_>, out: &mut Actions) {
        match self {
            Self::Log(array) => array.step(now, input, &mut out.of_log),
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
            Self::Log(array) => array.step(now, Input::Array { group, input }, &mut out.of_log),
        }
    }

    /// When it wants an [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Array(engine) => engine.deadline().map(|(at, _)| at),
            Self::Log(array) => array.deadline(),
        }
    }

    /// Its groups: an array is one.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        let count = match self {
            Self::Array(_) => 1,
            Self::Log(array) => array.groups(),
        };
        (0..count).map(GroupId::at)
    }

    /// The volume, if it is a log volume and there is one.
    #[must_use]
    pub fn volume(&self) -> Option<&Volume> {
        self.log().and_then(LogArray::volume)
    }

    /// The log array, if it is one.
    #[inline]
    #[must_use]
    pub fn log(&self) -> Option<&LogArray> {
        match self {
            Self::Array(_) => None,
            Self::Log(array) => Some(array),
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
            Self::Log(array) => array.array(group),
        }
    }

    /// Visits the users' requests that an I/O of a group's engine is for.
    pub fn waiting_for(&self, group: GroupId, io: engine::IoId, visit: impl FnMut(Tag)) {
        match self {
            Self::Array(engine) => engine.waiting_for(io).iter().copied().for_each(visit),
            Self::Log(array) => array.waiting_for(group, io).for_each(visit),
        }
    }

    /// Passes the finding of an arithmetic step to a group's engine, as [`Engine::found`].
    pub fn found(&mut self, group: GroupId, job: JobId, found: Found) {
        match self {
            Self::Array(engine) => engine.found(job, found),
            Self::Log(array) => array.found(group, job, found),
        }
    }

    /// Sets a device's label in a group's engine, as [`Engine::label`].
    pub fn label(&mut self, group: GroupId, device: DeviceId, label: DeviceLabel) {
        match self {
            Self::Array(engine) => engine.label(device, label),
            Self::Log(array) => array.label(group, device, label),
        }
    }

    /// Sets the policy that says where a group's reads and writes go, as [`Engine::set_steering`].
    pub fn set_steering(&mut self, group: GroupId, policy: Option<Box<dyn SteeringPolicy>>) {
        match self {
            Self::Array(engine) => engine.set_steering(policy),
            Self::Log(array) => array.set_steering(group, policy),
        }
    }
}
