//! Content: a read returns the last write, or one that may have been the last. Errors are allowed
//! only when more has failed than redundancy can make up for.

use raidcore::engine::{Request, RequestError};

use crate::model::version_of;
use crate::user::lbas;
use crate::world::World;

/// Requests succeed while redundancy makes up for the failures.
pub(crate) fn no_error(world: &World, request: &Request, result: Result<(), RequestError>) {
    let disks = || world.disks.iter().map(|d| (d.gone, &d.bad)).collect::<Vec<_>>();
    assert!(
        result.is_ok(),
        "{request:?} ended with {result:?}, but redundancy was never exceeded; {:?}; {:?}; disks: \
         {:?}",
        world.notes,
        world.engine().status(),
        disks(),
    );
}

/// A read that began at `begun` returns content from some moment since, and content that was seen
/// does not become older.
pub(crate) fn read(world: &mut World, request: &Request, begun: u64) {
    let payload = &world.memory.payload[usize::from(request.tag.0)];
    let found: Vec<_> =
        lbas(request).zip(payload).map(|(lba, b)| (lba, version_of(lba, b))).collect();
    for (lba, found) in found {
        assert!(
            world.model.is_readable(lba, found, begun) || world.suspects.contains(&lba),
            "{request:?} found {found} at {lba}: {}",
            world.model.describe(lba)
        );
        world.model.shown(lba, found);
    }
}

impl World {
    /// With nothing under way, every block is one of the last writes to it.
    pub(crate) fn verify(&mut self) {
        let now = self.model.now();
        for (lba, found) in self.survey() {
            assert!(
                self.model.is_readable(lba, found, now) || self.suspects.contains(&lba),
                "{found} is at {lba}: {}",
                self.model.describe(lba)
            );
        }
    }

    /// After a crash, every block holds its last flushed write, or a later one. Sometimes users
    /// read blocks only one by one. Sometimes they have read and flushed all of them, and then the
    /// content stays, whatever is lost.
    pub(crate) fn verify_after_crash(&mut self) {
        if self.suspects.is_empty() && !self.beyond && self.source.chance(1, 4) {
            return;
        }
        let suspects = std::mem::take(&mut self.suspects);
        let now = self.model.now();
        let survey = self.survey();
        for &(lba, found) in &survey {
            if suspects.contains(&lba) {
                self.model.adopt(lba, found);
                self.adopted.insert(lba, now);
                continue;
            }
            let allowed = self.model.is_readable(lba, found, now);
            assert!(allowed, "{found} survived at {lba}: {}", self.model.describe(lba));
            self.model.shown(lba, found);
        }
        if !survey.is_empty() && suspects.is_empty() && self.source.chance(1, 2) {
            self.begin_flush();
            self.drain();
            if !self.beyond {
                self.unsynced = false;
                self.exposed.clear();
            }
        }
    }

    /// Reads everything through the array: the version of each block. Beyond redundancy, blocks
    /// that can't be read are left out.
    pub(crate) fn survey(&mut self) -> Vec<(u64, u64)> {
        let before = self.results.len();
        self.begin_survey();
        self.drain();
        if self.results[before..].iter().any(Result::is_err) {
            return Vec::new();
        }
        let blocks = (0..).zip(&self.memory.payload[0]);
        blocks.map(|(lba, block)| (lba, version_of(lba, block))).collect()
    }
}
