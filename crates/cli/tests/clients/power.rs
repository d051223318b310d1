//! Power failures: the process is killed, and its disks lose what was not flushed. A member may be
//! lost with the power.
//!
//! `EVENKEEL_ROUNDS` is how many rounds each array goes through, `EVENKEEL_SEED` what is drawn.

use std::fs::File;
use std::thread::sleep;
use std::time::Duration;

use det::Prng;
use rustix::fs::{FlockOperation, flock};

use crate::rounds::ledger::Ledger;
use crate::tools::{pattern, wait_for};
use crate::volatile::{Disks, Unflushed};
use crate::world::{MIB, World};

const MEMBER_BYTES: u64 = 48 * MIB;
const LEDGER_BYTES: u64 = 8 * MIB;

/// An array on disks that lose power. The world is dropped before its disks.
struct Machine {
    world: World,
    disks: Disks,
    random: Prng,
    /// By member.
    placed: Vec<usize>,
}

impl Machine {
    /// With one more disk than members.
    fn new(options: &str, members: usize, seed: u64) -> Self {
        let disks = Disks::new(members + 1, MEMBER_BYTES);
        let placed: Vec<usize> = (0..members).collect();
        let world = World::empty().with_array(options, &names(&disks, &placed));
        Self { world, disks, random: Prng::new(seed), placed }
    }

    fn fail(&mut self, unflushed: Unflushed) {
        self.world.kill();
        for &disk in &self.placed {
            // Until then the kernel may have something of the process on the way.
            let file = File::open(self.disks.path(disk)).expect("a disk");
            let free = || flock(&file, FlockOperation::NonBlockingLockExclusive).ok();
            wait_for("the disk is free", free);
        }
        self.disks.cut(&mut self.random, unflushed);
    }

    /// Starts it without a member, if one is given.
    fn start(&mut self, lost: Option<usize>) {
        let there: Vec<usize> =
            self.placed.iter().copied().filter(|&disk| Some(disk) != lost).collect();
        self.world.set_members(&names(&self.disks, &there));
        self.world.start(if lost.is_some() { "--degraded" } else { "" });
    }
}

fn names(disks: &Disks, which: &[usize]) -> String {
    let paths = which.iter().map(|&disk| disks.path(disk).display().to_string());
    paths.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_written_durably_is_there_when_the_disks_are_files_of_fuse() {
    // Small writes go into a journal in pieces or as one, and large ones past it.
    for options in ["--level raid0", "--level raid1", "--level raid5"] {
        let mut machine = Machine::new(options, 3, 1);
        machine.start(None);
        let mut nbd = machine.world.nbd();
        let flushes = |machine: &Machine| machine.disks.flushes(0);
        let before = flushes(&machine);
        let sizes = [4096, 16 << 10, 1 << 20];
        let wanted = pattern(7, sizes.iter().sum());
        let mut at = 0;
        for bytes in sizes {
            assert_eq!(nbd.write(at as u64, &wanted[at..at + bytes], true), Ok(()));
            at += bytes;
        }
        assert!(flushes(&machine) > before, "{options}");
        assert_eq!(machine.world.status()["members"][0]["durable_by"], "flush", "{options}");
        machine.fail(Unflushed::Lost);
        machine.start(None);
        let found = machine.world.nbd().read(0, wanted.len() as u32).expect("it can be read");
        assert!(found == wanted, "{options}: what was written durably is lost");
    }
}

#[test]
fn raid1() {
    play(0, "--level raid1", 3, Rows::Journalled);
}

#[test]
fn raid5() {
    play(1, "--level raid5 --chunk 16K", 4, Rows::WrittenPast);
}

#[test]
fn raid6() {
    play(2, "--level raid6 --chunk 16K", 5, Rows::WrittenPast);
}

#[test]
fn raid5_with_a_distributed_spare() {
    play(3, "--level raid5 --chunk 16K --distributed-spare", 5, Rows::WrittenPast);
}

#[test]
fn raid5_with_staging() {
    play(4, "--level raid5 --chunk 16K --staging reserved:4M", 4, Rows::WrittenPast);
}

#[test]
fn a_log_on_raid5() {
    play(5, "--layout log-raid5 --segment 256K", 4, Rows::Journalled);
}

/// What becomes of rows that are written whole if a member is lost with the power.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// They are old or new.
    Journalled,
    /// They can be neither old nor new.
    WrittenPast,
}

/// Users write, the power fails, perhaps a member goes with it; all that was durable is there. What
/// was lost comes back and is used again.
fn play(number: u64, options: &str, members: usize, rows: Rows) {
    let given = |name| std::env::var(name).ok().map(|value| value.parse().expect(name));
    let seed: u64 = given("EVENKEEL_SEED").unwrap_or(1);
    let mut machine = Machine::new(options, members, seed.wrapping_mul(7).wrapping_add(number));
    let mut ledger = Ledger::new(machine.random.next_u64(), LEDGER_BYTES / 4096).flushing();
    machine.start(None);
    for round in 0..given("EVENKEEL_ROUNDS").unwrap_or(2) {
        let working = ledger.work(&machine.world.path("run/tank.nbd"));
        sleep(Duration::from_millis(machine.random.below(400)));
        let unflushed = [Unflushed::Lost, Unflushed::Any, Unflushed::Any, Unflushed::Kept]
            [machine.random.below(4) as usize];
        machine.fail(unflushed);
        ledger.rest(working);
        // The first round always loses one.
        let loses = round == 0 || machine.random.chance(1, 2);
        let lost = loses.then(|| machine.random.below(members as u64) as usize);
        println!("{options}, seed {seed}, round {round}: {unflushed:?}, without {lost:?}");
        machine.start(lost.map(|member| machine.placed[member]));
        ledger.check(&mut machine.world.nbd(), lost.is_some() && rows == Rows::WrittenPast);
        if let Some(member) = lost {
            // Either one that was never used or, later, one that is stale.
            let disk = (0..=members).find(|disk| !machine.placed.contains(disk));
            let disk = disk.expect("one more than members");
            let path = machine.disks.path(disk);
            let replace = format!("disk replace tank {member} {} --force --wait", path.display());
            machine.world.evenkeel(&replace);
            machine.placed[member] = disk;
        } else {
            // Fails if there is nothing to wait for.
            machine.world.try_evenkeel("rebuild status tank --wait");
        }
        ledger.mend(&mut machine.world.nbd(), true);
    }
    machine.world.assert_sound();
    machine.world.stop();
}
