//! How members come back, as plain data.

use serde::{Deserialize, Serialize};

/// How a member that is away comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WayBack {
    /// It is taken back as soon as its device is there.
    ByItself,
    /// `disk add` takes it back.
    ByCommand,
}
