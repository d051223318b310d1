//! The power fails, and returns: the array is assembled from what the disks kept.

use raidcore::geometry::Level;
use raidcore::meta::{
    AssembleError, AssembleOptions, Assembled, Consistency, MapKind, SUPERBLOCKS, SlotState,
    assemble,
};
use raidcore::units::{DeviceId, Lba, Pba};
use raidlog::ONLY;

use crate::checks;
use crate::disk::{Disk, FOR_GOOD, Kept};
use crate::fuse::Fuse;
use crate::under_way::Pending;
use crate::volatile::cached;
use crate::world::{World, is_exposed, start};

/// What may happen to disks while the power is off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    /// Nothing.
    Quiet,
    /// One may go, others may come back.
    Lossy,
    /// Those that had gone come back.
    Healing,
}

impl World {
    /// The power fails: some of the writes that were not durable survive.
    pub(crate) fn power_off(&mut self) {
        self.trace(format_args!("the power fails"));
        self.summary.faults.crashes += 1;
        for pending in std::mem::take(&mut self.ios) {
            let Pending { io, .. } = &pending;
            if !self.disks[io.device.0 as usize].gone {
                self.write_some(&pending);
            }
        }
        self.end_given_up();
        self.work.computes.clear();
        self.requests.iter_mut().for_each(|request| *request = None);
        checks::volatile::held_is_lost(self);
        let torn = self.scenario.faults.torn;
        for disk in &mut self.disks {
            if !disk.gone {
                disk.crash(&mut self.source, torn);
            }
            (disk.sick, disk.stalled_until, disk.hangs) = (None, 0, false);
            disk.unwritable.clear();
            disk.full.clear();
        }
        self.expose(self.scenario.consistency == Consistency::Journal);
        let healed = self.beyond || is_exposed(&self.scenario) || !self.exposed.is_empty();
        let meta_blocks = self.areas.meta_blocks();
        for disk in &mut self.disks {
            disk.bad.retain(|&at, _| at >= meta_blocks && !healed);
        }
    }

