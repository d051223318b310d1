//! Rounds of faults: users write, members are failed, replaced and rebuilt, and the process is
//! killed at some moment. Perhaps a member is missing at the next start, perhaps an old one is
//! back. Everything that users may rely on must be there in every round.
//!
//! It is checked in these ways, each in a part of its own:
//! - The [`Ledger`] knows the expected content of each of its blocks, even for requests that the
//!   kill has cut off.
//! - fio fills a part during the faults, reads it back, and verifies it again after the restart.
//!   Its pattern differs in each round, so that older data is not accepted, as it would be with
//!   checksums in the data. fio can't report well enough how far it got when it was cut off
//!   (`verify_state_load` also wants failed writes). So its writes at the moment of the kill are in
//!   yet another part. There it writes every other block, and the others have to stay the same.
//! - Unwritten blocks are zeros.
//!
//! I/O that was submitted before the kill is mostly completed: data and parity arrive together.
//! Therefore the first member is served by an array of its own. Sometimes that one is frozen a
//! moment before, and then killed as well: its last writes are lost, those of the other members are
//! not. This member is never failed, so that others can be.
//!
//! In the end the array is made whole, checked once more, and scrubbed: redundancy must match.
//!
//! `EVENKEEL_ROUNDS` is the number of rounds of each array, `EVENKEEL_SEED` the seed. The moment of
//! a kill is drawn, too, but also depends on the machine: a seed reproduces the events, not the
//! exact place in the process. The checks hold for every moment.

mod disks;
pub(crate) mod ledger;
pub(crate) mod user;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::thread::sleep;
use std::time::Duration;

use det::Prng;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use self::disks::files;
use self::ledger::{Ledger, Unanswered};
use crate::tools::{pattern, run, wait_for};
use crate::world::{Background, MIB, World, json};

const MEMBER_BYTES: u64 = 48 * MIB;

/// The ledger's part is the first one. Then come the part that fio fills and keeps, and the part
/// that it writes to when the process is killed; the rest is not used.
const LEDGER_BYTES: u64 = 16 * MIB;
const KEPT_BYTES: u64 = 12 * MIB;
const BUSY_BYTES: u64 = 12 * MIB;
const BUSY: u64 = LEDGER_BYTES + KEPT_BYTES;
const UNUSED: u64 = BUSY + BUSY_BYTES;

/// The members that don't serve: their devices, and why they don't.
type Lost = BTreeMap<String, String>;

/// An array and its history.
struct Life {
    world: World,
    /// The array that serves the first member.
    slow: World,
    random: Prng,
    /// Its name in messages.
    title: String,
    journal: bool,
    /// It is a log volume.
    log: bool,
    ledger: Ledger,
    /// The previous content of fio's busy part; every other block keeps it.
    still: Vec<u8>,
    /// How many files there have been.
    disks: u32,
    story: Story,
}

/// Counters that show how hard the rounds were.
#[derive(Debug, Default)]
struct Story {
    kills: u64,
    torn: u64,
    amid_start: u64,
    amid_command: u64,
    missing: u64,
    back: u64,
    failed: u64,
    replaced: u64,
    rebuilt_on: u64,
    refused: u64,
    degraded: u64,
    replayed: u64,
    unanswered: Unanswered,
}

#[test]
fn raid5_with_a_journal() {
    play(0, "--level raid5", 4, true);
}

#[test]
fn raid6_with_a_journal() {
    play(1, "--level raid6", 5, true);
}

/// No member is missing at a kill: otherwise it would not start again.
#[test]
fn raid5_with_a_bitmap() {
    play(2, "--level raid5 --consistency bitmap", 4, false);
}

/// A log is written in whole stripes, and stripes that a crash tears were not acknowledged.
#[test]
fn raid5_with_a_distributed_spare() {
    play(5, "--level raid5 --distributed-spare", 5, true);
}

#[test]
fn a_log_on_raid5() {
    play(3, "--layout log-raid5 --segment 256K", 4, true);
}

#[test]
fn a_log_on_raid6() {
    play(4, "--layout log-raid6 --segment 256K", 5, true);
}

fn play(number: u64, options: &str, members: u32, journal: bool) {
    let given = |name| std::env::var(name).ok().map(|value| value.parse().expect(name));
    let seed = given("EVENKEEL_SEED").unwrap_or(1);
    let mut life = Life::new(seed, number, options, members, journal);
    for round in 0..given("EVENKEEL_ROUNDS").unwrap_or(2) {
        life.tell(&format!("round {round}"));
        life.round();
    }
    life.end();
    life.tell(&format!("{:?}", life.story));
}

