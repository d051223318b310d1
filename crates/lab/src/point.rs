//! Points: what is measured, and what tells them apart.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::run::RunSpec;
use crate::system::{ArraySpec, DriveSpec, LogSpec, PdbSpec};
use crate::workload::Workload;

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The array; without it, the SSD is measured by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// The log array, instead of an array. Its SSDs' preconditioning is applied to the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogSpec>,
    /// The array of the paper on popular data backup, instead of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdb: Option<PdbSpec>,
    /// Its SSDs.
    pub ssd: DriveSpec,
    /// The workload as it was written: a [`Workload`].
    pub workload: Table,
    /// The length of a run, and the number of seeds.
    pub run: RunSpec,
}

impl Point {
    /// The workload.
    ///
    /// # Errors
    /// If it is invalid: the key, and what it could be.
    pub fn workload(&self) -> Result<Workload, String> {
        let workload: Workload = self
            .workload
            .clone()
            .try_into()
            .map_err(|e: toml::de::Error| format!("workload: {}", e.to_string().trim_end()))?;
        workload.check().map_err(|e| format!("workload: {e}"))?;
        Ok(workload)
    }
}

/// A point, and how it differs from the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    /// The variant's name, if there are variants.
    pub variant: Option<String>,
    /// The swept keys and their values here.
    pub swept: Vec<(String, Value)>,
    /// The point.
    pub point: Point,
}

impl Labelled {
    /// Variant and swept values in a few words; empty if there are none.
    #[must_use]
    pub fn label(&self) -> String {
        label(self.variant.as_deref(), &self.swept)
    }
}

/// Variant and swept values in a few words.
pub(crate) fn label(variant: Option<&str>, swept: &[(String, Value)]) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let swept = swept.iter().map(|(key, value)| format!("{}={}", last(key), plain(value)));
    variant.map(str::to_owned).into_iter().chain(swept).collect::<Vec<_>>().join(" ")
}