    /// Finds the blocks that the loss of a member would damage now, whether or not a journal closes
    /// the write hole.
    fn expose(&mut self, journaled: bool) {
        let past_the_journal = self.engine().counters().unjournaled_writes > self.settled_full;
        let layout = *self.engine().layout();
        let unsettled = (0..self.model.len()).filter(|&lba| self.model.is_unsettled(lba));
        let unsettled: Vec<u64> = unsettled.collect();
        match self.scenario.level {
            Level::Raid0 => {}
            Level::Raid1 | Level::Raid10 => self.exposed.extend(unsettled),
            Level::Raid4 | Level::Raid5 | Level::Raid6 if journaled => {
                // Only writes without the journal can be torn, and they occur only while no member
                // is missing.
                let at = self.whole_at;
                let risky = |lba: &u64| past_the_journal && self.model.is_unsettled_since(*lba, at);
                self.exposed.extend(unsettled.into_iter().filter(risky));
                self.exposed.extend(&self.refused);
            }
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                let width = layout.stripe_blocks();
                // What is staged may have been coming home.
                let engine = self.machine.engine(ONLY);
                let staged = |&lba: &u64| engine.is_staged(Lba(lba));
                let coming = (0..self.model.len()).filter(staged);
                let stripes = unsettled.into_iter().chain(coming).map(|lba| lba / width * width);
                let end = self.model.len();
                self.exposed.extend(stripes.flat_map(|lba| lba..(lba + width).min(end)));
            }
        }
    }

    /// The power is back.
    pub(crate) fn power_on(&mut self, outage: Outage) {
        let lost = (outage == Outage::Lossy).then(|| self.lose_one()).flatten();
        let mut returned = Vec::new();
        for disk in 0..self.disks.len() {
            let stale = self.scenario.faults.stale && self.source.chance(1, 2);
            let returns = match outage {
                Outage::Quiet => false,
                Outage::Lossy => stale && lost.is_none(),
                Outage::Healing => true,
            };
            if returns && std::mem::take(&mut self.disks[disk].gone) {
                returned.push(disk);
            }
        }
        if outage == Outage::Lossy && lost.is_none() {
            self.spoil_metadata();
        }
        let mut there: Vec<usize> = self.superblocks().map(|(disk, _)| disk).collect();
        let count = there.len();
        for i in 0..count {
            there.swap(i, i + self.source.below((count - i) as u64) as usize);
        }
        let (mut assembled, mut there) = self.assemble(there, &returned);
        if self.becomes_another(&mut assembled) && !self.write_maps(&assembled, &there) {
            // The power has failed before any record tells of it.
            (assembled, there) = self.assemble(there, &returned);
            self.forget_what_it_becomes(&assembled);
        }
        checks::volatile::loss_is_on_record(self, &assembled);
        self.areas = assembled.record.areas.clone();
        let devices = devices_of(&assembled, &there);
        self.trace(format_args!("the power is back: {assembled:?}"));
        self.model.crashed();
        self.suspects.extend(std::mem::take(&mut self.adopted).into_keys());
        let mut slots = assembled.slots.iter().zip(&assembled.record.slots);
        let whole = slots
            .by_ref()
            .take(self.scenario.members)
            .all(|(image, slot)| image.is_some() && slot.state == SlotState::Up);
        let layout = assembled.record.layout();
        let is_marked = |lba: u64| {
            let (stripe, _) = layout.locate(Lba(lba));
            assembled.bitmap.get(self.areas.region(stripe))
        };
        self.exposed.retain(|&lba| is_marked(lba));
        let marked = assembled.bitmap.count() > 0;
        self.unsynced = !self.exposed.is_empty() || is_exposed(&self.scenario) && marked;
        if !whole && !self.scenario.level.is_mirrored() && outage != Outage::Quiet {
            self.suspects.extend(&self.exposed);
        }
        let counters = self.engine().counters();
        let (scenario, source) = (&self.scenario, &mut self.source);
        self.summary.detours += counters.detours;
        self.summary.hedges += counters.hedged_reads;
        self.summary.elsewhere += counters.hedged_writes;
        self.summary.twins += counters.hedged_home_writes;
        self.summary.together += counters.staged_together;
        self.summary.warm += counters.warm_blocks;
        self.summary.kept += counters.kept_reads;
        self.summary.copy_reads += counters.copy_reads;
        self.summary.staged += counters.staged_writes;
        self.summary.reclaimed += counters.reclaimed_blocks;
        self.summary.cached += cached(&self.machine);
        self.machine = start(scenario, assembled, &devices, source, self.now);
        self.lost = self.engine().volatile().lost;
        (self.beyond, self.fuse) = (false, Fuse::None);
        self.forget_spoilt();
        self.begin_life();
    }

    /// A disk is lost with the power, if redundancy permits it.
    fn lose_one(&mut self) -> Option<usize> {
        if !self.scenario.faults.lossy || self.source.chance(1, 2) {
            return None;
        }
        let members = self.disks_in_use();
        let any = self.missing() < self.redundancy();
        let there = members.into_iter().filter(|&disk| {
            let member = self.engine().members().find(|m| m.device == Some(DeviceId(disk as u32)));
            !self.disks[disk].gone
                && (any || member.is_some_and(|m| self.is_of_a_whole_pair(m.member)))
        });
        let there: Vec<_> = there.collect();
        if there.is_empty() || self.has_bad() {
            return None;
        }
        let last = match std::mem::take(&mut self.fuse) {
            Fuse::Blown(last) => there.iter().position(|&disk| disk == last),
            Fuse::Lit(_) | Fuse::None => None,
        };
        // It may hold something that no other disk has.
        let lost = match last.filter(|_| self.source.chance(1, 2)) {
            Some(last) => there[last],
            None => self.source.one_of(&there),
        };
        self.trace(format_args!("disk {lost} goes with the power"));
        self.disks[lost].gone = true;
        self.summary.faults.gone += 1;
        Some(lost)
    }

    /// Blocks of one member's metadata can't be read at this start, if all members are there.
    fn spoil_metadata(&mut self) {
        if !self.scenario.faults.lossy || self.missing() > 0 || self.source.chance(1, 2) {
            return;
        }
        let disk = self.source.one_of(&self.disks_in_use());
        let (Pba(journal), blocks) = self.areas.journal();
        // Two copies of the superblock are always left; one if two were being written. If
        // redundancy can't make up for a disk without any, or has to for blocks of others, only one is
        // made unreadable.
        let mut first = None;
        for _ in 0..2 {
            let page = u64::from(self.source.chance(1, 2));
            let (Pba(staging), staged) = self.areas.staging();
            let at = match self.source.below(if staged > 0 { 5 } else { 4 }) {
                0 => self.areas.map_page(MapKind::Bitmap, 0, page).0,
                1 => self.areas.map_page(MapKind::ZeroMap, 0, page).0,
                2 if blocks > 0 => {
                    // Entries that only this ring had are not replayed: parity stays out of step.
                    self.expose(false);
                    let data = self.areas.meta_blocks();
                    self.disks.iter_mut().for_each(|disk| disk.bad.retain(|&at, _| at < data));
                    journal + self.source.below(blocks)
                }
                3 if staged > 0 => staging + self.source.below(staged),
                _ => {
                    let copy = self.source.one_of(&SUPERBLOCKS).0;
                    let spares_it = self.redundancy() > 0 && !self.has_bad();
                    if spares_it { copy } else { *first.get_or_insert(copy) }
                }
            };
            self.trace(format_args!("block {at} of disk {disk} can't be read"));
            self.disks[disk].bad.insert(at, FOR_GOOD);
            self.summary.faults.unreadable += 1;
        }
    }

    /// The array that these disks make.
    fn assemble(&mut self, there: Vec<usize>, returned: &[usize]) -> (Assembled, Vec<usize>) {
        let members = self.disks_in_use();
        let force = self.scenario.consistency != Consistency::Journal;
        array_of(&mut self.disks, there, (&members, returned), force)
    }
}

