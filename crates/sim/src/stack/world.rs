//! The world: a log array, its disks, and its users.

use std::fmt;

use det::Instant;
use raidcore::engine::{Command, Engine, IoError};
use raidcore::meta::{Areas, VolumePart, VolumeUuid};
use raidcore::parity::Kernels;
use raidcore::units::DeviceId;
use raidlog::host::Work;
use raidlog::{GroupId, LogArray, Machine, Note, RecoveryError, Shape, VolumeId, array};

use super::StackSummary;
use super::scenario::StackScenario;
use crate::around::around;
use crate::create::{create, uuid_of};
use crate::digest::Digest;
use crate::disk::{Block, Disk, FOR_GOOD, Kept, Sick};
use crate::faults::{missing, superblocks};
use crate::log::users::Users;
use crate::memory::Memory;
use crate::play::Sink;
use crate::power::{array_of, devices_of};
use crate::source::Source;
use crate::under_way::Pending;
use crate::world::{config, is_exposed, some_of};

const VOLUME: VolumeId = VolumeId(*b"above the arrays");

/// The most disks of a group.
const DISKS_MAX: usize = 12;

/// The members of a group, and its spares.
pub(super) struct Group {
    pub(super) disks: Vec<Disk<Block>>,
    areas: Areas,
    /// Whether a block of a member could not be read, and a job on its stripe may still remember
    /// that.
    spoilt: bool,
    /// Disks that had gone and have come back while the power was off.
    returned: Vec<usize>,
}

pub(super) struct World {
    pub(super) source: Source,
    pub(super) scenario: StackScenario,
    pub(super) shape: Shape,
    pub(super) groups: Vec<Group>,
    pub(super) machine: Machine,
    pub(super) kernels: &'static Kernels,
    pub(super) now: Instant,
    pub(super) memory: Memory<Block>,
    pub(super) users: Users,
    pub(super) ios: Vec<Pending<Block>>,
    /// What was given up, and may be done all the same.
    pub(super) given_up: Vec<Pending<Block>>,
    /// The members that are out of service since the step before.
    pub(super) released: Vec<(GroupId, DeviceId)>,
    pub(super) work: Work,
    /// Nothing fails any more.
    pub(super) calm: bool,
    /// Whether more has failed than redundancy can make up for: requests may end with errors.
    pub(super) beyond: bool,
    pub(super) stopped: bool,
    /// Why there is no volume.
    pub(super) lost: Option<RecoveryError>,
    /// A checkpoint was durable, so there is a volume to recover.
    pub(super) made: bool,
    pub(super) summary: StackSummary,
    pub(super) digest: Digest,
    sink: Option<Sink>,
}

impl World {
    pub(super) fn new(mut source: Source, scenario: StackScenario, sink: Option<Sink>) -> Self {
        let shape = Shape::new(scenario.log.wish).unwrap_or_else(|e| panic!("{e}: {scenario:?}"));
        let part = |group: usize| VolumePart {
            volume: VolumeUuid(VOLUME.0),
            group: group as u8,
            groups: shape.groups() as u8,
            segment: shape.segment_blocks(),
            blocks: shape.capacity(),
        };
        let mut groups: Vec<_> = (0..shape.groups())
            .map(|group| {
                let (disks, record) = create(&scenario.array, Some(part(group)), &mut source);
                Group { disks, areas: record.areas, spoilt: false, returned: Vec::new() }
            })
            .collect();
        let kernels: Vec<_> = Kernels::available().collect();
        let kernels = source.one_of(&kernels);
        let engines = engines(&scenario, &mut groups, &mut source, Instant::ORIGIN, None);
        let mut world = Self {
            machine: made(&scenario, shape, engines),
            users: Users::new(scenario.log.tags, shape.capacity()),
            source,
            scenario,
            shape,
            groups,
            kernels,
            now: Instant::ORIGIN,
            memory: Memory::new(kernels, Vec::new()),
            ios: Vec::new(),
            given_up: Vec::new(),
            released: Vec::new(),
            work: Work::default(),
            calm: false,
            beyond: false,
            stopped: false,
            lost: None,
            made: false,
            summary: StackSummary::default(),
            digest: Digest::default(),
            sink,
        };
        world.wake();
        world
    }

    /// Starts a log array.
    fn wake(&mut self) {
        self.memory = Memory::new(self.kernels, vec![Vec::new(); self.scenario.log.tags.into()]);
        self.memory.new_scratch(&self.machine.pools(self.shape.segment_blocks()), &Block::ZERO);
        (self.stopped, self.lost) = (false, None);
        self.step(array::Input::Tick);
    }

