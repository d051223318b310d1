//! A volume as a block device `/dev/ublkbN`, through the kernel's ublk driver.
//!
//! Invariants:
//! - The device outlives a server that dies: its users wait, and the next server continues with
//!   their requests under way. It finds the device by the owner's mark. But if the last server has
//!   lost acknowledged writes, its users must not continue: the device is removed, like a disk that
//!   has lost its cache.
//! - A device gets larger with its volume, where the driver can do that, and never smaller.
//! - A device in use is not removed ([`UblkServer::stop`]).
//! - A start that fails leaves no new device behind.
//! - Its queues are answered by the array's thread; the commands of each come from one thread. When a
//!   server dies, its members stay locked until its last writes have ended, so that the next one goes
//!   on with the device only after that.
//! - All steps that can fail come before a device is taken over, such as getting buffers.

mod abi;
mod control;
mod descriptors;
mod disk;
mod null;
mod queue;
mod request;

use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raidcore::units::BLOCK_BYTES;
use rustix::fs::{Mode, OFlags};

use crate::front::LogicalBlock;
use crate::host::{HostError, HostHandle};
use crate::paths::shown;
use crate::resident::Resident;
use crate::volume::{Buffer, Volume};
use abi::DeviceInfo;
use control::Control;
pub use disk::name_of;
pub use null::NullServer;
use queue::{Queue, Served};

/// Passes a queue to the thread that serves it; returns when the driver has all its tags.
type Admit<'a> = dyn Fn(Box<dyn Resident>) -> Result<(), UblkError> + 'a;

/// The driver's control device.
const CONTROL: &str = "/dev/ublk-control";

/// Why a volume can't be served, or not be withdrawn, as a block device.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no ublk driver, or it is not loaded.
    #[error(
        "{} is missing: run `modprobe ublk_drv` (a kernel with CONFIG_BLK_DEV_UBLK, Linux 6.5 or \
         later), or serve the array through NBD or FUSE instead",
        shown(.path)
    )]
    NoDriver {
        /// Where it should be.
        path: PathBuf,
    },
    /// The driver is too old.
    #[error(
        "the kernel's ublk driver can't recover a device: it takes Linux 6.5 or later; serve the \
         array through NBD or FUSE instead"
    )]
    OldDriver,
    /// A file of the driver can't be opened.
    #[error("can't open {}: {source}; run as root", shown(.path))]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The driver refuses a command.
    #[error("the ublk driver failed {what}: {source}")]
    Command {
        /// What it was to do.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A queue's requests can't be read.
    #[error("can't serve a ublk queue: {0}")]
    Queue(io::Error),
    /// The array has ended.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Each request that can be under way needs a buffer.
    #[error("the device needs {need} free buffers of the array and there are {have}")]
    Buffers {
        /// Wanted.
        need: usize,
        /// Free.
        have: usize,
    },
    /// The device to take over is another array's, or was made for other buffers.
    #[error("{} was not made for this array: {what}", shown(.disk))]
    Foreign {
        /// The device.
        disk: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// There is a device of this number.
    #[error("{} is there already, and not this array's: choose another number", shown(.disk))]
    Taken {
        /// The device.
        disk: PathBuf,
    },
    /// The driver can't give a disk another size.
    #[error(
        "{} keeps the size that it had until the array is stopped and started, as the kernel's ublk \
         driver can't change it: that takes Linux 6.16 or later",
        shown(.disk)
    )]
    FixedSize {
        /// The device.
        disk: PathBuf,
    },
    /// The device is mounted or otherwise open.
    #[error("{} is in use by {by}: unmount or close it first", shown(.disk))]
    InUse {
        /// The device.
        disk: PathBuf,
        /// What has it open.
        by: String,
    },
}

impl UblkError {
    fn command(what: &'static str, source: io::Error) -> Self {
        Self::Command { what, source }
    }
}

