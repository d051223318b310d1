//! The file system: a directory that never changes, with one file in it, which may grow.
//!
//! Invariants:
//! - The file behaves like a block device that takes any offset and size: a read past the end is
//!   short, a write past the end fails with ENOSPC, no user changes the size.
//! - Only requests that a directory of one file needs are answered. All others get ENOSYS, and the
//!   kernel falls back to its own ways (seeking for data and holes, for example).
//! - A write is complete or fails: a loop device takes a short one for success.
//! - The kernel cuts larger requests to the size of a buffer at most, by negotiation.
//! - Requests of the kernel are checked here; behind this module all extents are inside the volume.

use std::ffi::{OsStr, OsString};
use std::io;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use raidcore::engine::Op;
use raidcore::units::BLOCK_BYTES;
use rustix::process::{getegid, geteuid};

use super::FuseOptions;
use super::transfer::Transfers;
use crate::volume::{Size, Touched, Volume};

const ROOT: INodeNo = INodeNo::ROOT;
pub(super) const FILE: INodeNo = INodeNo(2);

/// Names never change while the mount lives, and the kernel is told when the size does.
const FOREVER: Duration = Duration::from_secs(1 << 30);

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The most bytes of one FUSE request: what the kernel allows without a sysctl.
const MESSAGE_BYTES_MAX: u32 = 1 << 20;

/// The most asynchronous requests (a loop device's, libaio's, io_uring's) that the kernel sends
/// before it waits for answers. Its default of 16 would be the file's queue depth.
const BACKGROUND_MAX: u16 = 256;

/// The file system of one volume.
pub(super) struct Files {
    transfers: Transfers,
    name: OsString,
    size: Size,
    message_bytes: u32,
    file: FileAttr,
    root: FileAttr,
}

impl Files {
    pub(super) fn new(volume: Volume, options: FuseOptions) -> Self {
        let request_bytes = volume.max_request_blocks().saturating_mul(BLOCK_BYTES as u32);
        let now = SystemTime::now();
        let file = FileAttr {
            ino: FILE,
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: FileType::RegularFile,
            perm: if options.allow_other { 0o660 } else { 0o600 },
            nlink: 1,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
            blksize: BLOCK_BYTES as u32,
            flags: 0,
        };
        let root = FileAttr {
            ino: ROOT,
            kind: FileType::Directory,
            perm: if options.allow_other { 0o550 } else { 0o500 },
            ..file
        };
        Self {
            name: volume.name().into(),
            size: volume.size().clone(),
            message_bytes: request_bytes.clamp(BLOCK_BYTES as u32, MESSAGE_BYTES_MAX),
            file,
            root,
            transfers: Transfers::new(volume),
        }
    }

    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        match ino {
            ROOT => Some(self.root),
            FILE => Some(self.file()),
            _ => None,
        }
    }

    /// The file as it is now.
    fn file(&self) -> FileAttr {
        let blocks = self.size.blocks();
        let sectors = blocks.saturating_mul(BLOCK / 512);
        FileAttr { size: size(blocks), blocks: sectors, ..self.file }
    }
}

/// The blocks of a read, cut at the end of the file.
fn readable(blocks: u64, offset: u64, length: u64) -> Touched {
    let length = length.min(size(blocks).saturating_sub(offset));
    // A range within the file does not overflow.
    Touched::by(offset, length).unwrap_or_default()
}

/// The blocks of a write, which must lie within the file.
fn writable(blocks: u64, offset: u64, length: u64) -> Result<Touched, Errno> {
    match offset.checked_add(length) {
        Some(end) if end <= size(blocks) => Touched::by(offset, length).ok_or(Errno::ENOSPC),
        Some(_) | None => Err(Errno::ENOSPC),
    }
}

fn size(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK)
}

