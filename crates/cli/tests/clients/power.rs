//! Power failures: the process is killed, and its disks lose what was not flushed. A disk may be
//! lost with the power.
//!
//! `EVENKEEL_ROUNDS` is the number of rounds of each array, `EVENKEEL_SEED` the seed.

mod machine;

use std::thread::sleep;
use std::time::Duration;

use self::machine::{Devices, Machine};
use crate::rounds::ledger::{BLOCKS, Durable, Grain, Ledger, Working};
use crate::rounds::user::FileUser;
use crate::tools::{pattern, wait_for};
use crate::volatile::Unflushed;
use crate::world::MIB;

const MEMBER_BYTES: u64 = 48 * MIB;

/// An array, its users, and what happens to it besides.
#[derive(Clone, Copy)]
struct Kind {
    options: &'static str,
    members: usize,
    staging_devices: usize,
    devices: Devices,
    rows: Rows,
    users: Users,
    ledger_bytes: u64,
    amid: Amid,
}

/// The possible content of rows that are written whole if a member is lost with the power.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Old or new; or there are no such rows.
    Journalled,
    /// Neither old nor new is possible, too.
    WrittenPast,
}

/// What the users write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    /// Blocks, over NBD.
    Blocks,
    /// Sectors of 512 bytes, over NBD.
    Sectors,
    /// Any bytes, of the file that FUSE shows.
    Bytes,
}

/// What the power failure interrupts besides users' work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Amid {
    Nothing,
    /// Writes are staged and not at home.
    Staging,
    /// A member that serves is being copied to its successor.
    Copy,
    /// A member is being rebuilt.
    Rebuild,
}

const PLAIN: Kind = Kind {
    options: "",
    members: 4,
    staging_devices: 0,
    devices: Devices::Files,
    rows: Rows::WrittenPast,
    users: Users::Blocks,
    ledger_bytes: 8 * MIB,
    amid: Amid::Nothing,
};

const RAID1: Kind = Kind { options: "--level raid1", members: 3, rows: Rows::Journalled, ..PLAIN };
const RAID5: Kind = Kind { options: "--level raid5 --chunk 16K", ..PLAIN };
const RAID6: Kind = Kind { options: "--level raid6 --chunk 16K", members: 5, ..PLAIN };
const SPARE: Kind =
    Kind { options: "--level raid5 --chunk 16K --distributed-spare", members: 5, ..PLAIN };
const LOG: Kind =
    Kind { options: "--layout log-raid5 --segment 256K", rows: Rows::Journalled, ..PLAIN };
const STAGED: Kind = Kind {
    options: "--level raid5 --chunk 16K --staging reserved:4M",
    devices: Devices::Flash,
    amid: Amid::Staging,
    ..PLAIN
};
/// Writes are smaller than a row.
const PARTS: Kind = Kind { rows: Rows::Journalled, ledger_bytes: 2 * MIB, ..RAID5 };
/// There is data to copy everywhere.
const FULL: Kind = Kind { ledger_bytes: 32 * MIB, ..RAID5 };

#[test]
fn raid1() {
    play(0, RAID1);
}

#[test]
fn raid5() {
    play(1, RAID5);
}

#[test]
fn raid6() {
    play(2, RAID6);
}

#[test]
fn raid5_with_a_distributed_spare() {
    play(3, SPARE);
}

#[test]
fn raid5_with_staging() {
    play(4, STAGED);
}

#[test]
fn a_log_on_raid5() {
    play(5, LOG);
}

#[test]
fn raid1_on_block_devices() {
    play(6, Kind { devices: Devices::Loops, ..RAID1 });
}

#[test]
fn raid6_on_block_devices() {
    play(7, Kind { devices: Devices::Loops, ..RAID6 });
}

#[test]
fn a_distributed_spare_on_block_devices() {
    play(8, Kind { devices: Devices::Loops, ..SPARE });
}

#[test]
fn a_log_on_block_devices() {
    play(9, Kind { devices: Devices::Loops, ..LOG });
}

#[test]
fn raid5_with_a_staging_device() {
    play(10, Kind { members: 3, staging_devices: 1, ..STAGED });
}

#[test]
fn raid6_with_staging_devices() {
    let options = "--level raid6 --chunk 16K --staging reserved:4M";
    play(11, Kind { options, members: 5, staging_devices: 2, ..STAGED });
}

#[test]
fn sectors_of_raid5() {
    play(12, Kind { users: Users::Sectors, ..PARTS });
}

#[test]
fn parts_of_blocks_of_raid5() {
    play(13, Kind { users: Users::Bytes, ..PARTS });
}

/// Without a journal, which would make each part durable anyway.
#[test]
fn parts_of_blocks_of_raid1() {
    play(18, Kind { users: Users::Bytes, options: RAID1.options, members: 3, ..PARTS });
}

