//! The two formats with commas: SPC's and MSR Cambridge's.

use std::ops::Range;

use super::Record;
use super::text::{Devices, Expected, length, number, sectors, time};
use crate::arrival::Kind;

/// `unit,lba,bytes,opcode,seconds` and whatever follows, with spaces around fields allowed ("SPC
/// Trace File Format Specification", revision 1.0.1). The unit's name is its number; addresses
/// count blocks of 512 bytes, as in the traces that UMass publishes.
pub(super) fn spc(line: &[u8], devices: &mut Devices) -> Result<Record, Expected> {
    let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let mut field = || fields.next().ok_or("unit,lba,bytes,R or W,seconds");
    let (unit, lba, bytes, opcode, seconds) = (field()?, field()?, field()?, field()?, field()?);
    number(unit, "the number of a storage unit in column 1")?;
    let kind = match opcode {
        b"R" | b"r" => Kind::Read,
        b"W" | b"w" => Kind::Write,
        _ => return Err("R or W in column 4"),
    };
    let size = "a size in bytes below 4 GiB in column 3";
    Ok(Record {
        at: time(seconds, 1_000_000_000, "a time in seconds in column 5")?,
        kind,
        offset: sectors(lba, "an address in blocks of 512 bytes in column 2")?,
        bytes: length(number(bytes, size)?, size)?,
        device: devices.index(unit)?,
    })
}

/// Whether a line could be one of [`spc`]'s.
pub(super) fn is_spc(line: &[u8]) -> bool {
    spc(line, &mut Devices::default()).is_ok()
}

/// `ticks,host,disk,type,offset,bytes,response`: Windows' time in units of 100 ns, and bytes
/// (Narayanan, Donnelly and Rowstron, "Write off-loading", FAST 2008).
pub(super) fn msr(line: &[u8], devices: &mut Devices) -> Result<Record, Expected> {
    const FIELDS: Expected = "ticks,host,disk,Read or Write,offset,bytes,response time";
    let mut places = [const { 0..0 }; 6];
    let mut start = 0;
    for place in &mut places {
        let rest = line.get(start..).ok_or(FIELDS)?;
        let length = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
        *place = start..start + length;
        start = place.end + 1;
    }
    let field = |place: &Range<usize>| line[place.clone()].trim_ascii();
    let [ticks, host, disk, kind, offset, bytes] = &places;
    number(field(disk), "the number of a disk in column 3")?;
    let kind = match field(kind) {
        kind if kind.eq_ignore_ascii_case(b"read") => Kind::Read,
        kind if kind.eq_ignore_ascii_case(b"write") => Kind::Write,
        _ => return Err("Read or Write in column 4"),
    };
    let size = "a size in bytes below 4 GiB in column 6";
    Ok(Record {
        at: time(field(ticks), 100, "a time in units of 100 ns in column 1")?,
        kind,
        offset: number(field(offset), "an offset in bytes in column 5")?,
        bytes: length(number(field(bytes), size)?, size)?,
        device: devices.index(&line[host.start..disk.end])?,
    })
}

/// Whether a line could be one of [`msr`]'s.
pub(super) fn is_msr(line: &[u8]) -> bool {
    msr(line, &mut Devices::default()).is_ok()
}
