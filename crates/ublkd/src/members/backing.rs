//! Whether a device's file system honours `RWF_DSYNC`.
//!
//! The flag is used only on local file systems that are known to honour it on asynchronous direct
//! writes. FUSE, for example, accepts the flag and ignores it, and the data is lost with the power.
//! Unknown file systems are treated like FUSE: a flush after the write costs time, an ignored flag
//! costs data.

use std::fs::File;

use evenkeel_client::DurableBy;

use super::Kind;

/// The types of file systems, as of `statfs(2)`, that honour `RWF_DSYNC` and know a file's size
/// without a request that could hang: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, bcachefs.
const TRUSTED: [u64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0xca45_1a4e];

/// How it is done on this file or block device.
pub(super) fn durable_by(file: &File, kind: Kind) -> DurableBy {
    match kind {
        Kind::Block => DurableBy::Flag,
        Kind::File => match rustix::fs::fstatfs(file) {
            // The type's width and sign differ from machine to machine; all types have 32 bits.
            Ok(stat) if TRUSTED.contains(&(stat.f_type as u64 & 0xffff_ffff)) => DurableBy::Flag,
            Ok(_) | Err(_) => DurableBy::Flush,
        },
    }
}
