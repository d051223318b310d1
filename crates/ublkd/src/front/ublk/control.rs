//! Control commands, through `/dev/ublk-control`.
//!
//! Invariants:
//! - One command at a time, each in a ring of its own: memory that the kernel may still touch is
//!   never reused.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};

use super::abi::{self, Control as Command, ControlCommand, DeviceInfo, Params};
use super::{UblkError, disk};

/// Features that this front end requires.
const REQUIRED: u64 =
    abi::FEATURE_USER_RECOVERY | abi::FEATURE_USER_RECOVERY_REISSUE | abi::FEATURE_IOCTL_ENCODE;

/// How long a dead server's requests may take to come back. On Linux 6.12 that is half a minute if
/// the server had all requests of a queue, and longer while its writes are under way.
const RECOVERY_WAIT: Duration = Duration::from_secs(120);

/// How often to check whether they have.
const RECOVERY_POLL: Duration = Duration::from_millis(20);

/// The driver.
#[derive(Debug)]
pub(super) struct Control {
    device: OwnedFd,
    features: u64,
}

impl Control {
    /// The driver behind `path`, if it has the required features.
    pub(super) fn open(path: &Path) -> Result<Self, UblkError> {
        let device = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let device = device.map_err(|error| match error {
            rustix::io::Errno::NOENT | rustix::io::Errno::NXIO => {
                UblkError::NoDriver { path: path.to_owned() }
            }
            error => UblkError::Open { path: path.to_owned(), source: error.into() },
        })?;
        let mut control = Self { device, features: 0 };
        let memory = vec![0; size_of::<u64>()];
        let answer =
            control.run(Command::GetFeatures, abi::ANY_DEVICE, memory, 0).map_err(|source| {
                match source.raw_os_error() {
                    Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV) => UblkError::OldDriver,
                    _ => UblkError::command("asking for features", source),
                }
            })?;
        control.features = u64::from_ne_bytes(array(&answer));
        if control.features & REQUIRED != REQUIRED {
            return Err(UblkError::OldDriver);
        }
        Ok(control)
    }

    /// Adds a device, and returns its actual parameters.
    pub(super) fn add(&self, wish: DeviceInfo) -> Result<DeviceInfo, UblkError> {
        let wish = DeviceInfo { features: REQUIRED, ..wish };
        let answer = self.run(Command::AddDevice, wish.id, wish.encode().to_vec(), 0);
        let answer = answer.map_err(|source| match source.raw_os_error() {
            Some(libc::EEXIST) => UblkError::Taken { disk: disk::path(wish.id) },
            _ => UblkError::command("adding a device", source),
        })?;
        Ok(DeviceInfo::decode(&array(&answer)))
    }

    /// The parameters of a device.
    pub(super) fn info(&self, id: u32) -> Result<DeviceInfo, UblkError> {
        let memory = vec![0; DeviceInfo::BYTES];
        let answer = self.run(Command::GetDeviceInfo, id, memory, 0);
        let answer = answer.map_err(|source| UblkError::command("finding the device", source))?;
        Ok(DeviceInfo::decode(&array(&answer)))
    }

    /// The devices with this owner's mark.
    pub(super) fn owned_by(&self, owner: NonZeroU64) -> Result<Vec<DeviceInfo>, UblkError> {
        let numbers =
            disk::all().map_err(|source| UblkError::command("listing devices", source))?;
        // Devices that vanish meanwhile, or can't be queried, are not ours.
        let found = numbers.into_iter().filter_map(|id| self.info(id).ok());
        Ok(found.filter(|info| info.owner == owner.get()).collect())
    }

    /// Describes the disk. Only before it starts.
    pub(super) fn set_params(&self, id: u32, params: Params) -> Result<(), UblkError> {
        self.run(Command::SetParams, id, params.encode().to_vec(), 0)
            .map(drop)
            .map_err(|source| UblkError::command("describing the disk", source))
    }

    /// The size of the disk in sectors.
    pub(super) fn capacity(&self, id: u32) -> Result<u64, UblkError> {
        let memory = Params::default().encode().to_vec();
        let answer = self.run(Command::GetParams, id, memory, 0);
        let answer = answer.map_err(|source| UblkError::command("asking for the size", source))?;
        Ok(Params::capacity(&array(&answer)))
    }

    /// Gives a disk that its users have another size, in sectors, and tells the kernel's block layer.
    pub(super) fn resize(&self, id: u32, sectors: u64) -> Result<(), UblkError> {
        if self.features & abi::FEATURE_UPDATE_SIZE == 0 {
            return Err(UblkError::FixedSize { disk: disk::path(id) });
        }
        self.run_for(Command::UpdateSize, id, sectors)
            .map_err(|source| UblkError::command("changing the disk's size", source))
    }

    /// Makes the disk appear. Waits until all tags of all queues have been fetched.
    pub(super) fn start(&self, id: u32) -> Result<(), UblkError> {
        self.run_for(Command::StartDevice, id, std::process::id().into())
            .map_err(|source| UblkError::command("starting the device", source))
    }

    /// Prepares for a new server, once the dead one's requests have come back.
    pub(super) fn start_recovery(&self, id: u32) -> Result<(), UblkError> {
        let begun = Instant::now();
        loop {
            match self.run_for(Command::StartUserRecovery, id, 0) {
                Ok(()) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    if begun.elapsed() > RECOVERY_WAIT {
                        return Err(UblkError::command("taking over from the last server", error));
                    }
                    std::thread::sleep(RECOVERY_POLL);
                }
                Err(error) => {
                    return Err(UblkError::command("taking over from the last server", error));
                }
            }
        }
    }

    /// Lets requests come again. Waits until all tags of all queues have been fetched.
    pub(super) fn end_recovery(&self, id: u32) -> Result<(), UblkError> {
        self.run_for(Command::EndUserRecovery, id, std::process::id().into())
            .map_err(|source| UblkError::command("resuming the device", source))
    }

    /// Takes the disk away, once what is under way has ended, unless it is in use.
    pub(super) fn stop(&self, id: u32) -> Result<(), UblkError> {
        let in_use = |by| UblkError::InUse { disk: disk::path(id), by };
        if let Some(user) = disk::user(&disk::path(id)) {
            return Err(in_use(user));
        }
        // A user may appear between the query and the command; newer drivers check it themselves.
        let command = match self.features & abi::FEATURE_SAFE_STOP {
            0 => Command::StopDevice,
            _ => Command::TryStopDevice,
        };
        match self.run_for(command, id, 0) {
            Ok(()) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EBUSY) => Err(in_use("somebody".to_owned())),
                Some(libc::ENODEV) => Ok(()),
                _ => Err(UblkError::command("stopping the device", error)),
            },
        }
    }

    /// Removes a device without a server from its users: their requests fail from now on.
    pub(super) fn give_up(&self, id: u32) -> Result<(), UblkError> {
        match self.run_for(Command::StopDevice, id, 0) {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => {
                Err(UblkError::command("taking the last server's device away", error))
            }
            _ => self.delete(id),
        }
    }

    /// Frees the device's number; if possible, without waiting for users that still have it open.
    pub(super) fn delete(&self, id: u32) -> Result<(), UblkError> {
        let unknown = [libc::EOPNOTSUPP, libc::EINVAL].map(Some);
        let deleted = match self.run_for(Command::DeleteDeviceAsync, id, 0) {
            Err(error) if unknown.contains(&error.raw_os_error()) => {
                self.run_for(Command::DeleteDevice, id, 0)
            }
            other => other,
        };
        match deleted {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => {
                Err(UblkError::command("deleting the device", error))
            }
            _ => Ok(()),
        }
    }

    fn run_for(&self, command: Command, id: u32, data: u64) -> io::Result<()> {
        self.run(command, id, Vec::new(), data).map(drop)
    }

    /// Carries out a command on `memory`, and returns the memory.
    fn run(
        &self,
        command: Command,
        device: u32,
        mut memory: Vec<u8>,
        data: u64,
    ) -> io::Result<Vec<u8>> {
        let address = if memory.is_empty() { 0 } else { memory.as_mut_ptr() as u64 };
        let arguments = ControlCommand { device, memory: (address, memory.len() as u16), data };
        let mut ring = IoUring::<squeue::Entry128>::builder().build(1)?;
        let fd = types::Fd(self.device.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, command as u32).cmd(arguments.encode());
        // SAFETY: `memory` stays where it is until the command has ended, or for ever.
        unsafe { ring.submission().push(&entry.build()) }.map_err(io::Error::other)?;
        loop {
            let waited = ring.submit_and_wait(1);
            if let Some(ended) = ring.completion().next() {
                let result = ended.result();
                return match result {
                    ..0 => Err(io::Error::from_raw_os_error(-result)),
                    0.. => Ok(memory),
                };
            }
            match waited {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    std::mem::forget(memory);
                    return Err(error);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_driver_it_is_said_what_helps() {
        let path = Path::new("/dev/no-such-device");
        let error = Control::open(path).expect_err("there is no driver");
        assert!(matches!(error, UblkError::NoDriver { .. }), "{error}");
        for hint in ["/dev/no-such-device", "modprobe ublk_drv", "CONFIG_BLK_DEV_UBLK", "NBD"] {
            assert!(error.to_string().contains(hint), "{hint}: {error}");
        }
    }

    #[test]
    fn a_driver_that_cannot_resize_is_not_asked_to() {
        // It takes no commands.
        let device =
            rustix::fs::open("/dev/zero", OFlags::RDWR, Mode::empty()).expect("it is there");
        let control = Control { device, features: REQUIRED };
        let error = control.resize(7, 8).expect_err("it lacks the feature");
        assert!(matches!(error, UblkError::FixedSize { .. }), "{error}");
        for hint in ["/dev/ublkb7", "Linux 6.16", "stopped and started"] {
            assert!(error.to_string().contains(hint), "{hint}: {error}");
        }
        let able = Control { features: REQUIRED | abi::FEATURE_UPDATE_SIZE, ..control };
        let error = able.resize(7, 8).expect_err("this is no driver");
        assert!(matches!(error, UblkError::Command { .. }), "{error}");
    }

    #[test]
    fn what_is_no_driver_is_refused() {
        // It accepts any command, and reports no features.
        let error = Control::open(Path::new("/dev/null")).expect_err("no features");
        assert!(matches!(error, UblkError::OldDriver), "{error}");
        let error = Control::open(Path::new("/dev/zero")).expect_err("no commands");
        assert!(matches!(error, UblkError::OldDriver), "{error}");
    }
}
