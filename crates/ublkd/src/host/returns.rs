//! Devices that were members and come back.

use raidcore::engine::{Command, Note};
use raidcore::meta::{Returning, Superblock};
use raidcore::units::{DeviceId, MemberId};
use raidlog::GroupId;

use super::Opened;
use super::data::{Asker, Data};
use super::handle::{Coming, HostError, Reply, reply};

/// The devices that members had and that the kernel has not let go of, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Former(Vec<(GroupId, MemberId, DeviceId)>);

impl Former {
    /// A member has lost this device.
    fn remember(&mut self, group: GroupId, member: MemberId, device: DeviceId) {
        self.0.push((group, member, device));
    }

    /// Whether something that a member's former device was asked may still be carried out. `is_open` tells
    /// what the kernel has not let go of.
    fn lingers(
        &mut self,
        group: GroupId,
        member: MemberId,
        is_open: impl Fn(DeviceId) -> bool,
    ) -> bool {
        self.0.retain(|&(.., device)| is_open(device));
        self.0.iter().any(|&(of, which, _)| (of, which) == (group, member))
    }
}

impl Data {
    /// Remembers whose device it was that left.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_kept_out_until_the_kernel_lets_go_of_all_that_it_had() {
        let (group, member) = (GroupId(0), MemberId(1));
        let mut former = Former::default();
        assert!(!former.lingers(group, member, |_| true), "it has left no device");
        former.remember(group, member, DeviceId(1));
        former.remember(group, member, DeviceId(7));
        assert!(former.lingers(group, member, |_| true));
        assert!(!former.lingers(group, MemberId(0), |_| true), "another member");
        assert!(!former.lingers(GroupId(1), member, |_| true), "another group");
        assert!(former.lingers(group, member, |device| device == DeviceId(7)), "the later one");
        assert!(!former.lingers(group, member, |_| false));
        assert!(!former.lingers(group, member, |_| true), "numbers of devices are not used again");
    }
}
