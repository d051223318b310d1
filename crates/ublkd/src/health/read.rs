//! Reads the health of the drive that a device is on.

use std::io;
use std::path::Path;

use super::drive::{self, Drive, Kind};
use super::smartctl::{self, SmartctlError};
use super::{DriveHealth, ata, nvme};
use crate::paths::shown;

/// What the drive tells that the block device of this number is on; nothing if it is on none, or on one
/// that does not tell. This may take as long as the drive does.
pub(super) fn read(number: u64) -> Option<DriveHealth> {
    let drive = drive::of_device(number)?;
    let told = match pass_through(&drive) {
        Ok(told) => told,
        Err(error) => {
            tracing::debug!(drive = %shown(&drive.node), %error, "it can't be asked for its health");
            None
        }
    };
    told.or_else(|| with_smartctl(&drive))
}

/// What it answers to a command; nothing if it is not one that is known here.
fn pass_through(drive: &Drive) -> io::Result<Option<DriveHealth>> {
    match drive.kind {
        Kind::Nvme => nvme::read(&drive.open()?),
        Kind::Ata => ata::read(&drive.open()?, drive.block_bytes),
        Kind::Scsi => Ok(None),
    }
}

fn with_smartctl(drive: &Drive) -> Option<DriveHealth> {
    // It is given a path, which has to be the drive's.
    let asked = drive.open().map_err(SmartctlError::Run).and_then(|_drive| {
        smartctl::ask(Path::new(smartctl::PROGRAM), &drive.node, smartctl::TIME_LIMIT)
    });
    match asked {
        Ok(health) => Some(health),
        Err(error) => {
            tracing::debug!(drive = %shown(&drive.node), %error, "it tells nothing of its health");
            None
        }
    }
}
