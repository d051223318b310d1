//! `[log]`: what a log array is like.

use raidcore::meta::Consistency;
use raidcore::units::BLOCK_BYTES;
use raidlog::{Choice, Cleaning, Config, Layout};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steering::Source;

use super::array_spec::{ConsistencyName, SchemeName, SourceName, chunk, journal, journaled};
use super::log_error::LogError;
use crate::units::Bytes;

/// `[log]`: what the log array is like.
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
    /// How much of an SSD is written before the next one's turn.
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
    /// The part of the log that users do not have.
    #[serde(default = "spare")]
    pub spare: f64,
    /// When a `log-raid` cleans: `blocking` or `paced`.
    #[serde(default)]
    pub gc: Gc,
    /// Which segment is cleaned: `greedy` or `cost-benefit`.
    #[serde(default)]
    pub cleaner: Cleaner,
    /// Segments in memory for what users write.
    #[serde(default = "buffers")]
    pub buffers: u16,
    /// What is done about garbage collection, in each group: a name of
    /// [`steering::scheme::SCHEMES`] that stages no writes.
    #[serde(default)]
    pub scheme: SchemeName,
    /// How it is known which SSDs are busy: `told` by them, or `detected` from how long they take.
    #[serde(default, with = "SourceName")]
    pub signals: Source,
    /// The budget of reads that go around busy SSDs, as [`ArraySpec`](super::ArraySpec) has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_reads: Option<f64>,
    /// A checkpoint is written at least once for so much that users write.
    #[serde(default = "checkpoint")]
    pub checkpoint: Bytes,
}

/// When a `log-raid` cleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gc {
    /// Not before it must; users wait.
    Blocking,
    /// With what users write.
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
    /// The one that has most to gain for longest.
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
    /// A chunk, if nothing is said.
    pub const CHUNK: Bytes = chunk();

    /// A layout, and all else as it is if nothing is said.
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
            signals: Source::default(),
            extra_reads: None,
            checkpoint: checkpoint(),
        }
    }

    /// SSDs of each group.
    ///
    /// # Errors
    /// If nobody tells.
    pub fn members(&self) -> Result<u8, LogError> {
        self.layout.members.or(self.members).ok_or(LogError::Members(self.layout))
    }

    /// How many SSDs it takes.
    ///
    /// # Errors
    /// If nobody tells.
    pub fn ssds(&self) -> Result<usize, LogError> {
        Ok(usize::from(self.members()?) * usize::from(self.layout.groups))
    }

    /// Some part of it in blocks.
    pub(super) fn blocks(size: Bytes, most: u64, name: &'static str) -> Result<u32, LogError> {
        let block = BLOCK_BYTES as u64;
        let whole = size.0.is_multiple_of(block) && size.0 > 0 && size.0 <= most;
        whole.then_some((size.0 / block) as u32).ok_or(LogError::Size(name))
    }

    /// How the volume behaves, with so many requests at a time.
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
