//! The driver's interface, as bytes: numbers and offsets of `include/uapi/linux/ublk_cmd.h`.
//!
//! Invariants:
//! - The numbers and offsets of the interface are only in this file.
//! - Bytes that have no meaning yet are zero.

/// A control command, by its ioctl encoding: `_IOR` or `_IOWR` of `'u'`, the number, and the 32
/// bytes of a [`ControlCommand`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Control {
    GetDeviceInfo = 0x8020_7502,
    AddDevice = 0xc020_7504,
    DeleteDevice = 0xc020_7505,
    StartDevice = 0xc020_7506,
    StopDevice = 0xc020_7507,
    SetParams = 0xc020_7508,
    GetParams = 0x8020_7509,
    StartUserRecovery = 0xc020_7510,
    EndUserRecovery = 0xc020_7511,
    GetFeatures = 0x8020_7513,
    DeleteDeviceAsync = 0x8020_7514,
    UpdateSize = 0xc020_7515,
    TryStopDevice = 0xc020_7517,
}

/// An I/O command, by its ioctl encoding: `_IOWR` of `'u'`, the number, and the 16 bytes of an
/// [`IoCommand`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Io {
    Fetch = 0xc010_7520,
    CommitAndFetch = 0xc010_7521,
}

/// I/O survives the server: it waits for the next one.
pub(super) const FEATURE_USER_RECOVERY: u64 = 1 << 3;
/// The dead server's requests are issued again.
pub(super) const FEATURE_USER_RECOVERY_REISSUE: u64 = 1 << 4;
/// Commands are encoded as above.
pub(super) const FEATURE_IOCTL_ENCODE: u64 = 1 << 6;
/// [`Control::UpdateSize`] exists: a disk that users have gets another size.
pub(super) const FEATURE_UPDATE_SIZE: u64 = 1 << 10;
/// [`Control::TryStopDevice`] exists: it refuses while the device is open.
pub(super) const FEATURE_SAFE_STOP: u64 = 1 << 17;

/// The answer to a fetch: there is a request.
pub(super) const RESULT_REQUEST: i32 = 0;
/// The answer to a fetch: there will be no more requests.
pub(super) const RESULT_ABORT: i32 = -libc::ENODEV;

/// The most requests of a queue.
pub(super) const DEPTH_MAX: u16 = 4096;
/// The most bytes of a request.
pub(super) const REQUEST_BYTES_MAX: u32 = 1 << 25;
/// Any device number, and any queue.
pub(super) const ANY_DEVICE: u32 = u32::MAX;
const NO_QUEUE: u16 = u16::MAX;

/// The unit of the interface's sizes and addresses.
pub(super) const SECTOR_BYTES: u32 = 512;

/// `struct ublksrv_ctrl_cmd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ControlCommand {
    /// Which device.
    pub(super) device: u32,
    /// Where the command's memory is, and its length.
    pub(super) memory: (u64, u16),
    /// An argument of the command.
    pub(super) data: u64,
}

impl ControlCommand {
    /// The bytes for the entry of a ring with large entries.
    pub(super) fn encode(self) -> [u8; 80] {
        let mut bytes = [0; 80];
        put(&mut bytes, 0, self.device.to_ne_bytes());
        put(&mut bytes, 4, NO_QUEUE.to_ne_bytes());
        put(&mut bytes, 6, self.memory.1.to_ne_bytes());
        put(&mut bytes, 8, self.memory.0.to_ne_bytes());
        put(&mut bytes, 16, self.data.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_io_cmd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IoCommand {
    /// Of which queue.
    pub(super) queue: u16,
    /// Which of its requests.
    pub(super) tag: u16,
    /// How the request ended: bytes, or a negative errno.
    pub(super) result: i32,
    /// Where its memory is: that of the data that was read, and of the tag's next request.
    pub(super) address: u64,
}

impl IoCommand {
    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        put(&mut bytes, 0, self.queue.to_ne_bytes());
        put(&mut bytes, 2, self.tag.to_ne_bytes());
        put(&mut bytes, 4, self.result.to_ne_bytes());
        put(&mut bytes, 8, self.address.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) request_bytes: u32,
    pub(super) id: u32,
    pub(super) features: u64,
    /// A field that the driver keeps for servers (`ublksrv_flags`).
    pub(super) owner: u64,
}

impl DeviceInfo {
    pub(super) const BYTES: usize = 64;

    /// The [`state`](Self::state) of a device that has not started yet, or has stopped.
    pub(super) const DEAD: u16 = 0;

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.queues.to_ne_bytes());
        put(&mut bytes, 2, self.depth.to_ne_bytes());
        put(&mut bytes, 4, self.state.to_ne_bytes());
        put(&mut bytes, 8, self.request_bytes.to_ne_bytes());
        put(&mut bytes, 12, self.id.to_ne_bytes());
        put(&mut bytes, 24, self.features.to_ne_bytes());
        put(&mut bytes, 32, self.owner.to_ne_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            queues: u16::from_ne_bytes(get(bytes, 0)),
            depth: u16::from_ne_bytes(get(bytes, 2)),
            state: u16::from_ne_bytes(get(bytes, 4)),
            request_bytes: u32::from_ne_bytes(get(bytes, 8)),
            id: u32::from_ne_bytes(get(bytes, 12)),
            features: u64::from_ne_bytes(get(bytes, 24)),
            owner: u64::from_ne_bytes(get(bytes, 32)),
        }
    }
}

/// `struct ublk_params`, with its parts on the disk and on discards. Sizes in sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Params {
    /// Shifts of: logical block, physical block, smallest and best I/O, in bytes.
    pub(super) logical_shift: u8,
    pub(super) block_shift: u8,
    pub(super) io_min_shift: u8,
    pub(super) io_opt_shift: u8,
    /// The largest request.
    pub(super) max: u32,
    /// Requests are cut at multiples of this.
    pub(super) boundary: u32,
    /// The disk's size.
    pub(super) capacity: u64,
    /// Discards should be multiples of this many bytes.
    pub(super) discard_granularity: u32,
    /// The largest discard and the largest write-zeroes.
    pub(super) max_range: u32,
}