impl Life {
    fn new(seed: u64, number: u64, options: &str, members: u32, journal: bool) -> Self {
        // The arrays of one seed differ.
        let mut random = Prng::new(seed.wrapping_mul(3).wrapping_add(number));
        let world = World::empty();
        fs::create_dir(world.path("disks")).expect("a directory");
        fs::create_dir(world.path("shelf")).expect("a directory");
        let slow = World::new("raid0", 2, 40).started();
        symlink(slow.fuse(), world.path("disks/d0")).expect("a link");
        let names: Vec<String> = (0..members).map(|disk| format!("disks/d{disk}")).collect();
        for name in &names[1..] {
            world.file(name, MEMBER_BYTES);
        }
        let chunk = ["4K", "16K", "64K"][random.below(3) as usize];
        let mut world = world.with_array(&format!("{options} --chunk {chunk}"), &names.join(" "));
        world.set_members("--name tank disks");
        world.start("");
        let still = pattern(seed, BUSY_BYTES as usize);
        let mut nbd = world.nbd();
        for (at, piece) in (BUSY..).step_by(MIB as usize).zip(still.chunks(MIB as usize)) {
            assert_eq!(nbd.write(at, piece, false), Ok(()));
        }
        let log = options.contains("--layout");
        let ledger = Ledger::new(random.next_u64(), LEDGER_BYTES / 4096);
        if log {
            // Unflushed data may be lost with the process.
            assert_eq!(nbd.flush(), Ok(()));
        }
        Self {
            world,
            slow,
            ledger: if log { ledger.flushing() } else { ledger },
            log,
            still,
            random,
            title: format!("{options}, chunk {chunk}, seed {seed}"),
            journal,
            disks: members,
            story: Story::default(),
        }
    }

    /// Printed if the test fails.
    fn tell(&self, what: &str) {
        println!("{}: {what}", self.title);
    }

    /// Users write, there are faults, the process is killed; it is started again and everything is
    /// there.
    fn round(&mut self) {
        if self.random.chance(1, 3) {
            self.make_whole();
        }
        let before = self.lost_now();
        let working = self.ledger.work(&self.world.path("run/tank.nbd"));
        let kept = self.fio_that_verifies();
        let filling = self.world.spawn("fio", &kept);
        self.troubles();
        assert!(filling.wait(), "fio failed: {kept}");
        let busy = "--name=busy --bs=4k --blockalign=8k --norandommap --time_based --runtime=600";
        let busy = self.fio(&format!("{busy} --offset={BUSY} --size={BUSY_BYTES}"));
        let busy = self.world.spawn("fio", &busy);
        self.troubles();
        if !self.journal {
            self.make_whole();
        } else if self.random.chance(1, 5) {
            self.rebuild_for_long();
        }
        let cut_off = self.last_words();
        if self.random.chance(2, 3) {
            self.tell("torn");
            self.story.torn += 1;
            self.slow.freeze();
            self.pause(20);
            self.world.begin_kill();
            self.slow.kill();
            wait_until_free(&self.slow, "m0");
            wait_until_free(&self.slow, "m1");
            self.slow.start("");
        }
        self.kill();
        self.ledger.rest(working);
        assert!(!busy.wait(), "fio must have been in the middle of it");
        drop(cut_off);

        let mut lost = self.lost_on_disk();
        let back = self.disks_come_back();
        let missing = self.disks_go_missing(&mut lost);
        self.start_again(&missing, &back);
        // A row that is overwritten whole is not journaled while all members serve. If a member is
        // lost with the process, blocks of that row can be neither old nor new.
        let degraded_all_the_time = before.iter().any(|member| lost.iter().any(|m| m == member));
        self.check(!self.log && !lost.is_empty() && !degraded_all_the_time);
        run("fio", &format!("{kept} --verify_only"));
        self.settle(lost.is_empty());
    }

    /// Makes the array whole, and checks everything.
    fn end(&mut self) {
        self.make_whole();
        self.check(false);
        self.world.assert_sound();
        self.world.stop();
        assert_eq!(self.lost_on_disk(), Lost::new(), "all are in service");
        self.story.unanswered = self.ledger.unanswered;
    }

    /// fio fills its part, with a new pattern.
    fn fio_that_verifies(&mut self) -> String {
        // %o is the offset.
        let pattern = format!("0x{:016x}%o", self.random.next_u64());
        let verify = format!("--verify=pattern --verify_pattern={pattern} --verify_interval=4k");
        let place =
            format!("--offset={LEDGER_BYTES} --size={KEPT_BYTES} --bsrange=4k-64k --end_fsync=1");
        self.fio(&format!("--name=kept {place} {verify} --verify_fatal=1 --verify_state_save=0"))
    }

    fn fio(&mut self, what: &str) -> String {
        let seed = self.random.below(1 << 31);
        let target = format!("--ioengine=nbd --uri={}", self.world.uri());
        format!("fio {what} --rw=randwrite --iodepth=16 --randseed={seed} --eta=never {target}")
    }

