//! Members as policies against garbage collection see them.

use std::time::Duration;

use det::Instant;
use raidcore::units::DeviceId;
use steering::Devices;
use steering::collect::{Flash, Limits, Order};

use super::Ring;
use crate::members::Device;
use crate::nvme;
use crate::nvme::Windows;

/// The windows of members.
#[derive(Default)]
pub(super) struct Leaving {
    /// Whether a member has windows, or one had.
    are_there: bool,
    /// Those of members that are closed.
    left: Vec<Windows>,
}

/// Modelled SSDs report when they collect garbage, and take orders when to, if they were made so. NVMe drives in
/// Predictable Latency Mode report whether they may collect, and take orders. Real drives may tell how worn they
/// are.
impl Devices for Ring {
    fn flash(&self, device: DeviceId) -> Option<(Flash, Limits)> {
        self.drives.steering(self.find(device)?)
    }

    fn obeys(&self, device: DeviceId) -> bool {
        let models = || self.find(device).is_some_and(|index| self.drives.obeys(index));
        self.window(device).is_some() || models()
    }

    fn window(&self, device: DeviceId) -> Option<Duration> {
        self.windows_of(device)?.least()
    }

    fn version(&self) -> u64 {
        if !self.windows.are_there {
            return 0;
        }
        let all = self.members.iter().flatten().filter_map(|member| member.device.windows());
        all.filter(|windows| windows.least().is_none()).count() as u64
    }

    fn is_collecting(&self, device: DeviceId) -> bool {
        let models = || self.find(device).is_some_and(|index| self.drives.is_collecting(index));
        self.windows_of(device).map_or_else(models, Windows::is_collecting)
    }

    fn used_percent(&self, device: DeviceId) -> Option<f64> {
        let modelled = self.find(device).and_then(|index| self.drives.used_percent(index));
        modelled.or_else(|| Some(self.readings.of(device)?.health.used_percent?.into()))
    }

    fn order(&mut self, now: Instant, device: DeviceId, order: Order) {
        if let Some(windows) = self.windows_of(device) {
            windows.order(match order {
                // It has no thresholds to decide by.
                Order::Auto | Order::Thresholds(_) => nvme::Order::LeftAlone,
                Order::Hold => nvme::Order::Hold,
                Order::Reach(_) | Order::Once { .. } => nvme::Order::Collect,
            });
        } else if let Some(index) = self.find(device) {
            self.drives.order(now, index, order);
        }
    }
}

impl Ring {
    fn windows_of(&self, device: DeviceId) -> Option<&Windows> {
        let index = self.find(device).filter(|_| self.windows.are_there)?;
        self.members[usize::from(index.0)].as_ref()?.device.windows()
    }
}

impl Leaving {
    /// A member is opened.
    pub(super) fn open(&mut self, device: &Device) {
        self.are_there |= device.windows().is_some();
    }

    /// A member is closed. This does not wait for its drive.
    pub(super) fn close(&mut self, device: &mut Device) {
        self.left.retain(|windows| !windows.is_over());
        if let Some(windows) = device.take_windows() {
            windows.end();
            self.left.push(windows);
        }
    }
}
