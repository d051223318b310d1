//! The channel between the controller and its chips.

use serde::{Deserialize, Serialize};

/// The channel between the controller and its chips.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Its rate.
    pub mb_per_s: f64,
    /// Bytes that cross it with every 512 bytes of user data, for error correction.
    #[serde(default)]
    pub oob_bytes: u32,
    /// Commands and addresses. Without them, only data needs the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Commands>,
}

/// How long the channel takes to bring a command and its addresses to a die. A die then begins
/// something only when its channel is free: data that has been read goes first, in the order in
/// which it was read, then the dies take turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// A read.
    pub read_us: f64,
    /// Each further plane of a read.
    #[serde(default)]
    pub plane_us: f64,
    /// A program. Its data follows.
    pub program_us: f64,
    /// An erase.
    pub erase_us: f64,
}

impl Commands {
    /// The times, with their keys.
    pub(super) fn times(&self) -> [(&'static str, f64); 4] {
        [
            ("bus.commands.read_us", self.read_us),
            ("bus.commands.plane_us", self.plane_us),
            ("bus.commands.program_us", self.program_us),
            ("bus.commands.erase_us", self.erase_us),
        ]
    }
}
