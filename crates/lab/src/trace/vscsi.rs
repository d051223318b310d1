//! VMware's virtual SCSI traces, as CloudPhysics collected them: little-endian records.
//!
//! | | version 1: bytes | version 2: bytes |
//! |---|---|---|
//! | serial number, u32 | 0 | 4 |
//! | length in bytes, u32 | 4 | 8 |
//! | segments, u32 | 8 | 12 |
//! | SCSI command, u16 | 12 | 0 |
//! | version in the high byte, u16 | 14 | 2 |
//! | address in sectors of 512 bytes, u64 | 16 | 16 |
//! | time in microseconds, u64 | 24 | 24 |
//! | response time, u64 | | 32 |

use det::Instant;

use super::input::Input;
use super::text::{Devices, SECTOR};
use super::{Reader, Record, TraceError};
use crate::arrival::Kind;

const V1_BYTES: usize = 32;
const V2_BYTES: usize = 40;

/// Reads either version.
pub(super) struct Vscsi {
    second: bool,
}

impl Vscsi {
    /// By the first bytes of the file.
    pub(super) fn new(head: &[u8]) -> Self {
        Self { second: version(head, 3) == 2 && version(head, 15) != 1 }
    }
}

/// Whether a file that begins with `head` is of this format: the first two records have to agree.
pub(super) fn is_vscsi(head: &[u8]) -> bool {
    let agree = |bytes: usize, at: usize, expected: u8| {
        let second = head.len() < 2 * bytes || version(head, bytes + at) == expected;
        head.len() >= bytes && version(head, at) == expected && second
    };
    agree(V1_BYTES, 15, 1) || agree(V2_BYTES, 3, 2)
}

/// The high byte of a version, 0 beyond the end.
fn version(head: &[u8], at: usize) -> u8 {
    head.get(at).copied().unwrap_or(0)
}

impl Reader for Vscsi {
    fn next(
        &mut self,
        input: &mut Input,
        devices: &mut Devices,
    ) -> Result<Option<Record>, TraceError> {
        loop {
            let fields = if self.second {
                input.record::<V2_BYTES>()?.map(|record| Fields::second(&record))
            } else {
                input.record::<V1_BYTES>()?.map(|record| Fields::first(&record))
            };
            let Some(fields) = fields else { return Ok(None) };
            let version = 1 + u16::from(self.second);
            if fields.version >> 8 != version {
                let expected = "the version of the records before it, 1 or 2, in the high byte";
                return Err(input.malformed(expected, &fields.version.to_be_bytes()));
            }
            let Some(kind) = kind(fields.command) else { continue };
            let at = fields.micros.checked_mul(1000);
            let offset = fields.lba.checked_mul(SECTOR);
            let (Some(at), Some(offset)) = (at, offset) else {
                let found = format!("{} µs, sector {}", fields.micros, fields.lba);
                let expected = "a time and an address that fit into 64 bits";
                return Err(input.malformed(expected, found.as_bytes()));
            };
            let device = devices.index(b"0").map_err(|expected| input.malformed(expected, b""))?;
            let flush = kind == Kind::Flush;
            return Ok(Some(Record {
                at: Instant(at),
                device,
                kind,
                offset: if flush { 0 } else { offset },
                bytes: if flush { 0 } else { fields.length },
            }));
        }
    }
}

/// The effect of a SCSI command on the data, if it has one.
fn kind(command: u16) -> Option<Kind> {
    match command {
        // READ and WRITE, of 6, 10, 12 and 16 bytes, and WRITE AND VERIFY.
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Kind::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Kind::Write),
        // SYNCHRONIZE CACHE.
        0x35 | 0x91 => Some(Kind::Flush),
        // Not UNMAP: its ranges are in its parameters, which are not recorded.
        _ => None,
    }
}

struct Fields {
    length: u32,
    command: u16,
    version: u16,
    lba: u64,
    micros: u64,
}

impl Fields {
    fn first(record: &[u8; V1_BYTES]) -> Self {
        Self {
            length: u32::from_le_bytes(part(record, 4)),
            command: u16::from_le_bytes(part(record, 12)),
            version: u16::from_le_bytes(part(record, 14)),
            lba: u64::from_le_bytes(part(record, 16)),
            micros: u64::from_le_bytes(part(record, 24)),
        }
    }

    fn second(record: &[u8; V2_BYTES]) -> Self {
        Self {
            length: u32::from_le_bytes(part(record, 8)),
            command: u16::from_le_bytes(part(record, 0)),
            version: u16::from_le_bytes(part(record, 2)),
            lba: u64::from_le_bytes(part(record, 16)),
            micros: u64::from_le_bytes(part(record, 24)),
        }
    }
}

/// `M` bytes from `at` on.
fn part<const N: usize, const M: usize>(record: &[u8; N], at: usize) -> [u8; M] {
    std::array::from_fn(|index| record[at + index])
}
