//! Memory is registered with the kernel when it is first used, and given back to the system when
//! it was unused for a while.
//!
//! What is given back is free: a tag's whose buffer is free, a scratch buffer's that the engine
//! has free, a spare, free pages; and the kernel has let go of all I/O on it. So its content means
//! nothing, and its next user finds zeros.
#![allow(unsafe_code)]

use std::time::Duration;

use raidcore::units::Tag;

use super::{Arena, HEAD_BYTES, PieceId, Span};

/// How long after each other memory is looked at while some of it can be given back soon.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// The same while none can, as it is in use.
pub(crate) const LOOK_LATER: Duration = Duration::from_secs(30);

/// So many looks after its last use memory is given back.
pub(super) const KEEP: u8 = 20;

/// What a look gives back at most, apart from the last piece: the data thread serves no request meanwhile.
const BYTES_AT_ONCE: usize = 8 << 20;

/// The largest buffer that can be registered, by the kernel's rules.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// When to look again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Some memory is a look nearer to being given back.
    Soon,
    /// All that there is is in use.
    Later,
    /// When I/O has been begun: there is none.
    Never,
}

impl Arena {
    /// The bytes that are registered with the kernel, which keeps them in RAM.
    pub(crate) fn registered_bytes(&self) -> u64 {
        self.registered
    }

    /// A request or an I/O came.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
    }

    /// Whether one came since this was asked last.
    pub(crate) fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }

    /// What to register for I/O on `bytes` bytes at `base` of a piece, if the kernel can.
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

    /// Gives back what has not been used for a while. `scratch` are the numbers of scratch buffers
    /// that nobody has; `forget` makes a registered buffer unknown to the kernel, and tells whether it
    /// is.
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

    /// Gives back scratch memory that was only computed with: I/O is all that tells what is used. All
    /// scratch buffers are free, and no piece has been used that was not given back since.
    fn give_computed(&mut self) {
        for region in &self.regions[self.scratch_regions.clone()] {
            // SAFETY: the mapping is ours. No piece of it is busy or registered, or it would count as
            // used; nobody has one, so nobody expects its content.
            unsafe { libc::madvise(region.at(0).cast(), region.bytes(), libc::MADV_DONTNEED) };
        }
    }

    /// Gives the memory of a piece back that nobody has; returns how much that was.
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
        // SAFETY: the piece is mapped and ours. Nobody has it, so nobody refers to its content or
        // expects any; the kernel has no I/O on it, and no registered buffer is left whose pages would
        // not be those that are there from now on.
        unsafe { libc::madvise(piece.base.cast(), piece.bytes, libc::MADV_DONTNEED) };
        piece.bytes
    }
}
