//! What there is once per array, however many ranges of stripes it has.

use det::Instant;

use super::background::Background;
use super::counters::Counters;
use super::flight::Flights;
use super::flush::Flusher;
use super::heal::Healing;
use super::membership::Membership;
use super::quiesce::Quiesce;
use super::staging::EXTRA_MAX;
use super::steering::Steering;
use super::users::Users;
use super::{Config, DeviceId};
use crate::meta::Assembled;

/// See the [module](self).
pub(super) struct Array {
    pub(super) membership: Membership,
    pub(super) flights: Flights,
    pub(super) users: Users,
    pub(super) steering: Steering,
    pub(super) flusher: Flusher,
    pub(super) healing: Healing,
    pub(super) background: Background,
    pub(super) quiesce: Quiesce,
    /// The number of the command to stop, once it was given.
    pub(super) stop_command: Option<u64>,
    pub(super) counters: Counters,
}

impl Array {
    /// As it was assembled, with the device of each place of its record.
    ///
    /// # Panics
    /// If `devices` does not fit what was assembled.
    pub(super) fn new(
        config: &Config,
        assembled: &Assembled,
        devices: &[Option<DeviceId>],
        now: Instant,
    ) -> Self {
        let record = &assembled.record;
        let n = record.geometry.width();
        let places = record.slots.len();
        // A chunk may have copies on the distributed spare, of which a scrub may mend every row; a
        // member's successor gets what it does.
        let of_users = usize::from(config.jobs) * (4 * n + 4 + 8 + 12 + 4);
        let of_passes = usize::from(config.background_jobs) * 8 * n;
        Self {
            membership: Membership::new(assembled, devices),
            flights: Flights::new(of_users + of_passes + EXTRA_MAX + 64 * places, places),
            users: Users::new(config.tags, now),
            steering: Steering::default(),
            flusher: Flusher::default(),
            healing: Healing::default(),
            background: Background::new(config, record),
            quiesce: Quiesce::new(),
            stop_command: None,
            counters: Counters::default(),
        }
    }
}
