//! A run of a log volume: lives with random events, each checked by the next, and a last one in
//! which nothing fails. The world decides what is below the volume.

use det::Instant;
use raidcore::engine::{Op, Request};
use raidcore::units::{Lba, Tag};

use super::scenario::LogScenario;
use super::users::Users;
use crate::source::Source;

/// More events than any wait needs.
pub(crate) const BOUND: u64 = 300_000;

/// A world with a log volume.
pub(crate) trait Lives {
    /// The source of choices, the scenario, and the users.
    fn parts(&mut self) -> (&mut Source, &LogScenario, &mut Users);

    fn source(&mut self) -> &mut Source {
        self.parts().0
    }

    fn load(&mut self) -> &LogScenario {
        self.parts().1
    }

    fn users(&mut self) -> &mut Users {
        self.parts().2
    }

    /// Submits a request to the volume.
    fn ask(&mut self, request: Request);

    /// Asks the volume to stop.
    fn ask_to_stop(&mut self);

    fn is_stopped(&self) -> bool;

    /// Whether the volume takes no more writes.
    fn has_failed(&self) -> bool;

    /// Whether something is under way.
    fn is_busy(&self) -> bool;

    /// Ends an operation that is under way.
    fn complete_any(&mut self);

    /// Lets time pass until users' requests continue by themselves, if they do.
    fn wait(&mut self);

    /// When something continues by itself.
    fn deadline(&self) -> Option<Instant>;

    /// The deadline has come.
    fn tick(&mut self, at: Instant);

    /// Time passes.
    fn pass_time(&mut self);

    /// A fault or an operator's command may happen.
    fn fault(&mut self) {}

    /// Sets whether faults are off; returns the previous setting.
    fn calm(&mut self, calm: bool) -> bool;

    /// The power fails or the host dies, and the volume starts again.
    fn crash(&mut self);

    /// A fault right after a start, which the recovered content has to survive; returns whether
    /// there was one.
    fn harm(&mut self) -> bool {
        false
    }

    /// Repairs everything that has failed.
    fn heal(&mut self) {}

    /// For messages.
    fn state(&self) -> String;

    /// The whole run.
    fn run(&mut self) {
        for _ in 0..self.load().lives {
            self.live();
            if self.source().chance(1, 4) {
                self.drain();
                self.verify();
            }
            if self.source().chance(1, 4) {
                self.stop();
            }
            self.crash();
            self.drain();
            self.verify_after_crash();
            if self.harm() {
                self.verify();
            }
        }
        self.calm(true);
        self.crash();
        self.drain();
        self.verify_after_crash();
        self.fill();
        self.heal();
        self.rest();
        self.stop();
        self.crash();
        self.verify_after_crash();
    }

    /// Without requests, the volume stops writing.
    fn rest(&mut self) {
        for _ in 0..BOUND {
            match self.deadline() {
                _ if self.is_busy() => self.complete_any(),
                Some(at) => self.tick(at),
                None => return,
            }
        }
        panic!("it never comes to rest: {}", self.state());
    }

    /// Serves users, with faults.
    fn live(&mut self) {
        let mut left = self.load().requests / self.load().lives;
        let pace = self.load().pace;
        for _ in 0..BOUND {
            if left == 0 || self.source().chance(1, 2000) {
                return;
            }
            self.fault();
            if self.source().chance(pace, 100) && self.is_busy() {
                self.complete_any();
            } else if self.source().chance(1, 30) {
                self.pass_time();
            } else {
                left -= u32::from(self.submit());
            }
        }
    }

    /// Submits a new request, if a tag is free; returns whether it did.
    fn submit(&mut self) -> bool {
        let (source, load, users) = self.parts();
        let request = users.draw(source, load);
        if let Some(request) = request {
            self.begin(request);
        }
        request.is_some()
    }

    fn begin(&mut self, request: Request) {
        self.users().begin(request);
        self.ask(request);
    }

    /// Ends everything that is under way.
    fn drain(&mut self) {
        for _ in 0..BOUND {
            if self.is_busy() {
                self.complete_any();
            } else if self.users().waiting().is_none() {
                return;
            } else {
                self.wait();
            }
        }
        panic!("it goes on and on: {}", self.state());
    }

    /// A stop during activity. All acknowledged writes are durable then.
    fn stop(&mut self) {
        self.ask_to_stop();
        for _ in 0..BOUND {
            if self.is_stopped() {
                assert!(!self.is_busy(), "nothing is under way after a stop");
                assert_eq!(self.users().waiting(), None, "every request has ended");
                let now = self.users().model.now();
                if !self.has_failed() {
                    self.users().model.flushed(now, u64::MAX);
                }
                return;
            }
            if !self.is_busy() {
                self.wait();
            // The power may fail first.
            } else if self.source().chance(1, 300) {
                return;
            } else {
                self.complete_any();
            }
        }
        panic!("it does not stop: {}", self.state());
    }

    /// Reads the whole volume: the version of each block, or nothing if a read has failed.
    fn survey(&mut self) -> Option<Vec<u64>> {
        let request = self.users().begin_survey();
        let calm = self.calm(true);
        self.ask(request);
        self.drain();
        self.calm(calm);
        self.users().surveyed()
    }

    /// With nothing under way, every block holds one of its last writes.
    fn verify(&mut self) {
        let now = self.users().model.now();
        for (lba, found) in (0..).zip(self.survey().into_iter().flatten()) {
            self.users().check(lba, found, now);
        }
    }

    /// After a crash, every block holds its last flushed write, or a later one.
    fn verify_after_crash(&mut self) {
        for _ in 0..100 {
            let Some(found) = self.survey() else { continue };
            let failed = self.has_failed();
            let model = &mut self.users().model;
            for (lba, found) in (0..).zip(found) {
                let survived = model.may_have_survived(lba, found);
                assert!(survived, "{found} survived at {lba}: {}", model.describe(lba));
                if !failed {
                    model.adopt(lba, found);
                }
            }
            if !failed {
                return;
            }
            // The content that could be read was not made durable.
            self.crash();
            self.drain();
        }
        panic!("no survey of a hundred succeeds");
    }

    /// Liveness: the whole capacity is written, and then as much again at random.
    fn fill(&mut self) {
        let capacity = self.users().payloads[0].len() as u64;
        let write =
            |lba, blocks| Request { tag: Tag(0), op: Op::Write, lba: Lba(lba), blocks, fua: false };
        for lba in 0..capacity {
            self.begin(write(lba, 1));
            self.drain_some();
        }
        for _ in 0..capacity {
            let lba = self.source().below(capacity);
            self.begin(write(lba, 1));
            self.drain_some();
        }
        self.drain();
        self.verify();
    }

    /// Ends operations until the request has ended.
    fn drain_some(&mut self) {
        for _ in 0..BOUND {
            if !self.users().is_under_way(Tag(0)) {
                return;
            }
            if self.is_busy() {
                self.complete_any();
            } else {
                self.wait();
            }
        }
        panic!("a write waits for too long: {}", self.state());
    }
}