    fn troubles(&mut self) {
        for _ in 0..self.random.below(4) {
            self.pause(200);
            self.trouble();
        }
        self.pause(100);
    }

    /// A command of the operator.
    fn trouble(&mut self) {
        let line = self.draw_command();
        let ended = self.world.try_evenkeel(&format!("{line} --json"));
        self.tell(&format!("{line}: {}{}", ended.stdout.trim(), ended.stderr));
        if ended.code == Some(0) {
            return;
        }
        self.story.refused += 1;
        let code = json(&ended.stdout)["error"]["code"].take();
        let words: Vec<&str> = line.split(' ').collect();
        let expected: &[&str] = match words[..2] {
            // A rebuild may have begun or ended meanwhile.
            ["disk", "replace"] => &["no-redundancy", "busy", "too-many-spares"],
            ["disk", "add"] => &["too-many-spares"],
            ["rebuild", _] => &["nothing-to-do"],
            ["scrub", _] => &["busy", "nothing-to-compare"],
            _ => &[],
        };
        assert!(expected.iter().any(|expected| code == *expected), "{ended:?}");
    }

    fn draw_command(&mut self) -> String {
        let status = self.world.status();
        let members = status["members"].as_array().expect("members");
        let numbers = |wanted: fn(&Value) -> bool| -> Vec<usize> {
            let members = members.iter().enumerate();
            members.filter(|(_, m)| wanted(&m["state"])).map(|(number, _)| number).collect()
        };
        let failed = numbers(|state| state == "failed");
        let filled = numbers(|state| state == "rebuilding");
        let mut up = numbers(|state| state == "up");
        up.retain(|&number| number > 0);
        let spared = status["redundancy"].as_u64() > Some((failed.len() + filled.len()) as u64);
        // Without a journal, a member can be spared only when the resync is over.
        let in_step = self.journal || status["pass"]["task"] != "resync";
        match self.random.below(12) {
            0..3 if spared && in_step => {
                self.story.failed += 1;
                format!("disk fail tank {}", self.one_of(&up))
            }
            3 if !filled.is_empty() => format!("disk fail tank {}", self.one_of(&filled)),
            4..6 if failed.is_empty() && spared && in_step => {
                self.story.replaced += 1;
                let (member, disk) = (self.one_of(&up), self.new_disk());
                format!("disk replace tank {member} {disk}")
            }
            3..7 if !failed.is_empty() => {
                self.story.replaced += 1;
                format!("disk replace tank {} {}", failed[0], self.new_disk())
            }
            7 => format!("disk add tank {}", self.new_disk()),
            8 => "rebuild pause tank".to_owned(),
            9 => "rebuild resume tank".to_owned(),
            10 => "rebuild limit tank --min 4M --max 24M".to_owned(),
            _ => "scrub start tank".to_owned(),
        }
    }

    /// Waits until a rebuild's progress is on record, so that the next start continues there.
    fn rebuild_for_long(&mut self) {
        self.world.evenkeel("rebuild limit tank --min 2M --max 4M");
        let lost = self.lost_now();
        if !lost.values().any(|state| state == "rebuilding") {
            let status = self.world.status();
            let members = status["members"].as_array().expect("members");
            let failed = members.iter().position(|member| member["state"] == "failed");
            let (member, disk) = (failed.unwrap_or(1), self.new_disk());
            self.tell(&format!("disk replace tank {member} {disk}, for long"));
            // Refused if it has.
            self.world.try_evenkeel(&format!("disk fail tank {member}"));
            self.world.evenkeel(&format!("disk replace tank {member} {disk}"));
            self.story.replaced += 1;
        }
        // Refused if it goes on.
        self.world.try_evenkeel("rebuild resume tank");
        let begins = wait_for("the rebuild is on record", || {
            let watermark = self.watermark();
            let rebuilt = || !self.lost_now().values().any(|state| state == "rebuilding");
            (watermark > 0 || rebuilt()).then_some(watermark)
        });
        self.tell(&format!("a rebuild will go on at stripe {begins}"));
        self.story.rebuilt_on += u64::from(begins > 0);
    }

    fn one_of(&mut self, numbers: &[usize]) -> usize {
        numbers[self.random.below(numbers.len() as u64) as usize]
    }

    /// Perhaps one more command, which the kill interrupts.
    fn last_words(&mut self) -> Option<Background> {
        if !self.journal || self.random.chance(1, 2) {
            self.pause(200);
            return None;
        }
        let line = self.draw_command();
        self.tell(&format!("{line}, cut off"));
        self.story.amid_command += 1;
        let command = self.world.spawn_evenkeel(&line);
        self.pause(40);
        Some(command)
    }

