//! What is under way.

use raidcore::engine;
use raidcore::units::{DeviceId, Mem};
use raidlog::GroupId;
use raidlog::array::Look;

use crate::disk::{Block, Meta};

/// An I/O under way.
pub(super) struct Pending {
    pub(super) group: GroupId,
    pub(super) io: engine::Io,
    pub(super) payload: Payload,
    /// What a flush will make durable.
    pub(super) mark: u64,
}

impl Pending {
    pub(super) fn at(&self) -> (GroupId, DeviceId) {
        (self.group, self.io.device)
    }

    pub(super) fn id(&self) -> engine::IoId {
        self.io.id
    }

    pub(super) fn is_at(&self, group: GroupId, device: DeviceId, at: u64) -> bool {
        let Self { group: own, io, .. } = self;
        let extent = io.at.0..io.at.0 + u64::from(io.blocks);
        (*own, io.device) == (group, device) && extent.contains(&at)
    }
}

/// The bytes of a write when it began.
pub(super) enum Payload {
    None,
    Data(Vec<Block>),
    Meta(Vec<Meta>),
}

/// Something that was read, to be looked at.
pub(super) struct Looking {
    pub(super) look: Look,
    pub(super) from: Mem,
    pub(super) blocks: u32,
    pub(super) checksums: bool,
}
