//! What was tried of a job's reads that failed.

use alloc::vec::Vec;

use crate::plan::{Bad, SubIo};
use crate::units::MemberId;

/// A block of a failed read that is being tried by itself.
#[derive(Clone, Copy, Debug)]
struct Scan {
    /// Which of the plan's reads it is.
    index: u16,
    /// The blocks after it.
    rest: Option<SubIo>,
}

/// What was tried of a job's reads that failed.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// Which of the plan's reads failed on which members, and were tried on others.
    tried: Vec<(u16, MemberId)>,
    /// What was read from another copy then.
    weak: Vec<Bad>,
    /// Reads that failed and are to be tried block by block.
    scans: Vec<SubIo>,
    /// The block being tried.
    scan: Option<Scan>,
}

impl Retries {
    pub(super) fn clear(&mut self) {
        self.tried.clear();
        self.weak.clear();
        self.scans.clear();
        self.scan = None;
    }

    /// One of the plan's reads is to be tried on another member.
    pub(super) fn try_another(&mut self, index: u16, failed: MemberId) {
        self.tried.push((index, failed));
    }

    /// Whether one of the plan's reads failed on a member.
    pub(super) fn was_tried(&self, index: u16, member: MemberId) -> bool {
        self.tried.contains(&(index, member))
    }

    /// The plan is made anew: which of its reads failed where means nothing any more.
    pub(super) fn forget_tried(&mut self) {
        self.tried.clear();
    }

    /// A block that could not be read was read from another copy.
    pub(super) fn had_from_another(&mut self, block: Bad) {
        self.weak.push(block);
    }

    /// The blocks that could not be read and were had from another copy.
    pub(super) fn weak(&mut self) -> &mut Vec<Bad> {
        &mut self.weak
    }

    /// A read has failed, and is to be tried block by block.
    pub(super) fn scan(&mut self, read: SubIo) {
        self.scans.push(read);
    }

    /// The next block to be tried by itself, as the plan's read of this index, if none is under way.
    pub(super) fn next_block(&mut self, index: u16) -> Option<SubIo> {
        if self.scan.is_some() {
            return None;
        }
        let io = self.scans.pop()?;
        let rest = SubIo { row: io.row + 1, blocks: io.blocks - 1, mem: io.mem.plus(1), ..io };
        self.scan = Some(Scan { index, rest: Some(rest).filter(|rest| rest.blocks > 0) });
        Some(SubIo { blocks: 1, ..io })
    }

    /// One of the plan's reads has ended. If it was the block being tried, that is over, and what comes
    /// after it is to be tried next.
    pub(super) fn scanned(&mut self, index: u16) {
        if let Some(Scan { rest: Some(rest), .. }) = self.scan.take_if(|scan| scan.index == index) {
            self.scans.push(rest);
        }
    }

    /// Nothing is tried block by block any more.
    pub(super) fn scan_no_more(&mut self) {
        self.scan = None;
        self.scans.clear();
    }
}
