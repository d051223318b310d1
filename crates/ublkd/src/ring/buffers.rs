//! Registered buffers: memory that the kernel has mapped and keeps in RAM, which makes I/O on it
//! cheaper.
//!
//! They are registered when I/O needs them, and unregistered when the memory is given back, so the
//! memory of a busy array stays registered. I/O works without registration if that fails.
#![allow(unsafe_code)]

use std::io;

use super::Ring;
use super::kernel::Entries;
use crate::arena::{Arena, Look, PieceId, Span};

/// The most that the kernel allows.
const COUNT_MAX: usize = 1 << 14;

/// See the [module](self).
pub(super) struct Buffers {
    /// Unused numbers; none if registration is off.
    free: Vec<u16>,
    /// Whether the kernel has refused one since memory was last given back.
    refused: bool,
    /// Whether that was logged.
    told: bool,
    /// Whether a buffer may be registered with some rings only: then none is used any more.
    broken: bool,
}

impl Buffers {
    /// A table in the kernel for `room` buffers, with none registered.
    pub(super) fn new(entries: &mut Entries, room: usize) -> Self {
        let room = room.min(COUNT_MAX);
        let mut buffers = Self { free: Vec::new(), refused: false, told: false, broken: false };
        match entries.register(move |ring| ring.register_buffers_sparse(room as u32)) {
            Ok(()) => buffers.free = (0..room as u16).rev().collect(),
            Err(error) => buffers.tell(&error),
        }
        buffers
    }

    /// None, ever.
    pub(super) fn without() -> Self {
        Self { free: Vec::new(), refused: false, told: false, broken: false }
    }

    /// The registered buffer for I/O on `bytes` bytes at `base` of a piece; it is registered now if
    /// there is none. It stays until that I/O has ended.
    pub(super) fn of(
        &mut self,
        entries: &mut Entries,
        arena: &mut Arena,
        (piece, base, bytes): (PieceId, *mut u8, usize),
    ) -> Option<u16> {
        if self.broken {
            return None;
        }
        let known = arena.registered(piece, base, bytes);
        if known.is_some() || self.refused || self.free.is_empty() {
            return known;
        }
        self.register(entries, arena, (piece, base, bytes))
    }

    #[cold]
    fn register(
        &mut self,
        entries: &mut Entries,
        arena: &mut Arena,
        (piece, base, bytes): (PieceId, *mut u8, usize),
    ) -> Option<u16> {
        let span = arena.span(piece, base, bytes)?;
        let buffer = self.free.pop()?;
        if let Err(error) = update(entries, buffer, span) {
            if update(entries, buffer, NOTHING).is_ok() {
                self.free.push(buffer);
            }
            self.refused = true;
            self.tell(&error);
            return None;
        }
        arena.set_registered(piece, span, buffer);
        Some(buffer)
    }

    /// Unregisters a buffer that no I/O uses; returns whether that has succeeded.
    pub(super) fn forget(&mut self, entries: &mut Entries, buffer: u16) -> bool {
        let gone = update(entries, buffer, NOTHING);
        if let Err(error) = &gone {
            tracing::debug!(%error, buffer, "a registered buffer stays");
            self.broken = true;
        } else {
            self.free.push(buffer);
        }
        gone.is_ok()
    }

    /// Allows registration again after a refusal.
    pub(super) fn retry(&mut self) {
        self.refused = false;
    }

    fn tell(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                %error,
                "I/O memory can't be registered with the kernel and is a little slower; raise the \
                 limit of locked memory (LimitMEMLOCK) to change that"
            );
        }
    }
}

impl Ring {
    /// Gives back memory that was unused for a while; `scratch` are the free scratch buffers.
    pub(crate) fn look_at_memory(
        &mut self,
        arena: &mut Arena,
        scratch: impl Iterator<Item = u16>,
    ) -> Look {
        self.buffers.retry();
        let Self { entries, buffers, .. } = self;
        arena.look(scratch, |buffer| buffers.forget(entries, buffer))
    }
}

/// What a number stands for that is unused.
const NOTHING: Span = Span { base: std::ptr::null_mut(), bytes: 0 };

fn update(entries: &mut Entries, buffer: u16, Span { base, bytes }: Span) -> io::Result<()> {
    let base = base.expose_provenance();
    entries.register(move |ring| {
        let iovec =
            libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(base), iov_len: bytes };
        // SAFETY: the span is mapped, or empty; unmapping it while it is registered leaves the kernel with
        // pages of its own, not with ours.
        unsafe { ring.register_buffers_update(buffer.into(), &[iovec], None) }
    })
}
