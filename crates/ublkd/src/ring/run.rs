//! Joins small durable writes that continue one another.
//!
//! Journal entries of several requests follow each other on a member, and one write of all of them
//! takes little longer than one of each. Nothing waits for more: the writes that are begun before
//! the next submission are joined, and each is completed by its own name.
//!
//! Invariant: a run's pages belong to the run until it is handed over, then to the arena.

use det::Instant;
use raidcore::engine::Stream;
use raidcore::units::{BLOCK_BYTES, DeviceId, Pba};

use super::Ring;
use crate::arena::{Arena, PieceId, RUN_BLOCKS};
use crate::ops::{IoName, OpId, OpKind};

/// Writes that are joined and not handed over yet.
pub(super) struct Run {
    id: OpId,
    device: DeviceId,
    stream: Stream,
    pages: PieceId,
    /// Behind its last block.
    end: Pba,
    blocks: u32,
}

impl Ring {
    /// Begins a durable write of `blocks` blocks of memory, at most [`RUN_BLOCKS`], which `fill`
    /// fills. It is joined only to one of the same stream.
    pub(crate) fn write_behind(
        &mut self,
        now: Instant,
        arena: &mut Arena,
        (io, device): (IoName, DeviceId),
        (at, blocks): (Pba, u32),
        stream: Stream,
        fill: impl FnOnce(&Arena, &mut [u8]),
    ) {
        let end = Pba(at.0 + u64::from(blocks));
        let ops = &mut self.ops;
        // Writes that were given up meanwhile have been completed.
        let goes_on = |run: &&mut Run| {
            (run.device, run.stream, run.end) == (device, stream, at)
                && run.blocks + blocks <= RUN_BLOCKS
                && !ops.is_orphan(run.id)
        };
        if let Some(run) = self.runs.iter_mut().find(goes_on) {
            arena.fill_pages(run.pages, run.blocks..run.blocks + blocks, fill);
            (run.blocks, run.end) = (run.blocks + blocks, end);
            let op = self.ops.get(run.id);
            op.bytes += blocks as usize * BLOCK_BYTES;
            op.others.push(io);
            return;
        }
        let kind = OpKind::Write { durable: true, stream };
        let Some(id) = self.begin(now, (io, device), kind, (at, blocks)) else { return };
        let pages = arena.take_pages(RUN_BLOCKS);
        arena.fill_pages(pages, 0..blocks, fill);
        self.runs.push(Run { id, device, stream, pages, end, blocks });
    }

    /// Hands over the joined writes.
    pub(super) fn start_runs(&mut self, now: Instant, arena: &mut Arena) {
        if self.runs.is_empty() {
            return;
        }
        let mut runs = std::mem::take(&mut self.runs);
        for run in runs.drain(..) {
            let base = arena.base(run.pages);
            self.attach(arena, run.id, base, run.pages);
            self.start(now, run.id, arena);
        }
        self.runs = runs;
    }
}