    fn pause(&mut self, ms_max: u64) {
        sleep(Duration::from_millis(self.random.below(ms_max)));
    }

    fn kill(&mut self) {
        self.world.kill();
        self.story.kills += 1;
        for name in files(&self.world, "disks") {
            wait_until_free(&self.world, &format!("disks/{name}"));
        }
    }

    fn lost_now(&self) -> Lost {
        lost(&self.world.status()["members"], "uuid")
    }

    /// Starts the array, perhaps at the second attempt.
    fn start_again(&mut self, missing: &[String], back: &[String]) {
        // What one number of threads has left is what any other finds.
        let mut options = format!("--threads {}", 1 + self.random.below(4));
        if !missing.is_empty() {
            let refused = self.world.try_evenkeel("start --nbd --name tank disks");
            refused.refused(&["missing: member ", "--degraded"]);
            options += " --degraded";
        }
        if self.random.chance(1, 4) {
            self.tell("killed amid the start");
            self.world.launch(&options);
            self.pause(150);
            self.kill();
            self.story.amid_start += 1;
        }
        let ready = self.world.start(&options);
        let warnings = ready["warnings"].to_string();
        for name in back {
            let told = warnings.contains(&format!("/{name}: the array has gone on without it"));
            assert!(told, "{name} is stale: {warnings}");
        }
        let status = self.world.status();
        let lost = lost(&status["members"], "uuid");
        let members = status["members"].as_array().into_iter().flatten();
        for member in members.filter(|member| missing.contains(&word(&member["uuid"]).to_owned())) {
            // Unless a spare has taken its place.
            assert_eq!(member["state"], "failed", "{missing:?} are missing: {status:#}");
        }
        let events = status["events"].to_string();
        self.story.replayed += u64::from(events.contains("of the journal were carried out"));
        self.story.degraded += u64::from(!lost.is_empty());
    }

    fn check(&mut self, torn: bool) {
        let mut nbd = self.world.nbd();
        self.ledger.check(&mut nbd, torn);
        for (at, wanted) in (BUSY..).step_by(MIB as usize).zip(self.still.chunks(MIB as usize)) {
            let found = nbd.read(at, MIB as u32).expect("it can be read");
            let mut blocks = found.chunks(4096).zip(wanted.chunks(4096)).skip(1).step_by(2);
            let damaged = blocks.position(|(found, wanted)| found != wanted);
            assert_eq!(damaged, None, "a neighbour of what fio wrote, in the MiB at {at}");
        }
        let end = self.world.status()["capacity_bytes"].as_u64().expect("a size");
        for at in (UNUSED..end).step_by(MIB as usize) {
            let found = nbd.read(at, MIB.min(end - at) as u32).expect("it can be read");
            assert!(found.iter().all(|&byte| byte == 0), "something is in the MiB at {at}");
        }
    }

    /// Blocks that were being written when the process was killed are resynced before anything else
    /// happens, or written once more.
    fn settle(&mut self, whole: bool) {
        let resync = whole && (!self.journal || self.random.chance(1, 2));
        if resync {
            self.world.evenkeel("rebuild status tank --wait");
        }
        self.ledger.mend(&mut self.world.nbd(), !resync);
    }

    /// Replaces missing members, and waits until everything is rebuilt.
    fn make_whole(&mut self) {
        self.world.evenkeel("rebuild limit tank --min 1G --max 0");
        loop {
            // Refused if there is nothing to resume.
            self.world.try_evenkeel("rebuild resume tank");
            // Fails if a member is missing.
            self.world.try_evenkeel("rebuild status tank --wait");
            let status = self.world.status();
            let members = status["members"].as_array().expect("members");
            let Some(missing) = members.iter().position(|m| m["state"] == "failed") else {
                assert_eq!(status["health"], "online", "{status:#}");
                return;
            };
            let disk = self.new_disk();
            self.world.evenkeel(&format!("disk replace tank {missing} {disk}"));
        }
    }
}

/// Until the kernel has released a killed process's device, a write to it may still be under way;
/// or a flush, which can take longer than a start waits.
fn wait_until_free(world: &World, disk: &str) {
    let file = File::open(world.path(disk)).expect("a disk");
    wait_for("the disk is free", || flock(&file, FlockOperation::NonBlockingLockExclusive).ok());
}

fn lost(members: &Value, device: &str) -> Lost {
    let members = members.as_array().into_iter().flatten();
    let lost = members.filter(|member| member["state"] != "up");
    lost.map(|member| {
        // Without its progress.
        let state = word(&member["state"]).split(' ').next().expect("a word");
        (word(&member[device]).to_owned(), state.to_owned())
    })
    .collect()
}

fn word(value: &Value) -> &str {
    value.as_str().expect("a word")
}