    /// Opens the volume on the disks.
    pub(super) fn open(&mut self) {
        let engines = self.engines();
        let array = LogArray::open(self.scenario.log.config(), VOLUME, engines);
        self.machine = Machine::Log(Box::new(array));
        self.wake();
    }

    /// Creates the volume.
    pub(super) fn make(&mut self) {
        let engines = self.engines();
        self.machine = made(&self.scenario, self.shape, engines);
        self.wake();
    }

    /// The arrays of the disks.
    fn engines(&mut self) -> Vec<Engine> {
        let Self { scenario, groups, source, now, machine, .. } = self;
        engines(scenario, groups, source, *now, Some(machine))
    }

    pub(super) fn all_groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.groups.len()).map(GroupId::at)
    }

    pub(super) fn missing(&self, group: GroupId) -> usize {
        missing(self.machine.engine(group), &self.groups[group.index()].disks).len()
    }

    /// Whether redundancy can make up for one more member of a group.
    pub(super) fn can_lose_one(&self, group: GroupId) -> bool {
        let spoilt = usize::from(self.groups[group.index()].spoilt);
        self.missing(group) + spoilt < self.machine.engine(group).geometry().redundancy()
    }

    /// Notices that unreadable blocks of a group can be read again, and that no job remembers them.
    fn look_readable(&mut self, group: GroupId) {
        let idle = self.machine.engine(group).is_idle();
        let Group { disks, spoilt, .. } = &mut self.groups[group.index()];
        *spoilt &= !idle || disks.iter().any(|disk| !disk.gone && !disk.bad.is_empty());
    }

    /// A block of a member can't be read any more.
    pub(super) fn spoil(&mut self, group: GroupId) {
        self.look_readable(group);
        if !self.can_lose_one(group) || self.groups[group.index()].spoilt {
            return;
        }
        let engine = self.machine.engine(group);
        // Where redundancy may be out of step, a block that can't be read is lost, if no member is missing.
        let all = engine.geometry().capacity() as u32;
        if is_exposed(&self.scenario.array) && engine.is_in_doubt(0, all) {
            return;
        }
        let members: Vec<_> = engine.members().filter_map(|m| m.device).collect();
        let DeviceId(device) = self.source.one_of(&members);
        let Group { disks, areas, .. } = &self.groups[group.index()];
        let first = areas.meta_blocks();
        let at = first + self.source.below(disks[device as usize].size() - first);
        // What is being written would be read again at once.
        if self.ios.iter().any(|pending| {
            pending.at() == (group, DeviceId(device)) && pending.range().contains(&at)
        }) {
            return;
        }
        self.trace(format_args!("block {at} of disk {device} of {group:?} can't be read"));
        self.groups[group.index()].disks[device as usize].bad.insert(at, FOR_GOOD);
        self.groups[group.index()].spoilt = true;
        self.summary.unreadable += 1;
    }

    /// No job remembers failures, except blocks that still can't be read.
    pub(super) fn look_all_well(&mut self) {
        let healed = self.calm || is_exposed(&self.scenario.array);
        for Group { disks, spoilt, .. } in &mut self.groups {
            disks.iter_mut().for_each(|disk| (disk.sick, disk.hangs) = (None, false));
            if healed {
                disks.iter_mut().for_each(|disk| disk.bad.clear());
            }
            *spoilt = disks.iter().any(|disk| !disk.gone && !disk.bad.is_empty());
        }
    }

    /// A member that serves, or that is being filled, is lost; returns which.
    pub(super) fn lose_one(&mut self, group: GroupId) -> Option<DeviceId> {
        let lost = self.victim(group)?;
        self.trace(format_args!("disk {} of {group:?} goes", lost.0));
        self.groups[group.index()].disks[lost.0 as usize].gone = true;
        self.summary.gone += 1;
        Some(lost)
    }

    /// The next write or flush of a member fails.
    pub(super) fn fail_a_write(&mut self, group: GroupId) {
        let Some(victim) = self.victim(group) else { return };
        self.trace(format_args!("a write to disk {} of {group:?} will fail", victim.0));
        self.groups[group.index()].disks[victim.0 as usize].sick =
            Some(Sick::next(IoError::Medium));
        self.summary.gone += 1;
    }

    /// Disks that were lost may return, with their content.
    pub(super) fn give_back(&mut self, group: GroupId) {
        let Group { disks, returned, .. } = &mut self.groups[group.index()];
        for (disk, it) in disks.iter_mut().enumerate().filter(|(_, it)| it.gone) {
            if self.source.chance(1, 2) {
                it.gone = false;
                returned.push(disk);
                self.summary.returned += 1;
            }
        }
    }

    /// A member that the group can do without.
    pub(super) fn victim(&mut self, group: GroupId) -> Option<DeviceId> {
        self.look_readable(group);
        if !self.can_lose_one(group) {
            return None;
        }
        let disks = &self.groups[group.index()].disks;
        let there = |device: &DeviceId| {
            let disk = &disks[device.0 as usize];
            !disk.gone && !disk.hangs
        };
        let members = self.machine.engine(group).members().filter_map(|m| m.device);
        let members: Vec<_> = members.filter(there).collect();
        Some(self.source.one_of(&members))
    }

    /// Gives a group a spare, if it does not have too many disks.
    pub(super) fn add_spare(&mut self, group: GroupId) {
        let Group { disks, areas, .. } = &mut self.groups[group.index()];
        let index = disks.len();
        if index == DISKS_MAX && !self.calm {
            return;
        }
        let mut disk = Disk::new(index, areas.meta_blocks(), disks[0].size());
        disk.soil(&mut self.source);
        let blocks = disk.size();
        disks.push(disk);
        let device = DeviceId(index as u32);
        self.command(group, Command::AddSpare { device, uuid: uuid_of(index), blocks });
    }

    /// Reports which members of a group are busy; sometimes the policy is changed before, under
    /// load.
    pub(super) fn say_who_is_busy(&mut self) {
        let group = GroupId(self.source.below(self.groups.len() as u64) as u8);
        if self.source.chance(1, 8) {
            let without = self.source.chance(1, 2);
            let around = around(&self.scenario.array);
            self.machine.set_steering(group, around.filter(|_| !without));
        }
        let busy = some_of(&mut self.source, self.scenario.array.members);
        let input = raidcore::engine::Input::Busy(busy);
        self.step(array::Input::Array { group, input });
    }

    pub(super) fn command(&mut self, group: GroupId, command: Command) {
        self.summary.commands += 1;
        let number = self.summary.commands;
        let input = raidcore::engine::Input::Command { number, command };
        self.step(array::Input::Array { group, input });
    }

    pub(super) fn summary(&self) -> StackSummary {
        StackSummary { requests: self.users.ended.0, digest: self.digest.value(), ..self.summary }
    }

    pub(super) fn trace(&self, what: fmt::Arguments<'_>) {
        if let Some(sink) = &self.sink {
            sink(self.now, what);
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        match note {
            Note::Failed(..) | Note::Stuck(_) if self.beyond => {}
            Note::Failed(..) | Note::Stuck(_) => {
                panic!("{note:?}, but redundancy was never exceeded")
            }
            Note::Checkpoint(_) => self.made = true,
            Note::Front(_) => {}
        }
    }

    /// Adds up a volume's counters, before it is dropped.
    pub(super) fn count(&mut self) {
        for group in self.all_groups() {
            let counters = self.machine.engine(group).counters();
            self.summary.detours += counters.detours;
            self.summary.hedges += counters.hedged_reads;
        }
        let Some(volume) = self.machine.volume() else { return };
        let counters = volume.counters();
        self.summary.checkpoints += counters.checkpoints;
        self.summary.moved += counters.moved;
        self.summary.rotations += counters.rotations;
    }
}

