//! Where in a machine an array runs, and where its members' controllers are, as plain data.

use serde::{Deserialize, Serialize};

/// Where an array's threads run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SiteReport {
    /// Their CPUs: numbers and ranges, such as "0-3,8".
    pub cpus: String,
    /// The NUMA node that all of these are of, and memory is taken from, if the machine has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
}

/// Where the controller of a member's drive is; where there are several, of a drive with several paths or of
/// the drives below a device, all of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControllerReport {
    /// Its NUMA node, if the machine has several and tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// If it is one of NVMe, the CPUs that its interrupts go to, as numbers and ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_cpus: Option<String>,
    /// What the operator should know of that, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}
