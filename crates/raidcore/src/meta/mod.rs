//! Every byte on disk that is not user data or parity: layout, superblock, write-intent bitmap,
//! zero map, stripe journal, staging log, and their assembly. Pure: bytes in, values out.
//! `docs/on-disk-format.md` describes the format.

mod assemble;
mod checksum;
mod codec;
mod create;
mod entries;
mod headers;
mod image;
mod imported;
mod journal;
mod label;
mod layout;
mod layout_error;
mod lease;
mod leased;
mod load;
mod losses;
mod map_shape;
mod numbers;
mod page;
mod placements;
mod policy;
mod popularity;
mod problem;
mod ranges;
mod record;
mod relaid;
mod reshape;
mod returns;
mod rings;
mod scrubbed;
mod shapes;
mod shared;
mod sieve;
mod staged;
mod substitutes;
mod superblock;
mod volatile;

pub use assemble::{AssembleOptions, Assembled, assemble};
pub use checksum::checksum;
pub use codec::{CodecError, FORMAT};
pub use create::NewArray;
pub use entries::Entries;
pub use headers::{JournalEntry, JournalHeader, JournalRun, Log, Ring};
pub use image::{Image, MemberImage, Unreadable};
pub use imported::ImportedArray;
pub use journal::{
    Replay, ReplayRun, encode_header as encode_journal_header,
    header_blocks as journal_header_blocks, scan as scan_journal,
};
pub use label::{DeviceLabel, LABEL_MAX, SERIAL_MAX};
pub use layout::{
    Areas, FORMER_SUPERBLOCK, JOURNAL_BLOCKS, LEASE_BLOCK, STAGING_MAX, STAGING_MIN,
    SUPERBLOCK_COPIES, SUPERBLOCKS,
};
pub use layout_error::LayoutError;
pub use lease::{Holder, HostName, LeaseBlock, NoLease, Term};
pub use page::{BITS_PER_PAGE, BitMap, MapKind, PageVersions};
pub use policy::{POLICY_NAME_MAX, Policy, PolicyName};
pub(crate) use popularity::encode as encode_popularity;
pub use problem::{AssembleError, MissingMember, Warning};
pub use ranges::{FilledRanges, Filling, Ranges};
pub use record::{
    ArrayId, ArrayRecord, Consistency, DeviceUuid, Features, MetaPage, SPARES_MAX, SlotRecord,
    SlotState, Spared, Successor, Superblock, VolumePart, VolumeUuid,
};
pub(crate) use reshape::SAVED_MAX;
pub use reshape::{Reshape, ReshapeError, Target};
pub use returns::{NoReturn, Returning, may_return};
pub use scrubbed::{ScrubEnd, ScrubRecord};
pub use shapes::{can_distribute, can_stage, spare_copies};
pub use shared::{SHARED_MAX, encode_shared, shared_header_blocks};
pub use sieve::{SievedImage, StagedRing};
pub use superblock::{SuperblockError, choose as choose_superblock};
pub use volatile::VolatileWrites;
