//! The world as the engine's host: I/O on disks in memory, arithmetic over plain vectors.

use det::Instant;
use raidcore::engine::{Io, IoError, RequestError};
use raidcore::units::{Pba, Tag};
use raidlog::host::{Host, Said, Work};
use raidlog::{GroupId, Machine};

use crate::checks;
use crate::disk::Data;
use crate::memory::Memory;
use crate::under_way::Pending;
use crate::world::World;

impl Host for World {
    type Memory = Memory<Data>;

    fn parts(&mut self) -> (&mut Machine, &mut Work, &mut Memory<Data>) {
        (&mut self.machine, &mut self.work, &mut self.memory)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn stepped(&mut self) -> bool {
        self.summary.events += 1;
        true
    }

    fn begin(&mut self, group: GroupId, io: Io) {
        self.trace(format_args!("begin {io:?}"));
        self.digest.add(io.at.0 << 16 | u64::from(io.device.0) << 8 | u64::from(io.blocks));
        checks::overlap::begins(group, &io, &self.ios);
        checks::streams::begins(self.engine(), &self.areas, &io);
        let disk = &self.disks[io.device.0 as usize];
        let mut pending = Pending::new(&self.machine, &self.memory, disk, group, io);
        if let Some(flash) = &mut self.flash {
            pending.tag = flash.begin(self.now, &io, disk.size());
        }
        self.ios.push(pending);
    }

    fn complete(&mut self, tag: Tag, result: Result<(), RequestError>) {
        self.completed(tag, result);
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Answer { number, result } => self.answers.push((number, result)),
            Said::Array(_, note) => {
                self.trace(format_args!("{note:?}"));
                self.notes.push(note);
            }
            Said::Release(_, device) => self.released.push(device),
            Said::Volume(_) | Said::Lost(_) | Said::Stopped(_) => {
                unreachable!("an array without a log, and every command has a number: {said:?}")
            }
        }
    }
}

impl World {
    pub(crate) fn carry_out(&mut self, pending: &Pending) -> Result<(), IoError> {
        self.spare_the_grown_up(pending.io.device);
        let copies = self.copies.map(|(Pba(copies), count)| copies..copies + count);
        let late = self.engine().waiting_for(pending.io.id).next().is_none();
        let disk = &mut self.disks[pending.io.device.0 as usize];
        pending.carry_out(disk, &mut self.memory, &mut self.source, (&copies, true, late))
    }

    /// What a write that the power failed, or that was given up, leaves behind.
    pub(crate) fn write_some(&mut self, pending: &Pending) {
        let copies = self.copies.map(|(Pba(copies), count)| copies..copies + count);
        let disk = &mut self.disks[pending.io.device.0 as usize];
        pending.write_some(disk, &mut self.source, &copies);
    }
}
