//! Disks that hang: a member that is given up, as its group can do without it, or all of a group,
//! which are waited for. I/O that was given up may still be carried out, in part or whole, at any
//! time later.

use raidcore::engine::{self, IoError};
use raidcore::units::DeviceId;
use raidlog::GroupId;
use raidlog::array::Input;

use super::world::World;
use crate::disk::Block;
use crate::under_way::Pending;

impl World {
    /// A member of a group, or all of them, do not answer any more.
    pub(super) fn hang(&mut self, group: GroupId) {
        if self.hangs(group) {
            return;
        }
        let one = self.source.chance(3, 4).then(|| self.victim(group)).flatten();
        let members = self.machine.engine(group).members().filter_map(|m| m.device);
        let hanging = one.map_or_else(|| members.collect(), |one| vec![one]);
        self.trace(format_args!("disks {hanging:?} of {group:?} hang"));
        self.summary.hangs += 1;
        for DeviceId(device) in hanging {
            self.groups[group.index()].disks[device as usize].hangs = true;
        }
        self.tell_who_hangs(group);
    }

    fn hangs(&self, group: GroupId) -> bool {
        self.groups[group.index()].disks.iter().any(|disk| disk.hangs)
    }

    pub(super) fn does_hang(&self, pending: &Pending<Block>) -> bool {
        self.disk_of(pending).hangs
    }

    /// Disks that hang may answer again, and I/O that was given up may be carried out.
    pub(super) fn hang_on(&mut self) {
        if self.all_groups().any(|group| self.hangs(group)) && self.source.chance(1, 50) {
            self.hangs_end();
        }
        if !self.given_up.is_empty() && self.source.chance(1, 50) {
            let first = self.given_up.remove(0);
            self.write_some(&first);
        }
    }

    /// All disks answer again.
    pub(super) fn hangs_end(&mut self) {
        for group in self.all_groups().filter(|&group| self.hangs(group)).collect::<Vec<_>>() {
            let disks = &mut self.groups[group.index()].disks;
            disks.iter_mut().for_each(|disk| disk.hangs = false);
            self.tell_who_hangs(group);
        }
    }

    fn tell_who_hangs(&mut self, group: GroupId) {
        let disks = &self.groups[group.index()].disks;
        let hangs = |device: DeviceId| disks[device.0 as usize].hangs;
        let members = self.machine.engine(group).members();
        let hanging = members.filter(|member| member.device.is_some_and(hangs));
        let hanging = hanging.map(|member| member.member).collect();
        self.step(Input::Array { group, input: engine::Input::Hung(hanging) });
    }

    /// The host gives up the I/O of disks that hang and are out of service now.
    pub(super) fn give_up(&mut self) {
        while let Some(released) = self.released.pop() {
            let gives_up = |pending: &Pending<Block>| pending.at() == released;
            while let Some(at) = self.ios.iter().position(gives_up)
                && self.does_hang(&self.ios[at])
            {
                let pending = self.ios.swap_remove(at);
                let input =
                    engine::Input::IoDone { id: pending.io.id, result: Err(IoError::TimedOut) };
                self.given_up.push(pending);
                self.step(Input::Array { group: released.0, input });
            }
        }
    }

    /// Some of the I/O that was given up is carried out before the power fails.
    pub(super) fn end_given_up(&mut self) {
        self.released.clear();
        for pending in std::mem::take(&mut self.given_up) {
            if self.source.chance(1, 2) {
                self.write_some(&pending);
            }
        }
    }
}