/// The parameters of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkOptions {
    /// The owner's mark, by which the array finds its device when a server has died. Devices of
    /// other programs have none: zeros.
    pub owner: NonZeroU64,
    /// The number N of `/dev/ublkbN`; `None` for the first that is free.
    pub id: Option<u32>,
    /// Whether a device that was left is removed from its users, since acknowledged writes that
    /// were not flushed were lost.
    pub gives_up: bool,
    /// The logical block size for users. A device that was left keeps its own.
    pub logical_block: LogicalBlock,
    /// Hardware queues. A device that was left keeps its own.
    pub queues: u16,
    /// The most requests of each queue under way, at most 4096. Each has a buffer of the volume for as
    /// long as the device lives.
    pub depth: u16,
}

/// The most hardware queues: the buffers of all are needed whoever serves the device next.
const QUEUES_MAX: u16 = 4;

impl UblkOptions {
    /// The owner's device, with the first free number: for an array of one thread with one queue of 64
    /// requests, for others with a queue of 32 for each thread that talks to the kernel, up to four.
    #[must_use]
    pub fn of(owner: NonZeroU64, threads: u16) -> Self {
        let queues = threads.saturating_sub(1).clamp(1, QUEUES_MAX);
        let depth = if queues == 1 { 64 } else { 32 };
        let logical_block = LogicalBlock::Whole;
        Self { owner, id: None, gives_up: false, logical_block, queues, depth }
    }
}

/// A volume that is served as a block device. Dropping it stops the device. A device in use stays,
/// and waits for the next server once this process has ended.
#[derive(Debug)]
pub struct UblkServer {
    control: Control,
    id: u32,
    disk: PathBuf,
    /// The name of the array, as a symbolic link.
    name: Option<PathBuf>,
    /// Its queues, until it is stopped.
    queues: Vec<Served>,
}

impl UblkServer {
    /// Serves `volume` on its host's thread: as the device that a dead server has left, if there is
    /// one, or as a new one. Requests of users of a device that was left are issued again. So the
    /// volume must be consistent and have all acknowledged writes; if it has not,
    /// [`UblkOptions::gives_up`] must be set.
    ///
    /// # Errors
    /// If there is no driver or no permission, if the number is taken, or if the volume has too few
    /// buffers.
    pub fn start(
        volume: &Volume,
        host: &HostHandle,
        options: UblkOptions,
    ) -> Result<Self, UblkError> {
        Self::start_at(volume, &|queue| Ok(host.admit(queue).wait()?), options)
    }

    fn start_at(
        volume: &Volume,
        admit: &Admit<'_>,
        options: UblkOptions,
    ) -> Result<Self, UblkError> {
        let control = Control::open(Path::new(CONTROL))?;
        let mut options = options;
        for left in control.owned_by(options.owner)? {
            if left.state != DeviceInfo::DEAD && options.gives_up {
                Self::take_away(&control, left.id)?;
                // Its users block the number as long as they have it open.
                options.id = options.id.filter(|&id| id != left.id);
                continue;
            }
            if left.state != DeviceInfo::DEAD {
                if options.id.is_some_and(|id| id != left.id) {
                    tracing::warn!(id = left.id, "the device that is in use keeps its number");
                }
                return Self::recover(control, volume, admit, &left);
            }
            // Its server died before the device was started, or after it was stopped.
            control.delete(left.id)?;
        }
        Self::create(control, volume, admit, options)
    }

    /// Whether a server of this owner has left a device, which may have waiting users.
    #[must_use]
    pub fn is_left(owner: NonZeroU64) -> bool {
        let left = Control::open(Path::new(CONTROL)).and_then(|control| control.owned_by(owner));
        left.is_ok_and(|left| left.iter().any(|device| device.state != DeviceInfo::DEAD))
    }

