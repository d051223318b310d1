//! A write cache in memory: what is acknowledged from it, what a flush means, and errors after that.

use raidcore::engine::{ArrayHealth, Command, CommandError, Op, Request, RequestError};
use raidcore::geometry::Level;
use raidcore::meta::{Consistency, VolatileWrites};
use raidcore::units::{Lba, Tag};
use raidlog::cache::{CacheCounters, CacheStatus};

use super::{play, scenario};
use crate::disk::FOR_GOOD;
use crate::hold::AnyOrder;
use crate::model::version_of;
use crate::volatile::Volatile;
use crate::world::World;

/// Blocks of a stripe.
const STRIPE: u64 = 8;

fn cached(level: Level, members: usize) -> World {
    let mut scenario = scenario(level, members, Consistency::Bitmap);
    let (blocks, most, own_tags) = (64, 8, 16);
    let (linger, orders, accepts) = (5_000_000, false, false);
    scenario.volatile = Some(Volatile { blocks, most, own_tags, linger, orders, accepts });
    play(1, scenario)
}

impl World {
    fn begin(&mut self, tag: u16, op: Op, lba: u64, blocks: u32) {
        self.begin_request(Request { tag: Tag(tag), op, lba: Lba(lba), blocks, fua: false });
    }

    fn put(&mut self, lba: u64) -> u64 {
        self.begin(0, Op::Write, lba, 1);
        version_of(lba, &self.memory.payload[0][0])
    }

    fn waits(&self, tag: usize) -> bool {
        self.requests[tag].is_some()
    }

    fn cache(&self) -> CacheStatus {
        self.machine.cached().expect("there is a cache").cache().status()
    }

    fn leave(&mut self) {
        let number = self.command(Command::SetVolatile(false));
        self.until(|world| world.answers.contains(&(number, Ok(()))));
    }

    fn flush(&mut self) -> Result<(), RequestError> {
        self.begin(0, Op::Flush, 0, 0);
        self.drain();
        self.last()
    }

    /// The members of a mirror have no room for this block.
    fn has_no_room(&mut self, lba: u64) {
        let at = self.areas.data_start().0 + lba;
        for disk in &mut self.disks {
            disk.full.insert(at);
        }
    }

    fn has_room(&mut self) {
        self.disks.iter_mut().for_each(|disk| disk.full.clear());
    }
}

/// A mirror, and the version of block 3, which is held, and which the members have no room for.
fn stuck() -> (World, u64) {
    let mut world = cached(Level::Raid1, 2);
    world.beyond = true;
    let version = world.put(3);
    world.has_no_room(3);
    assert_eq!(world.flush(), Err(RequestError::Io));
    (world, version)
}

#[test]
fn a_write_is_acknowledged_and_read_without_any_io() {
    let mut world = cached(Level::Raid5, 3);
    let version = world.put(3);
    assert!(!world.waits(0) && !world.is_busy());
    world.begin(0, Op::Read, 3, 1);
    assert!(!world.waits(0) && !world.is_busy());
    assert_eq!(version_of(3, &world.memory.payload[0][0]), version);
}

#[test]
fn a_flush_ends_after_what_is_held_is_at_home_and_not_after_what_came_later() {
    let mut world = cached(Level::Raid5, 3);
    world.put(3);
    world.begin(1, Op::Flush, 0, 0);
    world.begin(0, Op::Write, 5 * STRIPE, 1);
    assert!(world.waits(1));
    world.until(|world| !world.waits(1));
    assert_eq!(world.cache().held, 1, "what was written after the flush came stays");
}

#[test]
fn a_flush_covers_what_was_written_during_a_trip_and_again_since() {
    let mut world = cached(Level::Raid5, 3);
    world.put(3);
    world.begin(1, Op::Flush, 0, 0);
    assert!(world.is_busy(), "it is on its way home");
    world.put(3);
    world.begin(2, Op::Flush, 0, 0);
    let last = world.put(3);
    world.until(|world| !world.waits(2));
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(3), last);
}

#[test]
fn what_is_written_again_and_again_goes_home_once() {
    let mut world = cached(Level::Raid5, 3);
    for _ in 0..20 {
        world.put(3);
    }
    world.begin(0, Op::Flush, 0, 0);
    world.drain();
    let CacheCounters { held_blocks, rewritten_blocks, home_blocks, .. } = world.cache().counters;
    assert_eq!((held_blocks, rewritten_blocks, home_blocks), (20, 19, 1));
}

