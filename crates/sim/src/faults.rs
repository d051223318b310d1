//! The faults of a world: never more than redundancy can make up for, unless the scenario says so.

use std::collections::BTreeSet;

use raidcore::engine::{
    Command, Engine, Input, IoError, MemberStatus, PassKind, PassStatus, SpareUse,
};
use raidcore::meta::{
    ArrayRecord, SUPERBLOCKS, SlotState, Superblock, choose_superblock, spare_copies,
};
use raidcore::units::{DeviceId, MemberId, Pba, Set, Stripe};

use crate::create::uuid_of;
use crate::disk::{Disk, FOR_GOOD, Kept, Phase, Sick};
use crate::fuse::Fuse;
use crate::under_way::Pending;
use crate::world::World;

/// Members and staging devices of an array that do not serve in full, or will not when the engine
/// notices, or would not after a crash now.
pub(crate) fn missing<D: Kept>(engine: &Engine, disks: &[Disk<D>]) -> Set<MemberId> {
    // The member that has the newest record may be the next one to be lost.
    let members: Vec<_> = engine.members().filter_map(|m| Some(m.device?.0 as usize)).collect();
    let known = superblocks(disks).filter(|(disk, _)| members.contains(disk));
    let known: Vec<_> = known.map(|(_, superblock)| superblock.record).collect();
    let well = |disk: &Disk<D>| !disk.gone && !disk.hangs && disk.sick.is_none();
    let whole = engine.members().enumerate().filter(|(index, m)| {
        let is_slot = |record: &ArrayRecord, state| {
            record.slots.get(*index).is_some_and(|slot| slot.state == state)
        };
        let on_record = |state| known.iter().all(|record| is_slot(record, state));
        // The array no longer depends on such a staging device.
        let done_with = m.stages && known.iter().all(|record| !record.staging_thin.has(m.member));
        // A spare with all that a member holds is about to take its place.
        let heir = engine.successor().filter(|s| s.member == m.member && s.done >= s.total);
        let heir = heir.map(|successor| successor.device);
        let mut devices = m.device.into_iter().chain(heir);
        let up = m.device.is_some() && devices.all(|d| well(&disks[d.0 as usize]));
        let stood_in_for = known.iter().all(|record| record.stood_in_for() == Some(m.member));
        let serves = m.state == SlotState::Up || is_filled(engine, m.member);
        match m.state {
            _ if stood_in_for => up || !serves,
            SlotState::Up => up && on_record(SlotState::Up),
            SlotState::Failed => done_with && on_record(SlotState::Failed),
            SlotState::Rebuilding { .. } => false,
        }
    });
    let whole: Set<MemberId> = whole.map(|(_, m)| m.member).collect();
    Set::first(engine.members().count()).minus(whole)
}

/// Whether a rebuild of a member has come to its end, so that its device is about to be the member.
fn is_filled(engine: &Engine, member: MemberId) -> bool {
    let fills = |p: &PassStatus| p.kind == PassKind::Rebuild(member) && p.done >= p.total;
    engine.pass().as_ref().is_some_and(fills)
}

/// The superblocks of the disks that answer.
pub(crate) fn superblocks<D: Kept>(
    disks: &[Disk<D>],
) -> impl Iterator<Item = (usize, Superblock)> + '_ {
    let there = disks.iter().enumerate().filter(|(_, disk)| !disk.gone);
    there.filter_map(|(index, disk)| {
        let readable = |at: Pba| !disk.bad.contains_key(&at.0);
        let copies = SUPERBLOCKS.map(|at| readable(at).then(|| &disk.meta(at.0)[..]));
        Some((index, choose_superblock(&copies).ok()?))
    })
}

impl World {
    /// Members and staging devices that do not serve in full, or will not when the engine finds out, or
    /// would not after a crash now.
    pub(crate) fn missing(&self) -> usize {
        self.which_are_missing().len()
    }

    fn which_are_missing(&self) -> Set<MemberId> {
        missing(self.engine(), &self.disks)
    }

