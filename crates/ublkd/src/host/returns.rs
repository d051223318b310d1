//! Devices that were members and come back.

use raidcore::engine::{Command, Note};
use raidcore::meta::{Returning, Superblock};
use raidcore::units::DeviceId;
use raidlog::GroupId;

use super::Opened;
use super::askers::Asker;
use super::data::Data;
use super::handle::{Coming, HostError, Reply, reply};

impl Data {
    /// Remembers the device of a member that left.
    pub(super) fn remember_former(&mut self, group: GroupId, note: &Note) {
        if let Note::MemberFailed { member, device, .. } = *note {
            self.former.remember(group, member, device);
        }
    }

    /// Tells whether a device with this superblock may come back now.
    pub(super) fn may_return(
        &mut self,
        group: GroupId,
        superblock: &Superblock,
        blocks: u64,
        answer: Reply<Returning>,
    ) {
        let may = self.machine.engine(group).may_return(superblock, blocks);
        let may = may.map_err(HostError::NoReturn).and_then(|returning| {
            let is_open = |device| self.ring.is_open(device);
            match self.former.lingers(group, returning.member, is_open) {
                true => Err(HostError::Lingers),
                false => Ok(returning),
            }
        });
        reply(answer, may);
    }

    /// Takes a device in, and gives it to the engine.
    pub(super) fn add(&mut self, group: GroupId, coming: Coming, answer: Reply<DeviceId>) {
        let Coming { device: opened, uuid, label, returning } = coming;
        let device = self.new_device();
        let (blocks, named) = (opened.blocks(), Opened::of(&opened));
        if let Err(error) = self.ring.open(self.now, device, opened) {
            reply(answer, Err(HostError::Device(error)));
            return;
        }
        self.shared.name_device(device, named);
        self.machine.label(group, device, label);
        let command = match returning {
            None => Command::AddSpare { device, uuid, blocks },
            Some(returning) => Command::Return { returning, device, uuid, blocks },
        };
        self.command(group, command, Asker::Add(device, answer));
    }
}
