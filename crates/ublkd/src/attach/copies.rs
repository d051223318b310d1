//! Devices that have the same identity, as copies have: which of them is the member.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::SystemTime;

use raidcore::meta::{SievedImage, Superblock};

use super::LeftOut;
use crate::members::{Device, Kind};

/// A device, and what it says of itself.
pub(super) struct Candidate {
    pub(super) device: Device,
    pub(super) image: SievedImage,
    pub(super) superblock: Option<Superblock>,
}

impl Candidate {
    fn path(&self) -> PathBuf {
        self.device.path().to_path_buf()
    }

    /// The greater, the likelier it is the member: the one that the array has written last, then one
    /// that is whole, then a disk rather than its image, then the file that was there first. A copy
    /// is made of what was there before.
    fn rank(&self) -> Option<(u64, bool, bool, Option<Reverse<SystemTime>>)> {
        let superblock = self.superblock.as_ref()?;
        let record = &superblock.record;
        let place = record.member_of(superblock.device);
        let need = place.map_or(record.least_blocks(), |place| record.blocks_of(place));
        let is_disk = self.device.kind() == Kind::Block;
        let made = std::fs::metadata(self.device.path()).and_then(|meta| meta.created());
        let made = made.ok().filter(|_| !is_disk).map(Reverse);
        Some((record.events, self.device.blocks() >= need, is_disk, made))
    }
}

/// Leaves out copies. Where nothing tells which is the member, all stay, for the assembly to refuse.
pub(super) fn leave_out(candidates: Vec<Candidate>) -> (Vec<Candidate>, Vec<LeftOut>) {
    let is_of = |a: &Candidate, b: &Candidate| match (&a.superblock, &b.superblock) {
        (Some(a), Some(b)) => a.device == b.device && a.record.array == b.record.array,
        (_, _) => false,
    };
    let better = |one: &Candidate| {
        let others = candidates.iter().filter(|other| is_of(one, other));
        others.max_by_key(|other| other.rank()).filter(|best| best.rank() > one.rank())
    };
    let verdicts: Vec<Option<PathBuf>> =
        candidates.iter().map(|one| better(one).map(Candidate::path)).collect();
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (candidate, verdict) in candidates.into_iter().zip(verdicts) {
        match verdict {
            Some(taken) => left_out.push(LeftOut::Copy { path: candidate.path(), taken }),
            None => kept.push(candidate),
        }
    }
    (kept, left_out)
}
