//! The I/O that devices have in hand, and what becomes of each when it ends.
//!
//! Invariant: what a member has in hand, and what is under way to the distributed spare, is counted
//! here and nowhere else.

use alloc::vec;
use alloc::vec::Vec;

use det::{Id, Slots};

use super::{Action, Io, IoId, IoOp, JobId};
use crate::meta::MapKind;
use crate::units::{DeviceId, MemberId, Pba};

/// What an I/O is for, and which part of the engine is told of its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Read { job: JobId, index: u16 },
    ReadAtOnce { job: JobId },
    Write { job: JobId, index: u16 },
    Discard { job: JobId },
    TrimSpare,
    TrimLog,
    Clear,
    Vacate,
    Entry { job: JobId },
    Tail { entry: u64 },
    Staged { job: JobId, number: u64 },
    StagedTail,
    Fetch { job: JobId, index: u16 },
    Copy { job: JobId, number: u64 },
    Page { kind: MapKind, index: u32 },
    Popularity,
    Superblock,
    Flush,
}

/// An I/O in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flight {
    pub(super) owner: Owner,
    pub(super) member: Option<MemberId>,
    pub(super) device: DeviceId,
    /// It is of the distributed spare.
    pub(super) on_spare: bool,
}

impl Flight {
    const BLANK: Self = Self::new(Owner::Flush, None, DeviceId(u32::MAX));

    pub(super) const fn new(owner: Owner, member: Option<MemberId>, device: DeviceId) -> Self {
        Self { owner, member, device, on_spare: false }
    }
}

/// See the [module](self).
pub(super) struct Flights {
    table: Slots<Flight>,
    /// How many each member has, whatever device was or is in its place.
    of_member: Vec<u32>,
    on_spare: u32,
}

impl Flights {
    /// Room for `most` at a time, on so many members and staging devices.
    pub(super) fn new(most: usize, members: usize) -> Self {
        Self { table: Slots::new(most, || Flight::BLANK), of_member: vec![0; members], on_spare: 0 }
    }

    /// One begins.
    pub(super) fn issue(
        &mut self,
        flight: Flight,
        op: IoOp,
        at: Pba,
        blocks: u32,
        out: &mut Vec<Action>,
    ) {
        let id = self.table.occupy().expect("there is room for everything that a job can do");
        self.table[id] = flight;
        self.on_spare += u32::from(flight.on_spare);
        if let Some(member) = flight.member {
            self.of_member[member.index()] += 1;
        }
        let id = IoId(id.to_bits());
        out.push(Action::Io(Io { id, device: flight.device, op, at, blocks }));
    }

    /// One has ended.
    pub(super) fn end(&mut self, io: IoId) -> Flight {
        let id = Id::from_bits(io.0);
        let flight = self.table[id];
        self.table.vacate(id);
        self.on_spare -= u32::from(flight.on_spare);
        if let Some(member) = flight.member {
            self.of_member[member.index()] -= 1;
        }
        flight
    }

    /// One that has not ended.
    ///
    /// # Panics
    /// If it has.
    pub(super) fn get(&self, io: IoId) -> Flight {
        self.table[Id::from_bits(io.0)]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.occupied() == 0
    }

    /// How many a member has in hand.
    pub(super) fn of(&self, member: MemberId) -> u32 {
        self.of_member[member.index()]
    }

    /// Whether any changes what stripes have on a device.
    pub(super) fn change(&self, device: DeviceId) -> bool {
        let changes =
            |owner| matches!(owner, Owner::Write { .. } | Owner::Discard { .. } | Owner::Vacate);
        self.table.iter().any(|(_, flight)| flight.device == device && changes(flight.owner))
    }

    /// How many are under way to the distributed spare.
    pub(super) fn on_spare(&self) -> u32 {
        self.on_spare
    }

    /// Verifies what can be seen from outside a step.
    ///
    /// # Panics
    /// If an invariant is broken: that is a bug in the engine.
    pub(super) fn check(&self) {
        if self.is_empty() {
            assert!(self.of_member.iter().all(|&count| count == 0), "I/O in flight is counted");
            assert_eq!(self.on_spare, 0, "I/O of the spare is counted");
        }
    }
}
