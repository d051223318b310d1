//! The arrays that are compared.

use raidcore::geometry::{Geometry, GeometryError, Level};
use raidcore::meta::{Consistency, can_stage};
use raidcore::units::BLOCK_BYTES;
use raidlog::Layout;
use steering::hold::Cache;
use steering::scheme::Scheme;
use toml::Table;

use crate::point::Point;
use crate::run::RunSpec;
use crate::system::{ArraySpec, DriveSpec, LogSpec, SchemeName, Use};
use crate::units::Bytes;

/// Policies that are compared; those that the drives can't follow are left out.
const POLICIES: [&str; 5] = ["plain", "hedge", "reconstruct", "steering+reconstruct", "evenkeel"];

/// The cache that is compared with none: that of `evenkeel create --cache log`.
const CACHE: &str = "log";

/// How much of a log volume users don't get, in percent.
const OVER_PROVISIONING: [u32; 3] = [10, 20, 30];

/// Chunks that are tried of the best array, besides the default of 64 KiB.
const CHUNKS: [u64; 2] = [16 << 10, 256 << 10];

/// A staging log has a twentieth of each member, as `evenkeel create` makes it …
const STAGING_PART: u64 = 20;

/// … but at most 1 GiB.
const STAGING_MOST: u64 = 1 << 30;

/// How often the drives were overwritten before, in random pages.
const OVERWRITES: f64 = 2.0;

/// Requests that an array takes at a time.
const QUEUE_DEPTH: u16 = 256;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The drives. How they were used before is not taken from here: they are aged.
    pub ssd: DriveSpec,
    /// The size of a drive in bytes, as it is modelled.
    pub drive_bytes: u64,
    /// How many there are.
    pub members: u8,
    /// The level; as [`usual_level`] has it unless given.
    pub level: Option<Level>,
    /// The workload, as a table `[workload]`.
    pub workload: Table,
    /// Requests of each run of the second round. In the first one it is a third.
    pub requests: u64,
    /// How often each array is played in the second round.
    pub seeds: u32,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// There is no array of that level with so many members.
    #[error(transparent)]
    Shape(#[from] GeometryError),
    /// Nothing would be measured.
    #[error("at least 100 requests and one seed have to be played")]
    Nothing,
    /// The workload is invalid.
    #[error("{0}")]
    Workload(String),
}

/// An array that can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// A name for people: its shape, policy and cache.
    pub name: String,
    /// What `evenkeel create` is given for it, besides name and members.
    pub arguments: String,
    /// How it is played.
    pub point: Point,
}

/// The level that the guide recommends for so many drives: mirrors of two, one parity of up to six, two of
/// more.
#[must_use]
pub fn usual_level(members: u8) -> Level {
    match members {
        ..=2 => Level::Raid1,
        3..=6 => Level::Raid5,
        _ => Level::Raid6,
    }
}