#[test]
fn a_full_cache_lets_writes_wait_and_drops_nothing() {
    let mut world = cached(Level::Raid5, 3);
    let room = u64::from(world.cache().room);
    let versions: Vec<u64> = (0..room).map(|lba| world.put(lba)).collect();
    assert!(!world.waits(0));
    world.begin(1, Op::Write, room, 1);
    assert!(world.waits(1), "there is no room");
    assert_eq!(world.cache().waiting, 1);
    // Of what is held nothing has to wait.
    world.begin(0, Op::Read, 0, room as u32 / 2);
    assert!(!world.waits(0));
    world.until(|world| !world.waits(1));
    for (lba, version) in (0..).zip(versions) {
        assert_eq!(world.read_one(lba), version);
    }
}

#[test]
fn what_is_held_goes_home_before_the_cache_is_full_and_when_it_was_held_for_long() {
    let mut world = cached(Level::Raid5, 3);
    let room = u64::from(world.cache().room);
    for lba in 0..room / 2 {
        world.put(lba);
    }
    assert!(world.ios.is_empty(), "there is room");
    world.put(room / 2);
    assert!(world.is_busy(), "more than half is full");
    world.until(|world| world.cache().held == 0);
}

#[test]
fn flushes_fail_until_what_could_not_be_brought_home_is() {
    let (mut world, version) = stuck();
    for _ in 0..3 {
        assert_eq!((world.cache().held, world.cache().stuck), (1, 1));
        assert_eq!(world.flush(), Err(RequestError::Io));
    }
    assert_eq!(world.read_one(3), version, "it is held");
    world.has_room();
    world.until(|world| world.cache().held == 0);
    assert_eq!((world.flush(), world.cache().stuck), (Ok(()), 0));
    world.restart();
    assert_eq!(world.read_one(3), version);
}

#[test]
fn nothing_more_is_acknowledged_from_memory_while_something_could_not_be_brought_home() {
    let (mut world, version) = stuck();
    for lba in [30, 3] {
        world.put(lba);
        world.drain();
        assert_eq!(world.last(), Err(RequestError::Io), "it went to the members");
    }
    assert_eq!(world.read_one(3), version);
    world.has_room();
    world.until(|world| world.engine().array_health() != ArrayHealth::Failed);
    world.drain();
    let last = world.put(3);
    world.drain();
    assert_eq!(world.read_one(3), last);
    assert_eq!(world.flush(), Ok(()));
}

#[test]
fn a_stop_tells_that_something_was_lost_and_is_none() {
    let (mut world, _) = stuck();
    let number = world.command(Command::Stop);
    world.until(|world| world.answers.iter().any(|&(answered, _)| answered == number));
    assert_eq!(world.answers.last(), Some(&(number, Err(CommandError::NotHome))));
    let refused = world.put(30);
    assert_eq!(world.last(), Err(RequestError::Stopping), "{refused}");
    world.cut_power();
    assert!(world.engine().volatile().lost, "that is on record");
}

#[test]
fn a_flush_ends_though_other_blocks_of_the_stripe_are_written_again_and_again() {
    // A trip has room for one block.
    let mut world = cached(Level::Raid5, 3);
    world.put(3);
    world.put(0);
    world.begin(1, Op::Flush, 0, 0);
    let mut writes = 0;
    while world.waits(1) {
        if !world.waits(0) {
            world.put(0);
            writes += 1;
            assert!(writes < 1000, "the flush waits for what is written again");
        }
        world.proceed();
    }
    assert!(world.cache().held > 0);
}

#[test]
fn an_array_that_takes_no_writes_is_not_asked_for_each_stripe() {
    let mut world = cached(Level::Raid1, 2);
    world.beyond = true;
    for lba in 0..30 {
        world.put(lba * 4);
    }
    for lba in 0..30 {
        world.has_no_room(lba * 4);
    }
    for _ in 0..5 {
        assert_eq!(world.flush(), Err(RequestError::Io));
    }
    let failed = world.cache().counters.failed_trips;
    assert!((1..=16).contains(&failed), "{failed} trips");
    assert_eq!(world.cache().held, 30);
    world.has_room();
    world.until(|world| world.cache().held == 0);
    assert_eq!(world.flush(), Ok(()));
}

#[test]
fn another_order_knows_what_is_held() {
    let mut world = cached(Level::Raid5, 3);
    for lba in 0..20 {
        world.put(lba * 5);
    }
    world.machine.set_cache_order(Some(Box::<AnyOrder>::default()));
    // It fails if it is told of something else.
    for lba in 0..40 {
        world.put(lba * 5);
        world.drain();
    }
    world.begin(0, Op::Flush, 0, 0);
    world.drain();
    assert_eq!(world.cache().held, 0);
}

