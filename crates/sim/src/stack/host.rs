//! The world as a log array's host: I/O ends in any order, and so does what is computed and looked at.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{self, RequestError};
use raidcore::units::Tag;
use raidlog::array::Input;
use raidlog::host::{self, Host, Said, Work};
use raidlog::{GroupId, Machine};

use super::world::World;
use crate::checks;
use crate::disk::{Block, Disk};
use crate::memory::Memory;
use crate::under_way::Pending;

impl Host for World {
    type Memory = Memory<Block>;

    fn parts(&mut self) -> (&mut Machine, &mut Work, &mut Memory<Block>) {
        (&mut self.machine, &mut self.work, &mut self.memory)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn stepped(&mut self) -> bool {
        self.summary.events += 1;
        true
    }

    fn begin(&mut self, group: GroupId, io: engine::Io) {
        self.trace(format_args!("  begin {io:?} of {group:?}"));
        self.digest.add(io.at.0 << 16 | u64::from(io.device.0) << 8 | u64::from(io.blocks));
        checks::overlap::begins(group, &io, &self.ios);
        let disk = &self.groups[group.index()].disks[io.device.0 as usize];
        self.ios.push(Pending::new(&self.machine, &self.memory, disk, group, io));
    }

    fn complete(&mut self, tag: Tag, result: Result<(), RequestError>) {
        self.trace(format_args!("  complete {tag:?}: {result:?}"));
        self.digest.add(u64::from(tag.0) << 1 | u64::from(result.is_ok()));
        let from = &self.memory.payload[usize::from(tag.0)];
        let to = &mut self.users.payloads[usize::from(tag.0)];
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.user());
        let beyond = self.beyond;
        self.users.completed(tag, result, |_| beyond);
    }

    fn hear(&mut self, said: Said) {
        self.trace(format_args!("  {said:?}"));
        match said {
            Said::Answer { .. } | Said::Array(..) => {}
            Said::Release(group, device) => self.released.push((group, device)),
            Said::Volume(note) => self.note(note),
            Said::Lost(error) => self.lost = Some(error),
            Said::Stopped(result) => {
                assert_eq!(result, Ok(()), "a stop");
                self.stopped = true;
            }
        }
    }
}

impl World {
    /// Passes an input to the log array, and carries out its actions.
    pub(super) fn step(&mut self, input: Input<'_>) {
        self.trace(format_args!("{input:?}"));
        host::step(self, input);
        self.went_on();
    }

    fn went_on(&mut self) {
        self.give_up();
        // The check looks at every block.
        if self.summary.events.is_multiple_of(64) {
            self.check();
        }
    }

    pub(super) fn check(&self) {
        for group in self.all_groups() {
            self.machine.engine(group).check();
        }
        if let Some(volume) = self.machine.volume() {
            volume.check();
        }
    }

    /// Ends something that is under way.
    pub(super) fn complete_one(&mut self) {
        self.now = self.now + Duration::from_micros(self.source.below(50));
        let (ios, computes) = (self.ios.len(), self.work.computes.len());
        let all = ios + computes + self.work.looks.len();
        let pick = self.source.below(all as u64) as usize;
        let hangs = |at: &usize| self.ios.get(*at).is_some_and(|io| self.does_hang(io));
        let Some(pick) = (pick..all).chain(0..pick).find(|at| !hangs(at)) else {
            // Nothing else is under way: the wait is over.
            return self.hangs_end();
        };
        if pick < ios {
            self.end_io(pick);
        } else if pick < ios + computes {
            self.compute(pick - ios);
        } else {
            self.look(pick - ios - computes);
        }
    }

    fn end_io(&mut self, index: usize) {
        let pending = self.ios.swap_remove(index);
        let Pending { group, io, .. } = pending;
        let late = self.machine.engine(group).waiting_for(io.id).next().is_none();
        let disk = &mut self.groups[group.index()].disks[io.device.0 as usize];
        let result =
            pending.carry_out(disk, &mut self.memory, &mut self.source, (&[], false, late));
        let input = engine::Input::IoDone { id: io.id, result };
        self.step(Input::Array { group, input });
    }

    fn compute(&mut self, index: usize) {
        let compute = self.work.computes.swap_remove_back(index);
        let (group, job) = compute.expect("arithmetic under way");
        self.trace(format_args!("computed {job:?} of {group:?}"));
        host::compute(self, group, job);
        self.went_on();
    }

    fn look(&mut self, index: usize) {
        let looking = self.work.looks.swap_remove_back(index).expect("something to look at");
        self.trace(format_args!("seen {:?}", looking.look));
        if looking.checksums {
            self.summary.proven += u64::from(looking.blocks);
        }
        host::look(self, looking);
        self.went_on();
    }

    /// I/O under way when the host died has happened completely, in part, or not at all.
    pub(super) fn lose_pending(&mut self) {
        self.end_given_up();
        for pending in std::mem::take(&mut self.ios) {
            if !self.disk_of(&pending).gone {
                self.write_some(&pending);
            }
        }
        self.work.computes.clear();
        self.work.looks.clear();
    }

    /// What a write that the power failed, or that was given up, leaves behind.
    pub(super) fn write_some(&mut self, pending: &Pending<Block>) {
        let (group, device) = pending.at();
        let disk = &mut self.groups[group.index()].disks[device.0 as usize];
        pending.write_some(disk, &mut self.source, &[]);
    }

    pub(super) fn disk_of(&self, pending: &Pending<Block>) -> &Disk<Block> {
        let (group, device) = pending.at();
        &self.groups[group.index()].disks[device.0 as usize]
    }
}
