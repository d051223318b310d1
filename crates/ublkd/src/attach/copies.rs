//! Devices with the same identity: which one is the member, and which ones are copies.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::SystemTime;

use raidcore::meta::{SievedImage, Superblock};

use super::LeftOut;
use crate::members::{Device, Kind};

/// A device and its superblock.
pub(super) struct Candidate {
    pub(super) device: Device,
    pub(super) image: SievedImage,
    pub(super) superblock: Option<Superblock>,
}

impl Candidate {
    fn path(&self) -> PathBuf {
        self.device.path().to_path_buf()
    }

    /// The greater, the likelier the device is the member. First counts the latest write by the
    /// array, then whether its size is complete, then whether it is a disk and not an image, then
    /// which file is older: a copy is younger than its original.
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

/// Leaves out copies. If it is unclear which one is the member, all stay, and assembly refuses
/// them.
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
