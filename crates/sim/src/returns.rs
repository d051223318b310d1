//! Disks that return: one that was lost, or taken out of service, returns to its place with its
//! content. It may have lost its unflushed writes, as by a power failure of its own. I/O on it that
//! was given up may have been carried out before it is opened again.

use raidcore::engine::Command;
use raidcore::meta::{Areas, Returning, SUPERBLOCKS, Superblock, choose_superblock};
use raidcore::units::{DeviceId, MemberId};

use crate::create::uuid_of;
use crate::disk::{Disk, Kept};
use crate::world::World;

/// The most disks of a world, each return counted as one.
const DISKS_MAX: usize = 40;

impl<D: Kept> Disk<D> {
    /// The superblock that it has, whether it answers or not.
    pub(crate) fn superblock(&self) -> Option<Superblock> {
        choose_superblock(&SUPERBLOCKS.map(|at| Some(&self.meta(at.0)[..]))).ok()
    }
}

impl World {
    /// The disks that may return, and how.
    pub(crate) fn returnable(&self) -> Vec<(usize, Returning)> {
        let all = 0..self.disks.len();
        all.filter_map(|disk| {
            let device = DeviceId(disk as u32);
            let superblock = self.disks[disk].superblock()?;
            let busy = self.ios.iter().any(|pending| pending.io.device == device);
            let how = self.engine().may_return(&superblock, self.disks[disk].size()).ok()?;
            (!busy).then_some((disk, how))
        })
        .collect()
    }

    /// A disk returns, if one can; tells whether it does.
    pub(crate) fn return_a_disk(&mut self) -> bool {
        if !self.engine().is_serving() || self.beyond || self.disks.len() >= DISKS_MAX {
            return false;
        }
        let disks = self.returnable();
        if disks.is_empty() {
            return false;
        }
        let (disk, returning) = self.source.one_of(&disks);
        self.return_disk(disk, returning);
        true
    }

    /// Returns this disk.
    pub(crate) fn return_disk(&mut self, disk: usize, returning: Returning) -> u64 {
        self.lose_power(disk);
        let new = self.disks.len();
        let place = self.meta_blocks_of(returning.member);
        let mut back = self.disks[disk].moved(new);
        back.wipe(&Areas::stale_on_return(place));
        let blocks = back.size();
        self.trace(format_args!("disk {disk} is back, as {new}"));
        self.disks.push(back);
        self.uuids.push(uuid_of(new));
        let (device, uuid) = (DeviceId(new as u32), uuid_of(new));
        let before = self.engine().counters().returned_members;
        let number = self.command(Command::Return { returning, device, uuid, blocks });
        self.summary.faults.returned += self.engine().counters().returned_members - before;
        number
    }

    /// I/O of the disk that was given up is carried out or not, and some of its unflushed writes
    /// are kept.
    fn lose_power(&mut self, disk: usize) {
        let device = DeviceId(disk as u32);
        while let Some(at) = self.given_up.iter().position(|p| p.io.device == device) {
            let pending = self.given_up.remove(at);
            if self.source.chance(1, 2) {
                self.write_some(&pending);
            }
        }
        let torn = self.scenario.faults.torn;
        if self.source.chance(2, 3) {
            self.disks[disk].crash(&mut self.source, torn);
        }
    }

    fn meta_blocks_of(&self, member: MemberId) -> u64 {
        let stages = member.index() >= self.scenario.members;
        if stages { self.areas.staging_device_blocks() } else { self.areas.meta_blocks() }
    }
}
