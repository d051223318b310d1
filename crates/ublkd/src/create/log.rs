//! Creates a log volume: the arrays of its groups, and the volume on them.
//!
//! Invariant: the superblocks name the volume before it exists. A crash in between leaves groups
//! without a volume of that name, and a start says so. An older volume on the same devices has
//! another name.

use std::path::PathBuf;

use raidcore::geometry::Geometry;
use raidcore::meta::{
    ArrayRecord, AssembleOptions, Consistency, LayoutError, VolumePart, VolumeUuid,
};
use raidlog::{Layout, Shape, Wish};
use steering::scheme::{SCHEMES, Scheme};

use super::{CreateConfig, CreateError, CreateNote, DEFAULT_CHUNK, Made, Sizes, make, record};
use crate::attach::attach;
use crate::host::{Begin, Host, HostConfig};
use crate::policy::Able;
use crate::random::random_uuid;

/// The most members of a log volume: a process can serve that many, and some spares.
pub const VOLUME_MEMBERS_MAX: usize = 96;

/// The parameters of a new log volume.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The volume's name, as [`CreateConfig::name`].
    pub name: String,
    /// How many groups of how many members, and their level.
    pub layout: Layout,
    /// The chunk in blocks: a power of two from 1 to 256.
    pub chunk: u32,
    /// The members, the first group's first; as modelled SSDs if they are called so.
    pub paths: Vec<PathBuf>,
    /// What survives an unclean stop in each group below the log. A journal is not needed: writes
    /// that a crash tears were not acknowledged.
    pub consistency: Consistency,
    /// Blocks of a segment of the log at least; 0 is 1 MiB.
    pub segment: u32,
    /// Over-provisioning: how many of a thousand blocks of the log are not offered to users.
    pub spare: u32,
    /// The policy against garbage collection, in each group.
    pub policy: Scheme,
    /// As [`CreateConfig::member_blocks`].
    pub member_blocks: Option<u64>,
    /// As [`CreateConfig::file_blocks`].
    pub file_blocks: Option<u64>,
    /// As [`CreateConfig::force`].
    pub force: bool,
    /// As [`CreateConfig::preallocate`].
    pub preallocate: bool,
}

impl LogConfig {
    /// The default: segments of 1 MiB, a fifth of the log spare, a bitmap below.
    #[must_use]
    pub fn new(name: impl Into<String>, layout: Layout, paths: Vec<PathBuf>) -> Self {
        Self {
            name: name.into(),
            layout,
            chunk: DEFAULT_CHUNK,
            paths,
            consistency: Consistency::Bitmap,
            segment: 0,
            spare: 200,
            policy: SCHEMES[0],
            member_blocks: None,
            file_blocks: None,
            force: false,
            preallocate: false,
        }
    }

    /// Its members, as those of an array.
    fn array(&self) -> CreateConfig {
        CreateConfig {
            chunk: self.chunk,
            consistency: self.consistency,
            policy: self.policy,
            member_blocks: self.member_blocks,
            file_blocks: self.file_blocks,
            force: self.force,
            preallocate: self.preallocate,
            ..CreateConfig::new(&self.name, self.layout.level, self.paths.clone())
        }
    }

    /// How many members each group has.
    fn members(&self) -> Result<usize, CreateError> {
        let (have, groups) = (self.paths.len(), usize::from(self.layout.groups));
        let layout = self.layout;
        let wrong = |need| Err(CreateError::Members { layout, need, have });
        match self.layout.members {
            Some(each) if usize::from(each) * groups != have => {
                wrong((usize::from(each) * groups).to_string())
            }
            Some(_) | None if have > VOLUME_MEMBERS_MAX => {
                wrong(format!("at most {VOLUME_MEMBERS_MAX}"))
            }
            Some(each) => Ok(each.into()),
            None => Ok(have),
        }
    }
}

/// A log volume that was created.
#[derive(Clone, Debug)]
pub struct CreatedLog {
    /// The arrays of its groups, in order.
    pub records: Vec<ArrayRecord>,
    /// The layout of the volume.
    pub shape: Shape,
    /// Whether the first start begins with a resync.
    pub needs_resync: bool,
    /// What the operator should know.
    pub notes: Vec<CreateNote>,
}

/// Creates a log volume.
///
/// # Errors
/// If it can't be, see [`CreateError`].
pub fn create_log(config: &LogConfig) -> Result<CreatedLog, CreateError> {
    let members = config.members()?;
    // Whether members can take turns is checked with the members.
    Able { in_log: true, stages: false, takes_turns: true }.check(config.policy)?;
    Geometry::new(config.layout.level, members, config.chunk, 1).map_err(LayoutError::from)?;
    let plan = |array: &CreateConfig, sizes| plan(config, array, members, sizes);
    let (Made { records, needs_resync, notes }, shape) = make(&config.array(), plan)?;
    put_volume(config, shape).map_err(CreateError::Unfinished)?;
    Ok(CreatedLog { records, shape, needs_resync, notes })
}

/// The arrays of the groups, and the shape of the volume on them.
fn plan(
    config: &LogConfig,
    array: &CreateConfig,
    members: usize,
    sizes: Sizes,
) -> Result<(Vec<ArrayRecord>, Shape), CreateError> {
    let group =
        |paths: &[PathBuf]| record(&CreateConfig { paths: paths.to_vec(), ..array.clone() }, sizes);
    let records: Vec<_> = array.paths.chunks(members).map(group).collect::<Result<_, _>>()?;
    let geometry = records.first().map(|record| record.geometry);
    let shape = Shape::new(Wish {
        groups: records.len(),
        group_blocks: geometry.map_or(0, |geometry| geometry.capacity()),
        stripe: geometry.map_or(1, |geometry| geometry.stripe_blocks()),
        segment: config.segment,
        spare: config.spare,
    })?;
    let part = VolumePart {
        volume: VolumeUuid(random_uuid().map_err(CreateError::Random)?),
        group: 0,
        groups: records.len() as u8,
        segment: shape.segment_blocks(),
        blocks: shape.capacity(),
    };
    let numbered = (0u8..).zip(records);
    let records = numbered.map(|(group, record)| record.in_volume(VolumePart { group, ..part }));
    Ok((records.collect(), shape))
}

/// Creates an empty volume on the groups by starting and stopping it once.
fn put_volume(config: &LogConfig, shape: Shape) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let attached = attach(&config.paths, AssembleOptions::default()).map_err(|e| told(&e))?;
    let host = HostConfig { register_memory: false, ..HostConfig::default() };
    let begin = Begin::Create(shape);
    let (_volume, host) =
        Host::spawn_log(host, attached.groups, begin).map_err(|error| told(&error))?;
    host.stop().wait().map_err(|error| told(&error))
}
