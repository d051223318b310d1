//! Arrays of modelled SSDs that stage writes: acknowledged writes survive the process, and a member
//! that is lost with it; a clean stop leaves the log empty.

use std::fs::File;
use std::os::unix::fs::FileExt;

use raidcore::meta::Superblock;
use ublkd::attach::examine;

use crate::rounds::ledger::Ledger;
use crate::tools::wait_for;
use crate::world::{MIB, World};

const BLOCK: u64 = 4096;
const LEDGER_BLOCKS: u64 = 4096;
const ROUNDS: usize = 3;

struct Life {
    world: World,
    /// By their places; staging devices are the last.
    members: Vec<String>,
    ledger: Ledger,
}

impl Life {
    /// An array of used SSDs that goes around busy ones, and stages writes.
    fn new(level: &str, members: usize, devices: usize) -> Self {
        let names = (0..members + devices).map(|number| format!("m{number}"));
        let drives: Vec<_> =
            names.clone().map(|name| format!("flash:mqsim+aged+told+obeys:{name}")).collect();
        let (drives, devices) = drives.split_at(members);
        let devices: String =
            devices.iter().map(|device| format!(" --staging dedicated:{device}")).collect();
        let options = format!("--level {level} --file-size 40M --staging reserved:3M{devices}");
        let mut world = World::empty().with_array(&options, &drives.join(" "));
        let members: Vec<String> = names.collect();
        world.set_members(&members.join(" "));
        world.start("--policy evenkeel");
        Self { world, members, ledger: Ledger::new(7, LEDGER_BLOCKS) }
    }

    /// Users write until something is staged that is not at home; then the process is killed.
    fn kill_amid_writes(&mut self) {
        let working = self.ledger.work(&self.world.path("run/tank.nbd"));
        let enough = self.world.staging("writes") + 30;
        wait_for("writes are staged", || {
            let staged = self.world.staging("writes") > enough;
            (staged && self.world.staging("dirty_bytes") > 0).then_some(())
        });
        self.world.kill();
        self.ledger.rest(working);
    }

    /// Starts again, without one of the members if that is given, and checks all of the users'
    /// writes. Returns how much came home from the log before that.
    fn start_again(&mut self, lost: Option<usize>) -> u64 {
        let there = self.members.iter().enumerate().filter(|(number, _)| Some(*number) != lost);
        let there: Vec<&str> = there.map(|(_, member)| member.as_str()).collect();
        self.world.set_members(&there.join(" "));
        let degraded = if lost.is_some() { "--degraded" } else { "" };
        let ready = self.world.start(degraded);
        assert_eq!(self.world.status()["policy"], "evenkeel", "it is on record");
        let home = self.world.staging("reclaimed_bytes");
        let told = ready["recovered"].as_array().expect("a list").iter().any(|note| {
            note.as_str().is_some_and(|note| note.contains("brought home from the staging log"))
        });
        assert_eq!(told, home > 0, "{ready:#}");
        // Unacknowledged writes may be torn if a member is lost at the same moment.
        self.ledger.check(&mut self.world.nbd(), lost.is_some());
        self.ledger.mend(&mut self.world.nbd(), true);
        self.world.assert_no_errors();
        home
    }

    fn replace(&mut self, member: usize, round: usize) {
        let name = format!("new{round}");
        self.world.file(&name, 40 * MIB);
        self.world.evenkeel(&format!(
            "disk replace tank {member} flash:mqsim+aged+told+obeys:{name} --wait"
        ));
        self.members[member] = name;
    }

    /// Everything is right and at home, even without the log's content.
    fn end(mut self) {
        self.ledger.check(&mut self.world.nbd(), false);
        self.world.evenkeel("rebuild status tank --wait");
        self.world.assert_sound();
        self.world.stop();
        self.world.set_members(&self.members.join(" "));
        self.spoil_logs();
        self.world.start("");
        assert_eq!(self.world.staging("staged_bytes"), 0);
        self.ledger.check(&mut self.world.nbd(), false);
        self.world.assert_sound();
        self.world.stop();
    }

    /// Overwrites all of the staging log.
    fn spoil_logs(&self) {
        for member in self.members.iter().map(|name| self.world.path(name)) {
            let found = examine(&member).expect("a file").superblock.expect("a member");
            let Superblock { record, device } = found;
            assert!(record.clean);
            let place = record.member_of(device).expect("it has a place");
            let (start, blocks) = record.staging_of(place);
            let file = File::options().write(true).open(&member).expect("the member");
            let junk = vec![0xee; (blocks * BLOCK) as usize];
            file.write_all_at(&junk, start.0 * BLOCK).expect("it is spoilt");
        }
    }
}

#[test]
fn what_was_staged_outlives_the_process() {
    let mut life = Life::new("raid5", 4, 0);
    let mut home = 0;
    for _ in 0..ROUNDS {
        life.kill_amid_writes();
        home += life.start_again(None);
    }
    assert!(home > 0, "nothing was in the log that was not at home");
    life.end();
}

#[test]
fn what_was_staged_outlives_the_process_and_a_member() {
    let mut life = Life::new("raid5", 4, 0);
    let mut home = 0;
    for round in 0..ROUNDS {
        life.kill_amid_writes();
        home += life.start_again(Some(round));
        life.replace(round, round);
    }
    assert!(home > 0, "nothing was in the log that was not at home");
    life.end();
}

#[test]
fn what_was_staged_outlives_the_process_and_a_staging_device() {
    const DEVICE: usize = 3;
    let mut life = Life::new("raid5", 3, 1);
    let mut home = 0;
    for (round, lost) in [Some(DEVICE), Some(0), None].into_iter().enumerate() {
        life.kill_amid_writes();
        home += life.start_again(lost);
        if let Some(lost) = lost {
            life.replace(lost, round);
        }
    }
    assert!(home > 0, "nothing was in the log that was not at home");
    life.end();
}

#[test]
fn a_clean_stop_leaves_nothing_staged() {
    let mut life = Life::new("raid6", 5, 1);
    for _ in 0..2 {
        let working = life.ledger.work(&life.world.path("run/tank.nbd"));
        wait_for("writes are staged", || (life.world.staging("dirty_bytes") > 0).then_some(()));
        life.world.stop();
        life.ledger.rest(working);
        life.spoil_logs();
        assert_eq!(life.start_again(None), 0, "all was at home");
    }
    life.end();
}
