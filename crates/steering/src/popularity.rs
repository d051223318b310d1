//! What is read often, and so is worth a copy that can be read when home is busy: the R_LRU of
//! GC-Steering (Wu et al., section III-B).
//!
//! The paper keeps a list of the last reads of each member, and copies what is popular by it while
//! it is being read again, but a tenth of it at most. Here the list is a table of sets, in each of
//! which the last few blocks stand in the order in which they were read: a lookup costs no walk, and
//! what is forgotten is almost what a single list would forget.

use alloc::vec;
use alloc::vec::Vec;

use raidcore::units::{Lba, MemberId};

/// Sets of a member's table, and blocks of each set: 64 MiB of what was read last is remembered.
const SETS: usize = 2048;
const WAYS: usize = 8;

/// Reads of more blocks are not what is meant: they read much, not often.
const SMALL: u32 = 16;

/// One block in so many that are read may be copied.
const PART: u64 = 10;

/// Blocks that may be copied before anything has been read, and at most at once.
const CREDIT: u64 = 1024;

/// No block.
const NONE: u64 = u64::MAX;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Popularity {
    /// By member, each as long as it was needed so far.
    members: Vec<Vec<[u64; WAYS]>>,
    /// What may be copied, in parts of a block.
    credit: u64,
}

impl Default for Popularity {
    fn default() -> Self {
        Self { members: Vec::new(), credit: CREDIT * PART }
    }
}

impl Popularity {
    /// Blocks are read of a member; tells whether they are to be copied: they were read before, and
    /// not long ago.
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

/// A block stands first in its set from now on; tells whether it was in it.
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