impl Params {
    /// As far as `struct ublk_param_discard`; the driver leaves the rest as it is.
    pub(super) const BYTES: usize = 60;

    const TYPE_BASIC: u32 = 1 << 0;
    const TYPE_DISCARD: u32 = 1 << 1;
    /// Completed writes need a flush; FUA makes one durable. The driver heeds FUA only with both
    /// flags.
    const ATTRIBUTES: u32 = (1 << 2) | (1 << 3);

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, (Self::BYTES as u32).to_ne_bytes());
        let types = Self::TYPE_BASIC | Self::TYPE_DISCARD;
        put(&mut bytes, 4, types.to_ne_bytes());
        put(&mut bytes, 8, Self::ATTRIBUTES.to_ne_bytes());
        let blocks = [self.logical_shift, self.block_shift];
        put(&mut bytes, 12, blocks);
        let shifts = [self.io_opt_shift, self.io_min_shift];
        put(&mut bytes, 14, shifts);
        put(&mut bytes, 16, self.max.to_ne_bytes());
        put(&mut bytes, 20, self.boundary.to_ne_bytes());
        put(&mut bytes, 24, self.capacity.to_ne_bytes());
        put(&mut bytes, 44, self.discard_granularity.to_ne_bytes());
        put(&mut bytes, 48, self.max_range.to_ne_bytes());
        put(&mut bytes, 52, self.max_range.to_ne_bytes());
        // The driver takes one segment only.
        put(&mut bytes, 56, 1u16.to_ne_bytes());
        bytes
    }

    /// The disk's size in the driver's parameters.
    pub(super) fn capacity(bytes: &[u8; Self::BYTES]) -> u64 {
        u64::from_ne_bytes(get(bytes, 24))
    }
}

/// `struct ublksrv_io_desc`: the request of a tag, in memory shared with the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Descriptor {
    op_and_flags: u32,
    /// How many sectors.
    pub(super) sectors: u32,
    /// The first sector.
    pub(super) start: u64,
}

impl Descriptor {
    pub(super) const BYTES: usize = 24;

    pub(super) const READ: u8 = 0;
    pub(super) const WRITE: u8 = 1;
    pub(super) const FLUSH: u8 = 2;
    pub(super) const DISCARD: u8 = 3;
    pub(super) const WRITE_ZEROES: u8 = 5;

    const FUA: u32 = 1 << 13;

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            op_and_flags: u32::from_ne_bytes(get(bytes, 0)),
            sectors: u32::from_ne_bytes(get(bytes, 4)),
            start: u64::from_ne_bytes(get(bytes, 8)),
        }
    }

    /// What to do.
    pub(super) fn op(self) -> u8 {
        self.op_and_flags as u8
    }

    /// Whether it must be durable when it completes.
    pub(super) fn fua(self) -> bool {
        self.op_and_flags & Self::FUA != 0
    }
}

