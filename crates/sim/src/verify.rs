//! What must be so when nothing is under way.

use raidcore::engine::{Command, Input, Op, Request};
use raidcore::units::{BLOCK_BYTES, Lba, Tag};

use crate::model::version_of;
use crate::world::{Outstanding, World};

impl World {
    /// Reads everything through the array.
    pub(crate) fn read_all(&mut self) -> Vec<[u8; BLOCK_BYTES]> {
        let capacity = self.engine.geometry().capacity();
        let mut all = Vec::new();
        while (all.len() as u64) < capacity {
            let lba = all.len() as u64;
            let blocks = u64::from(self.scenario.request).min(capacity - lba) as u32;
            self.requests[0] = Some(Outstanding {
                request: Request { tag: Tag(0), op: Op::Flush, lba: Lba(0), blocks: 0, fua: false },
                begun: 0,
                version: 0,
                before: Vec::new(),
                full: 0,
            });
            let request = Request { tag: Tag(0), op: Op::Read, lba: Lba(lba), blocks, fua: false };
            self.step(Input::Request(request));
            self.drain();
            for block in self.payload[0].chunks_exact(BLOCK_BYTES).take(blocks as usize) {
                all.push(block.try_into().expect("a block"));
            }
        }
        all
    }

    /// With nothing under way every block is one of the last writes to it.
    pub(crate) fn verify(&mut self) {
        let now = self.model.now();
        for (lba, block) in (0u64..).zip(self.read_all()) {
            let found = version_of(lba, &block);
            let allowed = self.model.readable(lba, now).contains(&found);
            assert!(allowed, "{found:?} at {lba}: {}", self.model.describe(lba));
        }
    }

    pub(crate) fn verify_after_crash(&mut self) {
        for (lba, block) in (0u64..).zip(self.read_all()) {
            let history = self.model.describe(lba);
            let found = version_of(lba, &block);
            let survived = self.model.survived(lba, found, self.torn);
            assert!(survived, "{found:?} survived at {lba}: {history}");
        }
    }

    pub(crate) fn scrub_finds_nothing(&mut self) {
        if self.redundancy() == 0 {
            return;
        }
        self.command(Command::Scrub { repair: false });
        while self.engine.status().pass.is_some() || !self.ios.is_empty() {
            if self.ios.is_empty() && self.computes.is_empty() {
                self.pass_time();
            } else {
                self.complete_any();
            }
        }
        let result = self.engine.status().last_scrub.expect("it was run");
        assert_eq!(result.mismatches, 0, "redundancy does not match: {:?}", self.notes);
    }

    /// After a clean stop the disks alone give the same array, which needs no resync.
    pub(crate) fn verify_media(&mut self) {
        for disk in &mut self.disks {
            disk.crash(&mut self.prng, Vec::new());
        }
        for index in 0..self.requests.len() {
            self.requests[index] = None;
        }
        self.start_again(false, false);
        let dirty = self.engine.status().dirty_regions.0;
        assert_eq!(dirty, 0, "a clean stop leaves no region marked");
        self.drain();
        self.verify();
    }
}
