//! A run over arrays: faults and recovery.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{self, Command, Pace, PassKind, Request};
use raidcore::meta::SlotState;
use raidcore::units::MemberId;
use raidlog::GroupId;
use raidlog::array::Input;

use super::world::World;
use crate::disk::Block;
use crate::log::LogScenario;
use crate::log::lives::{BOUND, Lives};
use crate::log::users::Users;
use crate::source::Source;

impl Lives for World {
    fn parts(&mut self) -> (&mut Source, &LogScenario, &mut Users) {
        (&mut self.source, &self.scenario.log, &mut self.users)
    }

    fn ask(&mut self, request: Request) {
        let tag = usize::from(request.tag.0);
        self.memory.payload[tag] =
            self.users.payloads[tag].iter().copied().map(Block::Data).collect();
        self.step(Input::Request(request));
    }

    fn ask_to_stop(&mut self) {
        self.step(Input::Stop);
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn has_failed(&self) -> bool {
        false
    }

    fn is_busy(&self) -> bool {
        !self.ios.is_empty() || !self.work.computes.is_empty() || !self.work.looks.is_empty()
    }

    fn complete_any(&mut self) {
        self.complete_one();
    }

    fn wait(&mut self) {
        let at = self.machine.deadline();
        self.tick(at.unwrap_or_else(|| panic!("nothing goes on by itself: {}", self.state())));
    }

    fn deadline(&self) -> Option<Instant> {
        self.machine.deadline()
    }

    fn tick(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.step(Input::Tick);
    }

    fn pass_time(&mut self) {
        self.now = self.now + Duration::from_millis(self.source.below(20));
        if self.machine.deadline().is_some_and(|at| at <= self.now) {
            self.step(Input::Tick);
        }
    }

    fn fault(&mut self) {
        self.hang_on();
        let busy = self.scenario.array.busy;
        if busy > 0 && self.source.chance(busy, 100) {
            self.say_who_is_busy();
        }
        if self.calm || !self.source.chance(self.scenario.faults, 1000) {
            return;
        }
        let group = GroupId(self.source.below(self.groups.len() as u64) as u8);
        let redundancy = self.machine.engine(group).geometry().redundancy();
        let member = MemberId(self.source.below(self.scenario.array.members as u64) as u8);
        match self.source.below(13) {
            0 => self.fail_a_write(group),
            1 | 2 => {
                // Its loss may not be noticed for a while.
                if let (Some(lost), true) = (self.lose_one(group), self.source.chance(1, 2)) {
                    let input = engine::Input::DeviceGone(lost);
                    self.step(Input::Array { group, input });
                }
            }
            3..=5 if self.missing(group) > 0 && redundancy > 0 => self.add_spare(group),
            6 if redundancy > 0 => {
                let repair = self.source.chance(1, 2);
                self.command(group, Command::Scrub { repair });
            }
            7 if self.can_lose_one(group) => self.command(group, Command::Fail(member)),
            8 => {
                let max = u64::MAX >> self.source.below(40);
                let min = 1 << self.source.below(30);
                self.command(group, Command::SetPace(Pace { min, max }));
            }
            9 | 10 => self.spoil(group),
            12 if self.scenario.array.faults.hang > 0 => self.hang(group),
            11 => {
                let command = self.source.one_of(&[Command::Pause, Command::Resume]);
                self.command(group, command);
            }
            _ => {}
        }
    }

    fn calm(&mut self, calm: bool) -> bool {
        std::mem::replace(&mut self.calm, calm)
    }

    fn crash(&mut self) {
        loop {
            self.count();
            self.summary.crashes += 1;
            self.trace(format_args!("the power fails"));
            self.lose_pending();
            // If only the host died, the disks still have everything.
            if self.source.chance(3, 4) {
                let torn = self.scenario.array.faults.torn;
                for disk in self.groups.iter_mut().flat_map(|group| &mut group.disks) {
                    if !disk.gone {
                        disk.crash(&mut self.source, torn);
                    }
                }
            }
            self.users.forget();
            self.look_all_well();
            for group in self.all_groups() {
                let lossy = self.scenario.array.faults.lossy && !self.calm;
                if lossy && self.source.chance(1, 2) && self.lose_one(group).is_some() {
                    self.summary.gone_with_power += 1;
                } else if self.scenario.array.faults.stale {
                    self.give_back(group);
                }
            }
            self.open();
            if self.source.chance(1, 3) {
                for _ in 0..self.source.below(100) {
                    self.start_on();
                }
                if self.source.chance(1, 3) {
                    self.stop_at_once();
                }
            } else {
                return self.start();
            }
        }
    }

    fn harm(&mut self) -> bool {
        let lossy = self.scenario.array.faults.lossy && self.source.chance(1, 2);
        let lost: Vec<_> = self.all_groups().filter(|_| lossy).collect();
        let lost = lost.into_iter().filter(|&group| self.lose_one(group).is_some()).count();
        self.summary.gone_after_start += lost as u64;
        lost > 0
    }

    fn heal(&mut self) {
        self.hangs_end();
        for group in self.all_groups() {
            self.heal_one(group);
            if self.machine.engine(group).geometry().redundancy() > 0 {
                self.scrub(group);
            }
        }
    }

    fn state(&self) -> String {
        let volume = self.machine.volume().map(raidlog::LogVolume::status);
        let arrays = self.all_groups().map(|group| self.machine.engine(group).status());
        format!("{volume:?} {:?}", arrays.collect::<Vec<_>>())
    }
}

impl World {
    /// Lets one thing happen.
    fn start_on(&mut self) {
        self.fault();
        if self.is_busy() {
            self.complete_any();
        } else if self.machine.deadline().is_some() {
            self.wait();
        }
    }

