//! Sequences of events that once failed, found by reading the code, and played on purpose.

use std::rc::Rc;
use std::time::Duration;

use raidcore::engine::{
    Command, Input, Io, IoOp, Note, Op, Pace, PassEnd, PassKind, Request, RequestError,
};
use raidcore::geometry::{Level, Role};
use raidcore::meta::{Consistency, MapKind, PolicyName};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, MemberId, Stripe, Tag};

use crate::checks::progress::Bound;
use crate::disk::FOR_GOOD;
use crate::model::version_of;
use crate::power::Outage;
use crate::scenario::{Faults, Load, Scenario};
use crate::source::Source;
use crate::world::World;
use phases::is_record;
use returns::is_missed_page;

mod at_once;
mod beside;
mod copies;
mod devices;
mod distributed;
mod early;
mod hang;
mod hedge;
mod inherited;
mod journal;
mod left;
mod log_trim;
mod maps;
mod marks;
mod monotone;
mod orders;
mod pairs;
mod partial;
mod passes;
mod phases;
mod replace;
mod reshape;
mod returns;
mod shrunk;
mod space;
mod spare_trim;
mod staging;
mod succession;
mod unrecorded;
mod volatile;
mod warm;

fn scenario(level: Level, members: usize, consistency: Consistency) -> Scenario {
    Scenario {
        level,
        members,
        chunk: 4,
        stripes: 40,
        region_stripes: 0,
        page_bits: 0,
        consistency,
        journal: 512,
        flash: false,
        busy: 0,
        young: false,
        staging: 0,
        staging_devices: 0,
        staging_device: 0,
        distributed_spare: false,
        placement: 0,
        whole_entries: true,
        reshape: None,
        larger: 0,
        used_disks: false,
        tags: 16,
        jobs: 30,
        background_jobs: 4,
        scratch_blocks: 400,
        warm_blocks: 0,
        volatile: None,
        staged_blocks: 0,
        requests: 0,
        lives: 1,
        load: Load {
            blocks: 12,
            hot: 1,
            whole: 0,
            read: 1,
            write: 1,
            flush: 0,
            discard: 0,
            zeroes: 0,
            fua: 0,
        },
        faults: Faults { reorder: true, ..Faults::default() },
    }
}

/// A started world; `seed` decides the order in which I/O ends.
fn play(seed: u64, scenario: Scenario) -> World {
    let mut world = World::new(Source::seed(seed), scenario, None);
    world.drain();
    world
}

fn world(level: Level, members: usize, consistency: Consistency) -> World {
    play(1, scenario(level, members, consistency))
}

impl World {
    fn ask(&mut self, tag: u16, op: Op, lba: u64, blocks: u32) {
        self.begin_request(Request { tag: Tag(tag), op, lba: Lba(lba), blocks, fua: true });
    }

    /// Ends the first I/O that fits; returns whether there was one.
    fn end_one(&mut self, fits: impl Fn(&Io) -> bool) -> bool {
        let Some(at) = self.ios.iter().position(|p| fits(&p.io)) else { return false };
        self.end_io(at);
        true
    }

    /// Ends the first arithmetic under way; returns whether there was any.
    fn end_first_compute(&mut self) -> bool {
        let ends = !self.work.computes.is_empty();
        if ends {
            self.end_compute(0);
        }
        ends
    }

    /// Stores under way that fit are torn, as by a power failure. Returns how many.
    fn tear(&mut self, fits: impl Fn(&Io) -> bool) -> usize {
        let torn: Vec<_> = self.ios.iter().map(|p| p.io).filter(fits).collect();
        for io in &torn {
            let garbage = Rc::new([0xa5; BLOCK_BYTES]);
            self.disks[io.device.0 as usize].write_meta(io.at.0, garbage, true);
        }
        torn.len()
    }

    /// Runs until no region is marked, and the journal has nothing to replay.
    fn rest(&mut self) {
        let unsettled =
            |status: raidcore::engine::Status| status.dirty_regions.0 > 0 || status.replayable > 0;
        while self.is_busy() || unsettled(self.engine().status()) {
            self.proceed();
        }
    }

    fn turns(&mut self, count: u32) {
        (0..count).for_each(|_| self.proceed());
    }

