//! The thresholds of garbage collection: shares of a plane's blocks that are free.

use super::error::range;
use super::{Profile, ProfileError, part};

/// How many larger planes are tried, each 8 blocks larger, to say which is large enough.
const MORE_MAX: u32 = 4096;

/// Shares of a plane's blocks by which a drive collects when it decides by itself, in whole blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GcLimits {
    /// So many are free when collection must start ...
    pub start: f64,
    /// ... and when it ends.
    pub stop: f64,
    /// So many are free when the drive collects whatever it is told.
    pub hard: f64,
    /// So many are not offered to the host.
    pub spare: f64,
}

impl Profile {
    /// The drive's own thresholds.
    #[must_use]
    pub fn gc_limits(&self) -> GcLimits {
        let hard = self.share(self.gc.hard).max(1);
        let start = self.share(self.gc.start).max(hard);
        let stop = self.share(self.gc.stop.unwrap_or(self.gc.start)).max(start) + 1;
        let share = |blocks| f64::from(blocks) / f64::from(self.geometry.blocks);
        GcLimits {
            start: share(start),
            stop: share(stop),
            hard: share(hard),
            spare: share(self.spare_blocks()),
        }
    }

    /// How many blocks of a plane may be written to, or collected, at a time.
    pub(crate) fn blocks_at_work(&self) -> u32 {
        2 + u32::from(self.ftl.streams)
    }

    /// Thresholds that are different shares and, with this drive's few blocks, the same number of blocks:
    /// the lower one, the higher one, and the number.
    #[must_use]
    pub fn same_thresholds(&self) -> Vec<(&'static str, &'static str, u32)> {
        let blocks = |share| part(share, self.geometry.blocks).max(1);
        let all = shares(self);
        let pairs = all.windows(2).map(|pair| (pair[0], pair[1]));
        let same =
            pairs.filter(|((_, low), (_, high))| low < high && blocks(*low) == blocks(*high));
        same.map(|((lower, _), (higher, share))| (lower, higher, blocks(share))).collect()
    }

    /// The same in words, a sentence for each pair: a drive of so few blocks collects in other ways than the
    /// profile means.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let blocks = self.geometry.blocks;
        self.same_thresholds().into_iter().map(move |(lower, higher, same)| {
            format!("with {blocks} blocks in a plane {lower} and {higher} are the same, {same}")
        })
    }
}

/// The keys and their shares. Each is at least the one before it, but the first of collection in the
/// background, which may be anything.
fn shares(p: &Profile) -> Vec<(&'static str, f64)> {
    let gc = &p.gc;
    let stop = gc.stop.unwrap_or(gc.start);
    let mut all = vec![("gc.hard", gc.hard), ("gc.start", gc.start), ("gc.stop", stop)];
    if let Some(background) = gc.background {
        all.push(("gc.background.start", background.start));
        all.push(("gc.background.stop", background.stop.unwrap_or(background.start)));
    }
    all
}

/// Checks them against each other, and against what is spare.
pub(super) fn thresholds(p: &Profile) -> Result<(), ProfileError> {
    let all = shares(p);
    if let Some(background) = p.gc.background {
        range("gc.background.gain", background.gain, 0.0, 1.0, "from 0 to 1")?;
    }
    for (key, share) in &all {
        range(key, *share, 0.0, 1.0, "from 0 to 1")?;
    }
    let at_work = p.blocks_at_work();
    // How many of so many blocks are spare, and by which key more than what can be spared stay free.
    let lacking = |blocks| {
        let spare = part(p.ftl.spare, blocks);
        let lacks = |&&(_, share): &&(&'static str, f64)| part(share, blocks) + at_work > spare;
        (spare, all.iter().find(lacks))
    };
    let blocks = p.geometry.blocks;
    if let (spare, Some(&(key, share))) = lacking(blocks) {
        let mut larger = (1..=MORE_MAX).map(|more| (blocks / 8 + more) * 8);
        let enough = larger.find(|&more| lacking(more).1.is_none());
        return Err(ProfileError::NoRoomToCollect {
            key,
            free: part(share, blocks),
            spare,
            most: spare.saturating_sub(at_work),
            enough,
        });
    }
    for pair in all.windows(2) {
        let ((lower, low), (higher, high)) = (pair[0], pair[1]);
        if high < low && higher != "gc.background.start" {
            return Err(ProfileError::Order { higher, lower });
        }
    }
    gain(p)
}

/// Whether some block of a full plane always has the garbage of a program, when the plane has to be
/// collected: more garbage than its sealed blocks have with a page less in each.
fn gain(p: &Profile) -> Result<(), ProfileError> {
    let sizes = p.sizes();
    let (block, program) = (sizes.data_pages, sizes.pages_per_program);
    let free = p.share(p.gc.hard).max(1);
    let written = u32::from(p.ftl.streams) + 1;
    let garbage = u64::from(p.spare_blocks() - free - written) * u64::from(block);
    let sealed = u64::from(p.geometry.blocks - free - written);
    if program > 1 && garbage <= sealed * u64::from(program - 1) {
        return Err(ProfileError::NoGain { block, program });
    }
    Ok(())
}