/// The range of a `fallocate`. As on a block device, holes may reach past the end.
fn allocation(blocks: u64, offset: u64, length: u64, mode: i32) -> Result<(Op, Touched), Errno> {
    let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    let op = match mode & !libc::FALLOC_FL_KEEP_SIZE {
        libc::FALLOC_FL_PUNCH_HOLE if keep_size => Op::Discard,
        libc::FALLOC_FL_ZERO_RANGE => Op::WriteZeroes,
        _ => return Err(Errno::EOPNOTSUPP),
    };
    let inside = if keep_size {
        readable(blocks, offset, length)
    } else {
        writable(blocks, offset, length)?
    };
    Ok((op, inside))
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wishes = [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ];
        for wish in wishes {
            if config.add_capabilities(wish).is_err() {
                tracing::debug!(?wish, "this kernel's FUSE can't");
            }
        }
        // On a refusal, each of these returns the nearest allowed value.
        let bytes = self.message_bytes;
        if let Err(nearest) = config.set_max_write(bytes) {
            config.set_max_write(nearest).ok();
        }
        if let Err(nearest) = config.set_max_readahead(bytes) {
            config.set_max_readahead(nearest).ok();
        }
        config.set_max_background(BACKGROUND_MAX).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == ROOT && name == self.name {
            reply.entry(&FOREVER, &self.file(), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Times, modes and owners are accepted and ignored, since tools that copy files set them; the
    /// size can't be set.
    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if size.is_some_and(|size| size != self.file().size) {
            return reply.error(Errno::EPERM);
        }
        self.getattr(request, ino, handle, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if ino != FILE {
            return reply.error(Errno::EISDIR);
        }
        let how = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), how);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match readable(self.size.blocks(), offset, u64::from(size)) {
            Touched { blocks: 0, .. } => reply.data(&[]),
            touched => self.transfers.read(touched, reply),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let durable = flags.0 & (libc::O_DSYNC | libc::O_SYNC) != 0;
        match writable(self.size.blocks(), offset, data.len() as u64) {
            Ok(Touched { blocks: 0, .. }) => reply.written(0),
            Ok(extent) => self.transfers.write(extent, data, durable, reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.transfers.command(Op::Flush, Touched::default(), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match allocation(self.size.blocks(), offset, length, mode) {
            Ok((_, Touched { blocks: 0, .. })) => reply.ok(),
            Ok((op, extent)) => self.transfers.command(op, extent, reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (ROOT, FileType::Directory, OsStr::new(".")),
            (ROOT, FileType::Directory, OsStr::new("..")),
            (FILE, FileType::RegularFile, self.name.as_os_str()),
        ];
        for ((ino, kind, name), next) in entries.into_iter().zip(1..) {
            if next > offset && reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    /// A full file system of one file. A loop device takes the block size for the granularity of
    /// its discards.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let block = BLOCK_BYTES as u32;
        reply.statfs(self.size.blocks(), 0, 0, 1, 0, block, 255, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Edges;

    const BLOCKS: u64 = 100;

    fn at(lba: u64, blocks: u64) -> Touched {
        Touched { lba, blocks, edges: Edges::NONE }
    }

    #[test]
    fn reads_end_with_the_file_and_writes_must_fit() {
        let end = BLOCKS * BLOCK;
        assert_eq!(readable(BLOCKS, end - BLOCK, 4 * BLOCK), at(99, 1));
        let last = Touched { edges: Edges { front: 4095, back: 0 }, ..at(99, 1) };
        assert_eq!(readable(BLOCKS, end - 1, 2), last);
        for offset in [end, end + 1, u64::MAX] {
            assert_eq!(readable(BLOCKS, offset, BLOCK).blocks, 0);
        }
        assert_eq!(writable(BLOCKS, end - BLOCK, BLOCK).ok(), Some(at(99, 1)));
        assert_eq!(writable(BLOCKS, end - 1, 1).ok(), Some(last));
        for (offset, length) in [(end - BLOCK, BLOCK + 1), (end, 1), (u64::MAX, 1), (1, u64::MAX)] {
            let result = writable(BLOCKS, offset, length).map_err(i32::from);
            assert_eq!(result, Err(libc::ENOSPC), "{offset}");
        }
    }

    #[test]
    fn holes_are_discards_and_zero_ranges_are_zeroes() {
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let punch = libc::FALLOC_FL_PUNCH_HOLE | keep;
        let zero = libc::FALLOC_FL_ZERO_RANGE;
        let ask =
            |mode, blocks| allocation(BLOCKS, 98 * BLOCK, blocks * BLOCK, mode).map_err(i32::from);
        assert_eq!(ask(punch, 2), Ok((Op::Discard, at(98, 2))));
        assert_eq!(ask(punch, 9), Ok((Op::Discard, at(98, 2))));
        assert_eq!(ask(zero, 2), Ok((Op::WriteZeroes, at(98, 2))));
        assert_eq!(ask(zero | keep, 9), Ok((Op::WriteZeroes, at(98, 2))));
        assert_eq!(ask(zero, 9), Err(libc::ENOSPC));
        for mode in [0, keep, libc::FALLOC_FL_COLLAPSE_RANGE, libc::FALLOC_FL_PUNCH_HOLE] {
            assert_eq!(ask(mode, 1), Err(libc::EOPNOTSUPP), "{mode}");
        }
    }
}
