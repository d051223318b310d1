//! Disks with a volatile cache that lose power: files of a FUSE file system of the tests. Blocks
//! that were not flushed when the power fails survive or not, one by one. Like many FUSE file
//! systems, it ignores that a write shall be durable; it heeds flushes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use det::Prng;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

const BLOCK: usize = 4096;
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// What FALLOC_FL_PUNCH_HOLE is.
const PUNCH_HOLE: i32 = 2;

/// Blocks by their numbers; what is not there reads as zeros.
type Blocks = BTreeMap<u64, Vec<u8>>;

#[derive(Default)]
struct Disk {
    /// How long the file is.
    bytes: u64,
    durable: Blocks,
    /// What was not flushed.
    cache: Blocks,
    flushes: u64,
    /// Requests for the file's attributes get no answer.
    silent: bool,
    unanswered: Vec<ReplyAttr>,
}

impl Disk {
    fn block(&self, at: u64) -> Option<&Vec<u8>> {
        self.cache.get(&at).or_else(|| self.durable.get(&at))
    }

    fn flush(&mut self) {
        self.flushes += 1;
        self.durable.append(&mut self.cache);
    }
}

/// The fate of unflushed blocks at a power failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unflushed {
    Lost,
    /// Some of them are lost.
    Any,
    Kept,
}

/// Disks `d0`, `d1` and so on. They are gone when this is dropped.
pub(crate) struct Disks {
    session: Option<BackgroundSession>,
    disks: Arc<Mutex<Vec<Disk>>>,
    dir: TempDir,
}

impl Disks {
    /// So many, of so many bytes each.
    pub(crate) fn new(count: usize, bytes: u64) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disks: Arc<Mutex<Vec<_>>> =
            Arc::new(Mutex::new((0..count).map(|_| Disk { bytes, ..Disk::default() }).collect()));
        let files = Files { disks: Arc::clone(&disks), bytes };
        let session = fuser::spawn_mount(files, dir.path(), &Config::default());
        Self { session: Some(session.expect("a FUSE mount, as root")), disks, dir }
    }

    pub(crate) fn path(&self, disk: usize) -> PathBuf {
        self.dir.path().join(format!("d{disk}"))
    }

    /// How often a disk was flushed.
    pub(crate) fn flushes(&self, disk: usize) -> u64 {
        lock(&self.disks)[disk].flushes
    }

    /// The file is cut off at its server. A write behind its end makes it longer again, with a hole
    /// that reads as zeros.
    pub(crate) fn cut_off(&self, disk: usize, bytes: u64) {
        let disk = &mut lock(&self.disks)[disk];
        disk.bytes = bytes;
        for blocks in [&mut disk.durable, &mut disk.cache] {
            blocks.split_off(&(bytes / BLOCK as u64));
        }
    }

    /// Answers no request for a file's attributes any more.
    pub(crate) fn be_silent(&self, disk: usize) {
        lock(&self.disks)[disk].silent = true;
    }

    /// Answers again; waiting requests get an error. Until then their processes can't end.
    pub(crate) fn speak(&self, disk: usize) {
        let disk = &mut lock(&self.disks)[disk];
        disk.silent = false;
        disk.unanswered.clear();
    }

    /// How many requests have no answer.
    pub(crate) fn unanswered(&self, disk: usize) -> usize {
        lock(&self.disks)[disk].unanswered.len()
    }

    /// How long a file is where it is kept.
    pub(crate) fn bytes(&self, disk: usize) -> u64 {
        lock(&self.disks)[disk].bytes
    }

    /// The power fails. Writes that the kernel submits later for a process that is gone are lost as
    /// well, or not, at the next failure.
    pub(crate) fn cut(&self, random: &mut Prng, unflushed: Unflushed) {
        for disk in &mut *lock(&self.disks) {
            for (at, block) in std::mem::take(&mut disk.cache) {
                let kept = match unflushed {
                    Unflushed::Lost => false,
                    Unflushed::Any => random.chance(1, 2),
                    Unflushed::Kept => true,
                };
                if kept {
                    disk.durable.insert(at, block);
                }
            }
        }
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.umount_and_join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

struct Files {
    disks: Arc<Mutex<Vec<Disk>>>,
    /// The most that a file holds.
    bytes: u64,
}

impl Files {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let time = SystemTime::UNIX_EPOCH;
        let directory = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: if directory { 0 } else { self.with(ino, |disk| disk.bytes) },
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        }
    }

    fn with<T>(&self, ino: INodeNo, act: impl FnOnce(&mut Disk) -> T) -> T {
        act(&mut lock(&self.disks)[ino.0 as usize - 2])
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.strip_prefix('d')?.parse::<u64>().ok());
        match number.filter(|&number| number < lock(&self.disks).len() as u64) {
            Some(number) => {
                reply.entry(&FOREVER, &self.attributes(INodeNo(number + 2)), Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let attributes = self.attributes(ino);
        if ino == INodeNo::ROOT {
            return reply.attr(&FOREVER, &attributes);
        }
        self.with(ino, |disk| {
            if disk.silent {
                disk.unanswered.push(reply);
            } else {
                reply.attr(&FOREVER, &attributes);
            }
        });
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOREVER, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let how = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), how);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = self.with(ino, |disk| {
            let end = (offset + u64::from(size)).min(disk.bytes);
            let first = offset / BLOCK as u64;
            let mut data = vec![0; (end.saturating_sub(first * BLOCK as u64)) as usize];
            for (at, piece) in (first..).zip(data.chunks_mut(BLOCK)) {
                if let Some(block) = disk.block(at) {
                    piece.copy_from_slice(&block[..piece.len()]);
                }
            }
            data
        });
        reply.data(data.get((offset % BLOCK as u64) as usize..).unwrap_or_default());
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let whole = offset.is_multiple_of(BLOCK as u64) && data.len().is_multiple_of(BLOCK);
        if !whole || offset + data.len() as u64 > self.bytes {
            return reply.error(Errno::EINVAL);
        }
        self.with(ino, |disk| {
            disk.bytes = disk.bytes.max(offset + data.len() as u64);
            for (at, block) in (offset / BLOCK as u64..).zip(data.chunks(BLOCK)) {
                disk.cache.insert(at, block.to_vec());
            }
        });
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.with(ino, Disk::flush);
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & PUNCH_HOLE == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let end = (offset + length).min(self.bytes) / BLOCK as u64;
        self.with(ino, |disk| {
            for at in offset.div_ceil(BLOCK as u64)..end {
                if disk.block(at).is_some() {
                    disk.cache.insert(at, vec![0; BLOCK]);
                }
            }
        });
        reply.ok();
    }
}
