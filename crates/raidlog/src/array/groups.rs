//! The host's access to the arrays of the groups besides steps, and to their memory.

use alloc::boxed::Box;

use raidcore::engine::{self, Engine, JobId, SteeringPolicy};
use raidcore::meta::DeviceLabel;
use raidcore::plan::Found;
use raidcore::units::{DeviceId, Mem, Tag};

use super::{Carried, LogArray, LogMem, plus, start};
use crate::units::GroupId;
use crate::volume::{self, Io, IoOp};

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

    /// How many slots of [`SLOT_BLOCKS`](super::SLOT_BLOCKS) the host has to provide.
    #[must_use]
    pub fn slots(&self) -> u16 {
        self.slots
    }

    /// The unused slots. Their content is void until the next step.
    #[must_use]
    pub fn free_slots(&self) -> &[u16] {
        &self.free_slots
    }

    /// Where the memory of an array's action is.
    ///
    /// # Panics
    /// If no action under way uses it.
    #[must_use]
    pub fn place(&self, group: GroupId, mem: Mem) -> LogMem {
        let (tag, at) = match mem {
            Mem::Scratch { buffer, at } => return LogMem::Scratch { group, buffer, at },
            Mem::Zero => return LogMem::Zero,
            Mem::Payload { tag, at } => (tag, at),
        };
        let carried = self.arrays[group.index()].carried[usize::from(tag.0)];
        match carried.expect("memory is that of something under way") {
            Carried::Io(_, Some(slot)) => LogMem::Slot { slot, at },
            Carried::Io(Io { op: IoOp::Read(from) | IoOp::Write { from, .. }, .. }, None) => {
                plus(from, at)
            }
            Carried::Start => LogMem::Slot { slot: start::SLOT, at },
            Carried::Io(io, None) => panic!("{io:?} has no memory"),
        }
    }

    /// The users' requests that an I/O of a group's array is for.
    pub fn waiting_for(
        &self,
        group: GroupId,
        io: engine::IoId,
    ) -> impl Iterator<Item = Tag> + use<'_> {
        let lower = &self.arrays[group.index()];
        lower.engine.waiting_for(io).iter().filter_map(|tag| {
            match lower.carried[usize::from(tag.0)] {
                Some(Carried::Io(
                    Io { op: IoOp::Read(volume::Mem::Payload { tag, .. }), .. },
                    _,
                )) => Some(tag),
                _ => None,
            }
        })
    }
}
