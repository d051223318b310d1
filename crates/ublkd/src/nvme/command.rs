//! Commands to an NVMe namespace: their bytes, as of `struct nvme_uring_cmd` of `linux/nvme_ioctl.h` and
//! the NVM Command Set Specification, and what their status means.

/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)`. The data are at an address.
pub(crate) const IO: u32 = 0xc048_4e80;

/// `NVME_URING_CMD_IO_VEC`: the address is that of an array of `struct iovec`.
pub(crate) const IO_VEC: u32 = 0xc048_4e81;

/// What a command has room for in an entry of 128 bytes.
pub(crate) const ENTRY_BYTES: usize = 80;

/// The I/O command "Flush".
const FLUSH: u8 = 0x00;

/// The I/O command "Write". Its lowest bit says that data go to the drive.
const WRITE: u8 = 0x01;

/// The I/O command "Read".
const READ: u8 = 0x02;

/// "Force Unit Access", in command dword 12: durable when it completes.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// Command dword 12 of a write whose dword 13 has a placement identifier: the directive type "Data Placement".
const DATA_PLACEMENT: u32 = 2 << 20;

/// The most logical blocks of a command, whose number has 16 bits and counts from one.
pub(crate) const BLOCKS_MAX: u64 = 1 << 16;

/// The memory of a command's data, for [`IO`] or [`IO_VEC`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Data {
    /// Of the data, or of the array that says where they are.
    pub(crate) address: u64,
    /// Bytes of data, or how many parts there are.
    pub(crate) length: u32,
}

/// Logical blocks of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// The first.
    pub(crate) from: u64,
    /// How many: from 1 to [`BLOCKS_MAX`].
    pub(crate) blocks: u64,
}

/// The bytes of a read.
pub(crate) fn read(namespace: u32, extent: Extent, data: Data) -> [u8; ENTRY_BYTES] {
    transfer(READ, namespace, extent, data, [0; 2])
}

/// The bytes of a write, `durable` when it completes. With a placement identifier it goes there.
pub(crate) fn write(
    namespace: u32,
    extent: Extent,
    data: Data,
    durable: bool,
    placement: Option<u16>,
) -> [u8; ENTRY_BYTES] {
    let durable = if durable { FORCE_UNIT_ACCESS } else { 0 };
    let dwords = match placement {
        Some(identifier) => [durable | DATA_PLACEMENT, u32::from(identifier) << 16],
        None => [durable, 0],
    };
    transfer(WRITE, namespace, extent, data, dwords)
}

/// The bytes of a flush.
pub(crate) fn flush(namespace: u32) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[0] = FLUSH;
    bytes[4..8].copy_from_slice(&namespace.to_ne_bytes());
    bytes
}

fn transfer(
    opcode: u8,
    namespace: u32,
    extent: Extent,
    data: Data,
    [flags, directive]: [u32; 2],
) -> [u8; ENTRY_BYTES] {
    debug_assert!((1..=BLOCKS_MAX).contains(&extent.blocks), "{extent:?}");
    let mut bytes = [0; ENTRY_BYTES];
    bytes[0] = opcode;
    let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    put(4, namespace);
    put(36, data.length);
    // Command dwords 10 to 13.
    put(40, extent.from as u32);
    put(44, (extent.from >> 32) as u32);
    put(48, (extent.blocks - 1) as u32 | flags);
    put(52, directive);
    bytes[24..32].copy_from_slice(&data.address.to_ne_bytes());
    bytes
}

/// How a command has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Well.
    Done,
    /// The drive can't read or write these blocks, and says that another try is in vain.
    Medium,
    /// The drive does not know something that the command asks for.
    Unknown,
    /// In another way, which the kernel's driver knows to handle where it does it by itself.
    Otherwise,
    /// The kernel does not pass such commands.
    Refused,
}

/// "Do Not Retry", and the bits of the status that say what it is.
const DO_NOT_RETRY: i32 = 0x4000;
const KIND: i32 = 0x7ff;

/// "Invalid Field in Command".
const INVALID_FIELD: i32 = 0x002;

/// The errors of media and data integrity, but for those of a drive's own features.
const MEDIUM: std::ops::RangeInclusive<i32> = 0x280..=0x287;

/// The meaning of a completion's result: an NVMe status, or a negative errno.
pub(crate) fn ended(result: i32) -> Ended {
    match result {
        0 => Ended::Done,
        1.. if result & DO_NOT_RETRY != 0 && MEDIUM.contains(&(result & KIND)) => Ended::Medium,
        1.. if result & KIND == INVALID_FIELD => Ended::Unknown,
        1.. => Ended::Otherwise,
        ..0 => match -result {
            libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL | libc::EACCES | libc::EPERM => {
                Ended::Refused
            }
            _ => Ended::Otherwise,
        },
    }
}

/// A command for an entry of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    /// [`IO`] or [`IO_VEC`].
    pub(crate) code: u32,
    /// The command.
    pub(crate) bytes: [u8; ENTRY_BYTES],
}
