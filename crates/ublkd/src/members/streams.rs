//! Devices that keep streams of writes apart.

use super::Device;

impl Device {
    /// How many streams of writes it keeps apart; at least two, or none.
    pub(crate) fn write_streams(&self) -> u16 {
        self.passthrough().map_or(0, |passthrough| passthrough.placement().streams())
    }
}