    /// The power fails and returns; the disks lose nothing.
    fn restart(&mut self) {
        self.ios.clear();
        for disk in &mut self.disks {
            let mark = disk.flush_mark();
            disk.flushed(mark);
        }
        self.power_off();
        self.power_on(Outage::Quiet);
        self.drain();
    }

    /// The power fails during activity, and returns at once.
    fn cut_power(&mut self) {
        self.ios.clear();
        self.power_off();
        self.power_on(Outage::Quiet);
    }

    /// Ends I/O that fits until none is under way, within a limit.
    fn end_all(&mut self, fits: impl Fn(&Io) -> bool) {
        for _ in 0..10_000 {
            if !self.end_first_compute() && !self.end_one(&fits) {
                return;
            }
        }
        panic!("there is no end");
    }

    /// Writes a block and returns its version.
    fn write_one(&mut self, lba: u64) -> u64 {
        self.ask(0, Op::Write, lba, 1);
        let version = version_of(lba, &self.memory.payload[0][0]);
        self.drain();
        version
    }

    /// Writes all blocks and returns their versions.
    fn write_all(&mut self) -> Vec<u64> {
        (0..self.engine().geometry().capacity()).map(|lba| self.write_one(lba)).collect()
    }

    /// Runs until something is so, within a limit.
    fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let mut bound = Bound::new("it comes to that", 100_000);
        while !is_so(self) {
            self.proceed();
            bound.spend(self);
        }
    }

    fn read_one(&mut self, lba: u64) -> u64 {
        self.ask(0, Op::Read, lba, 1);
        self.drain();
        version_of(lba, &self.memory.payload[0][0])
    }

    /// Member 1 of a mirror fails, and a spare in its place is filled a little.
    fn rebuild_a_little(&mut self) {
        self.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
        self.command(Command::Fail(MemberId(1)));
        let spare = self.new_spare();
        self.command(spare);
        while self.engine().status().pass.is_none_or(|pass| pass.done < 3) {
            self.turns(1);
        }
        self.command(Command::Pause);
        self.until(|world| world.ios.is_empty());
        self.beyond = true;
    }

    /// The home member of a block: its disk, if none was replaced.
    fn home_of(&self, lba: u64) -> usize {
        let geometry = self.engine().geometry();
        let (stripe, offset) = geometry.locate(Lba(lba));
        geometry.member(stripe, geometry.chunk_at(offset).0).index()
    }

    fn last(&self) -> Result<(), RequestError> {
        *self.results.last().expect("a request has ended")
    }
}

#[test]
fn a_dying_disk_of_large_chunks_is_read_block_by_block_within_bounds() {
    let mut large = scenario(Level::Raid6, 4, Consistency::Bitmap);
    (large.chunk, large.load.blocks, large.tags) = (256, 256, 128);
    (large.jobs, large.background_jobs) = (256, 16);
    let mut world = play(1, large);
    world.disks[0].unreadable = true;
    for tag in 0..128 {
        world.ask(tag, Op::Read, u64::from(tag) * 256 % (39 * 512), 256);
    }
    while world.end_one(|io| io.blocks > 1) {}
    world.drain();
}

#[test]
fn a_source_that_can_not_be_written_during_a_rebuild_ends_all_writes() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    let old = world.write_one(0);
    world.rebuild_a_little();
    let areas = world.areas.clone();
    world.disks[0].unwritable.insert(areas.data_start().0 + 39 * 4);
    world.ask(0, Op::Write, 39 * 4, 1);
    world.drain();
    world.write_one(0);
    assert_eq!(world.last(), Err(RequestError::Io), "only a member being filled would have it");
    assert_eq!(world.read_one(0), old);
}

#[test]
fn a_source_that_goes_during_a_rebuild_ends_all_writes() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    let old = world.write_one(0);
    world.rebuild_a_little();
    world.disks[0].gone = true;
    world.step(Input::DeviceGone(DeviceId(0)));
    world.write_one(0);
    assert_eq!(world.last(), Err(RequestError::Io));
    world.disks[0].gone = false;
    world.restart();
    assert_eq!(world.read_one(0), old);
}

