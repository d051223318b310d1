//! I/O on an NVMe namespace by commands of its own, past the block layer.
//!
//! Invariants:
//! - It is the namespace of the block device that the member is, as a whole: what holds the block
//!   device holds the namespace.
//! - A command is as large as the kernel hands it to the drive in one piece, and is never split.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use raidcore::units::BLOCK_BYTES;

use super::ask::{self, IDENTIFY, IDENTIFY_BYTES, Question};
use super::command::{self, BLOCKS_MAX, Command, Data, Extent};
use super::latency::{NvmSet, Unpredictable};
use super::namespace;
use super::placement::{self, Placement};
use super::windows::Windows;
use crate::paths::shown;

/// Why a member's I/O goes through the block layer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    /// It is no block device of NVMe.
    #[error("it is no NVMe drive")]
    NotNvme,
    /// Only a part of a namespace.
    #[error("it is a partition, whose bounds only the block layer keeps")]
    Partition,
    /// A namespace of a subsystem that may have several controllers.
    #[error("it may have several paths, among which only the block layer chooses")]
    Multipath,
    /// The kernel does not describe it as expected.
    #[error("the kernel does not tell its \"{0}\" in a way that is known")]
    Unknown(&'static str),
    /// Its character device can't be used.
    #[error("{node}: {source}", node = shown(.node))]
    Node {
        /// The device.
        node: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not tell its format.
    #[error("its format can't be read: {0}")]
    Identify(#[source] io::Error),
    /// Blocks carry more than their data.
    #[error("its blocks carry metadata or protection information")]
    Metadata,
    /// What the drive and the kernel tell differs.
    #[error("its format is not that of the block device")]
    OtherFormat,
    /// It keeps writes in volatile memory, and takes no durable ones.
    #[error("the kernel does not use its durable writes (FUA)")]
    NoDurableWrites,
    /// What the page cache holds of it can't be written.
    #[error("what the page cache holds of it can't be written: {0}")]
    Unwritten(#[source] io::Error),
    /// A namespace of zones.
    #[error("it is zoned")]
    Zoned,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Passthrough {
    node: File,
    path: PathBuf,
    namespace: u32,
    /// The NVM set that it is in; 0 if it is in none.
    nvm_set: u16,
    block_shift: u8,
    /// The most bytes of a command.
    max_bytes: usize,
    /// Whether it keeps writes in volatile memory until a flush.
    caches: bool,
    placement: Placement,
    /// Its windows, if they were begun.
    windows: Option<Windows>,
    /// The commands that were begun.
    #[cfg(test)]
    begun: Begun,
}

/// Commands, for tests.
#[cfg(test)]
pub(crate) type Begun = std::sync::Arc<std::sync::Mutex<Vec<Command>>>;

/// Where the system describes its devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// The kernel's block devices by their numbers.
    pub(super) blocks: &'a Path,
    /// The character devices of NVMe namespaces.
    pub(super) generic: &'a Path,
}

/// What the system tells of a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Described {
    /// The character device's name.
    pub(super) name: String,
    /// Its number.
    pub(super) number: u64,
    pub(super) max_bytes: usize,
    pub(super) caches: bool,
}

impl Passthrough {
    /// That of an open block device of `bytes` bytes, by its number.
    ///
    /// # Errors
    /// If it is none of NVMe, or nothing that can be used in this way.
    pub(crate) fn of(block: &File, number: u64, bytes: u64) -> Result<Self, Unfit> {
        let places = Places {
            blocks: Path::new("/sys/dev/block"),
            generic: Path::new("/sys/class/nvme-generic"),
        };
        let described = places.describe(number)?;
        let path = Path::new("/dev").join(&described.name);
        let unusable = |source| Unfit::Node { node: path.clone(), source };
        let node = File::options().read(true).write(true).open(&path).map_err(unusable)?;
        let is_it = node.metadata().map_err(unusable)?.rdev() == described.number;
        let namespace = ask::namespace(&node).map_err(unusable)?;
        if !is_it || ask::namespace(block).map_err(Unfit::Identify)? != namespace {
            return Err(unusable(io::Error::other("the node is another device's")));
        }
        let format = identify(&node, namespace).map_err(Unfit::Identify)?;
        let format = format.ok_or(Unfit::Unknown("format"))?;
        if format.has_metadata {
            return Err(Unfit::Metadata);
        }
        let size = format.blocks.checked_shl(format.block_shift.into());
        if size != Some(bytes) || 1 << format.block_shift > BLOCK_BYTES {
            return Err(Unfit::OtherFormat);
        }
        let Described { caches, max_bytes, .. } = described;
        let max_bytes = (BLOCKS_MAX << format.block_shift).min(max_bytes as u64) as usize;
        let mut asks = |question, answer: &mut [u8]| ask::ask(&node, question, answer);
        let placement = placement::find(namespace, format.endurance_group, &mut asks);
        let placement = placement.unwrap_or_else(|why| {
            tracing::debug!("{}: its writes are not kept apart: {why}", shown(&path));
            Placement::default()
        });
        let (block_shift, nvm_set) = (format.block_shift, format.nvm_set);
        Ok(Self {
            node,
            path,
            namespace,
            nvm_set,
            block_shift,
            max_bytes,
            caches,
            placement,
            windows: None,
            #[cfg(test)]
            begun: Begun::default(),
        })
    }

    /// One whose commands go to a file: the kernel passes none to most, and /dev/null completes all.
    #[cfg(test)]
    pub(crate) fn to_file(node: File, max_bytes: usize, placement: Placement) -> Self {
        let (namespace, block_shift, caches) = (1, 9, true);
        let (path, nvm_set, windows, begun) = ("test".into(), 0, None, Begun::default());
        Self {
            node,
            path,
            namespace,
            nvm_set,
            block_shift,
            max_bytes,
            caches,
            placement,
            windows,
            begun,
        }
    }

    /// The same, with windows.
    #[cfg(test)]
    pub(crate) fn with_windows(self, windows: Windows) -> Self {
        Self { windows: Some(windows), ..self }
    }

    /// The commands that were begun.
    #[cfg(test)]
    pub(crate) fn begun(&self) -> &Begun {
        &self.begun
    }

    /// The character device.
    pub(crate) fn fd(&self) -> RawFd {
        self.node.as_raw_fd()
    }

    /// Whether a flush does something.
    pub(crate) fn caches(&self) -> bool {
        self.caches
    }

    /// Whether so many bytes fit into a command.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes <= self.max_bytes
    }

    /// Where its writes can go.
    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// Whether the drive takes orders when to collect garbage. It is told nothing.
    pub(crate) fn could_have_windows(&self) -> bool {
        let ask = &mut |question, answer: &mut [u8]| ask::ask(&self.node, question, answer);
        NvmSet::of(self.namespace, self.nvm_set, ask).is_ok()
    }

    /// It has windows from now on if the drive takes orders when to collect garbage, and logs why if not.
    pub(crate) fn begin_windows(&mut self) {
        let node = self.node.try_clone().map_err(Unpredictable::from);
        let begun = node.and_then(|node| {
            let asker = move |question, answer: &mut [u8]| ask::ask(&node, question, answer);
            Windows::of(&self.path, (self.namespace, self.nvm_set), Box::new(asker))
        });
        let path = shown(&self.path);
        match begun {
            Ok(windows) => self.windows = Some(windows),
            Err(why) => tracing::debug!("{path}: it takes no orders when to collect: {why}"),
        }
    }

    /// Its windows, if they were begun.
    pub(crate) fn windows(&self) -> Option<&Windows> {
        self.windows.as_ref()
    }

    /// The same, for whoever closes it.
    pub(crate) fn take_windows(&mut self) -> Option<Windows> {
        self.windows.take()
    }

    /// A read from byte `offset` on, of whole blocks.
    pub(crate) fn read(&self, offset: u64, data: Data) -> Command {
        let extent = self.extent(offset, data.length as usize);
        Command { code: command::IO, bytes: command::read(self.namespace, extent, data) }
    }

    /// A write from byte `offset` on, of whole blocks; to a placement identifier's place, if it has one.
    pub(crate) fn write(
        &self,
        offset: u64,
        data: Data,
        durable: bool,
        placement: Option<u16>,
    ) -> Command {
        let extent = self.extent(offset, data.length as usize);
        let durable = durable && self.caches;
        let bytes = command::write(self.namespace, extent, data, durable, placement);
        Command { code: command::IO, bytes }
    }

    /// A durable write of `bytes` bytes that are in several places of memory.
    pub(crate) fn gather(
        &self,
        offset: u64,
        bytes: usize,
        parts: Data,
        placement: Option<u16>,
    ) -> Command {
        let extent = self.extent(offset, bytes);
        let bytes = command::write(self.namespace, extent, parts, self.caches, placement);
        Command { code: command::IO_VEC, bytes }
    }

    /// A flush.
    pub(crate) fn flush(&self) -> Command {
        Command { code: command::IO, bytes: command::flush(self.namespace) }
    }

    fn extent(&self, offset: u64, bytes: usize) -> Extent {
        Extent { from: offset >> self.block_shift, blocks: bytes as u64 >> self.block_shift }
    }
}

fn identify(node: &File, namespace: u32) -> io::Result<Option<namespace::Format>> {
    let mut answer = crate::members::BlockBuffer::new(IDENTIFY_BYTES)?;
    let question = Question { opcode: IDENTIFY, namespace, ..Question::default() };
    ask::ask(node, question, &mut answer)?;
    Ok(namespace::parse(&answer))
}

impl Places<'_> {
    pub(super) fn describe(&self, number: u64) -> Result<Described, Unfit> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let disk = self.blocks.join(format!("{major}:{minor}")).canonicalize();
        let disk = disk.map_err(|_| Unfit::NotNvme)?;
        let name = disk.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(rest) = name.strip_prefix("nvme") else { return Err(Unfit::NotNvme) };
        if disk.join("partition").exists() {
            return Err(Unfit::Partition);
        }
        let mut above = disk.components().rev().skip(1);
        if above.any(|part| part.as_os_str() == "nvme-subsystem") {
            return Err(Unfit::Multipath);
        }
        let read = |file: &'static str| {
            let text = fs::read_to_string(disk.join("queue").join(file));
            text.map(|text| text.trim().to_owned()).map_err(|_| Unfit::Unknown(file))
        };
        let number = |file| read(file)?.parse::<usize>().map_err(|_| Unfit::Unknown(file));
        if read("zoned").is_ok_and(|zoned| zoned != "none") {
            return Err(Unfit::Zoned);
        }
        let caches = match read("write_cache")?.as_str() {
            "write back" => true,
            "write through" => false,
            _ => return Err(Unfit::Unknown("write_cache")),
        };
        if caches && number("fua")? != 1 {
            return Err(Unfit::NoDurableWrites);
        }
        // The controller's limit (MDTS) and that of the driver. A page each is a segment.
        let max_bytes = number("max_hw_sectors_kb")?.saturating_mul(1024);
        let max_bytes = max_bytes.min(number("max_segments")?.saturating_mul(BLOCK_BYTES));
        let name = format!("ng{rest}");
        let generic = self.generic.join(&name).canonicalize();
        let generic = generic.map_err(|_| Unfit::Unknown("character device"))?;
        // Both are namespaces of the same controller.
        let number = device_number(&generic).filter(|_| generic.parent() == disk.parent());
        let number = number.ok_or(Unfit::Unknown("character device"))?;
        Ok(Described { name, number, max_bytes, caches })
    }
}

fn device_number(described: &Path) -> Option<u64> {
    let text = fs::read_to_string(described.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}
