//! Small durable writes that continue one another are handed over as one.
//!
//! Entries that several requests have in one member's journal lie behind each other, and one write
//! of all of them takes little more than each would. Nothing waits for that: what is begun until the
//! kernel is asked next goes together, and each write is told by its own name.
//!
//! Invariant: a run's pages are ours until it is handed over, and the arena's business from then on.

use det::Instant;
use raidcore::units::{BLOCK_BYTES, DeviceId, Pba};

use super::Ring;
use crate::arena::{Arena, PieceId, RUN_BLOCKS};
use crate::ops::{IoName, OpId, OpKind};

/// Writes that go together, and are still to be handed over.
pub(super) struct Run {
    id: OpId,
    device: DeviceId,
    pages: PieceId,
    /// Behind its last block.
    end: Pba,
    blocks: u32,
}

impl Ring {
    /// Begins a durable write of what `fill` puts into so many blocks of memory, at most
    /// [`RUN_BLOCKS`].
    pub(crate) fn write_behind(
        &mut self,
        now: Instant,
        arena: &mut Arena,
        (io, device): (IoName, DeviceId),
        (at, blocks): (Pba, u32),
        fill: impl FnOnce(&Arena, &mut [u8]),
    ) {
        let end = Pba(at.0 + u64::from(blocks));
        let ops = &mut self.ops;
        // The writers of what was given up meanwhile have been told.
        let goes_on = |run: &&mut Run| {
            (run.device, run.end) == (device, at)
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
        let kind = OpKind::Write { durable: true };
        let Some(id) = self.begin(now, (io, device), kind, (at, blocks)) else { return };
        let pages = arena.take_pages(RUN_BLOCKS);
        arena.fill_pages(pages, 0..blocks, fill);
        self.runs.push(Run { id, device, pages, end, blocks });
    }

    /// Hands over what has come together.
    pub(super) fn start_runs(&mut self, now: Instant, arena: &mut Arena) {
        let mut runs = std::mem::take(&mut self.runs);
        for run in runs.drain(..) {
            let base = arena.base(run.pages);
            self.attach(arena, run.id, base, run.pages);
            self.start(now, run.id, arena);
        }
        self.runs = runs;
    }
}