#[test]
fn parts_of_blocks_of_a_log() {
    play(14, Kind { users: Users::Bytes, options: LOG.options, ..PARTS });
}

#[test]
fn a_member_of_raid5_is_copied() {
    play(15, Kind { amid: Amid::Copy, ..FULL });
}

#[test]
fn a_member_of_raid1_is_copied_to_a_block_device() {
    let ledger_bytes = 24 * MIB;
    play(16, Kind { amid: Amid::Copy, devices: Devices::Loops, ledger_bytes, ..RAID1 });
}

#[test]
fn a_member_of_raid6_is_rebuilt() {
    let (options, members) = (RAID6.options, RAID6.members);
    play(17, Kind { amid: Amid::Rebuild, options, members, ..FULL });
}

/// Users write, the power fails, perhaps with a disk; all durable data is there. The lost disk
/// comes back and is used again.
fn play(number: u64, kind: Kind) {
    let given = |name| std::env::var(name).ok().map(|value| value.parse().expect(name));
    let seed: u64 = given("EVENKEEL_SEED").unwrap_or(1);
    let mut life = Life::new(kind, seed.wrapping_mul(31).wrapping_add(number));
    // Passes are slow, so that the power can fail during them.
    let few = if matches!(kind.amid, Amid::Copy | Amid::Rebuild) { 1 } else { 2 };
    for round in 0..given("EVENKEEL_ROUNDS").unwrap_or(few) {
        life.tell(&format!("seed {seed}, round {round}"));
        life.round(round);
    }
    life.machine.world.assert_sound();
    life.machine.world.stop();
}

struct Life {
    kind: Kind,
    machine: Machine,
    ledger: Ledger,
    /// For each start.
    options: &'static str,
}

/// The pass that the power failure interrupts.
#[derive(Debug)]
struct Pass {
    member: usize,
    /// The disk that is filled.
    disk: usize,
}

impl Life {
    fn new(kind: Kind, seed: u64) -> Self {
        let places = (kind.members, kind.staging_devices);
        let mut machine = Machine::new(kind.options, places, MEMBER_BYTES, kind.devices, seed);
        let grain = match kind.users {
            Users::Blocks => BLOCKS,
            // Two users' runs meet in most of the array's blocks.
            Users::Sectors => Grain { block: 512, run: 12 },
            Users::Bytes => Grain { block: 1000, run: 12 },
        };
        let runs = kind.ledger_bytes / (grain.block as u64 * grain.run) / 8;
        let blocks = runs * 8 * grain.run;
        let ledger = Ledger::of(machine.random.next_u64(), blocks, grain).flushing();
        let options = match (kind.amid, kind.users) {
            (Amid::Staging, _) => "--policy evenkeel",
            (_, Users::Sectors) => "--logical-block=512",
            _ => "",
        };
        machine.start(options, None);
        let mut life = Self { kind, machine, ledger, options };
        if matches!(kind.amid, Amid::Copy | Amid::Rebuild) {
            life.ledger.fill(&mut life.machine.world.nbd());
        }
        life
    }

    /// The first round always loses a disk. Every other one has no flush by users, so that only
    /// durable writes make data durable.
    fn round(&mut self, number: u64) {
        let pass = self.begin_pass();
        let durable = if number.is_multiple_of(2) { Durable::ByWrite } else { Durable::ByFlush };
        self.ledger.make_durable(durable);
        let working = self.work();
        self.let_it_go_on(pass.is_some());
        let unflushed = [Unflushed::Lost, Unflushed::Any, Unflushed::Any, Unflushed::Kept]
            [self.machine.random.below(4) as usize];
        let mut disks: Vec<usize> = self.machine.placed().into_iter().flatten().collect();
        disks.extend(pass.as_ref().map(|pass| pass.disk).filter(|disk| !disks.contains(disk)));
        self.machine.fail(unflushed);
        self.ledger.rest(working);
        let loses = number == 0 || self.machine.random.chance(1, 2);
        let drawn = self.machine.random.below(disks.len() as u64) as usize;
        let lost = loses.then(|| disks[drawn]);
        self.tell(&format!("{unflushed:?}, {pass:?}, without {lost:?} of {disks:?}"));
        self.machine.start(self.options, lost);
        let torn = self.may_be_torn(lost, pass.as_ref());
        self.check(torn);
        self.machine.make_whole();
        self.mend();
        if pass.is_some() {
            assert_eq!(self.machine.world.scrub(), 0, "stripes that did not match");
        }
    }

    /// Printed if the test fails, and on demand.
    fn tell(&self, what: &str) {
        let test = std::thread::current();
        println!("{}: {what}", test.name().unwrap_or(self.kind.options));
    }

