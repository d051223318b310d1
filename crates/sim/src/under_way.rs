//! I/O and requests under way.

use raidcore::engine::{Io, Request};

use crate::disk::{Data, Meta};

/// An I/O under way.
pub(crate) struct Pending {
    pub(crate) io: Io,
    pub(crate) payload: Payload,
    pub(crate) flush_mark: u64,
    /// Its tag, if SSDs decide when it ends.
    pub(crate) tag: u64,
}

/// The bytes of a write when it began.
pub(crate) enum Payload {
    None,
    Data(Vec<Data>),
    Meta(Vec<Meta>),
}

/// A request under way.
pub(crate) struct Outstanding {
    pub(crate) request: Request,
    /// When it began, by the model's clock.
    pub(crate) begun: u64,
    /// Whole stripes overwritten when it began, if nothing was under way; a flush settles those.
    pub(crate) full: u64,
    /// It reads the whole array, and the caller checks the bytes.
    pub(crate) survey: bool,
}
