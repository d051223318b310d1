//! Member files on a file system that is not local, which are cut off at their server.

use crate::tools::{assert_same, pattern, wait_for};
use crate::volatile::Disks;
use crate::world::{MIB, World};

/// The length that is left.
const LEFT: u64 = 12 * MIB;

struct Life {
    world: World,
    disks: Disks,
    content: Vec<u8>,
}

impl Life {
    /// An array that is full.
    fn new() -> Self {
        let disks = Disks::new(3, 48 * MIB);
        let names: Vec<String> =
            (0..3).map(|disk| disks.path(disk).display().to_string()).collect();
        let world = World::empty().with_array("--level raid5", &names.join(" ")).started();
        let bytes = world.status()["capacity_bytes"].as_u64().expect("a size");
        let life = Self { world, disks, content: pattern(1, bytes as usize) };
        life.write(0, life.content.len());
        life
    }

    fn write(&self, from: usize, to: usize) {
        let mut nbd = self.world.nbd();
        for (at, part) in (from..).step_by(1 << 20).zip(self.content[from..to].chunks(1 << 20)) {
            assert_eq!(nbd.write(at as u64, part, false), Ok(()));
        }
    }

    /// Stops it, cleanly.
    fn stop(&mut self) {
        self.disks.speak(1);
        self.world.assert_no_errors();
        self.world.stop();
    }

    /// It has failed, and is not read.
    fn assert_gone(mut self, member: usize, why: &str) {
        self.world.assert_event(&[&format!("member {member}"), why]);
        let mut nbd = self.world.nbd();
        let parts = self.content.chunks(1 << 20);
        for (at, part) in (0..).step_by(1 << 20).zip(parts) {
            let found = nbd.read(at, part.len() as u32).expect("it can be read");
            assert_same(&found, part, &format!("the MiB at {at}"));
        }
        drop(nbd);
        self.stop();
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.disks.speak(1);
    }
}

#[test]
fn one_that_nobody_uses_is_found_although_a_write_has_made_it_longer() {
    let life = Life::new();
    life.disks.cut_off(1, LEFT);
    let half = life.content.len() / 2;
    life.write(half, half + (1 << 20));
    assert!(life.disks.bytes(1) > LEFT, "there is a hole");
    let failed = || (life.world.status()["members"][1]["state"] == "failed").then_some(());
    wait_for("it is found", failed);
    life.assert_gone(1, "smaller than it was");
}

#[test]
fn one_is_found_before_a_write_makes_it_as_long_as_it_was() {
    let life = Life::new();
    life.disks.cut_off(1, LEFT);
    let bytes = life.content.len();
    life.write(bytes - (1 << 20), bytes);
    assert_eq!(life.world.status()["members"][1]["state"], "failed");
    assert!(life.disks.bytes(1) < life.disks.bytes(0), "the write was kept from it");
    life.assert_gone(1, "smaller than it was");
}

/// Member 1 is queried for its size and does not answer.
fn silent(io_timeout: &str) -> Life {
    let mut life = Life::new();
    life.world.stop();
    life.world.start(&format!("--io-timeout {io_timeout}"));
    life.disks.be_silent(1);
    wait_for("it is asked for its size", || (life.disks.unanswered(1) > 0).then_some(()));
    life
}

#[test]
fn one_whose_size_is_not_told_keeps_nobody_waiting() {
    let mut life = silent("1h");
    life.write(0, life.content.len() / 4);
    assert_eq!(life.world.status()["members"][1]["state"], "up");
    life.stop();
}

#[test]
fn one_whose_size_is_not_told_is_given_up_as_one_that_hangs() {
    let life = silent("5s");
    let failed = || (life.world.status()["members"][1]["state"] == "failed").then_some(());
    wait_for("it is given up", failed);
    life.assert_gone(1, "does not answer");
}
