//! Whether members take orders when to collect garbage.

use evenkeel_client::Refusal;

use super::service::Service;
use crate::nvme::View;

impl Service {
    /// Whether one does: a modelled SSD that was made so, or a drive with windows.
    pub(super) async fn has_orderly(&self) -> Result<bool, Refusal> {
        let flash = self.host.flash().await.map_err(|error| self.refusal(error))?;
        if flash.iter().any(|(_, report)| report.drive.obeys) {
            return Ok(true);
        }
        for array in &self.arrays {
            let devices = self.status(array).await?.members;
            let devices = devices.iter().filter_map(|member| member.device);
            let opened = devices.filter_map(|device| self.host.opened(device));
            if opened.filter_map(|opened| opened.windows).any(|view: View| view.window().is_some())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
