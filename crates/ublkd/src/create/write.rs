//! What creating an array writes, and in which order; see [`create`](super::create).
#![allow(unsafe_code)]

use std::io;

use raidcore::meta::{Areas, ArrayRecord};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba};

use super::CreateError;
use crate::members::{BlockBuffer, Device};
use crate::signature::EDGE_BLOCKS;

/// How much is zeroed with one write.
const ZEROS_BYTES: usize = 1 << 20;

/// Writes everything; tells which members' data areas read as zeros.
pub(super) fn write(
    record: &ArrayRecord,
    devices: &[Device],
    preallocate: bool,
) -> Result<Vec<bool>, CreateError> {
    each(devices, |_, device| wipe(device, always))?;
    let mut zeroed = Vec::with_capacity(devices.len());
    each(devices, |index, device| {
        zeroed.push(prepare(record, MemberId::at(index), device, preallocate)?);
        Ok(())
    })?;
    let resync = needs_resync(record, &zeroed);
    each(devices, |_, device| {
        write_blocks(device, record.new_maps(resync))?;
        device.sync()
    })?;
    for round in [0, 2] {
        each(devices, |index, device| {
            let copies = record.superblocks(record.slots[index].device);
            write_blocks(device, copies.skip(round).take(2))
        })?;
        each(devices, |_, device| device.sync())?;
    }
    Ok(zeroed)
}

/// Whether parity has to be computed before it can be trusted.
pub(super) fn needs_resync(record: &ArrayRecord, zeroed: &[bool]) -> bool {
    record.geometry.redundancy() > 0 && !zeroed.iter().all(|zeroed| *zeroed)
}

/// Calls `work` for each member; an error names the member.
fn each(
    devices: &[Device],
    mut work: impl FnMut(usize, &Device) -> io::Result<()>,
) -> Result<(), CreateError> {
    for (index, device) in devices.iter().enumerate() {
        work(index, device)
            .map_err(|source| CreateError::Io { path: device.path().to_path_buf(), source })?;
    }
    Ok(())
}

/// Makes the device's content unrecognisable at both ends.
fn wipe(device: &Device, goes_on: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let edge = device.blocks().min(EDGE_BLOCKS);
    write_zeros(device, Pba(0), edge, &goes_on)?;
    write_zeros(device, Pba(device.blocks() - edge), edge, &goes_on)?;
    device.sync()
}

/// Zeroes the metadata area, and the data area if that is cheap: tells whether it was. A staging device
/// has none. What is behind these is given back to the device, if it takes it.
fn prepare(
    record: &ArrayRecord,
    place: MemberId,
    device: &Device,
    preallocate: bool,
) -> io::Result<bool> {
    let (start, end) = (Pba(record.meta_blocks_of(place)), record.blocks_of(place));
    write_zeros(device, Pba(0), start.0, always)?;
    if record.is_staging_device(place) {
        if preallocate {
            device.preallocate(end)?;
        }
        return Ok(true);
    }
    let zeroed = zero_quickly(device, start, end - start.0)?;
    let unused = device.blocks().saturating_sub(end);
    if unused > 0 {
        zero_quickly(device, Pba(end), unused)?;
    }
    if preallocate {
        device.preallocate(end)?;
    }
    Ok(zeroed)
}

fn always() -> io::Result<()> {
    Ok(())
}

/// Asks before each write whether to go on.
fn write_zeros(
    device: &Device,
    at: Pba,
    blocks: u64,
    goes_on: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let zeros = BlockBuffer::new(ZEROS_BYTES)?;
    let step = (ZEROS_BYTES / BLOCK_BYTES) as u64;
    for part in (0..blocks).step_by(step as usize) {
        goes_on()?;
        let bytes = step.min(blocks - part) as usize * BLOCK_BYTES;
        device.write_at(Pba(at.0 + part), &zeros[..bytes])?;
    }
    Ok(())
}

/// Zeroes a range without writing it, if that is possible. A hole in a file reads as zeros. A block
/// device is asked to zero itself, and refuses if that would take writes.
fn zero_quickly(device: &Device, at: Pba, blocks: u64) -> io::Result<bool> {
    let byte = |blocks: u64| {
        let bytes = blocks.checked_mul(BLOCK_BYTES as u64);
        bytes.and_then(|bytes| i64::try_from(bytes).ok())
    };
    let (Some(offset), Some(length)) = (byte(at.0), byte(blocks)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    loop {
        // SAFETY: takes no pointers, and the descriptor is open as long as the device.
        if unsafe { libc::fallocate(device.fd(), mode, offset, length) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Writes blocks to their places, without a sync.
pub(crate) fn write_blocks(
    device: &Device,
    blocks: impl Iterator<Item = (Pba, [u8; BLOCK_BYTES])>,
) -> io::Result<()> {
    for (at, block) in blocks {
        device.write_at(at, &block)?;
    }
    Ok(())
}

/// Prepares a device for its return to a place with this many blocks of metadata: it keeps its
/// data, and the metadata that tells which member it was.
///
/// # Errors
/// If it can't be written, or the error of `goes_on`.
pub(crate) fn prepare_return(
    device: &Device,
    meta_blocks: u64,
    goes_on: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    for stale in Areas::stale_on_return(meta_blocks) {
        write_zeros(device, Pba(stale.start), stale.end - stale.start, &goes_on)?;
    }
    goes_on()?;
    device.sync()
}

/// Prepares a device as a spare: none of its content can be taken for metadata of any array. This
/// includes the same array, since old maps could be newer than the current ones. Asks `goes_on`
/// before each step whether to continue.
///
/// # Errors
/// If it can't be written, or the error of `goes_on`.
pub(crate) fn prepare_spare(
    device: &Device,
    areas: &Areas,
    goes_on: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let meta = areas.meta_blocks().max(areas.staging_device_blocks());
    wipe(device, &goes_on)?;
    write_zeros(device, Pba(0), meta.min(device.blocks()), &goes_on)?;
    goes_on()?;
    device.sync()
}
