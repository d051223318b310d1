//! Whether another host runs the array that a device is a member of.

use std::io;
use std::time::Duration;

use raidcore::meta::{HostName, LEASE_BLOCK, LeaseBlock, Superblock};
use raidcore::units::BLOCK_BYTES;

use super::clock::boot_time;
use super::identity::me;
use crate::attach::superblock;
use crate::members::{BlockBuffer, Device};

/// How often to look, in parts of the term.
const LOOKS: u32 = 8;

/// The array of another host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The array's name.
    pub array: String,
    /// The host's.
    pub host: HostName,
}

/// Whether a device is a member of an array that another host runs: waits until that renews its lease, or would
/// have.
///
/// # Errors
/// If the device can't be read.
pub fn runs_elsewhere(device: &Device) -> io::Result<Option<Elsewhere>> {
    held_elsewhere(device, superblock(device).as_ref(), &|| Ok(()))
}

/// Whether a device that this process has locked is a member of an array with a lease that another host holds:
/// waits until it is renewed, or would have been. Asks `goes_on` before each look.
///
/// # Errors
/// If the device can't be read, or the error of `goes_on`.
pub(crate) fn held_elsewhere(
    device: &Device,
    superblock: Option<&Superblock>,
    goes_on: &dyn Fn() -> io::Result<()>,
) -> io::Result<Option<Elsewhere>> {
    let Some(record) = superblock.map(|found| &found.record).filter(|of| of.lease.is_some()) else {
        return Ok(None);
    };
    let mut buffer = BlockBuffer::new(BLOCK_BYTES)?;
    let mut look = || -> io::Result<Option<LeaseBlock>> {
        goes_on()?;
        device.read_at(LEASE_BLOCK, &mut buffer)?;
        // A damaged one is not that of a holder that renews it.
        Ok(LeaseBlock::decode(record.array, &buffer).unwrap_or(None))
    };
    let me = me()?;
    let Some(first) = look()?.filter(|block| block.held && !block.holder.shares_kernel_with(&me))
    else {
        return Ok(None);
    };
    let until = boot_time() + first.term.waits();
    let pause: Duration = first.term.duration() / LOOKS;
    while boot_time() < until {
        std::thread::sleep(pause);
        match look()? {
            Some(block) if block == first => {}
            Some(block) if block.held => {
                let (array, host) = (record.name.clone(), block.holder.name);
                return Ok(Some(Elsewhere { array, host }));
            }
            Some(_) | None => return Ok(None),
        }
    }
    Ok(None)
}