/// Where a queue's descriptors lie in the character device, and how many bytes they are, for pages
/// of `page` bytes.
pub(super) fn descriptors_at(queue: u16, depth: u16, page: usize) -> (u64, usize) {
    let bytes = |depth: u16| (usize::from(depth) * Descriptor::BYTES).next_multiple_of(page);
    (u64::from(queue) * bytes(DEPTH_MAX) as u64, bytes(depth))
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_IOC(direction, 'u', number, size)` of `asm-generic/ioctl.h`: 2 reads, 3 reads and writes.
    fn ioc(direction: u32, number: u32, size: u32) -> u32 {
        direction << 30 | size << 16 | u32::from(b'u') << 8 | number
    }

    #[test]
    fn commands_have_the_documented_numbers() {
        let control = [
            (Control::GetDeviceInfo, 2, 0x02),
            (Control::AddDevice, 3, 0x04),
            (Control::DeleteDevice, 3, 0x05),
            (Control::StartDevice, 3, 0x06),
            (Control::StopDevice, 3, 0x07),
            (Control::SetParams, 3, 0x08),
            (Control::GetParams, 2, 0x09),
            (Control::StartUserRecovery, 3, 0x10),
            (Control::EndUserRecovery, 3, 0x11),
            (Control::GetFeatures, 2, 0x13),
            (Control::DeleteDeviceAsync, 2, 0x14),
            (Control::UpdateSize, 3, 0x15),
            (Control::TryStopDevice, 3, 0x17),
        ];
        for (command, direction, number) in control {
            assert_eq!(command as u32, ioc(direction, number, 32), "{command:?}");
        }
        assert_eq!(Io::Fetch as u32, ioc(3, 0x20, 16));
        assert_eq!(Io::CommitAndFetch as u32, ioc(3, 0x21, 16));
    }

    #[test]
    fn commands_have_the_documented_layout() {
        let command = ControlCommand {
            device: 0x0403_0201,
            memory: (0x100f_0e0d_0c0b_0a09, 0x0807),
            data: 0x1817_1615_1413_1211,
        };
        let mut expected = [0; 80];
        for (at, byte) in (1..=24).enumerate() {
            expected[at] = byte;
        }
        expected[4..6].fill(0xff);
        assert_eq!(command.encode(), expected);
        let io = IoCommand {
            queue: 0x0201,
            tag: 0x0403,
            result: 0x0807_0605,
            address: 0x100f_0e0d_0c0b_0a09,
        };
        assert_eq!(io.encode().to_vec(), (1..=16).collect::<Vec<u8>>());
    }

    #[test]
    fn a_devices_information_has_the_documented_layout() {
        let info = DeviceInfo {
            queues: 0x0201,
            depth: 0x0403,
            state: 0x0605,
            request_bytes: 0x0c0b_0a09,
            id: 0x100f_0e0d,
            features: 0x201f_1e1d_1c1b_1a19,
            owner: 0x2827_2625_2423_2221,
        };
        let bytes = info.encode();
        let has_meaning = |at: usize| at < 6 || (8..16).contains(&at) || (24..40).contains(&at);
        for (at, &byte) in bytes.iter().enumerate() {
            assert_eq!(usize::from(byte), if has_meaning(at) { at + 1 } else { 0 });
        }
        assert_eq!(DeviceInfo::decode(&bytes), info);
    }

    #[test]
    fn parameters_have_the_documented_layout() {
        let params = Params {
            logical_shift: 9,
            block_shift: 12,
            io_min_shift: 16,
            io_opt_shift: 18,
            max: 2048,
            boundary: 512,
            capacity: 0x0102_0304_0506,
            discard_granularity: 1 << 18,
            max_range: 1 << 21,
        };
        let bytes = params.encode();
        let u32_at = |at| u32::from_ne_bytes(get(&bytes, at));
        assert_eq!((u32_at(0), u32_at(4)), (60, 0b11), "length and types");
        assert_eq!(u32_at(8), 0b1100, "volatile cache, FUA");
        assert_eq!(bytes[12..16], [9, 12, 18, 16], "logical, physical, opt, min");
        assert_eq!((u32_at(16), u32_at(20)), (2048, 512), "max, chunk");
        assert_eq!(Params::capacity(&bytes), 0x0102_0304_0506);
        assert_eq!(bytes[32..44], [0; 12], "virtual boundary, discard alignment");
        assert_eq!((u32_at(44), u32_at(48), u32_at(52)), (1 << 18, 1 << 21, 1 << 21));
        assert_eq!(u32_at(56), 1, "one segment");
    }

    #[test]
    fn a_descriptor_has_the_documented_layout() {
        let mut bytes = [0; Descriptor::BYTES];
        put(&mut bytes, 0, (1u32 | 1 << 13).to_ne_bytes());
        put(&mut bytes, 4, 8u32.to_ne_bytes());
        put(&mut bytes, 8, 80u64.to_ne_bytes());
        let descriptor = Descriptor::decode(&bytes);
        assert_eq!((descriptor.op(), descriptor.fua()), (Descriptor::WRITE, true));
        assert_eq!((descriptor.sectors, descriptor.start), (8, 80));
    }

    #[test]
    fn each_queue_has_room_for_the_deepest() {
        assert_eq!(descriptors_at(0, 128, 4096), (0, 4096));
        assert_eq!(descriptors_at(1, 171, 4096), (98_304, 8192));
        assert_eq!(descriptors_at(3, 128, 65_536), (3 * 131_072, 65_536));
    }
}
