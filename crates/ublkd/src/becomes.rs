//! Arrays that become others at a start.

use std::io;
use std::path::PathBuf;

use raidcore::meta::{ReshapeError, Target};
use raidcore::units::{BLOCK_BYTES, Pba};

use crate::create::write_blocks;
use crate::host::Group;
use crate::members::Device;

/// What an array is to become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Becomes {
    /// One with other stripes, which are moved under load.
    Other(Target),
    /// As large as its members have room for.
    Larger,
}

/// Why an array does not become another. It stays what it is.
#[derive(Debug, thiserror::Error)]
pub enum BecomeError {
    /// It can't, or not now.
    #[error("{name} can't be reshaped: {why}")]
    Refused {
        /// The array's name.
        name: String,
        /// Why.
        why: ReshapeError,
    },
    /// A member does not take what it has to have before that.
    #[error("can't write to {}, so the array stays what it is: {source}", path.display())]
    Io {
        /// The member's path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What was assembled becomes another array, which is on record once it is started. Spares become members,
/// with their devices.
pub(crate) fn begin(group: &mut Group, becomes: &Becomes) -> Result<(), BecomeError> {
    let Group { assembled, devices } = group;
    let name = assembled.record.name.clone();
    let places = assembled.record.slots.len();
    let taken = match becomes {
        Becomes::Other(target) => assembled.begin_reshape(target),
        Becomes::Larger => assembled.enlarge().map(|()| Vec::new()),
    };
    let taken = taken.map_err(|why| BecomeError::Refused { name, why })?;
    let (mut spares, mut members) = (devices.split_off(places), Vec::new());
    for &index in taken.iter().rev() {
        members.push(spares.remove(index));
    }
    devices.extend(members.into_iter().rev().chain(spares));
    let pages: Vec<_> = assembled.relaid_maps().collect();
    let members = &devices[..assembled.record.geometry.members()];
    let written = members.iter().flatten().map(|device| (device, write(device, &pages)));
    for (device, written) in written {
        let path = device.path().to_path_buf();
        written.map_err(|source| BecomeError::Io { path, source })?;
    }
    Ok(())
}

fn write(device: &Device, pages: &[(Pba, [u8; BLOCK_BYTES])]) -> io::Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    write_blocks(device, pages.iter().copied())?;
    device.sync()
}
