//! Former devices of members.

use raidcore::units::{DeviceId, MemberId};
use raidlog::GroupId;

/// Former devices of members that the kernel may not have closed yet.
#[derive(Debug, Default)]
pub(super) struct Former(Vec<(GroupId, MemberId, DeviceId)>);

impl Former {
    /// A member has lost this device.
    pub(super) fn remember(&mut self, group: GroupId, member: MemberId, device: DeviceId) {
        self.0.push((group, member, device));
    }

    /// Whether an I/O on a member's former device may still be carried out. `is_open` tells which
    /// devices the kernel has not closed.
    pub(super) fn lingers(
        &mut self,
        group: GroupId,
        member: MemberId,
        is_open: impl Fn(DeviceId) -> bool,
    ) -> bool {
        self.0.retain(|&(.., device)| is_open(device));
        self.0.iter().any(|&(of, which, _)| (of, which) == (group, member))
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