/// The volume, made anew on these arrays.
fn made(scenario: &StackScenario, shape: Shape, engines: Vec<Engine>) -> Machine {
    let array = LogArray::create(scenario.log.config(), VOLUME, shape, engines);
    Machine::Log(Box::new(array))
}

/// The arrays that the disks make; `before` are those that they made.
fn engines(
    scenario: &StackScenario,
    groups: &mut [Group],
    source: &mut Source,
    now: Instant,
    before: Option<&Machine>,
) -> Vec<Engine> {
    let mut engine = |(number, group): (usize, &mut Group)| {
        let Group { disks, returned, .. } = group;
        let there: Vec<usize> = superblocks(disks).map(|(disk, _)| disk).collect();
        let members = before.map(|before| before.engine(GroupId::at(number)).members());
        let members = members.into_iter().flatten().filter_map(|m| m.device);
        let members: Vec<usize> = members.map(|device| device.0 as usize).collect();
        // The volume's promise covers an unclean array that lacks a member, even if the array's
        // policy does not.
        let (assembled, there) = array_of(disks, there, (&members, returned), false);
        let devices = devices_of(&assembled, &there);
        returned.clear();
        let config =
            LogArray::engine_config(&scenario.log.config(), config(&scenario.array, source));
        let mut engine = Engine::new(config, assembled, &devices, now, 1_800_000_000);
        engine.set_steering(around(&scenario.array));
        engine
    };
    groups.iter_mut().enumerate().map(&mut engine).collect()
}
