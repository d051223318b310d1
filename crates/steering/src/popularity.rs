//! Blocks that are read often, and so are worth a copy that can be read when their home is busy:
//! the R_LRU of GC-Steering (Wu et al., section III-B).
//!
//! The paper keeps an LRU list of reads for each member. A block that is in it and is read again is
//! copied, but at most a tenth of the blocks read. Here the list is a table of sets, each with the
//! last few blocks in the order in which they were read. A lookup walks no list, and almost the
//! same blocks are forgotten.

use alloc::vec;
use alloc::vec::Vec;

use raidcore::units::{Lba, MemberId};

/// Sets of a member's table, and blocks of each set: it remembers the last 64 MiB of reads.
const SETS: usize = 2048;
const WAYS: usize = 8;

/// Larger reads don't count: they read much, not often.
const SMALL: u32 = 16;

/// One block in this many that are read may be copied.
const PART: u64 = 10;

/// The initial credit in blocks, which is also the most at once.
const CREDIT: u64 = 1024;

/// No block.
const NONE: u64 = u64::MAX;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Popularity {
    /// By member, each grown only as needed.
    members: Vec<Vec<[u64; WAYS]>>,
    /// The credit for copies, in parts of a block.
    credit: u64,
}

impl Default for Popularity {
    fn default() -> Self {
        Self { members: Vec::new(), credit: CREDIT * PART }
    }
}

impl Popularity {
    /// Blocks of a member are read. Tells whether to copy them: they were read before, not long
    /// ago.
    pub fn reads(&mut self, member: MemberId, first: Lba, blocks: u32) -> bool {
        self.credit = (self.credit + u64::from(blocks)).min(CREDIT * PART);
        if blocks > SMALL {
            return false;
        }
        if self.members.len() <= member.index() {
            self.members.resize(member.index() + 1, Vec::new());
        }
        let table = &mut self.members[member.index()];
        if table.is_empty() {
            *table = vec![[NONE; WAYS]; SETS];
        }
        let known = (0..u64::from(blocks)).fold(true, |known, at| {
            let lba = first.0 + at;
            note(&mut table[set_of(lba)], lba) && known
        });
        let price = u64::from(blocks) * PART;
        if !known || price > self.credit {
            return false;
        }
        self.credit -= price;
        true
    }
}

/// Moves a block to the front of its set; tells whether it was in it.
fn note(set: &mut [u64; WAYS], lba: u64) -> bool {
    let place = set.iter().position(|&other| other == lba);
    let last = place.unwrap_or(WAYS - 1);
    set[..=last].rotate_right(1);
    set[0] = lba;
    place.is_some()
}

fn set_of(lba: u64) -> usize {
    (lba.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SETS
}
