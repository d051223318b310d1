//! A run: lives in which anything may happen, each checked by the next, and at last one in which
//! nothing fails.

use std::time::Duration;

use raidcore::engine::{Op, Request};
use raidcore::units::{Lba, Tag};
use raidlog::{Answer, Found, Input, Recovery, RecoveryError, Wanted};

use super::group::Block;
use super::world::{VOLUME, World};

/// More events than any wait takes.
const BOUND: u64 = 300_000;

impl World {
    /// All of it.
    pub(super) fn run(&mut self) {
        for _ in 0..self.scenario.lives {
            self.live();
            if self.source.chance(1, 4) {
                self.drain();
                self.verify();
            }
            if self.source.chance(1, 4) {
                self.stop();
            }
            self.crash();
            self.drain();
            self.verify_after_crash();
        }
        self.calm = true;
        self.crash();
        self.drain();
        self.verify_after_crash();
        self.fill();
        self.stop();
        self.crash();
        self.verify_after_crash();
        self.count();
    }

    /// Serves users, whatever happens.
    fn live(&mut self) {
        let mut left = self.scenario.requests / self.scenario.lives;
        for _ in 0..BOUND {
            if left == 0 || self.source.chance(1, 2000) {
                return;
            }
            if self.source.chance(self.scenario.pace, 100) && !self.pending.is_empty() {
                self.complete_any();
            } else if self.source.chance(1, 30) {
                self.pass_time();
            } else {
                left -= u32::from(self.submit());
            }
        }
    }

    fn pass_time(&mut self) {
        self.now = self.now + Duration::from_millis(self.source.below(20));
        if self.volume.deadline().is_some_and(|at| at <= self.now) {
            self.step(Input::Tick);
        }
    }

    /// Ends all that is under way.
    pub(super) fn drain(&mut self) {
        for _ in 0..BOUND {
            if !self.pending.is_empty() {
                self.complete_any();
            } else if self.requests.iter().all(Option::is_none) {
                return;
            } else {
                let waits = self.requests.iter().flatten().next().map(|r| r.request);
                panic!("{waits:?} waits, but nothing is under way: {:?}", self.volume.status());
            }
        }
        panic!("it goes on and on: {:?}", self.volume.status());
    }

    /// A stop amid everything. All that was acknowledged is durable then.
    fn stop(&mut self) {
        self.step(Input::Stop);
        for _ in 0..BOUND {
            if self.stopped {
                let failed = self.volume.status().failed;
                assert!(self.pending.is_empty(), "nothing is under way after a stop");
                assert!(self.requests.iter().all(Option::is_none), "every request has ended");
                let now = self.model.now();
                if !failed {
                    self.model.flushed(now, u64::MAX);
                }
                return;
            }
            // The power may fail first.
            if self.pending.is_empty() || self.source.chance(1, 300) {
                assert!(!self.pending.is_empty(), "it does not stop: {:?}", self.volume.status());
                return;
            }
            self.complete_any();
        }
    }

    /// The power fails or the host dies, and sometimes again while the volume starts.
    fn crash(&mut self) {
        loop {
            self.count();
            self.summary.crashes += 1;
            self.lose_pending();
            // If only the host died, the groups still have all that they took.
            if self.source.chance(3, 4) {
                let torn = self.scenario.torn;
                for group in &mut self.groups {
                    group.crash(&mut self.source, torn);
                }
            }
            self.requests.iter_mut().for_each(|request| *request = None);
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
                // A volume that was never made is made again.
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
        let bytes: Vec<u8> = blocks.flat_map(Block::bytes).collect();
        recovery.step(Some(Answer::Bytes(&bytes)))
    }

    /// With nothing under way, every block is one of the last writes to it.
    fn verify(&mut self) {
        let now = self.model.now();
        for (lba, found) in (0..).zip(self.survey().into_iter().flatten()) {
            let readable = self.model.is_readable(lba, found, now);
            assert!(readable, "{found} is at {lba}: {}", self.model.describe(lba));
        }
    }

    /// After a crash, every block is what was flushed last, or something written since.
    fn verify_after_crash(&mut self) {
        for _ in 0..100 {
            let Some(found) = self.survey() else { continue };
            let failed = self.volume.status().failed;
            for (lba, found) in (0..).zip(found) {
                let survived = self.model.may_have_survived(lba, found);
                assert!(survived, "{found} survived at {lba}: {}", self.model.describe(lba));
                if !failed {
                    self.model.adopt(lba, found);
                }
            }
            if !failed {
                return;
            }
            // What could be read was not made durable.
            self.crash();
            self.drain();
        }
        panic!("no survey of a hundred succeeds");
    }

    /// Liveness: all of the capacity is written, and then as much again at random.
    fn fill(&mut self) {
        let capacity = self.shape.capacity();
        let write =
            |lba, blocks| Request { tag: Tag(0), op: Op::Write, lba: Lba(lba), blocks, fua: false };
        for lba in 0..capacity {
            self.ask(write(lba, 1));
            self.drain_some();
        }
        for _ in 0..capacity {
            let lba = self.source.below(capacity);
            self.ask(write(lba, 1));
            self.drain_some();
        }
        self.drain();
        self.verify();
    }

    /// Ends what is under way until the request has ended.
    fn drain_some(&mut self) {
        for _ in 0..BOUND {
            if self.requests[0].is_none() {
                return;
            }
            let state = || format!("a write waits for nothing: {:?}", self.volume.status());
            assert!(!self.pending.is_empty(), "{}", state());
            self.complete_any();
        }
        panic!("a write waits for too long: {:?}", self.volume.status());
    }
}
