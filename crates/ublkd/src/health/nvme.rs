//! NVMe: the SMART / health information log, as of the NVM Express Base Specification (Get Log Page,
//! log identifier 02h).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::sectors::{SECTOR_BYTES, Sector};
use super::{DriveHealth, Source};

/// `NVME_IOCTL_ADMIN_CMD` of `linux/nvme_ioctl.h`: `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const ADMIN_COMMAND: u64 = 0xc048_4e41;

/// The admin command "Get Log Page".
const GET_LOG_PAGE: u8 = 0x02;

/// The log's identifier.
const HEALTH_LOG: u32 = 0x02;

/// The whole drive instead of one of its namespaces.
const ALL_NAMESPACES: u32 = u32::MAX;

/// How long the drive may take, in milliseconds.
const TIMEOUT_MS: u32 = 10_000;

/// A unit of "data units written": a thousand times 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;

/// 0 °C in kelvins, as drives round it.
const ZERO_CELSIUS: i32 = 273;

/// `struct nvme_passthru_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
struct Command {
    opcode: u8,
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// The ioctl's number has the size.
const _: () = assert!(size_of::<Command>() as u64 == ADMIN_COMMAND >> 16 & 0x3fff);

/// What a log of 512 bytes tells; nothing if it is shorter or tells nothing.
#[must_use]
pub fn parse(log: &[u8]) -> Option<DriveHealth> {
    let log: &[u8; SECTOR_BYTES] = log.get(..SECTOR_BYTES)?.try_into().ok()?;
    // A drive that does not report one of these has zeros there.
    let kelvins = u16::from_le_bytes([log[1], log[2]]);
    let temperature = (kelvins > 0).then(|| i32::from(kelvins) - ZERO_CELSIUS);
    let written = number(log, 48).saturating_mul(DATA_UNIT_BYTES);
    let hours = number(log, 128);
    if temperature.is_none() && written == 0 && hours == 0 {
        return None;
    }
    Some(DriveHealth {
        used_percent: Some(log[5]),
        written_bytes: (written > 0).then(|| saturated(written)),
        temperature_celsius: temperature,
        media_errors: Some(saturated(number(log, 160))),
        power_on_hours: Some(saturated(hours)),
        source: Source::NvmeLog,
    })
}

/// Reads the log through any namespace of the drive.
///
/// # Errors
/// As from the kernel, which needs CAP_SYS_ADMIN for it; or if the drive refuses.
pub(super) fn read(drive: &File) -> io::Result<Option<DriveHealth>> {
    let mut log = Sector::new();
    let dwords = (SECTOR_BYTES / size_of::<u32>()) as u32 - 1;
    let mut command = Command {
        opcode: GET_LOG_PAGE,
        flags: 0,
        rsvd1: 0,
        nsid: ALL_NAMESPACES,
        cdw2: 0,
        cdw3: 0,
        metadata: 0,
        addr: log.0.as_mut_ptr().expose_provenance() as u64,
        metadata_len: 0,
        data_len: SECTOR_BYTES as u32,
        cdw10: HEALTH_LOG | dwords << 16,
        cdw11: 0,
        cdw12: 0,
        cdw13: 0,
        cdw14: 0,
        cdw15: 0,
        timeout_ms: TIMEOUT_MS,
        result: 0,
    };
    // SAFETY: the command is as the kernel defines it, and `log` is as long as it says. Both are there
    // until the call returns, after which the kernel touches neither.
    let status = unsafe { libc::ioctl(drive.as_raw_fd(), ADMIN_COMMAND as _, &raw mut command) };
    match status {
        0 => Ok(parse(&log.0)),
        ..0 => Err(io::Error::last_os_error()),
        status => Err(io::Error::other(format!("the drive refuses with NVMe status {status:#x}"))),
    }
}

/// The 16-byte number at byte `at`.
fn number(log: &[u8; SECTOR_BYTES], at: usize) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&log[at..at + 16]);
    u128::from_le_bytes(bytes)
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
