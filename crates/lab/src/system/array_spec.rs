//! The description of an array in an experiment.

use raidcore::geometry::Level;
use raidcore::meta::{Consistency, JOURNAL_BLOCKS};
use raidcore::units::BLOCK_BYTES;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steering::hold::CACHES;
use steering::scheme::{SCHEMES, Scheme};

use super::rebuild::RebuildSpec;
use crate::units::Bytes;

/// `[array]`: the array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// `raid0`, `raid1`, `raid4`, `raid5` or `raid6`.
    #[serde(with = "LevelName")]
    pub level: Level,
    /// How many SSDs.
    pub members: u8,
    /// The size of a chunk.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// What survives an unclean stop: `journal`, `bitmap` or `resync`.
    #[serde(default = "journaled", with = "ConsistencyName")]
    pub consistency: Consistency,
    /// The journal's size.
    #[serde(default = "journal")]
    pub journal: Bytes,
    /// The size of each SSD's part of the staging log; none by default.
    #[serde(default = "no_staging")]
    pub staging: Bytes,
    /// SSDs for the staging log, besides the members (the paper's dedicated staging space).
    #[serde(default)]
    pub staging_ssds: u8,
    /// The size of the staging log on each of them; by default as much as fits, up to 1 GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_ssd: Option<Bytes>,
    /// Memory for what is staged; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_memory: Option<Bytes>,
    /// The part of each SSD that the array does not use, and gives back to it: spare room for collection.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub over_provisioning: f64,
    /// Each staged write has a header of its own, as in an array of an older release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_headers: bool,
    /// The scheme against garbage collection: a name of [`steering::scheme::SCHEMES`], and perhaps one
    /// of [`steering::hold::CACHES`], like `evenkeel/log`.
    #[serde(default)]
    pub scheme: SchemeName,
    /// The budget of reads around busy members: extra blocks for each block that is requested. The
    /// default is that of the daemon, [`Steering`](steering::Steering)'s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_reads: Option<f64>,
    /// A member fails when the measurement begins, and is rebuilt onto a spare; the measurement
    /// ends with the rebuild.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<RebuildSpec>,
    /// Each member's share of parity in percent, for RAID5 and RAID6; even by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity_shares: Option<Vec<u8>>,
    /// Whether there is a distributed spare, onto which a failed member is rebuilt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub distributed_spare: bool,
}

impl ArraySpec {
    /// How many SSDs it takes: its members, those for staging, and the spare if there is one.
    #[must_use]
    pub fn ssds(&self) -> usize {
        self.places() + usize::from(self.rebuild.is_some() && !self.distributed_spare)
    }

    /// Its members, and the SSDs for staging.
    pub(super) fn places(&self) -> usize {
        usize::from(self.members) + usize::from(self.staging_ssds)
    }
}

/// As serde wants it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_nothing(share: &f64) -> bool {
    *share == 0.0
}

/// A scheme, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeName(pub Scheme);

impl Default for SchemeName {
    /// Nothing is done.
    fn default() -> Self {
        Self(SCHEMES[0])
    }
}

impl Serialize for SchemeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SchemeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        // The laboratory has no cache in memory.
        let found = Scheme::named(&name).filter(|scheme| !scheme.cache().is_volatile());
        found.map(Self).ok_or_else(|| {
            let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
            D::Error::custom(format!(
                "there is no scheme {name:?}; there are {}, alone or with a cache: {}",
                names.join(", "),
                cache_names()
            ))
        })
    }
}

/// The caches that a scheme may have, as they are written behind it.
fn cache_names() -> String {
    let caches = CACHES.iter().filter(|cache| cache.takes());
    caches.map(|cache| format!("/{}", cache.name)).collect::<Vec<_>>().join(", ")
}

pub(super) const fn chunk() -> Bytes {
    Bytes(64 << 10)
}

pub(super) fn journal() -> Bytes {
    Bytes(JOURNAL_BLOCKS * BLOCK_BYTES as u64)
}

fn no_staging() -> Bytes {
    Bytes(0)
}

pub(super) fn journaled() -> Consistency {
    Consistency::Journal
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Level", rename_all = "lowercase")]
enum LevelName {
    Raid0,
    Raid1,
    Raid4,
    Raid5,
    Raid6,
    Raid10,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Consistency", rename_all = "lowercase")]
pub(super) enum ConsistencyName {
    Resync,
    Bitmap,
    Journal,
}
