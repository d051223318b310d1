//! What was negotiated, and what follows from it for replies.

use super::wire::{Errno, Head};

/// The result of the negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Session {
    /// Replies come in chunks.
    pub(super) structured: bool,
    /// The client may ask for `base:allocation`.
    pub(super) allocation: bool,
}

impl Session {
    /// The reply to a request that succeeded without data.
    pub(super) fn success(self, handle: u64, reads: bool) -> Head {
        if reads && self.structured { Head::none(handle) } else { Head::simple(handle, None) }
    }

    /// The reply to a request that failed.
    pub(super) fn failure(self, handle: u64, error: Errno) -> Head {
        if self.structured { Head::error(handle, error) } else { Head::simple(handle, Some(error)) }
    }

    /// What goes before `bytes` bytes of data from `offset` on; whether they are the last of their
    /// request.
    pub(super) fn data(self, handle: u64, last: bool, offset: u64, bytes: u32) -> Head {
        if self.structured {
            Head::data(handle, last, offset, bytes)
        } else {
            Head::simple(handle, None)
        }
    }
}
