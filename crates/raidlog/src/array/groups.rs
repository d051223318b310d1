//! The host's access to the arrays of the groups besides steps, and to their memory.

use alloc::boxed::Box;
use core::ops::Range;

use raidcore::engine::{self, Engine, JobId, SteeringPolicy};
use raidcore::meta::DeviceLabel;
use raidcore::plan::Found;
use raidcore::units::{DeviceId, Mem, Tag};

use super::{Carried, LogArray, Lower, SLOT_BLOCKS, slot_at};
use crate::machine::Pool;
use crate::units::GroupId;
use crate::volume::{Io, IoOp, LogVolume};

impl LogArray {
    /// The array of a group, to look at and to encode its writes.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn array(&self, group: GroupId) -> &Engine {
        &self.arrays[group.index()].engine
    }

    /// Sets a device's label in a group's array, as [`Engine::label`].
    ///
    /// # Panics
    /// If there is no such group.
    pub fn label(&mut self, group: GroupId, device: DeviceId, label: DeviceLabel) {
        self.arrays[group.index()].engine.label(device, label);
    }

    /// Sets the policy that says where a group's reads and writes go, as [`Engine::set_steering`].
    ///
    /// # Panics
    /// If there is no such group.
    pub fn set_steering(&mut self, group: GroupId, policy: Option<Box<dyn SteeringPolicy>>) {
        self.arrays[group.index()].engine.set_steering(policy);
    }

    /// Passes the finding of an arithmetic step to a group's array, as [`Engine::found`].
    ///
    /// # Panics
    /// If there is no such group.
    pub fn found(&mut self, group: GroupId, job: JobId, found: Found) {
        self.arrays[group.index()].engine.found(job, found);
    }

    /// How many groups there are.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.arrays.len()
    }

    /// The scratch buffers that the host provides, in the order of their numbers; segments have so many
    /// blocks.
    pub(crate) fn pools(&self, segment: u32) -> impl Iterator<Item = Pool> + '_ {
        let Range { start, end } = self.slots;
        let segments = Pool { count: start, blocks: segment };
        let slots = Pool { count: end - start, blocks: SLOT_BLOCKS };
        let engines = self.arrays.iter().map(|lower| Pool::of(&lower.engine));
        [segments, slots].into_iter().chain(engines)
    }

    /// Those that are in no use.
    pub(crate) fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        let segments = self.volume().into_iter().flat_map(LogVolume::free_buffers);
        let engines = self
            .arrays
            .iter()
            .flat_map(|lower| lower.engine.free_scratch().map(|buffer| lower.scratch + buffer));
        segments.chain(self.free_slots.iter().copied()).chain(engines)
    }

    /// Where the memory is that a group's array names.
    pub(crate) fn place(&self, group: GroupId, mem: Mem) -> Mem {
        self.arrays[group.index()].place(mem)
    }

    /// The users' requests that an I/O of a group's array is for.
    pub fn waiting_for(
        &self,
        group: GroupId,
        io: engine::IoId,
    ) -> impl Iterator<Item = Tag> + use<'_> {
        let lower = &self.arrays[group.index()];
        lower.engine.waiting_for(io).filter_map(|tag| match lower.carried[usize::from(tag.0)] {
            Some(Carried::Io(Io { op: IoOp::Read(Mem::Payload { tag, .. }), .. }, _)) => Some(tag),
            _ => None,
        })
    }
}

impl Lower {
    /// Where the memory is that the engine names.
    ///
    /// # Panics
    /// If it is none of an action that is under way.
    pub(super) fn place(&self, mem: Mem) -> Mem {
        let (tag, at) = match mem {
            Mem::Scratch { buffer, at } => {
                return Mem::Scratch { buffer: self.scratch + buffer, at };
            }
            Mem::Zero => return Mem::Zero,
            Mem::Payload { tag, at } => (tag, at),
        };
        let carried = self.carried[usize::from(tag.0)];
        match carried.expect("memory is that of something under way") {
            Carried::Io(_, Some(slot)) | Carried::Start(slot) => slot_at(slot),
            Carried::Io(Io { op: IoOp::Read(from) | IoOp::Write { from, .. }, .. }, None) => from,
            Carried::Io(io, None) => panic!("{io:?} has no memory"),
        }
        .plus(at)
    }
}