#[test]
fn requests_end_when_all_members_are_gone() {
    let mut world = world(Level::Raid6, 4, Consistency::Bitmap);
    world.beyond = true;
    world.ask(0, Op::Write, 0, 8);
    let writes = |io: &Io| matches!(io.op, IoOp::Write { .. });
    while !world.ios.iter().any(|p| writes(&p.io)) {
        world.complete_any();
    }
    while world.end_one(|io| !writes(io)) {}
    world.disks.iter_mut().for_each(|disk| disk.gone = true);
    for device in 0..3 {
        assert!(world.end_one(|io| writes(io) && io.device == DeviceId(device)));
    }
    while world.end_one(|io| !writes(io)) {}
    while world.end_one(|_| true) {}
    world.turns(1000);
    assert_eq!(world.results, [Err(RequestError::Io)]);
}

#[test]
fn a_policy_is_on_record_when_that_is_answered() {
    let name = |name| PolicyName::new(name).expect("a name");
    let (old, new) = (name("old"), name("new"));
    let mut answered = 0;
    for seed in 0..60 {
        let mut world = play(seed, scenario(Level::Raid5, 3, Consistency::Journal));
        world.command(Command::SetPolicy(old));
        world.drain();
        let number = world.command(Command::SetPolicy(new));
        world.turns(seed as u32 / 3);
        let is_answered = world.answers.contains(&(number, Ok(())));
        answered += u32::from(is_answered);
        // One of the members with the newest record is lost with the power.
        world.disks[seed as usize % 3].gone = true;
        world.cut_power();
        world.drain();
        let found = world.engine().policy().expect("one is on record").name;
        assert!(found == new || found == old && !is_answered, "{found}");
    }
    assert!((1..60).contains(&answered), "{answered} are answered");
}

#[test]
fn a_member_that_the_stop_finds_gone_leaves_the_array_clean() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    world.write_one(0);
    world.disks[1].gone = true;
    let number = world.command(Command::Stop);
    world.end_all(|_| true);
    assert!(world.answers.contains(&(number, Ok(()))));
    world.restart();
    assert_eq!(world.engine().status().dirty_regions.0, 0);
}

#[test]
fn a_stop_that_finds_a_spare_gone_is_answered_when_that_is_on_record() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let spare = world.new_spare();
    let Command::AddSpare { device, .. } = spare else { unreachable!() };
    world.command(spare);
    world.drain();
    world.disks[device.0 as usize].gone = true;
    assert!(world.stops());
    world.restart();
    assert_eq!(world.engine().status().spares, []);
}

#[test]
fn nothing_is_stored_after_a_stop_that_a_member_did_not_record() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    world.write_one(0);
    let number = world.command(Command::Stop);
    world.end_all(|io| !is_record(io));
    world.disks[1].gone = true;
    world.end_all(|io| !is_missed_page(io));
    assert!(world.answers.contains(&(number, Ok(()))));
    assert!(world.ios.is_empty(), "{:?}", world.ios[0].io);
}

#[test]
fn a_stop_ends_when_a_flush_finds_nothing_to_settle() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let is_flush = |io: &Io| matches!(io.op, IoOp::Flush);
    world.ask(0, Op::Write, 0, 1);
    let carry_out = |world: &mut World, which: &dyn Fn(&Io) -> bool| {
        while world.end_one(which) || world.end_first_compute() {}
    };
    carry_out(&mut world, &|io| !matches!(io.op, IoOp::Write { .. }));
    // The region is written while it is being settled, so the flush settles nothing.
    world.now = world.now + Duration::from_secs(6);
    world.step(Input::Tick);
    assert!(world.ios.iter().any(|p| is_flush(&p.io)));
    world.command(Command::Stop);
    carry_out(&mut world, &|io| !is_flush(io));
    carry_out(&mut world, &|_| true);
    assert!(world.answers.contains(&(world.commands, Ok(()))), "the stop hangs");
}

