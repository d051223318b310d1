//! What a start makes of acknowledged writes that were lost.

use super::assemble::Assembled;
use super::volatile::VolatileWrites;

impl Assembled {
    /// The process that starts it will, or won't, acknowledge writes from memory, which is on record when it
    /// serves. What was lost before stays so unless that `is_accepted`.
    pub fn begin_volatile(&mut self, holds: bool, is_accepted: bool) {
        let lost = self.record.has_lost_writes() && !is_accepted;
        let writes = VolatileWrites { held: holds, lost };
        if writes != self.record.volatile {
            // What is on disk stays one version, with one content.
            self.before.get_or_insert_with(|| self.record.clone());
            self.record.set_volatile(writes);
        }
    }
}
