//! The events that blkparse prints.

use serde::{Deserialize, Serialize};

/// Which events of a blkparse trace are taken as requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum Action {
    /// What was queued: the requests as programs and file systems make them.
    Q,
    /// What was issued to the device: after merging and scheduling.
    D,
    /// What was completed, at the time of its end.
    C,
}

impl Action {
    pub(super) fn letter(self) -> u8 {
        match self {
            Self::Q => b'Q',
            Self::D => b'D',
            Self::C => b'C',
        }
    }
}