impl Question {
    /// The level that is asked about.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level.unwrap_or_else(|| usual_level(self.members))
    }

    /// Checks it.
    ///
    /// # Errors
    /// What is impossible about it.
    pub fn check(&self) -> Result<(), QuestionError> {
        self.geometry()?;
        if self.requests < 100 || self.seeds == 0 {
            return Err(QuestionError::Nothing);
        }
        let point = self.point(None, None);
        point.workload().map(drop).map_err(QuestionError::Workload)
    }

    fn geometry(&self) -> Result<Geometry, GeometryError> {
        let chunk = (LogSpec::CHUNK.0 / BLOCK_BYTES as u64) as u32;
        Geometry::new(self.level(), self.members.into(), chunk, 1)
    }

    /// An array or a log volume of the drives under the workload, as in the second round.
    fn point(&self, array: Option<ArraySpec>, log: Option<LogSpec>) -> Point {
        Point {
            array,
            log,
            pdb: None,
            cached: None,
            ssd: DriveSpec { used: Use::Aged, overwrites: OVERWRITES, ..self.ssd.clone() },
            workload: self.workload.clone(),
            run: RunSpec {
                requests: Some(self.requests),
                seconds: None,
                warmup: self.requests / 10,
                queue_depth: QUEUE_DEPTH,
                seeds: self.seeds,
            },
        }
    }

    fn array(&self, scheme: Scheme, chunk: Bytes) -> Candidate {
        let level = self.level();
        let block = BLOCK_BYTES as u64;
        let part = (self.drive_bytes / STAGING_PART).min(STAGING_MOST) / block * block;
        let staging = if scheme.needs_staging() { part } else { 0 };
        let name = level.name();
        let mut arguments = format!("--level {name}");
        if chunk != LogSpec::CHUNK {
            arguments += &format!(" --chunk {}K", chunk.0 >> 10);
        }
        if !scheme.with(Cache::default()).is_plain() {
            arguments += &format!(" --policy {}", scheme.name);
        }
        if scheme.cache().takes() {
            arguments += &format!(" --cache {}", scheme.cache().name);
        }
        let spec = ArraySpec {
            level,
            members: self.members,
            chunk,
            consistency: Consistency::Journal,
            journal: LogSpec::new(log_raid(level)).journal,
            staging: Bytes(staging),
            // As a start has it.
            staging_memory: Some(Bytes(64 << 20)),
            own_headers: false,
            staging_ssds: 0,
            staging_ssd: None,
            scheme: SchemeName(scheme),
            extra_reads: None,
            rebuild: None,
            parity_shares: None,
            distributed_spare: false,
            over_provisioning: 0.0,
        };
        let of_chunk = if chunk == LogSpec::CHUNK {
            String::new()
        } else {
            format!(", chunk {}K", chunk.0 >> 10)
        };
        let name = format!("{name}, {scheme}{of_chunk}");
        Candidate { name, arguments, point: self.point(Some(spec), None) }
    }

    fn log(&self, percent: u32) -> Candidate {
        let layout = log_raid(self.level());
        let mut spec = LogSpec::new(layout);
        spec.members = Some(self.members);
        spec.spare = f64::from(percent) / 100.0;
        // As `evenkeel create` makes it.
        spec.consistency = Consistency::Bitmap;
        Candidate {
            name: format!("{layout}, {percent}% over-provisioned"),
            arguments: format!("--layout {layout} --over-provisioning {percent}%"),
            point: self.point(None, Some(spec)),
        }
    }
}

/// The arrays of the first round; the first is plain, with which all others are compared. `obeys` is whether
/// the drives take orders when to collect: without such drives, policies that are nothing without are left out.
#[must_use]
pub fn candidates(question: &Question, obeys: bool) -> Vec<Candidate> {
    let level = question.level();
    let stages = question.geometry().is_ok_and(|geometry| can_stage(&geometry));
    let cached = Cache::named(CACHE).unwrap_or_default();
    let follows = |scheme: &Scheme| {
        let redundant = level != Level::Raid0 || scheme.is_plain();
        redundant && (stages || !scheme.needs_staging()) && (obeys || !scheme.needs_orders())
    };
    let bare = POLICIES.iter().filter_map(|name| Scheme::named(name));
    let with_cache = bare.clone().filter(|scheme| scheme.is_plain() || scheme.needs_staging());
    let schemes = bare.chain(with_cache.map(|scheme| scheme.with(cached)));
    let arrays = schemes.filter(follows).map(|scheme| question.array(scheme, LogSpec::CHUNK));
    let logs = (!level.is_mirrored()).then_some(OVER_PROVISIONING);
    let logs = logs.into_iter().flatten().map(|percent| question.log(percent));
    arrays.chain(logs).collect()
}

/// The same array with other chunks; none of a log volume.
pub(super) fn with_other_chunks(question: &Question, of: &Candidate) -> Vec<Candidate> {
    let Some(array) = &of.point.array else { return Vec::new() };
    CHUNKS.map(|chunk| question.array(array.scheme.0, Bytes(chunk))).into()
}

fn log_raid(level: Level) -> Layout {
    Layout { level, groups: 1, members: None }
}