#[test]
fn members_are_not_replaced_while_the_journal_is_carried_out() {
    let mut replaced = 0;
    for seed in 0..40 {
        let mut world = play(seed, scenario(Level::Raid5, 3, Consistency::Journal));
        let spare = world.new_spare();
        let Command::AddSpare { device, .. } = spare else { unreachable!() };
        world.command(spare);
        world.drain();
        (0..6).for_each(|i| world.ask(i, Op::Write, u64::from(i) * 8, 1));
        while world.requests.iter().any(Option::is_some) {
            world.complete_any();
        }
        world.ios.clear();
        world.power_off();
        world.power_on(Outage::Quiet);
        if !world.engine().is_serving() {
            let member = MemberId((seed % 3) as u8);
            world.command(Command::Replace { member, spare: device });
            replaced += 1;
        }
        world.drain();
        world.verify_after_crash();
    }
    assert!(replaced > 0, "no seed leaves a journal to be carried out");
}

#[test]
fn a_mirror_is_resynced_from_whatever_can_be_read() {
    let mut used = scenario(Level::Raid1, 2, Consistency::Bitmap);
    used.used_disks = true;
    let mut world = World::new(Source::seed(1), used, None);
    let areas = world.areas.clone();
    world.disks[0].bad.insert(areas.data_start().0 + 5, FOR_GOOD);
    world.drain();
    world.turns(3000);
    assert!(world.engine().status().pass.is_none(), "{:?}", world.engine().status().pass);
    assert!(!world.has_bad(), "and what can't be read is repaired");
}

#[test]
fn bad_blocks_in_different_rows_are_all_repaired() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let areas = world.areas.clone();
    for lba in [0, 7] {
        let geometry = *world.engine().geometry();
        let (stripe, offset) = geometry.locate(Lba(lba));
        let member = geometry.member(stripe, geometry.chunk_at(offset).0);
        let at = areas.data_start().0 + u64::from(offset % 4);
        world.disks[member.index()].bad.insert(at, FOR_GOOD);
    }
    world.ask(0, Op::Read, 0, 8);
    world.drain();
    world.turns(300);
    assert!(!world.has_bad());
}

#[test]
fn writes_end_when_a_page_can_be_stored_nowhere() {
    let mut many = scenario(Level::Raid5, 3, Consistency::Bitmap);
    // Enough stripes that two of them share a region.
    (many.chunk, many.stripes) = (1, 70_000);
    let mut world = play(1, many);
    world.beyond = true;
    world.ask(0, Op::Write, 0, 2);
    world.ask(1, Op::Write, 2, 2);
    for _ in 0..2 {
        assert!(world.end_first_compute());
        world.disks.iter_mut().for_each(|disk| disk.gone = true);
        while world.end_one(|_| true) {}
    }
    world.turns(2000);
    assert_eq!(world.results, [Err(RequestError::Io); 2]);
}

#[test]
fn nobody_waits_for_room_in_a_journal_that_gets_none() {
    let mut large = scenario(Level::Raid4, 3, Consistency::Journal);
    (large.chunk, large.load.blocks, large.scratch_blocks) = (64, 128, 64 * 300);
    (large.tags, large.jobs) = (36, 60);
    let mut world = play(1, large);
    world.command(Command::Fail(MemberId(0)));
    world.drain();
    let areas = world.areas.clone();
    world.beyond = true;
    world.disks[1].unwritable.insert(areas.data_start().0);
    for tag in 0..36 {
        world.ask(tag, Op::Write, u64::from(tag) * 128, 100);
    }
    world.turns(20_000);
    assert_eq!(world.results.len(), 36, "{:?}", world.notes);
    assert!(world.results.iter().any(Result::is_err));
}

#[test]
fn a_page_that_only_a_member_being_filled_has_does_not_count() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    world.ask(0, Op::Write, 30 * 4, 4);
    let version = version_of(120, &world.memory.payload[0][0]);
    world.drain();
    world.rebuild_a_little();
    let areas = world.areas.clone();
    for slot in 0..2 {
        world.disks[0].unwritable.insert(areas.map_page(MapKind::ZeroMap, 0, slot).0);
    }
    world.ask(0, Op::Discard, 30 * 4, 4);
    world.drain();
    assert_eq!(world.last(), Err(RequestError::Io), "a restart would not find the bit");
    assert_eq!(world.read_one(120), version);
    world.restart();
    assert_eq!(world.read_one(120), version);
}
