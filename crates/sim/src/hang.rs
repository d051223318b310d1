//! Disks that hang: one, which is given up if the engine can do without it, or all, which are
//! waited for. I/O that was given up may still be carried out, in part or whole, at any time later.

use raidcore::engine::{Input, IoError};
use raidcore::units::DeviceId;

use crate::world::World;

impl World {
    /// One disk, or all, do not answer any more.
    pub(crate) fn hang(&mut self) {
        if self.something_hangs() {
            return;
        }
        let used = self.disks_in_use();
        let one = self.source.chance(3, 4).then(|| self.victim()).flatten();
        let hanging = match one {
            Some(disk) if used.contains(&disk) => vec![disk],
            Some(_) => return,
            None => used,
        };
        self.trace(format_args!("disks {hanging:?} hang"));
        self.summary.faults.hangs += 1;
        for disk in hanging {
            self.disks[disk].hangs = true;
            self.disks[disk].stalled_until = u64::MAX;
        }
        self.tell_who_hangs();
    }

    pub(crate) fn something_hangs(&self) -> bool {
        self.disks_in_use().iter().any(|&disk| self.disks[disk].hangs)
    }

    /// All disks answer again.
    pub(crate) fn hang_ends(&mut self) {
        for disk in self.disks_in_use() {
            let disk = &mut self.disks[disk];
            if std::mem::take(&mut disk.hangs) {
                disk.stalled_until = 0;
            }
        }
        self.tell_who_hangs();
    }

    fn tell_who_hangs(&mut self) {
        let hanging = self.engine().members().filter(|member| {
            member.device.is_some_and(|device| self.disks[device.0 as usize].hangs)
        });
        let hanging = hanging.map(|member| member.member).collect();
        self.step(Input::Hung(hanging));
    }

    /// The host gives up the I/O of disks that hang and are out of service now.
    pub(crate) fn give_up(&mut self) {
        while let Some(DeviceId(device)) = self.released.pop() {
            if !self.disks[device as usize].hangs {
                continue;
            }
            while let Some(at) = self.ios.iter().position(|p| p.io.device.0 == device) {
                let pending = self.ios.remove(at);
                let id = pending.io.id;
                self.given_up.push(pending);
                self.step(Input::IoDone { id, result: Err(IoError::TimedOut) });
            }
        }
    }

    /// Some of the I/O that was given up is carried out before the power fails.
    pub(crate) fn end_given_up(&mut self) {
        self.released.clear();
        for pending in std::mem::take(&mut self.given_up) {
            if self.source.chance(1, 2) {
                self.write_some(&pending);
            }
        }
    }
}
