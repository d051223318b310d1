//! What goes wrong in the world, never more than redundancy makes up for, and what operators do.

use raidcore::engine::{ArrayHealth, Command, Input, IoError, Note, Pace, PassKind};
use raidcore::meta::{SUPERBLOCKS, SlotState, Superblock, choose_superblock};
use raidcore::units::{DeviceId, MemberId, Stripe};

use crate::create::uuid_of;
use crate::disk::Disk;
use crate::world::World;

impl World {
    /// Members that do not serve in full, or will not when the engine finds out, or would not
    /// after a crash now.
    pub(crate) fn missing(&self) -> usize {
        let status = self.engine.status();
        let newest = self.superblocks().map(|(_, s)| s.record);
        let newest = newest.max_by_key(|r| r.events).expect("an array");
        let whole = status.members.iter().zip(&newest.slots).filter(|(m, slot)| {
            let well = |d: DeviceId| {
                let disk = &self.disks[d.0 as usize];
                !disk.gone && disk.sick.is_none()
            };
            let there = m.device.is_some_and(well);
            there && m.state == SlotState::Up && slot.state == SlotState::Up
        });
        status.members.len() - whole.count()
    }

    /// The superblocks of the disks that answer.
    pub(crate) fn superblocks(&self) -> impl Iterator<Item = (usize, Superblock)> + '_ {
        let there = self.disks.iter().enumerate().filter(|(_, disk)| !disk.gone);
        there.filter_map(|(index, disk)| {
            let copies = SUPERBLOCKS.map(|at| disk.read(at.0).map(|block| &block[..]));
            Some((index, choose_superblock(&copies).ok()?))
        })
    }

    pub(crate) fn member_disks(&self) -> Vec<usize> {
        let status = self.engine.status();
        let devices = status.members.iter().filter_map(|m| m.device);
        devices.map(|d| d.0 as usize).collect()
    }

    pub(crate) fn look_synced(&mut self) {
        let status = self.engine.status();
        let resyncs = status.pass.is_some_and(|p| p.kind == PassKind::Resync);
        let ended = |note: &Note| matches!(note, Note::PassEnded(PassKind::Resync, _));
        if self.unsynced && self.engine.is_serving() && !resyncs && self.notes.iter().any(ended) {
            self.unsynced = false;
        }
    }

    pub(crate) fn fault(&mut self) {
        self.look_synced();
        if self.unsynced {
            return;
        }
        let members = self.member_disks();
        if members.is_empty() {
            return;
        }
        let pick = members[self.prng.below(members.len() as u64) as usize];
        let bad = self.disks.iter().any(|d| !d.bad.is_empty());
        let missing = self.missing();
        if self.prng.chance(1, 2) {
            if !bad && missing < self.redundancy() {
                let kind = self.prng.below(4);
                self.summary.failed_writes += u64::from(kind < 2);
                self.summary.disks_gone += u64::from(kind >= 2);
                match kind {
                    0 => self.disks[pick].sick = Some(IoError::Medium),
                    1 => self.disks[pick].sick = Some(IoError::NoSpace),
                    2 => self.disks[pick].gone = true,
                    _ => {
                        self.disks[pick].gone = true;
                        self.step(Input::DeviceGone(DeviceId(pick as u32)));
                    }
                }
            }
        } else if missing == 0 && self.redundancy() > 0 {
            self.spoil_blocks();
        }
    }

    /// Makes blocks of one stripe unreadable, on as many members as redundancy makes up for.
    pub(crate) fn spoil_blocks(&mut self) {
        let (areas, stripes) = self.areas();
        let stripe = Stripe(self.prng.below(stripes));
        let start = self.engine.geometry().place(stripe, areas.data_start()).0;
        let range = start..start + u64::from(self.scenario.chunk);
        let members = self.member_disks();
        let spoilt = |d: &&usize| self.disks[**d].bad.range(range.clone()).next().is_some();
        if members.iter().any(|d| spoilt(&d)) {
            return;
        }
        for _ in 0..self.redundancy().min(members.len() - 1) {
            let disk = members[self.prng.below(members.len() as u64) as usize];
            let at = start + self.prng.below(self.scenario.chunk.into());
            let busy = self.ios.iter().any(|p| {
                p.io.device.0 as usize == disk && (p.io.at.0..p.io.at.0 + 256).contains(&at)
            });
            if !busy {
                self.disks[disk].bad.insert(at);
                self.summary.bad_blocks += 1;
            }
        }
    }

    pub(crate) fn command(&mut self, command: Command) {
        self.commands += 1;
        let number = self.commands;
        self.step(Input::Command { number, command });
    }

    /// A new disk with noise on it but zeros where metadata goes, as the host has to see to.
    pub(crate) fn new_spare(&mut self) -> Command {
        let blocks = self.disks[0].blocks;
        let mut disk = Disk::new(blocks);
        let from = self.meta_blocks();
        disk.soil(&mut self.prng, from);
        self.disks.push(disk);
        let index = self.disks.len() - 1;
        self.uuids.push(uuid_of(index));
        Command::AddSpare { device: DeviceId(index as u32), uuid: uuid_of(index), blocks }
    }

    pub(crate) fn operate(&mut self) {
        self.look_synced();
        if !self.engine.is_serving() {
            return;
        }
        let status = self.engine.status();
        let impaired = status.health != ArrayHealth::Online;
        let command = match self.prng.below(12) {
            0..=3 if impaired && status.spares.is_empty() && self.redundancy() > 0 => {
                self.new_spare()
            }
            4 if self.disks.len() < 12 && self.redundancy() > 0 => self.new_spare(),
            5 => Command::Scrub { repair: self.prng.chance(1, 2) },
            6 => Command::Pause,
            7 => Command::Resume,
            9 => Command::SetPace(Pace {
                min: 1 << self.prng.below(30),
                max: u64::MAX >> self.prng.below(40),
            }),
            8 if self.missing() < self.redundancy() && !self.unsynced && !self.has_bad() => {
                let Some(&spare) = status.spares.first() else { return };
                let member = self.prng.below(self.scenario.members as u64);
                Command::Replace { member: MemberId(member as u8), spare }
            }
            10 if self.missing() < self.redundancy() && !self.unsynced && !self.has_bad() => {
                let member = self.prng.below(self.scenario.members as u64);
                Command::Fail(MemberId(member as u8))
            }
            11 => Command::CancelScrub,
            _ => return,
        };
        self.command(command);
    }

    pub(crate) fn has_bad(&self) -> bool {
        self.disks.iter().any(|d| !d.bad.is_empty())
    }

    /// Brings the array back to full health.
    pub(crate) fn heal(&mut self) {
        for disk in &mut self.disks {
            disk.bad.clear();
            disk.sick = None;
        }
        self.command(Command::SetPace(Pace::default()));
        for _ in 0..3_000_000u32 {
            let status = self.engine.status();
            let busy = !self.ios.is_empty() || !self.computes.is_empty();
            let whole = status.health == ArrayHealth::Online && !busy;
            if status.pass.is_none() && (whole || self.redundancy() == 0) {
                return;
            }
            if busy {
                self.complete_any();
                continue;
            }
            if status.pass.is_some_and(|p| p.paused || p.stuck.is_some()) {
                self.command(Command::Resume);
            } else if status.health != ArrayHealth::Online
                && status.pass.is_none()
                && status.spares.is_empty()
            {
                // Members that have gone unnoticed are found by a flush.
                let spare = self.new_spare();
                self.command(spare);
            }
            self.pass_time();
            self.sweep();
        }
        panic!("it is never whole again: {:?}", self.engine.status());
    }

    /// Finds members that have gone without anyone noticing.
    pub(crate) fn sweep(&mut self) {
        for disk in self.member_disks() {
            if self.disks[disk].gone {
                self.step(Input::DeviceGone(DeviceId(disk as u32)));
            }
        }
    }
}
