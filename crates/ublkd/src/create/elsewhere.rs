//! Whether another host runs the array that a device belongs to which is to be written over.

use super::CreateError;
use crate::attach::superblock;
use crate::lease::{Elsewhere, held_elsewhere};
use crate::members::Device;

/// Checks that no other host runs an array that a device belongs to. All are looked at, at once: a holder may
/// not reach some of its members, and each look takes a term.
pub(super) fn check(devices: &[Device]) -> Result<(), CreateError> {
    std::thread::scope(|scope| {
        let look = |device| {
            let thread = std::thread::Builder::new().name("looks".to_owned());
            let unreadable = |source| unreadable(device, source);
            thread.spawn_scoped(scope, move || check_one(device)).map_err(unreadable)
        };
        let looks: Vec<_> = devices.iter().map(look).collect::<Result<_, _>>()?;
        let ends = looks.into_iter().map(|look| look.join().expect("it does not panic"));
        ends.collect()
    })
}

fn check_one(device: &Device) -> Result<(), CreateError> {
    match held_elsewhere(device, superblock(device).as_ref(), &|| Ok(())) {
        Ok(None) => Ok(()),
        Ok(Some(Elsewhere { array, host })) => {
            Err(CreateError::Elsewhere { path: device.path().to_path_buf(), array, host })
        }
        Err(source) => Err(unreadable(device, source)),
    }
}

fn unreadable(device: &Device, source: std::io::Error) -> CreateError {
    CreateError::Unreadable { path: device.path().to_path_buf(), source }
}