#[test]
fn what_a_stop_loses_is_on_record_though_the_array_is_clean() {
    let mut world = cached(Level::Raid0, 2);
    world.beyond = true;
    world.put(0);
    world.put(4);
    let areas = world.areas.clone();
    world.disks[1].unwritable.extend(areas.data_start().0..areas.member_blocks());
    let number = world.command(Command::Stop);
    world.until(|world| world.answers.iter().any(|&(answered, _)| answered == number));
    assert_eq!(world.answers.last(), Some(&(number, Err(CommandError::NotHome))));
    let record = world.superblocks().next().expect("there is one").1.record;
    assert!(record.clean);
    assert_eq!(record.volatile, VolatileWrites { held: false, lost: true });
}

#[test]
fn a_cache_is_not_left_if_one_stripe_can_not_be_written() {
    let mut world = cached(Level::Raid5, 3);
    world.beyond = true;
    let version = world.put(0);
    let at = world.areas.data_start().0;
    for disk in &mut world.disks {
        disk.bad.insert(at, FOR_GOOD);
    }
    let number = world.command(Command::SetVolatile(false));
    world.until(|world| world.answers.iter().any(|&(answered, _)| answered == number));
    assert_eq!(world.answers.last(), Some(&(number, Err(CommandError::NotHome))));
    assert!(world.engine().takes_writes() && world.cache().holds);
    assert_eq!(world.read_one(0), version);
}

#[test]
fn a_stop_brings_home_what_is_held() {
    let mut world = cached(Level::Raid5, 3);
    let version = world.put(3);
    let number = world.command(Command::Stop);
    world.until(|world| world.answers.contains(&(number, Ok(()))));
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(3), version);
}

#[test]
fn a_device_without_power_holds_what_was_flushed() {
    let mut world = cached(Level::Raid5, 3);
    let version = world.put(3);
    world.begin(0, Op::Flush, 0, 0);
    world.until(|world| !world.waits(0));
    world.put(3);
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(3), version, "what was written later is lost");
}

#[test]
fn nothing_is_held_before_that_is_on_record() {
    let mut world = cached(Level::Raid5, 3);
    world.leave();
    let number = world.command(Command::SetVolatile(true));
    world.put(3);
    assert!(world.waits(0), "it goes to the members");
    world.until(|world| world.answers.contains(&(number, Ok(()))));
    world.drain();
    world.put(3);
    assert!(!world.waits(0));
    world.cut_power();
    assert!(world.engine().volatile().lost);
}

#[test]
fn a_cache_is_left_once_at_a_time_and_not_amid_a_stop() {
    let mut world = cached(Level::Raid5, 3);
    world.put(3);
    let first = world.command(Command::SetVolatile(false));
    for holds in [false, true] {
        let number = world.command(Command::SetVolatile(holds));
        assert_eq!(world.answers.last(), Some(&(number, Err(CommandError::UnderWay))));
    }
    let stop = world.command(Command::Stop);
    assert_eq!(world.answers.last(), Some(&(first, Err(CommandError::Stopping))));
    world.until(|world| world.answers.contains(&(stop, Ok(()))));
}

#[test]
fn a_cache_is_left_when_all_is_at_home() {
    let mut world = cached(Level::Raid5, 3);
    let version = world.put(3);
    world.leave();
    assert_eq!((world.cache().held, world.cache().holds), (0, false));
    world.put(5);
    assert!(world.waits(0), "it goes to the members");
    world.drain();
    world.begin(0, Op::Flush, 0, 0);
    world.drain();
    world.cut_power();
    assert!(!world.engine().volatile().lost, "nothing was in memory");
    world.drain();
    assert_eq!(world.read_one(3), version);
}

#[test]
fn a_cache_that_can_not_be_emptied_is_not_left() {
    let (mut world, version) = stuck();
    let number = world.command(Command::SetVolatile(false));
    world.until(|world| world.answers.iter().any(|&(answered, _)| answered == number));
    assert_eq!(world.answers.last(), Some(&(number, Err(CommandError::NotHome))));
    assert!(world.cache().holds);
    assert_eq!(world.read_one(3), version);
}

#[test]
fn a_loss_is_on_record_until_a_start_accepts_it() {
    let mut world = cached(Level::Raid5, 3);
    world.put(3);
    world.cut_power();
    assert!(world.engine().volatile().lost);
    world.restart();
    let writes = |world: &World| world.superblocks().map(|(_, s)| s.record.volatile).next();
    let lost = writes(&world).expect("there are superblocks");
    assert!(lost.lost, "it was stopped cleanly since");
}

#[test]
fn after_a_clean_stop_no_write_is_in_memory() {
    let mut world = cached(Level::Raid5, 3);
    world.put(3);
    let number = world.command(Command::Stop);
    world.until(|world| world.answers.contains(&(number, Ok(()))));
    for (_, superblock) in world.superblocks() {
        assert_eq!(superblock.record.volatile, VolatileWrites::default());
    }
}
