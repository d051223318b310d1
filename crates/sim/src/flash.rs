//! Ends I/O when SSDs that collect garbage would, as [`flashsim`] says, in the world's time.

use std::collections::{BTreeMap, VecDeque};

use det::Instant;
use flashsim::{Command, Completion, Op, Precondition, Profile, Ssd};
use raidcore::engine::{Io, IoOp};

/// Erase blocks are small, so that the few writes of a run fill some.
const PAGES: u32 = 8;
const DIES: u32 = 4;

/// The SSDs behind a world's disks.
#[derive(Default)]
pub(crate) struct Flash {
    ssds: BTreeMap<u32, Ssd>,
    submitted: u64,
    /// I/O that has ended and has not been reported.
    due: VecDeque<u64>,
    completions: Vec<Completion>,
    /// Until when the SSDs were polled. It may be later than now, if none had an event.
    looked_until: Instant,
}

impl Flash {
    /// Begins an I/O on a disk of `blocks` blocks; [`Flash::next`] returns its tag at the end.
    pub(crate) fn begin(&mut self, now: Instant, io: &Io, blocks: u64) -> u64 {
        let device = io.device.0;
        let ssd = self.ssds.entry(device).or_insert_with(|| ssd(blocks, device));
        self.submitted += 1;
        let tag = self.submitted;
        let op = match io.op {
            IoOp::Read(_) => Op::Read,
            IoOp::Write { .. } | IoOp::Store(_) | IoOp::Journal => Op::Write,
            IoOp::Flush => Op::Flush,
            IoOp::Discard => Op::Trim,
        };
        let (page, pages) = if op == Op::Flush { (0, 0) } else { (io.at.0 as u32, io.blocks) };
        let command = Command { tag, op, page, pages, stream: 0 };
        ssd.submit(now.max(self.looked_until), command).expect("the array lies within its disks");
        tag
    }

    /// The I/O that ends next, and when, if any is under way.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Instant, u64)> {
        loop {
            if let Some(tag) = self.due.pop_front() {
                return Some((now, tag));
            }
            let busy = self.ssds.values_mut().filter(|ssd| ssd.outstanding() > 0);
            let (at, ssd) =
                busy.filter_map(|ssd| Some((ssd.next()?, ssd))).min_by_key(|&(at, _)| at)?;
            let at = at.max(now);
            ssd.poll(at, &mut self.completions);
            self.looked_until = self.looked_until.max(at);
            self.due.extend(self.completions.drain(..).map(|done| done.tag));
            if let Some(tag) = self.due.pop_front() {
                return Some((at, tag));
            }
        }
    }

    /// Reports I/O again later: its disk is stalled at the moment.
    pub(crate) fn hold(&mut self, tags: Vec<u64>) {
        self.due.extend(tags);
    }

    /// How often they have collected garbage.
    pub(crate) fn collections(&self) -> u64 {
        self.ssds.values().map(|ssd| ssd.stats().gc.count).sum()
    }
}

/// An SSD of at least so many blocks, in use for a while.
fn ssd(blocks: u64, seed: u32) -> Ssd {
    let mut profile = Profile::builtin("femu-ioda").expect("it comes with the crate");
    profile.geometry.channels = 2;
    profile.geometry.chips = 2;
    profile.geometry.pages = PAGES;
    profile.gc.background = None;
    let per_plane = (blocks as u32).div_ceil(DIES * PAGES);
    // A quarter is spare; rounding down may take one more.
    let profile = profile.with_blocks((per_plane * 4).div_ceil(3) + 2);
    Ssd::new(&profile, Precondition::Aged(0.3), seed.into()).expect("it is possible")
}