    fn work(&mut self) -> Working {
        let world = &self.machine.world;
        match self.kind.users {
            Users::Blocks | Users::Sectors => self.ledger.work(&world.path("run/tank.nbd")),
            Users::Bytes => self.ledger.work_as(|| FileUser::open(&world.fuse())),
        }
    }

    fn check(&mut self, torn: bool) {
        let world = &self.machine.world;
        match self.kind.users {
            Users::Blocks | Users::Sectors => self.ledger.check(&mut world.nbd(), torn),
            Users::Bytes => self.ledger.check(&mut FileUser::open(&world.fuse()), torn),
        }
    }

    fn mend(&mut self) {
        let world = &self.machine.world;
        match self.kind.users {
            Users::Blocks | Users::Sectors => self.ledger.mend(&mut world.nbd(), true),
            Users::Bytes => self.ledger.mend(&mut FileUser::open(&world.fuse()), true),
        }
    }

    /// Begins to copy or rebuild a member, if this kind of array does, which takes about 8 s.
    fn begin_pass(&mut self) -> Option<Pass> {
        let world = &self.machine.world;
        let rebuild = match self.kind.amid {
            Amid::Nothing | Amid::Staging => return None,
            Amid::Copy => false,
            Amid::Rebuild => true,
        };
        let member = self.machine.random.below(self.kind.members as u64) as usize;
        let disk = self.machine.unused();
        world.evenkeel("rebuild limit tank --min 5M --max 5M");
        if rebuild {
            world.evenkeel(&format!("disk fail tank {member}"));
        }
        world.evenkeel(&format!("disk replace tank {member} {} --force", self.machine.name(disk)));
        Some(Pass { member, disk })
    }

    /// Waits until the power is to fail.
    fn let_it_go_on(&mut self, pass: bool) {
        let (world, random) = (&self.machine.world, &mut self.machine.random);
        if pass {
            let share = random.below(8);
            let mut begun = false;
            wait_for("a part of the pass is done", || {
                let pass = world.status()["pass"].take();
                if begun && pass.is_null() {
                    return Some(());
                }
                begun |= !pass.is_null();
                let (done, total) = (pass["done_bytes"].as_u64()?, pass["total_bytes"].as_u64()?);
                (done >= total / 8 * share).then_some(())
            });
        }
        if self.kind.amid == Amid::Staging {
            let enough = world.staging("writes") + 10 + random.below(50);
            wait_for("writes are staged", || {
                let staged = world.staging("writes") > enough;
                (staged && world.staging("dirty_bytes") > 0).then_some(())
            });
        }
        sleep(Duration::from_millis(random.below(400)));
    }

    /// Whether blocks that were being written can be neither old nor new: if a member is lost at
    /// the same moment, and no other was missing all the time.
    fn may_be_torn(&self, lost: Option<usize>, pass: Option<&Pass>) -> bool {
        if lost.is_none() || self.kind.rows == Rows::Journalled {
            return false;
        }
        let Some(pass) = pass else { return true };
        let status = self.machine.world.status();
        let state = &status["members"][pass.member]["state"];
        let disk = self.machine.placed()[pass.member];
        let rebuilt_still = self.kind.amid == Amid::Rebuild && state != "up";
        let lost_only_successor = self.kind.amid == Amid::Copy
            && lost == Some(pass.disk)
            && disk != lost
            && state == "up";
        !(rebuilt_still || lost_only_successor)
    }
}

#[test]
fn what_is_written_durably_is_there_when_the_disks_are_files_of_fuse() {
    durable_is_there(Devices::Files, "flush");
}

#[test]
fn what_is_written_durably_is_there_when_the_disks_are_block_devices() {
    durable_is_there(Devices::Loops, "flag");
}

fn durable_is_there(devices: Devices, by: &str) {
    // Small writes are journaled in pieces or as one, and large ones are not.
    for options in ["--level raid0", "--level raid1", "--level raid5"] {
        let mut machine = Machine::new(options, (3, 0), MEMBER_BYTES, devices, 1);
        machine.start("", None);
        let mut nbd = machine.world.nbd();
        let before = machine.disks.flushes(0);
        let sizes = [4096, 16 << 10, 1 << 20];
        let wanted = pattern(7, sizes.iter().sum());
        let mut at = 0;
        for bytes in sizes {
            assert_eq!(nbd.write(at as u64, &wanted[at..at + bytes], true), Ok(()));
            at += bytes;
        }
        assert!(machine.disks.flushes(0) > before, "{options}");
        assert_eq!(machine.world.status()["members"][0]["durable_by"], by, "{options}");
        machine.fail(Unflushed::Lost);
        machine.start("", None);
        let found = machine.world.nbd().read(0, wanted.len() as u32).expect("it can be read");
        assert!(found == wanted, "{options}: what was written durably is lost");
    }
}