/// The devices of an array of the disks that are `there`.
pub(crate) fn devices_of(assembled: &Assembled, there: &[usize]) -> Vec<Option<DeviceId>> {
    let slots = assembled.slots.iter().chain(&assembled.spares);
    slots.map(|image| image.map(|i| DeviceId(there[i] as u32))).collect()
}

/// The array of the disks that are `there`, and which of these it was made of. It starts by itself, with
/// two exceptions. If its policy promises nothing for an unclean array that lacks a member, it is
/// forced, if that is allowed. And a disk that has returned may have a history of its own: the
/// `members` were in service when the power failed.
pub(crate) fn array_of<D: Kept>(
    disks: &mut [Disk<D>],
    mut there: Vec<usize>,
    (members, returned): (&[usize], &[usize]),
    force: bool,
) -> (Assembled, Vec<usize>) {
    let mut options = AssembleOptions { degraded: true, force: false };
    let assembled = loop {
        let images: Vec<_> = there.iter().map(|&disk| &disks[disk]).collect();
        match assemble(&images, options) {
            Ok(assembled) => break assembled,
            Err(AssembleError::DirtyDegraded) if force && !options.force => options.force = true,
            Err(AssembleError::SplitBrain { .. })
                if there.iter().any(|disk| returned.contains(disk)) =>
            {
                // A member that was out of service when the power failed may have a history of its
                // own; others only if there was no such member.
                let has_returned = |disk: &&usize| returned.contains(disk);
                let stranger = |disk: &&usize| !members.contains(disk);
                let mut came_back = there.iter().filter(has_returned);
                let left_out = came_back.clone().find(stranger).or_else(|| came_back.next());
                let left_out = *left_out.expect("one of them has returned");
                there.retain(|&disk| disk != left_out);
                disks[left_out].gone = true;
            }
            Err(error) => panic!("no array after a crash: {error}"),
        }
    };
    (assembled, there)
}
