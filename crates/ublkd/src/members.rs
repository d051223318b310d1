//! Opening files and block devices for exclusive use, and reading and writing them where there is
//! no ring: when an array is created, attached or examined.
//!
//! Invariants:
//! - An opened device is exclusive: a block device is opened with O_EXCL, a file is locked. The
//!   kernel releases it only when the last I/O on it has ended.
//! - With direct I/O every access is aligned to blocks in memory, on the device and in length.
#![allow(unsafe_code)]

mod backing;
mod buffer;
#[cfg(test)]
mod fakes;
mod identity;
mod leased;
mod locking;
mod passing;
mod streams;

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flashsim::Ssd;
use raidcore::units::{BLOCK_BYTES, Pba};

use crate::flash::{self, FlashError, NewFlash};
use crate::holder::holder;
use crate::lease::Permit;
use crate::nvme::Passthrough;
use crate::paths::shown;
use crate::users;
use backing::durable_by;
pub use buffer::BlockBuffer;
pub use evenkeel_client::DurableBy;
pub use identity::Identity;

/// How much is copied at once through aligned memory, for callers whose memory isn't aligned.
const BOUNCE_BYTES: usize = 1 << 20;

/// How to open a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    /// Bypass the page cache, if the file system can.
    pub direct: bool,
    /// Only look at it: it is not locked, and can't be written.
    pub read_only: bool,
}

impl Default for OpenOptions {
    /// Direct, to read and write.
    fn default() -> Self {
        Self { direct: true, read_only: false }
    }
}

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel refused.
    #[error("{path}: {source}", path = shown(.path))]
    Refused {
        /// What was to be opened.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it, or it was given twice.
    #[error(
        "{path} is in use: mounted, part of another array, opened by another process, or given \
         twice{}", by(*.holder),
        path = shown(.path)
    )]
    InUse {
        /// What was to be opened.
        path: PathBuf,
        /// The process that has it, if it is known.
        holder: Option<u32>,
    },
    /// A directory, socket, character device or the like.
    #[error("{path} is neither a regular file nor a block device", path = shown(.path))]
    WrongKind {
        /// What was to be opened.
        path: PathBuf,
    },
    /// Its logical blocks are larger than ours.
    #[error(
        "{path} has logical blocks of {bytes} bytes; at most 4096 are supported",
        path = shown(.path)
    )]
    BlockSize {
        /// What was to be opened.
        path: PathBuf,
        /// Its logical block size.
        bytes: u32,
    },
    /// It is to be modelled as an SSD, and can't be.
    #[error(transparent)]
    Flash(#[from] FlashError),
}

fn by(holder: Option<u32>) -> String {
    holder.map(|number| format!("; {} has it", users::process(number))).unwrap_or_default()
}

/// The kinds of device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// An opened file or block device.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
    file: File,
    /// Its size in bytes when it was opened.
    bytes: u64,
    direct: bool,
    kind: Kind,
    durable_by: DurableBy,
    identity: Identity,
    /// The SSD that it is modelled as. It moves to whatever does I/O on the device.
    flash: Option<Box<Ssd>>,
    /// The way past the block layer, if I/O takes it.
    passthrough: Option<Box<Passthrough>>,
    /// How many write streams the block layer knows of it.
    block_streams: u8,
    /// The permission to write to it, if its array has a lease.
    permit: Option<Permit>,
}

impl Drop for Device {
    /// Unlocks a file at once: the kernel may keep it open for a ring, and a forked process keeps
    /// it open until it runs another program. With a lease, only who finds that all I/O has ended may go on
    /// with that: the lock stays until all of these have closed it.
    fn drop(&mut self) {
        self.forget_cached();
        if self.permit.is_some() {
            return;
        }
        if let Err(error) = self.file.unlock() {
            tracing::warn!(path = %shown(&self.path), %error, "could not unlock");
        }
    }
}