    /// Takes the device that a server of this owner has left away from its users, since acknowledged writes
    /// were lost with it. Returns its number, which its users block as long as they have it open.
    ///
    /// # Errors
    /// If the driver refuses, or may not be asked: there may be users then.
    pub fn give_up(owner: NonZeroU64) -> Result<Option<u32>, UblkError> {
        let control = match Control::open(Path::new(CONTROL)) {
            // Nor has an earlier server had one.
            Err(UblkError::NoDriver { .. } | UblkError::OldDriver) => return Ok(None),
            control => control?,
        };
        let mut given_up = None;
        for left in control.owned_by(owner)?.iter().filter(|left| left.state != DeviceInfo::DEAD) {
            Self::take_away(&control, left.id)?;
            given_up = Some(left.id);
        }
        Ok(given_up)
    }

    fn take_away(control: &Control, id: u32) -> Result<(), UblkError> {
        tracing::warn!(
            "what was not flushed is lost with the last process: {} is taken away from its users, as it \
             would be theirs no more",
            shown(disk::path(id))
        );
        control.give_up(id)
    }

    fn create(
        control: Control,
        volume: &Volume,
        admit: &Admit<'_>,
        options: UblkOptions,
    ) -> Result<Self, UblkError> {
        let info = control.add(DeviceInfo {
            queues: options.queues.max(1),
            depth: options.depth.clamp(1, abi::DEPTH_MAX),
            request_bytes: request_bytes(volume),
            id: options.id.unwrap_or(abi::ANY_DEVICE),
            owner: options.owner.get(),
            ..DeviceInfo::default()
        })?;
        let begin = || -> Result<Vec<Served>, UblkError> {
            control.set_params(
                info.id,
                request::params(volume, info.request_bytes, options.logical_block),
            )?;
            let queues = serve(admit, &info, buffers(&info, volume)?)?;
            control.start(info.id)?;
            Ok(queues)
        };
        match begin() {
            Ok(queues) => Ok(Self::new(control, volume, info.id, queues)),
            Err(error) => {
                if let Err(error) = control.delete(info.id) {
                    tracing::error!(id = info.id, %error, "a ublk device stays behind");
                }
                Err(error)
            }
        }
    }

    fn recover(
        control: Control,
        volume: &Volume,
        admit: &Admit<'_>,
        left: &DeviceInfo,
    ) -> Result<Self, UblkError> {
        let id = left.id;
        let foreign = |what| UblkError::Foreign { disk: disk::path(id), what };
        // It is smaller if the array has grown since: `fit` makes up for that.
        if control.capacity(id)? > request::sectors(volume.blocks()) {
            return Err(foreign("it is larger"));
        }
        if left.request_bytes > request_bytes(volume) {
            return Err(foreign("its requests are larger than the array's buffers"));
        }
        let buffers = buffers(left, volume)?;
        control.start_recovery(id)?;
        let queues = serve(admit, left, buffers)?;
        control.end_recovery(id)?;
        tracing::info!(id, "the device of the last server is served again");
        Ok(Self::new(control, volume, id, queues))
    }

    fn new(control: Control, volume: &Volume, id: u32, queues: Vec<Served>) -> Self {
        let disk = disk::path(id);
        let name = disk::give_name(&disk, volume.name());
        if let Err(error) = &name {
            tracing::warn!(%error, "{} has no name in /dev/evenkeel", shown(&disk));
        }
        Self { control, id, disk, name: name.ok(), queues }
    }

    /// The block device.
    #[must_use]
    pub fn disk(&self) -> &Path {
        &self.disk
    }

    /// Gives the device this size, if it is smaller; its users are told by the kernel.
    ///
    /// # Errors
    /// If the driver can't: it serves as large as it was.
    pub fn fit(&self, blocks: u64) -> Result<(), UblkError> {
        let sectors = request::sectors(blocks);
        if self.control.capacity(self.id)? < sectors {
            self.control.resize(self.id, sectors)?;
            tracing::info!("{} has grown to {sectors} sectors", shown(&self.disk));
        }
        Ok(())
    }

    /// The user of the device, as far as this process may know.
    pub(crate) fn user(&self) -> Option<String> {
        disk::user(&self.disk).map(|user| format!("{} is in use by {user}", shown(&self.disk)))
    }

