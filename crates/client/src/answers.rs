//! Answers of commands, as plain data. A command whose answer tells nothing is answered with an empty
//! object.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The answer to a command that tells nothing: it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Done {}

/// The answer to [`Request::Metrics`](crate::Request::Metrics).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Page {
    /// In Prometheus' text format.
    pub page: String,
}

/// The answer to [`Request::DiskAdd`](crate::Request::DiskAdd) and
/// [`Request::DiskReplace`](crate::Request::DiskReplace).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum DiskAnswer {
    /// The device is back as the member that it was.
    Returned {
        /// The device.
        #[serde(with = "crate::paths::one")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        returned: PathBuf,
        /// Which member.
        member: u8,
        /// Of which group of a log volume, if it has several.
        #[serde(default)]
        group: Option<u8>,
        /// How much it lacks at most, if that is known: else all of it is filled.
        #[serde(default)]
        missed_bytes: Option<u64>,
    },
    /// The device takes a member's place.
    Replaced {
        /// Which member.
        member: u8,
        /// Of which group of a log volume, if it has several.
        #[serde(default)]
        group: Option<u8>,
        /// The device.
        #[serde(with = "crate::paths::one")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        with: PathBuf,
        /// The member serves on, and is copied; else it is rebuilt.
        copied: bool,
    },
    /// The device is a spare, or is rebuilt onto if a member is missing.
    Added {
        /// The device.
        #[serde(with = "crate::paths::one")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        added: PathBuf,
    },
}

/// The answer to [`Request::PolicySet`](crate::Request::PolicySet) and
/// [`Request::CacheSet`](crate::Request::CacheSet).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyAnswer {
    /// The policy that is followed now.
    pub policy: String,
    /// What is staged and comes home, as nothing is staged any more.
    pub draining_bytes: u64,
    /// The cache is there from the next start on.
    #[serde(default)]
    pub at_restart: bool,
}

/// The answer to [`Request::CacheFlush`](crate::Request::CacheFlush).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlushAnswer {
    /// What comes home.
    pub bytes: u64,
}

/// The answer to [`Request::Stop`](crate::Request::Stop).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StopAnswer {
    /// The array is stopped.
    pub stopped: bool,
}
