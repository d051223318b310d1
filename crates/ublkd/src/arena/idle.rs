//! Memory is registered with the kernel when it is first used, and given back to the system when it
//! was unused for a while.
//!
//! Only free memory is given back: that of a free tag or scratch buffer, spare pieces, and free
//! pages, if the kernel has no I/O on it. Its content is void, and its next user finds zeros.
#![allow(unsafe_code)]

use std::time::Duration;

use raidcore::units::Tag;

use super::{Arena, HEAD_BYTES, PieceId, Span};

/// How often memory is looked at while some of it can be given back soon.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// How often it is looked at while all of it is in use.
pub(crate) const LOOK_LATER: Duration = Duration::from_secs(30);

/// How many looks after its last use memory is given back.
pub(super) const KEEP: u8 = 20;

/// The most that a look gives back, apart from the last piece: the data thread serves no request
/// meanwhile.
const BYTES_AT_ONCE: usize = 8 << 20;

/// The largest buffer that can be registered, by the kernel's rules.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// When to look again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Some memory is one look closer to being given back.
    Soon,
    /// All memory is in use.
    Later,
    /// Only once I/O has begun: there is no memory to give back.
    Never,
}

impl Arena {
    /// The bytes that are registered with the kernel, which keeps them in RAM.
    pub(crate) fn registered_bytes(&self) -> u64 {
        self.registered
    }

    /// A request or an I/O has begun.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
    }

    /// Whether one has begun since the last call.
    pub(crate) fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }

    /// The span to register for I/O on `bytes` bytes at `base` of a piece, if it can be registered.
    pub(crate) fn span(&self, id: PieceId, base: *mut u8, bytes: usize) -> Option<Span> {
        let piece = &self.pieces[id.index()];
        let end = base.addr() - piece.base.addr() + bytes;
        let bytes = if end <= HEAD_BYTES { HEAD_BYTES.min(piece.bytes) } else { piece.bytes };
        (bytes <= REGISTERED_BYTES_MAX).then_some(Span { base: piece.base, bytes })
    }

    /// A [span](Self::span) of a piece is this registered buffer now.
    pub(crate) fn set_registered(&mut self, id: PieceId, span: Span, buffer: u16) {
        let piece = &mut self.pieces[id.index()];
        let place = if span.bytes <= HEAD_BYTES { &mut piece.head } else { &mut piece.whole };
        assert!(place.replace(buffer).is_none(), "it was registered before");
        self.registered += span.bytes as u64;
    }

    /// Gives back memory that was unused for a while. `scratch` are the numbers of the free scratch
    /// buffers. `forget` unregisters a buffer, and tells whether that has succeeded.
    pub(crate) fn look(
        &mut self,
        scratch: impl Iterator<Item = u16>,
        mut forget: impl FnMut(u16) -> bool,
    ) -> Look {
        let Self { payload, pieces, tags, .. } = self;
        payload.taken(|Tag(tag)| pieces[tags[usize::from(tag)].index()].keep = KEEP);
        let spares = self.spare_payload.iter().chain(&self.spare_scratch);
        let scratch: Vec<_> = scratch.map(|number| self.scratch[usize::from(number)]).collect();
        let all_free = scratch.len() == self.scratch.len();
        let pages = self.pages.iter().flatten().chain(spares).copied().chain(scratch);
        let free: Vec<_> = pages.chain([PieceId::ZERO]).collect();
        let (mut aged, mut given) = (false, 0);
        for id in free {
            let piece = &mut self.pieces[id.index()];
            if piece.keep > 1 {
                (piece.keep, aged) = (piece.keep - 1, true);
            } else if piece.keep == 1 && given < BYTES_AT_ONCE {
                given += self.give(id, &mut forget);
            }
        }
        for tag in 0..self.tags.len() {
            let id = self.tags[tag];
            let piece = &mut self.pieces[id.index()];
            if piece.keep > 1 {
                (piece.keep, aged) = (piece.keep - 1, true);
            } else if piece.keep == 1
                && given < BYTES_AT_ONCE
                // It is not handed out meanwhile.
                && let Some(_buffer) = self.payload.take(Tag(tag as u16))
            {
                given += self.give(id, &mut forget);
            }
        }
        if aged || given > 0 {
            return Look::Soon;
        }
        if self.pieces.iter().any(|piece| piece.keep > 0) {
            return Look::Later;
        }
        if all_free {
            self.give_computed();
        }
        Look::Never
    }

    /// Gives back scratch memory that was used for arithmetic only: such use is not tracked, unlike
    /// I/O. All scratch buffers are free, and every piece that was used has been given back since.
    fn give_computed(&mut self) {
        for region in &self.regions[self.scratch_regions.clone()] {
            // SAFETY: the mapping is ours. None of its pieces is busy or registered, or it would
            // count as used. None is in use, so its content is void.
            unsafe { libc::madvise(region.at(0).cast(), region.bytes(), libc::MADV_DONTNEED) };
        }
    }

    /// Gives back the memory of an unused piece; returns how much that was.
    fn give(&mut self, id: PieceId, forget: &mut impl FnMut(u16) -> bool) -> usize {
        let piece = &mut self.pieces[id.index()];
        if piece.busy > 0 {
            return 0;
        }
        for (place, bytes) in
            [(&mut piece.head, HEAD_BYTES.min(piece.bytes)), (&mut piece.whole, piece.bytes)]
        {
            if let Some(buffer) = *place {
                if !forget(buffer) {
                    return 0;
                }
                *place = None;
                self.registered -= bytes as u64;
            }
        }
        piece.keep = 0;
        // SAFETY: the piece is mapped and ours. It is unused, so its content is void and there are
        // no references to it. The kernel has no I/O on it, and no registered buffer refers to its
        // old pages.
        unsafe { libc::madvise(piece.base.cast(), piece.bytes, libc::MADV_DONTNEED) };
        piece.bytes
    }
}