    /// Runs until there is a volume, or creates it if there never was one.
    fn start(&mut self) {
        for _ in 0..BOUND {
            if self.machine.volume().is_some() {
                return;
            }
            if let Some(error) = self.lost {
                assert!(!self.made, "{error}");
                self.lose_pending();
                // The arrays start again, without having been stopped.
                self.look_all_well();
                return self.make();
            }
            self.start_on();
        }
        panic!("a start goes on and on: {}", self.state());
    }

    /// A stop of an array that may not even have started.
    fn stop_at_once(&mut self) {
        self.step(Input::Stop);
        for _ in 0..BOUND {
            if self.stopped {
                return assert!(!self.is_busy(), "nothing is under way after a stop");
            }
            if self.is_busy() {
                self.complete_any();
            } else {
                self.wait();
            }
        }
        panic!("it does not stop: {}", self.state());
    }

    /// Repairs a group.
    fn heal_one(&mut self, group: GroupId) {
        self.command(group, Command::SetPace(Pace::default()));
        for (device, disk) in (0..).zip(&self.groups[group.index()].disks.clone()) {
            if disk.gone {
                let input = engine::Input::DeviceGone(raidcore::units::DeviceId(device));
                self.step(Input::Array { group, input });
            }
        }
        for _ in 0..BOUND {
            if self.is_busy() {
                self.complete_any();
                continue;
            }
            let engine = self.machine.engine(group);
            // A distributed spare may stand in for a member: then nothing can be scrubbed.
            let whole = engine.members().all(|m| m.state == SlotState::Up);
            let pass = engine.pass();
            if pass.is_none() && engine.is_serving() && whole {
                return;
            }
            let spares = engine.spares().count();
            if pass.is_some_and(|pass| pass.paused || pass.stuck.is_some()) {
                self.command(group, Command::Resume);
            } else if pass.is_none() && !whole && spares == 0 {
                self.add_spare(group);
            }
            if !self.is_busy() {
                self.wait();
            }
        }
        panic!("a group never becomes whole: {}", self.state());
    }

    /// Compares everything.
    fn scrub(&mut self, group: GroupId) {
        self.command(group, Command::Scrub { repair: false });
        for _ in 0..BOUND {
            let pass = self.machine.engine(group).pass();
            if self.is_busy() {
                self.complete_any();
            } else if pass.is_some_and(|pass| matches!(pass.kind, PassKind::Scrub { .. })) {
                self.wait();
            } else {
                let last = self.machine.engine(group).status().last_scrub.expect("it has ended");
                assert_eq!(last.rows, 0, "redundancy of {group:?} does not match");
                return self.check();
            }
        }
        panic!("a scrub goes on and on: {}", self.state());
    }
}