impl Device {
    /// Opens and, unless it is only to be looked at, locks a file or block device. A file that has
    /// the state of a modelled SSD beside it is one.
    ///
    /// # Errors
    /// If it can't be opened, is in use, or is nothing that an array can be built on.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, OpenError> {
        let path = path.as_ref().to_path_buf();
        let refused = |source| OpenError::Refused { path: path.clone(), source };
        let meta = std::fs::metadata(&path).map_err(refused)?;
        let kind = if meta.file_type().is_block_device() {
            Kind::Block
        } else if meta.is_file() {
            Kind::File
        } else {
            return Err(OpenError::WrongKind { path });
        };
        let exclusive = if kind == Kind::Block && !options.read_only { libc::O_EXCL } else { 0 };
        let open = |flags| {
            let mut open = File::options();
            open.read(true).write(!options.read_only).custom_flags(exclusive | flags).open(&path)
        };
        let opened = match open(if options.direct { libc::O_DIRECT } else { 0 }) {
            Ok(file) if options.direct && can_read_directly(&file) => Ok((file, true)),
            Ok(file) if !options.direct => Ok((file, false)),
            Err(e) if e.raw_os_error() != Some(libc::EINVAL) => Err(e),
            // The file system has no direct I/O, or not in blocks of ours.
            Ok(_) | Err(_) => open(0).map(|file| (file, false)),
        };
        let (file, direct) = match opened {
            Ok(opened) => opened,
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                return Err(OpenError::InUse { path, holder: None });
            }
            Err(e) => return Err(refused(e)),
        };
        if kind == Kind::File && !options.read_only {
            match locking::lock(&file) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(OpenError::InUse { path, holder: holder(&meta) });
                }
                Err(TryLockError::Error(e)) => return Err(refused(e)),
            }
        }
        let bytes = size(&file).map_err(refused)?;
        // Of the descriptor, not of the path, which may have been exchanged in between.
        let meta = file.metadata().map_err(refused)?;
        let identity = Identity::of(&meta);
        if let Some(bytes) = logical_block(&file, kind).filter(|&b| b as usize > BLOCK_BYTES) {
            return Err(OpenError::BlockSize { path, bytes });
        }
        let durable_by = durable_by(&file, kind);
        let (flash, passthrough, permit) = (None, None, None);
        let mut device = Self {
            path,
            file,
            bytes,
            direct,
            kind,
            durable_by,
            identity,
            flash,
            passthrough,
            block_streams: 0,
            permit,
        };
        if kind == Kind::File {
            device.flash = flash::load(&device.path, bytes)?.map(Box::new);
        }
        device.block_streams = device.find_block_streams();
        Ok(device)
    }

    /// Models a file as an SSD from now on. If it is already modelled as one, its state stays.
    ///
    /// # Errors
    /// If it is no file, or modelled as another SSD, or can't be one of that profile.
    pub fn make_flash(&mut self, new: &NewFlash) -> Result<(), FlashError> {
        if self.check_flash(new)? {
            return Ok(());
        }
        let drive = new.drive(&self.path, self.blocks() * BLOCK_BYTES as u64)?;
        flash::store(&self.path, &drive.save())?;
        self.flash = Some(Box::new(drive));
        Ok(())
    }

    /// Whether it is modelled as such an SSD; if not, it can be.
    ///
    /// # Errors
    /// As from [`Device::make_flash`], apart from those of storing it.
    pub(crate) fn check_flash(&self, new: &NewFlash) -> Result<bool, FlashError> {
        match &self.flash {
            _ if self.kind != Kind::File => Err(FlashError::NotAFile { path: self.path.clone() }),
            Some(drive) => new.check(&self.path, drive).map(|()| true),
            None => new.check_size(&self.path, self.blocks() * BLOCK_BYTES as u64).map(|()| false),
        }
    }

    /// The profile of the SSD that it is modelled as, if it is modelled as one.
    #[must_use]
    pub fn flash_profile(&self) -> Option<&str> {
        self.flash.as_ref().map(|drive| drive.profile().name.as_str())
    }

    /// What is to be said about the SSD that it is modelled as.
    pub(crate) fn flash_notes(&self) -> impl Iterator<Item = String> {
        self.flash.iter().flat_map(|drive| drive.profile().notes())
    }

    /// Whether the SSD that it is modelled as takes orders when to collect garbage.
    pub(crate) fn flash_obeys(&self) -> bool {
        self.flash.as_ref().is_some_and(|drive| drive.profile().obeys)
    }

    /// How much of its life the SSD has used that it is modelled as, in whole percents, if it is modelled as one.
    pub(crate) fn flash_used(&self) -> Option<u8> {
        self.flash.as_ref().map(|drive| drive.used_percent() as u8)
    }

    /// The SSD that it is modelled as, for whatever does I/O on it.
    pub(crate) fn take_flash(&mut self) -> Option<Box<Ssd>> {
        self.flash.take()
    }

    /// As it was given to [`Device::open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in blocks, rounded down.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.bytes / BLOCK_BYTES as u64
    }

    /// How a write to it becomes durable by the time it ends.
    #[must_use]
    pub fn durable_by(&self) -> DurableBy {
        self.durable_by
    }

    /// Whether it is a file whose size can be checked at any time, without I/O or the answer of a
    /// server.
    pub(crate) fn can_be_watched(&self) -> bool {
        self.kind == Kind::File && self.durable_by == DurableBy::Flag
    }

    /// Whether it is a file whose size has to be requested, which can hang.
    pub(crate) fn has_to_be_asked(&self) -> bool {
        self.kind == Kind::File && self.durable_by == DurableBy::Flush
    }

    /// Whether it is smaller than when it was opened. A write beyond the end of a file that was cut
    /// off makes it longer, but not as long as it was, unless the write ends where the file did.
    pub(crate) fn has_shrunk(&self) -> bool {
        size(&self.file).is_ok_and(|bytes| self.is_longer_than(bytes))
    }

    /// Whether it was longer than `bytes` bytes when it was opened.
    pub(crate) fn is_longer_than(&self, bytes: u64) -> bool {
        bytes < self.bytes
    }

    /// Whether a write of `bytes` bytes at byte `offset` reaches the end of the device, so that a
    /// file that was cut off would be as long as before.
    pub(crate) fn ends_with(&self, offset: u64, bytes: usize) -> bool {
        offset + bytes as u64 >= self.bytes
    }

    /// Whether I/O goes past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Equal for two devices that are the same file or the same block device.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Reads whole blocks from `at` on.
    ///
    /// # Errors
    /// As from the kernel; `UnexpectedEof` if the device ends before.
    pub fn read_at(&self, at: Pba, into: &mut [u8]) -> io::Result<()> {
        let offset = byte(at, into.len())?;
        if !self.direct || is_aligned(into) {
            return self.file.read_exact_at(into, offset);
        }
        let mut bounce = BlockBuffer::new(into.len().min(BOUNCE_BYTES))?;
        for (part, offset) in into.chunks_mut(BOUNCE_BYTES).zip((offset..).step_by(BOUNCE_BYTES)) {
            let bounce = &mut bounce[..part.len()];
            self.file.read_exact_at(bounce, offset)?;
            part.copy_from_slice(bounce);
        }
        Ok(())
    }

    /// Writes whole blocks from `at` on. They are durable after [`Device::sync`].
    ///
    /// # Errors
    /// As from the kernel.
    pub fn write_at(&self, at: Pba, from: &[u8]) -> io::Result<()> {
        let offset = byte(at, from.len())?;
        self.ask()?;
        if !self.direct || is_aligned(from) {
            return self.file.write_all_at(from, offset);
        }
        let mut bounce = BlockBuffer::new(from.len().min(BOUNCE_BYTES))?;
        for (part, offset) in from.chunks(BOUNCE_BYTES).zip((offset..).step_by(BOUNCE_BYTES)) {
            let bounce = &mut bounce[..part.len()];
            bounce.copy_from_slice(part);
            self.ask()?;
            self.file.write_all_at(bounce, offset)?;
        }
        Ok(())
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// As from the kernel.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Makes sure that the first `blocks` blocks of a file can be written without running out of
    /// space. Nothing happens on block devices and where the filesystem can't.
    ///
    /// # Errors
    /// If there is no space.
    pub fn preallocate(&self, blocks: u64) -> io::Result<()> {
        match self.kind {
            Kind::File => self.fallocate(libc::FALLOC_FL_KEEP_SIZE, Pba(0), blocks),
            Kind::Block => Ok(()),
        }
    }

    /// Gives the space of a range back to the filesystem or device. Nothing happens where it can't;
    /// what the range reads as afterwards does not matter to the caller.
    ///
    /// # Errors
    /// As from the kernel.
    pub fn punch(&self, at: Pba, blocks: u64) -> io::Result<()> {
        self.ask()?;
        self.fallocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, at, blocks)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn fallocate(&self, mode: i32, at: Pba, blocks: u64) -> io::Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let end = at.0.checked_add(blocks).and_then(|end| end.checked_mul(BLOCK_BYTES as u64));
        let end = end.and_then(|end| i64::try_from(end).ok());
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        let offset = (at.0 * BLOCK_BYTES as u64) as i64;
        loop {
            // SAFETY: takes no pointers.
            if unsafe { libc::fallocate(self.fd(), mode, offset, end - offset) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
                _ => return Err(error),
            }
        }
    }
}

/// Some file systems accept O_DIRECT and then refuse I/O in blocks of ours.
fn can_read_directly(file: &File) -> bool {
    let Ok(mut block) = BlockBuffer::new(BLOCK_BYTES) else {
        return false;
    };
    !matches!(file.read_at(&mut block, 0), Err(e) if e.raw_os_error() == Some(libc::EINVAL))
}

fn size(mut file: &File) -> io::Result<u64> {
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

fn logical_block(file: &File, kind: Kind) -> Option<u32> {
    if kind == Kind::File {
        return None;
    }
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes an int to the address given.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET as _, &raw mut bytes) };
    (done == 0).then(|| u32::try_from(bytes).ok()).flatten()
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
}

/// The byte at which a block begins, if `len` is whole blocks.
fn byte(at: Pba, len: usize) -> io::Result<u64> {
    assert!(len.is_multiple_of(BLOCK_BYTES), "{len} bytes are not whole blocks");
    at.0.checked_mul(BLOCK_BYTES as u64).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests;