    /// The superblocks of the disks that answer.
    pub(crate) fn superblocks(&self) -> impl Iterator<Item = (usize, Superblock)> + '_ {
        superblocks(&self.disks)
    }

    /// Where a stripe is on a disk: its chunk, and a copy of another member's on the distributed
    /// spare.
    fn places(&self, stripe: Stripe, disk: usize) -> Vec<std::ops::Range<u64>> {
        let layout = self.engine().layout();
        let is_disk = |member: &MemberStatus| member.device == Some(DeviceId(disk as u32));
        let member = self.engine().members().filter(|m| !m.stages).find(is_disk);
        let role = member.and_then(|m| layout.role(stripe, m.member));
        let at_home = role.map(|role| layout.place(stripe, role).1);
        let copies = self.copies_on_spare(stripe);
        let copies = copies.into_iter().filter(|&(holder, _)| holder == disk).map(|(_, at)| at);
        let chunk = u64::from(self.scenario.chunk);
        at_home.into_iter().chain(copies).map(|Pba(at)| at..at + chunk).collect()
    }

    /// The copies of a stripe's chunk that are, or may be, on the distributed spare.
    pub(crate) fn copies_on_spare(&self, stripe: Stripe) -> Vec<(usize, Pba)> {
        let (SpareUse::Filling(failed) | SpareUse::StandsInFor(failed)) =
            self.engine().distributed_spare().unwrap_or(SpareUse::Free)
        else {
            return Vec::new();
        };
        let (layout, members) = (self.engine().layout(), self.engine().status().members);
        let place = |copy| {
            let (MemberId(member), at) =
                self.areas.on_distributed_spare(layout, failed, stripe, copy);
            let member = &members[usize::from(member)];
            let up = member.device.filter(|_| member.state == SlotState::Up);
            up.map(|DeviceId(disk)| (disk as usize, at))
        };
        (0..spare_copies(layout.of(stripe))).filter_map(place).collect()
    }

    /// The most members that can't be read in any stripe.
    fn spoilt(&self) -> usize {
        let members = self.member_disks();
        let stripes = (0..self.engine().layout().stripes()).map(Stripe);
        let known = self.spoilt.values().map(BTreeSet::len);
        let bad = stripes.map(|stripe| self.bad_in(stripe, &members).len());
        bad.chain(known).max().unwrap_or(0)
    }

    /// The members that can't be read in a stripe.
    fn bad_in(&self, stripe: Stripe, members: &[usize]) -> BTreeSet<usize> {
        let is_bad = |disk: usize, place| self.disks[disk].bad.range(place).next().is_some();
        let bad = |disk: &&usize| {
            self.places(stripe, **disk).into_iter().any(|place| is_bad(**disk, place))
        };
        members.iter().filter(bad).copied().collect()
    }

    /// Whether a member may be lost now. In a mirror every copy is some write's content; parity
    /// that is out of step makes up for nothing.
    fn may_fail(&self) -> bool {
        !self.unsynced || self.scenario.level.is_mirrored()
    }

    /// Whether redundancy makes up for one more member.
    pub(crate) fn can_lose_one(&self) -> bool {
        self.may_fail() && self.missing() + self.spoilt() < self.redundancy()
    }

    /// Whether redundancy makes up for this one more.
    pub(crate) fn can_lose(&self, member: MemberId) -> bool {
        self.can_lose_one() || self.can_lose_of_its_pair(member)
    }

    /// Whether stripes of other members are short of redundancy, if any are, but none of this one's.
    fn can_lose_of_its_pair(&self, member: MemberId) -> bool {
        self.is_paired() && self.may_fail() && self.spoilt() == 0 && self.is_of_a_whole_pair(member)
    }

    /// Whether some members have no part in the stripes of others.
    fn is_paired(&self) -> bool {
        let geometry = self.engine().geometry();
        geometry.width() < geometry.members()
    }

    /// Whether a member and all that have a part in its stripes are there.
    pub(crate) fn is_of_a_whole_pair(&self, member: MemberId) -> bool {
        let missing = self.which_are_missing();
        self.is_paired()
            && !missing.has(member)
            && self.engine().geometry().survives(missing.with(member))
    }

    /// Causes a fault.
    pub(crate) fn fault(&mut self) {
        self.look_synced();
        let faults = self.scenario.faults;
        if faults.beyond && !self.beyond && self.source.chance(1, 16) {
            self.exceed();
        }
        if faults.phase && self.source.chance(1, 16) {
            return self.light_fuse();
        }
        let weights = [
            faults.gone,
            faults.write,
            faults.latent,
            faults.transient,
            faults.stall,
            faults.hang,
            faults.operator,
        ];
        let total = weights.iter().sum();
        if total == 0 {
            return;
        }
        let mut at = self.source.below(total);
        let kind = weights.iter().position(|&weight| {
            let here = at < weight;
            at = at.saturating_sub(weight);
            here
        });
        match kind {
            Some(0) => self.lose_a_disk(),
            Some(1) => self.fail_a_write(),
            Some(2) => self.spoil_blocks(false),
            Some(3) => self.spoil_blocks(true),
            Some(4) => self.stall(),
            Some(5) => self.hang(),
            _ => self.operate(),
        }
    }

    /// A disk that may fail now: a spare, a member that is being filled (unless the members that it
    /// is filled from hang), or any member if redundancy permits it.
    pub(crate) fn victim(&mut self) -> Option<usize> {
        let members: Vec<_> = self.engine().members().collect();
        let mut victims: Vec<_> = self.engine().spares().collect();
        if self.may_fail() && !self.something_hangs() {
            // After a power failure, a staging device that is being filled may already count as one
            // in service. If too many are missing then, the start is refused.
            let many = self.missing() > self.redundancy();
            let filled = members.iter().filter(|m| m.state != SlotState::Up && !(m.stages && many));
            let filled = filled.filter(|m| !is_filled(self.engine(), m.member));
            victims.extend(filled.filter_map(|m| m.device));
        }
        let successor = self.engine().successor();
        victims.extend(successor.filter(|s| s.done < s.total).map(|s| s.device));
        let any = self.can_lose_one();
        let lost = members.iter().filter(|m| any || self.can_lose_of_its_pair(m.member));
        victims.extend(lost.filter_map(|m| m.device));
        victims.extend(successor.filter(|_| any).map(|s| s.device));
        if victims.is_empty() {
            return None;
        }
        let victim = self.source.one_of(&victims);
        let serves = |m: &MemberStatus| m.device == Some(victim) && m.state == SlotState::Up;
        if !any && members.iter().any(serves) {
            self.trace(format_args!("a member of another pair is missing"));
        }
        Some(victim.0 as usize)
    }

    fn lose_a_disk(&mut self) {
        let Some(disk) = self.victim() else { return };
        self.trace(format_args!("disk {disk} goes"));
        self.summary.faults.gone += 1;
        self.disks[disk].gone = true;
        if self.source.chance(1, 2) {
            self.step(Input::DeviceGone(DeviceId(disk as u32)));
        }
    }

    fn fail_a_write(&mut self) {
        let Some(disk) = self.victim() else { return };
        let phase = self.phase();
        let error = self.source.one_of(&[IoError::Medium, IoError::NoSpace]);
        let early = !self.is_in_service(DeviceId(disk as u32));
        let fails = |p: &Pending| p.io.device.0 as usize == disk && phase.has(&p.io.op);
        if early && !self.ios.iter().any(fails) {
            return;
        }
        self.summary.faults.write += 1;
        self.trace(format_args!("disk {disk} will fail: {phase:?}, {error:?}"));
        self.disks[disk].sick = Some(Sick { phase, error, early });
    }

    /// Whether a device is a member in service.
    fn is_in_service(&self, device: DeviceId) -> bool {
        self.engine().members().any(|m| m.device == Some(device) && m.state == SlotState::Up)
    }

    /// A disk that was to fail as a spare, or while it was being filled, does not fail as the
    /// member that it has become: redundancy may need it by now.
    pub(crate) fn spare_the_grown_up(&mut self, device: DeviceId) {
        let grown = self.disks[device.0 as usize].sick.is_some_and(|sick| sick.early);
        if grown && self.is_in_service(device) {
            self.disks[device.0 as usize].sick = None;
        }
    }

    /// Which writes and flushes fail.
    fn phase(&mut self) -> Phase {
        match self.scenario.faults.phase && self.source.chance(2, 3) {
            true => self.source.one_of(&Phase::EACH),
            false => Phase::Any,
        }
    }

    /// The power fails as soon as one disk has carried out an I/O of some purpose.
    fn light_fuse(&mut self) {
        let phase = self.source.one_of(&Phase::EACH);
        self.trace(format_args!("the power will fail: {phase:?}"));
        self.fuse = Fuse::Lit(phase);
    }

    /// Makes blocks of one stripe unreadable, on as many members as redundancy permits.
    pub(crate) fn spoil_blocks(&mut self, transient: bool) {
        if self.unsynced {
            return;
        }
        let members = self.member_disks();
        let stripe = Stripe(self.source.below(self.engine().geometry().stripes()));
        // A job on the stripe knows of all that have been bad meanwhile.
        if self.engine().is_idle() {
            self.forget_spoilt();
        }
        let mut spoilt = self.bad_in(stripe, &members);
        spoilt.extend(self.spoilt.remove(&stripe).unwrap_or_default());
        let members = self.those_of(stripe, members);
        let missing = self.those_missing_of(stripe);
        let left = self.redundancy().saturating_sub(missing);
        while spoilt.len() < left && self.source.chance(2, 3) {
            let disk = self.source.one_of(&members);
            spoilt.insert(disk);
            self.spoil(stripe, disk, transient);
        }
        self.spoilt.insert(stripe, spoilt);
    }

    /// Those of the members' disks that have a part in a stripe, if not all stripes are on all.
    fn those_of(&self, stripe: Stripe, members: Vec<usize>) -> Vec<usize> {
        let has_part = |disk: &usize| !self.places(stripe, *disk).is_empty();
        members.into_iter().filter(|disk| !self.is_paired() || has_part(disk)).collect()
    }

    /// How many members are missing that have a part in a stripe, if not all stripes are on all.
    fn those_missing_of(&self, stripe: Stripe) -> usize {
        let geometry = self.engine().geometry();
        let has_part = |&member: &MemberId| geometry.role(stripe, member).is_some();
        self.which_are_missing().filter(|member| !self.is_paired() || has_part(member)).count()
    }

    /// No job remembers blocks that could not be read before and can be now.
    pub(crate) fn forget_spoilt(&mut self) {
        let members = self.member_disks();
        let stripes = (0..self.engine().layout().stripes()).map(Stripe);
        let bad = stripes.map(|stripe| (stripe, self.bad_in(stripe, &members)));
        self.spoilt = bad.filter(|(_, disks)| !disks.is_empty()).collect();
    }

    fn spoil(&mut self, stripe: Stripe, disk: usize, transient: bool) {
        let places = self.places(stripe, disk);
        if places.is_empty() {
            return;
        }
        let place = self.source.below(places.len() as u64) as usize;
        let at = places[place].start + self.source.below(self.scenario.chunk.into());
        let left = if transient { 1 + self.source.below(3) as u32 } else { FOR_GOOD };
        // A block that is being written could be read again at once.
        let busy = self.ios.iter().any(|p| {
            p.io.device.0 as usize == disk
                && (p.io.at.0..p.io.at.0 + u64::from(p.io.blocks)).contains(&at)
        });
        if !busy {
            self.trace(format_args!("block {at} of disk {disk} can't be read, {left} times"));
            self.disks[disk].bad.insert(at, left);
            self.summary.faults.unreadable += 1;
        }
    }

    fn stall(&mut self) {
        let disk = self.source.below(self.disks.len() as u64) as usize;
        let events = self.source.one_of(&[10, 100, 1000]);
        self.trace(format_args!("disk {disk} stalls for {events} events"));
        self.disks[disk].stalled_until = self.summary.events + events;
        self.summary.faults.stalls += 1;
    }

    /// More fails than redundancy can make up for.
    fn exceed(&mut self) {
        self.beyond = true;
        self.suspects.extend(&self.exposed);
        self.summary.faults.beyond += 1;
        let members = self.member_disks();
        if self.scenario.faults.phase && self.source.chance(1, 2) {
            return self.fail_everywhere(&members);
        }
        if self.source.chance(1, 2) {
            for _ in 0..=self.redundancy() {
                let disk = self.source.one_of(&members);
                self.trace(format_args!("disk {disk} goes, beyond redundancy"));
                self.disks[disk].gone = true;
            }
        } else {
            let stripe = Stripe(self.source.below(self.engine().geometry().stripes()));
            for _ in 0..=2 * self.redundancy() {
                let disk = self.source.one_of(&members);
                self.spoil(stripe, disk, false);
            }
        }
    }

    /// The next I/O of some purpose fails on all members, or they can't write in a stripe.
    fn fail_everywhere(&mut self, members: &[usize]) {
        if self.source.chance(3, 4) {
            let phase = self.source.one_of(&Phase::EACH);
            let error = self.source.one_of(&[IoError::Medium, IoError::NoSpace]);
            self.trace(format_args!("all disks will fail: {phase:?}, {error:?}"));
            for &disk in members {
                self.disks[disk].sick = Some(Sick { phase, error, early: false });
            }
            return;
        }
        let stripe = Stripe(self.source.below(self.engine().geometry().stripes()));
        let full = self.source.chance(1, 2);
        let why = if full { "finds no room" } else { "can't be written" };
        self.trace(format_args!("{stripe:?} {why}"));
        for &disk in members {
            let places = self.places(stripe, disk).into_iter().flatten();
            let disk = &mut self.disks[disk];
            if full { disk.full.extend(places) } else { disk.unwritable.extend(places) }
        }
    }

    /// A used disk with wiped metadata, as the host has to wipe it.
    pub(crate) fn new_spare(&mut self) -> Command {
        let index = self.disks.len();
        let disk = if self.source.chance(1, 2) {
            // Its content looks like that of this very array.
            let model = self.source.below(index as u64) as usize;
            // A disk that small can only be a staging device.
            let wanted = self.is_whole();
            self.disks[if wanted { model } else { 0 }].wiped(index)
        } else {
            let mut disk = Disk::new(index, self.areas.meta_blocks(), self.disks[0].size());
            disk.soil(&mut self.source);
            disk
        };
        let blocks = disk.size();
        self.disks.push(disk);
        self.uuids.push(uuid_of(index));
        Command::AddSpare { device: DeviceId(index as u32), uuid: uuid_of(index), blocks }
    }

    pub(crate) fn has_bad(&self) -> bool {
        self.disks.iter().any(|d| !d.bad.is_empty())
    }
}