    /// Removes the device, once requests under way have ended.
    ///
    /// # Errors
    /// If it is in use: it is still served, and this can be called again.
    pub fn stop(&mut self) -> Result<(), UblkError> {
        if self.queues.is_empty() {
            return Ok(());
        }
        self.control.stop(self.id)?;
        if let Some(name) = self.name.take() {
            disk::take_name(&name, &self.disk);
        }
        self.queues.drain(..).for_each(Served::wait);
        self.control.delete(self.id)
    }

    /// Leaves the device to the next server of its owner. Requests are accepted until the array has
    /// stopped; those that it can't complete stay for the next server.
    pub fn leave(mut self) {
        self.queues.clear();
    }
}

impl Drop for UblkServer {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(id = self.id, %error, "a ublk device stays behind");
        }
    }
}

/// The most bytes of a request that fit into a buffer.
fn request_bytes(volume: &Volume) -> u32 {
    let bytes = volume.max_request_blocks().saturating_mul(BLOCK_BYTES as u32);
    bytes.min(abi::REQUEST_BYTES_MAX)
}

/// A buffer for each request that can be under way.
fn buffers(info: &DeviceInfo, volume: &Volume) -> Result<Vec<Buffer>, UblkError> {
    let need = usize::from(info.queues) * usize::from(info.depth);
    let buffers: Vec<Buffer> = (0..need).map_while(|_| volume.try_buffer()).collect();
    let have = buffers.len();
    if have < need { Err(UblkError::Buffers { need, have }) } else { Ok(buffers) }
}

/// Starts serving the device's queues, and returns when the driver has all their tags.
fn serve(
    admit: &Admit<'_>,
    info: &DeviceInfo,
    buffers: Vec<Buffer>,
) -> Result<Vec<Served>, UblkError> {
    let queues = open(info, buffers)?;
    let admitted = |(queue, served)| {
        admit(Box::new(queue))?;
        Ok(served)
    };
    queues.into_iter().map(admitted).collect()
}

/// The device's queues, which share the buffers.
fn open(info: &DeviceInfo, mut buffers: Vec<Buffer>) -> Result<Vec<(Queue, Served)>, UblkError> {
    let path = disk::server_path(info.id);
    let device = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .map_err(|source| UblkError::Open { path, source })?;
    let device = Arc::new(device);
    let queues = (0..info.queues).map(|number| {
        let own = buffers.split_off(buffers.len() - usize::from(info.depth));
        Queue::new(Arc::clone(&device), number, own).map_err(UblkError::Queue)
    });
    queues.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{Submissions, VolumeConfig};

    fn volume(tags: u16) -> (Volume, Submissions) {
        Volume::channel(VolumeConfig {
            name: "tank".to_owned(),
            blocks: 8,
            chunk_blocks: 1,
            stripe_blocks: 1,
            discard_blocks: 1,
            max_request_blocks: 1,
            tags,
        })
    }

    fn info(queues: u16, depth: u16) -> DeviceInfo {
        DeviceInfo { queues, depth, id: abi::ANY_DEVICE, ..DeviceInfo::default() }
    }

    #[test]
    fn without_buffers_nothing_starts() {
        let (volume, _submissions) = volume(3);
        let result = buffers(&info(2, 2), &volume).map(drop);
        let Err(UblkError::Buffers { need: 4, have: 3 }) = result else {
            panic!("{result:?}");
        };
        assert!(volume.try_buffer().is_some(), "they are free again");
    }

    #[test]
    fn without_a_device_buffers_are_given_back() {
        let (volume, _submissions) = volume(3);
        let buffers = buffers(&info(1, 3), &volume).expect("buffers");
        assert!(volume.try_buffer().is_none(), "each tag has its buffer");
        let error = open(&info(1, 3), buffers).map(drop).expect_err("there is no such device");
        assert!(error.to_string().contains("/dev/ublkc4294967295"), "{error}");
        assert_eq!((0..3).map_while(|_| volume.try_buffer()).count(), 3);
    }
}
