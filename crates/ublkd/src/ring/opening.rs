//! Members are opened and closed.

use std::io;
use std::os::fd::RawFd;

use det::Instant;
use raidcore::units::DeviceId;

use super::stats::IoStats;
use super::watch::Size;
use super::{Member, Ring};
use crate::arena::Arena;
use crate::members::Device;
use crate::nvme::Passthrough;
use crate::open_members::{MEMBERS, MemberIndex};

/// How many files are registered: the members', and behind them those by which I/O goes past the block
/// layer.
pub(super) fn files(large_entries: bool) -> u32 {
    if large_entries { 2 * MEMBERS } else { MEMBERS }
}

/// The registered file of a member by which I/O goes past the block layer.
pub(super) fn passing_file(index: MemberIndex) -> u32 {
    MEMBERS + u32::from(index.0)
}

impl Ring {
    /// Opens a member for a device.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        id: DeviceId,
        mut device: Device,
    ) -> io::Result<()> {
        assert!(self.find(id).is_none(), "{id:?} is open");
        let Some(index) = self.members.iter().position(Option::is_none) else {
            return Err(io::Error::other("too many devices are open"));
        };
        let index = MemberIndex(index as u16);
        // The registered block device stays open, and locked, until commands have ended, too, which hold
        // another file: so there are none without it.
        let passes = self.large_entries && self.registered_files;
        let passing = device.passthrough().filter(|_| passes).map(Passthrough::fd);
        if self.registered_files {
            let mut known = self.register_file(index.0.into(), device.fd());
            if let Some(fd) = passing {
                known = known.and_then(|()| self.register_file(passing_file(index), fd));
            }
            if let Err(error) = known {
                self.forget_files(index);
                return Err(error);
            }
        }
        let placement = device.passthrough().filter(|_| passing.is_some());
        let placement = placement.map(Passthrough::placement).unwrap_or_default();
        let block_streams = device.block_streams();
        self.keeps_streams |= placement.streams() > 0 || block_streams > 0;
        self.windows.open(&device);
        let (drive, path) = (device.take_flash(), device.path().to_path_buf());
        self.members[usize::from(index.0)] = Some(Member {
            id,
            in_flight: 0,
            released: false,
            keeps_everything: false,
            is_not_trimmed: false,
            flash: drive.is_some(),
            passes: passing.is_some(),
            placement,
            block_streams,
            size: Size::of(&device),
            stats: IoStats::default(),
            device,
        });
        self.plan_watch(now);
        if let Some(drive) = drive {
            self.drives.open(now, index, path, *drive);
        }
        Ok(())
    }

    /// Closes a device when the kernel has ended all I/O on it. If it hangs, its I/O is given up.
    pub(crate) fn close(&mut self, arena: &mut Arena, id: DeviceId) {
        let Some(index) = self.find(id) else { return };
        if let Some(member) = &mut self.members[usize::from(index.0)] {
            member.released = true;
        }
        if self.hang_detector.has_told(index.0) {
            self.give_up_on(index, arena);
        }
        self.close_if_idle(index);
    }

    /// Closes all devices on which the kernel has no I/O.
    pub(crate) fn close_all(&mut self) {
        for index in 0..self.members.len() {
            if let Some(member) = &mut self.members[index] {
                member.released = true;
            }
            self.close_if_idle(MemberIndex(index as u16));
        }
    }

    /// Closes a member that is to be closed, if the kernel has no I/O on it.
    pub(super) fn close_if_idle(&mut self, index: MemberIndex) {
        let member = &mut self.members[usize::from(index.0)];
        let idle = |member: &mut Member| member.released && member.in_flight == 0;
        if let Some(mut member) = member.take_if(idle) {
            self.windows.close(&mut member.device);
            if member.flash {
                self.drives.close(index, member.device);
            }
            if self.registered_files {
                self.forget_files(index);
            }
        }
    }

    fn forget_files(&mut self, index: MemberIndex) {
        let mut gone = self.register_file(index.0.into(), -1);
        if self.large_entries {
            gone = gone.and(self.register_file(passing_file(index), -1));
        }
        // Can only fail for a number out of range, or if a thread has ended, which is told with the next
        // submission.
        if let Err(error) = gone {
            tracing::error!(%error, "a registered file stays open");
        }
    }

    fn register_file(&mut self, number: u32, file: RawFd) -> io::Result<()> {
        self.entries.register(move |ring| ring.register_files_update(number, &[file]).map(drop))
    }
}
