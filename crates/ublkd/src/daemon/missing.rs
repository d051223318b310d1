//! Members that an array is started without.

use raidcore::meta::{Assembled, SlotState};
use raidcore::units::MemberId;
use serde::{Deserialize, Serialize};

use crate::control::group_of;

/// A member without a device, or with one that is no longer used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Missing {
    /// Its number.
    pub member: u8,
    /// Its group, if it is one of a log volume of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Whether it is a staging device.
    #[serde(default)]
    pub stages: bool,
    /// The identity of the device that was there last.
    pub device: String,
    /// Since when it is out of service, in seconds since 1970; none if it was there when the array
    /// last ran.
    pub since: Option<u64>,
}

impl Missing {
    /// Those of an assembled array.
    pub(super) fn of(assembled: &Assembled) -> Vec<Self> {
        let slots = assembled.slots.iter().zip(&assembled.record.slots);
        let missing = (0u8..).zip(slots).filter(|(_, (image, _))| image.is_none());
        let missing = missing.map(|(member, (_, slot))| Self {
            member,
            group: group_of(&assembled.record),
            stages: assembled.record.is_staging_device(MemberId(member)),
            device: slot.device.to_string(),
            since: (slot.state == SlotState::Failed).then_some(slot.since),
        });
        missing.collect()
    }
}
