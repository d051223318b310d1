//! The three formats of five numbers with spaces between: `time device address size operation`.

use super::Record;
use super::text::{Devices, Expected, SECTOR, length, number, one_reads, sectors, time};
use crate::arrival::Kind;

const ADDRESS: Expected = "an address in sectors of 512 bytes in column 3";
const SIZE: Expected = "a size in sectors of 512 bytes, below 4 GiB, in column 4";

/// SSDsim's: nanoseconds, sectors, 1 for a read (Hu et al., "Performance impact and interplay of
/// SSD parallelism", ICS 2011).
pub(super) fn ssdsim(line: &[u8], devices: &mut Devices) -> Result<Record, Expected> {
    let [at, device, lba, size, kind] = columns(line)?;
    Ok(Record {
        at: time(at, 1, "a time in nanoseconds in column 1")?,
        kind: one_reads(kind)?,
        offset: sectors(lba, ADDRESS)?,
        bytes: length(sectors(size, SIZE)?, SIZE)?,
        device: device_of(device, devices)?,
    })
}

/// DiskSim's own (`ascii` in its manual): milliseconds, sectors, hexadecimal flags of which the
/// lowest bit is a read.
pub(super) fn disksim(line: &[u8], devices: &mut Devices) -> Result<Record, Expected> {
    let [at, device, lba, size, flags] = columns(line)?;
    let flags = std::str::from_utf8(flags).ok();
    let flags = flags.map(|flags| flags.strip_prefix("0x").unwrap_or(flags));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags, 16).ok());
    let flags = flags.ok_or("hexadecimal flags in column 5")?;
    Ok(Record {
        at: time(at, 1_000_000, "a time in milliseconds in column 1")?,
        kind: if flags & 1 == 1 { Kind::Read } else { Kind::Write },
        offset: sectors(lba, ADDRESS)?,
        bytes: length(sectors(size, SIZE)?, SIZE)?,
        device: device_of(device, devices)?,
    })
}

/// The replayers' of LinnOS and Heimdall: milliseconds, bytes, 1 for a read.
pub(super) fn heimdall(line: &[u8], devices: &mut Devices) -> Result<Record, Expected> {
    let [at, device, offset, bytes, kind] = columns(line)?;
    let size = "a size in bytes below 4 GiB in column 4";
    Ok(Record {
        at: time(at, 1_000_000, "a time in milliseconds in column 1")?,
        kind: one_reads(kind)?,
        offset: number(offset, "an offset in bytes in column 3")?,
        bytes: length(number(bytes, size)?, size)?,
        device: device_of(device, devices)?,
    })
}

/// Whether lines could be of [`ssdsim`]: whole nanoseconds.
pub(super) fn is_ssdsim(lines: &[&[u8]]) -> bool {
    lines.iter().all(|line| !line.contains(&b'.') && ssdsim(line, &mut Devices::default()).is_ok())
}

/// Whether lines could be of [`heimdall`] and not of [`disksim`]: all addresses and sizes are
/// multiples of 512, and requests of that many sectors would be 256 KiB each.
pub(super) fn is_heimdall(lines: &[&[u8]]) -> bool {
    lines.iter().all(|line| {
        heimdall(line, &mut Devices::default()).is_ok_and(|record| {
            record.offset.is_multiple_of(SECTOR) && u64::from(record.bytes).is_multiple_of(SECTOR)
        })
    })
}

/// Whether lines could be of [`disksim`].
pub(super) fn is_disksim(lines: &[&[u8]]) -> bool {
    lines.iter().all(|line| disksim(line, &mut Devices::default()).is_ok())
}

fn columns(line: &[u8]) -> Result<[&[u8]; 5], Expected> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let mut columns = [&b""[..]; 5];
    for column in &mut columns {
        *column = fields.next().ok_or("five columns: time device address size operation")?;
    }
    Ok(columns)
}

fn device_of(field: &[u8], devices: &mut Devices) -> Result<u32, Expected> {
    number(field, "the number of a device in column 2")?;
    devices.index(field)
}
