//! A run over groups in memory.

use std::time::Duration;

use det::Instant;
use raidcore::engine::Request;
use raidlog::{Answer, Found, Input, Recovery, RecoveryError, Wanted};

use super::lives::{BOUND, Lives};
use super::scenario::LogScenario;
use super::users::Users;
use super::world::{VOLUME, World};
use crate::disk::{Block, Kept};
use crate::source::Source;

impl Lives for World {
    fn parts(&mut self) -> (&mut Source, &LogScenario, &mut Users) {
        (&mut self.source, &self.scenario, &mut self.users)
    }

    fn ask(&mut self, request: Request) {
        self.step(Input::Request(request));
    }

    fn ask_to_stop(&mut self) {
        self.step(Input::Stop);
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn has_failed(&self) -> bool {
        self.volume.status().failed
    }

    fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    fn complete_any(&mut self) {
        self.complete_one();
    }

    fn wait(&mut self) {
        let at = self.volume.deadline().filter(|&at| at <= self.now);
        let Some(now) = at else {
            let waits = self.users.waiting();
            panic!("{waits:?} waits, but nothing is under way: {}", self.state());
        };
        self.tick(now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.volume.deadline()
    }

    fn tick(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.step(Input::Tick);
    }

    fn pass_time(&mut self) {
        self.now = self.now + Duration::from_millis(self.source.below(20));
        if self.volume.deadline().is_some_and(|at| at <= self.now) {
            self.step(Input::Tick);
        }
    }

    fn calm(&mut self, calm: bool) -> bool {
        std::mem::replace(&mut self.calm, calm)
    }

    fn crash(&mut self) {
        loop {
            self.count();
            self.summary.crashes += 1;
            self.lose_pending();
            // If only the host died, the groups still have everything.
            if self.source.chance(3, 4) {
                let torn = self.scenario.torn;
                for group in &mut self.groups {
                    group.crash(&mut self.source, torn);
                }
            }
            self.users.forget();
            self.recover();
            if !self.source.chance(1, 3) {
                return;
            }
            for _ in 0..self.source.below(20) {
                if !self.pending.is_empty() {
                    self.complete_any();
                }
            }
        }
    }

    fn state(&self) -> String {
        format!("{:?}", self.volume.status())
    }
}

impl World {
    fn recover(&mut self) {
        let sizes: Vec<u64> = self.groups.iter().map(super::group::Group::size).collect();
        let mut recovery = Recovery::new(self.config(), VOLUME, &sizes, self.scenario.wish.stripe);
        let mut found = recovery.step(None);
        for _ in 0..BOUND {
            let wanted = match found {
                Ok(Found::Wanted(wanted)) => wanted,
                Ok(Found::Volume(volume)) => {
                    self.volume = *volume;
                    self.volume.check();
                    return self.wake();
                }
                // A volume that was never created is created again.
                Err(_) if !self.made => return self.make(),
                Err(error) => panic!("{error}"),
            };
            self.trace(format_args!("{wanted:?}"));
            found = self.answer(&mut recovery, &wanted);
        }
        panic!("a recovery goes on and on");
    }

    fn answer(&mut self, recovery: &mut Recovery, wanted: &Wanted) -> Result<Found, RecoveryError> {
        let group = &self.groups[wanted.group.index()];
        let blocks = (wanted.at..wanted.at + u64::from(wanted.blocks)).map(|at| group.read(at));
        if wanted.checksums {
            self.summary.replayed += 1;
            let sums: Vec<u32> = blocks.map(Block::checksum).collect();
            return recovery.step(Some(Answer::Checksums(&sums)));
        }
        let bytes: Vec<u8> = blocks.flat_map(Block::whole).collect();
        recovery.step(Some(Answer::Bytes(&bytes)))
    }
}
