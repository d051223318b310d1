//! Asks the drives of members and spares how they are, from time to time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Refusal;
use super::service::Service;

/// How often to look for devices that have to be asked: a new one is asked within this time.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Service {
    /// Asks the drives of members and spares until the array ends. Nothing waits for their answers.
    pub(crate) async fn follow_drives(self: Arc<Self>) {
        while self.ask_drives().await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn ask_drives(&self) -> Result<(), Refusal> {
        let mut devices = BTreeMap::new();
        for array in &self.arrays {
            let status = self.status(array).await?;
            let members = status.members.iter().filter_map(|member| member.device);
            let successor = status.successor.map(|successor| successor.device);
            let all = members.chain(status.spares.iter().copied()).chain(successor);
            devices.extend(all.filter_map(|device| {
                let number = self.host.opened(device)?.number?;
                Some((device, number))
            }));
        }
        // The threads record what they are told.
        drop(self.host.drive_health().ask(&devices, Instant::now()));
        Ok(())
    }
}
