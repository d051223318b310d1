//! `[log]`: a log array.

use raidcore::meta::Consistency;
use raidcore::units::BLOCK_BYTES;
use raidlog::{Choice, Cleaning, Config, Layout};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::array_spec::{ConsistencyName, SchemeName, chunk, journal, journaled};
use super::log_error::LogError;
use crate::units::Bytes;

/// `[log]`: the log array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSpec {
    /// `log-raid0`, `log-raid4`, `log-raid5`, `log-raid6`, or R-groups times their SSDs:
    /// `swan4:3x3`.
    #[serde(with = "layout")]
    pub layout: Layout,
    /// How many SSDs a `log-raid` has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u8>,
    /// The size of a chunk.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// What survives an unclean stop, below the log: `journal`, `bitmap` or `resync`.
    #[serde(default = "journaled", with = "ConsistencyName")]
    pub consistency: Consistency,
    /// The size of each group's journal.
    #[serde(default = "journal")]
    pub journal: Bytes,
    /// The size of a segment, rounded up to whole stripes.
    #[serde(default = "segment")]
    pub segment: Bytes,
    /// The share of the log that users do not have.
    #[serde(default = "spare")]
    pub spare: f64,
    /// When a `log-raid` cleans: `blocking` or `paced`.
    #[serde(default)]
    pub gc: Gc,
    /// Which segment is cleaned: `greedy` or `cost-benefit`.
    #[serde(default)]
    pub cleaner: Cleaner,
    /// Segments in memory for users' writes.
    #[serde(default = "buffers")]
    pub buffers: u16,
    /// The scheme against garbage collection, in each group: a name of
    /// [`steering::scheme::SCHEMES`] that stages no writes.
    #[serde(default)]
    pub scheme: SchemeName,
    /// The budget of reads around busy SSDs, as in [`ArraySpec`](super::ArraySpec).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_reads: Option<f64>,
    /// A checkpoint is written at least once in this many bytes that users write.
    #[serde(default = "checkpoint")]
    pub checkpoint: Bytes,
}

/// When a `log-raid` cleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gc {
    /// Only when it has to; users wait.
    Blocking,
    /// In pace with users' writes.
    #[default]
    Paced,
}

/// Which segment is cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cleaner {
    /// The one with the fewest live blocks.
    #[default]
    Greedy,
    /// The one with the best ratio of benefit to cost.
    CostBenefit,
}

fn segment() -> Bytes {
    Bytes(1 << 20)
}

fn spare() -> f64 {
    0.2
}

fn buffers() -> u16 {
    8
}

fn checkpoint() -> Bytes {
    Bytes(4 << 30)
}

mod layout {
    use super::{Deserialize, Deserializer, Error, Layout, Serializer};

    pub(super) fn serialize<S: Serializer>(layout: &Layout, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(layout)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Layout, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

impl LogSpec {
    /// The default chunk.
    pub const CHUNK: Bytes = chunk();

    /// A layout, with the defaults for everything else.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            members: None,
            chunk: chunk(),
            consistency: journaled(),
            journal: journal(),
            segment: segment(),
            spare: spare(),
            gc: Gc::default(),
            cleaner: Cleaner::default(),
            buffers: buffers(),
            scheme: SchemeName::default(),
            extra_reads: None,
            checkpoint: checkpoint(),
        }
    }

    /// SSDs of each group.
    ///
    /// # Errors
    /// If the number is not given.
    pub fn members(&self) -> Result<u8, LogError> {
        self.layout.members.or(self.members).ok_or(LogError::Members(self.layout))
    }

    /// The total number of SSDs.
    ///
    /// # Errors
    /// If the number is not given.
    pub fn ssds(&self) -> Result<usize, LogError> {
        Ok(usize::from(self.members()?) * usize::from(self.layout.groups))
    }

    /// A size in blocks.
    pub(super) fn blocks(size: Bytes, most: u64, name: &'static str) -> Result<u32, LogError> {
        let block = BLOCK_BYTES as u64;
        let whole = size.0.is_multiple_of(block) && size.0 > 0 && size.0 <= most;
        whole.then_some((size.0 / block) as u32).ok_or(LogError::Size(name))
    }

    /// The volume's configuration, for this queue depth.
    pub(super) fn config(&self, depth: u16) -> Config {
        Config {
            tags: depth,
            buffers: self.buffers,
            choice: match self.cleaner {
                Cleaner::Greedy => Choice::Greedy,
                Cleaner::CostBenefit => Choice::CostBenefit,
            },
            cleaning: match self.gc {
                Gc::Blocking => Cleaning::Blocking,
                Gc::Paced => Cleaning::Paced,
            },
            checkpoint: (self.checkpoint.0 / BLOCK_BYTES as u64).max(1),
            ..Config::default()
        }
    }
}
