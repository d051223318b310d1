//! Creates an array out of files and block devices.
//!
//! Invariants:
//! - No device changes before every check has passed.
//! - First, old content is made unrecognisable. Then the maps are written. Only when all that is
//!   durable on every member are the superblocks written, in two rounds of two copies. So a crash
//!   leaves either no array or a complete one (at worst without members that can be added again): a
//!   device with a quorum of superblocks has everything else.
//! - The array starts without a resync only if every member's data area is known to read as zeros,
//!   whose parity is zeros.

mod ages;
mod elsewhere;
mod log;
mod problem;
mod staging;
mod write;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use raidcore::geometry::{Geometry, Level, Placement};
use raidcore::meta::{
    ArrayId, ArrayRecord, Consistency, DeviceUuid, JOURNAL_BLOCKS, LayoutError, NewArray, Policy,
    PolicyName, Term,
};
use raidcore::units::BLOCK_BYTES;
use steering::scheme::{SCHEMES, Scheme};

use crate::flash::{Named, NewFlash, state_path};
use crate::health::Readings;
use crate::members::{Device, OpenError, OpenOptions};
use crate::paths::{shown, sync_directory};
use crate::policy::{Able, PolicyError};
use crate::random::random_uuid;
use crate::signature::{Signature, has_blkid};
pub use log::{CreatedLog, LogConfig, VOLUME_MEMBERS_MAX, create_log};
pub use problem::{CreateError, CreateNote};
pub use staging::{StagingError, StagingSize};
use staging::{check_places, device_ring};
use write::{needs_resync, write};
pub(crate) use write::{prepare_return, prepare_spare, write_blocks};

/// The longest name of an array, in bytes: what the superblock has room for.
const NAME_MAX: usize = 63;

/// The default chunk in blocks: 64 KiB, which most random requests don't exceed.
pub const DEFAULT_CHUNK: u32 = 16;

/// The parameters of a new array.
#[derive(Clone, Debug)]
pub struct CreateConfig {
    /// The array's name: 1 to 63 of `A-Z a-z 0-9 _ . -`, beginning with a letter or digit.
    pub name: String,
    /// The level.
    pub level: Level,
    /// Where the chunks of a stripe lie.
    pub placement: Placement,
    /// Whether parity is shared by how worn the members are instead, so that they wear out one after the other.
    pub by_age: bool,
    /// The chunk in blocks: a power of two from 1 to 256.
    pub chunk: u32,
    /// The members, in order; as modelled SSDs if they are called so ([`Named`]).
    pub paths: Vec<PathBuf>,
    /// What survives an unclean stop.
    pub consistency: Consistency,
    /// The staging log's part of each member, if there is to be a log. With staging devices there is
    /// one anyway.
    pub staging: Option<StagingSize>,
    /// The staging devices, in order; as modelled SSDs if they are called so.
    pub staging_devices: Vec<PathBuf>,
    /// Whether all members set aside room for the content of one member, so that it can fail and be
    /// rebuilt without a spare.
    pub distributed_spare: bool,
    /// The term of the lease by which hosts agree who runs it, if it is to have one.
    pub lease: Option<Term>,
    /// The policy against garbage collection.
    pub policy: Scheme,
    /// How much of each member to use at most, in blocks; all of the smallest if not given. What is not used is
    /// discarded.
    pub member_blocks: Option<u64>,
    /// Over-provisioning: how many of a thousand blocks of that are not used either, and are spare room for the
    /// members' own garbage collection.
    pub spare: u32,
    /// Make members that do not exist, as sparse files of so many blocks.
    pub file_blocks: Option<u64>,
    /// Overwrite what the members carry.
    pub force: bool,
    /// Reserve the space of members that are files, so that they can't run out of it later.
    pub preallocate: bool,
}

impl CreateConfig {
    /// An array with the default chunk and a journal.
    #[must_use]
    pub fn new(name: impl Into<String>, level: Level, paths: Vec<PathBuf>) -> Self {
        Self {
            name: name.into(),
            level,
            placement: Placement::of(level),
            by_age: false,
            chunk: DEFAULT_CHUNK,
            paths,
            consistency: Consistency::Journal,
            staging: None,
            staging_devices: Vec::new(),
            distributed_spare: false,
            lease: None,
            policy: SCHEMES[0],
            member_blocks: None,
            spare: 0,
            file_blocks: None,
            force: false,
            preallocate: false,
        }
    }

    /// The staging log's part of each member. What needs one has it also if none is asked for.
    fn staging_size(&self) -> Option<StagingSize> {
        let needs = self.policy.needs_staging() && self.staging_devices.is_empty();
        self.staging.or(needs.then_some(StagingSize::Usual))
    }
}

/// An array that was created.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its record in the superblocks.
    pub record: ArrayRecord,
    /// Whether its first start begins with a resync.
    pub needs_resync: bool,
    /// What the operator should know.
    pub notes: Vec<CreateNote>,
}

/// Creates an array.
///
/// # Errors
/// If it can't be, see [`CreateError`].
pub fn create(config: &CreateConfig) -> Result<Created, CreateError> {
    let members = config.paths.len();
    Geometry::new(config.level, members, config.chunk, 1)
        .and_then(|geometry| geometry.placed(config.placement))
        .map_err(LayoutError::from)?;
    if config.by_age {
        ages::check(config.level, members)?;
    }
    let plan = |config: &CreateConfig, sizes| {
        let mut record = record(config, sizes)?;
        record.set_lease(config.lease)?;
        Ok((vec![record], ()))
    };
    let (Made { mut records, needs_resync, notes }, ()) = make(config, plan)?;
    let record = records.swap_remove(0);
    Ok(Created { record, needs_resync, notes })
}

/// Usable sizes of devices, in blocks.
#[derive(Clone, Copy)]
struct Sizes {
    /// Of each member.
    member: u64,
    /// The smallest staging device's.
    staging_device: u64,
}

/// The arrays that were created.
struct Made {
    records: Vec<ArrayRecord>,
    needs_resync: bool,
    notes: Vec<CreateNote>,
}

/// Creates the arrays of `plan`, which all have the same number of members, and the staging
/// devices. Returns also the rest of the plan.
fn make<T>(
    config: &CreateConfig,
    plan: impl FnOnce(&CreateConfig, Sizes) -> Result<(Vec<ArrayRecord>, T), CreateError>,
) -> Result<(Made, T), CreateError> {
    let all = config.paths.iter().chain(&config.staging_devices);
    let named: Vec<Named> =
        all.map(|path| Named::parse(path)).collect::<Result<_, _>>().map_err(OpenError::from)?;
    let all: Vec<PathBuf> = named.iter().map(|named| named.path.clone()).collect();
    let (paths, staging_devices) = all.split_at(config.paths.len());
    let (paths, staging_devices) = (paths.to_vec(), staging_devices.to_vec());
    let config = &mut CreateConfig { paths, staging_devices, ..config.clone() };
    check_name(&config.name)?;
    let (missing, there): (Vec<&PathBuf>, Vec<&PathBuf>) =
        all.iter().partition(|path| !path.exists());
    if let (Some(path), None) = (missing.first(), config.file_blocks) {
        let path = (*path).clone();
        return Err(CreateError::Missing { path });
    }
    check_distinct(&all)?;
    let opened = there.iter().map(open);
    let mut opened: Vec<Device> = opened.collect::<Result<_, _>>()?;
    let mut notes = Vec::new();
    if !has_blkid() {
        notes.push(CreateNote::NoBlkid);
    }
    check_content(config, &opened, &mut notes)?;
    check_flash(config, &opened, &named)?;
    check_policy(config, &opened, &named)?;
    let sizes = Sizes {
        member: used_blocks(config, &opened, &mut notes)?,
        staging_device: staging_device_blocks(config, &opened),
    };
    if config.by_age {
        let (placement, note) = ages::placement(config, &opened, &named, &Readings::default())?;
        notes.push(note);
        config.placement = placement;
    }
    let (records, planned) = plan(config, sizes)?;

    let mut files = NewFiles::make(&missing, config.file_blocks.unwrap_or(0))?;
    let mut devices = Vec::with_capacity(all.len());
    for Named { path, flash } in &named {
        let at = opened.iter().position(|device| device.path() == path);
        let mut device = match at {
            Some(at) => opened.swap_remove(at),
            None => open(path)?,
        };
        if let Some(flash) = flash.as_ref().filter(|_| device.flash_profile().is_none()) {
            files.paths.push(state_path(path));
            device.make_flash(flash).map_err(OpenError::from)?;
        }
        devices.push(device);
    }
    notes.extend(devices.iter().flat_map(|device| {
        let small = |note| CreateNote::SmallFlash { path: device.path().to_path_buf(), note };
        device.flash_notes().map(small)
    }));
    let mut needs = false;
    let mut rest = &devices[..];
    let mut paths = config.paths.iter();
    for record in &records {
        let (own, others) = rest.split_at(record.slots.len());
        rest = others;
        let zeroed = write(record, own, config.preallocate)?;
        needs |= needs_resync(record, &zeroed);
        let members = paths.by_ref().take(record.geometry.members());
        notes.extend(zeroed.iter().zip(members).filter_map(|(zeroed, path)| {
            let needed = !zeroed && record.geometry.redundancy() > 0;
            needed.then(|| CreateNote::NotZeroed { path: path.clone() })
        }));
    }
    files.keep();
    Ok((Made { records, needs_resync: needs, notes }, planned))
}

/// Checks that an array of these devices can follow the policy.
fn check_policy(
    config: &CreateConfig,
    opened: &[Device],
    named: &[Named],
) -> Result<(), PolicyError> {
    let modelled = named.iter().filter_map(|named| named.flash.as_ref()).any(NewFlash::obeys)
        || opened.iter().any(Device::flash_obeys);
    // Drives are asked only if it matters.
    let asks = !modelled && config.policy.needs_orders();
    let able = Able {
        in_log: false,
        stages: config.staging_size().is_some() || !config.staging_devices.is_empty(),
        takes_turns: modelled || asks && opened.iter().any(Device::could_have_windows),
    };
    able.check(config.policy)
}

/// The time in seconds since 1970.
#[must_use]
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn open(path: impl AsRef<Path>) -> Result<Device, OpenError> {
    Device::open(path, OpenOptions::default())
}

/// Checks that `name` can be an array's name.
///
/// # Errors
/// [`CreateError::Name`] if it can't.
pub fn check_name(name: &str) -> Result<(), CreateError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if first && name.len() <= NAME_MAX && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(CreateError::Name(name.to_owned()))
    }
}

/// Checks that no device is given twice, even by different paths. A file that does not exist yet is
/// compared by its directory.
fn check_distinct(paths: &[PathBuf]) -> Result<(), CreateError> {
    let canonical = |path: &PathBuf| {
        let whole = path.canonicalize();
        whole.unwrap_or_else(|_| match (path.parent(), path.file_name()) {
            (Some(dir), Some(name)) => {
                let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
                dir.canonicalize().unwrap_or_else(|_| dir.into()).join(name)
            }
            _ => path.clone(),
        })
    };
    let names: Vec<PathBuf> = paths.iter().map(canonical).collect();
    for (at, name) in names.iter().enumerate() {
        if let Some(other) = names[..at].iter().position(|other| other == name) {
            return Err(CreateError::Duplicate {
                first: paths[other].clone(),
                second: paths[at].clone(),
            });
        }
    }
    Ok(())
}

fn check_content(
    config: &CreateConfig,
    devices: &[Device],
    notes: &mut Vec<CreateNote>,
) -> Result<(), CreateError> {
    if config.force {
        elsewhere::check(devices)?;
    }
    for device in devices {
        let path = device.path().to_path_buf();
        let found = match config.force {
            true => Signature::find(device),
            false => Signature::find_any(device, || Ok(())),
        };
        match found {
            Ok(None) => {}
            Ok(Some(signature)) if config.force => {
                notes.push(CreateNote::Overwritten { path, signature });
            }
            Ok(Some(signature)) => return Err(CreateError::Occupied { path, signature }),
            Err(source) => return Err(CreateError::Unreadable { path, source }),
        }
    }
    Ok(())
}

/// Checks that all devices can be modelled as the SSDs that they are given as.
fn check_flash(
    config: &CreateConfig,
    devices: &[Device],
    named: &[Named],
) -> Result<(), CreateError> {
    if config.lease.is_some() {
        let modelled = |named: &&Named| {
            let there = devices.iter().find(|device| device.path() == named.path);
            named.flash.is_some() || there.is_some_and(|device| device.flash_profile().is_some())
        };
        if let Some(Named { path, .. }) = named.iter().find(modelled) {
            return Err(CreateError::LeaseOnFlash { path: path.clone() });
        }
    }
    for Named { path, flash } in named {
        let Some(flash) = flash else { continue };
        let checked = match devices.iter().find(|device| device.path() == path) {
            Some(device) => device.check_flash(flash).map(drop),
            None => flash.check_size(path, config.file_blocks.unwrap_or(0) * BLOCK_BYTES as u64),
        };
        checked.map_err(OpenError::from)?;
    }
    Ok(())
}

/// The size of a device in blocks, or the one that it will be created with.
fn size_of(path: &Path, config: &CreateConfig, devices: &[Device]) -> u64 {
    let device = devices.iter().find(|device| device.path() == path);
    device.map(Device::blocks).or(config.file_blocks).unwrap_or(0)
}

/// How many blocks the smallest staging device has.
fn staging_device_blocks(config: &CreateConfig, devices: &[Device]) -> u64 {
    let sizes = config.staging_devices.iter().map(|path| size_of(path, config, devices));
    sizes.min().unwrap_or(0)
}

/// How many blocks of each member are used.
fn used_blocks(
    config: &CreateConfig,
    devices: &[Device],
    notes: &mut Vec<CreateNote>,
) -> Result<u64, CreateError> {
    let sizes = config.paths.iter().map(|path| (path, size_of(path, config, devices)));
    let sizes: Vec<(&PathBuf, u64)> = sizes.collect();
    let smallest = sizes.iter().min_by_key(|(_, blocks)| *blocks);
    let (path, smallest) = smallest.map_or((PathBuf::new(), 0), |(p, b)| ((*p).clone(), *b));
    if let Some(wanted) = config.member_blocks.filter(|&wanted| wanted > smallest) {
        return Err(CreateError::TooSmall { path, have: smallest, wanted });
    }
    let used = config.member_blocks.unwrap_or(smallest);
    let spare = u128::from(used) * u128::from(config.spare.min(1000)) / 1000;
    let unused: u64 = sizes.iter().map(|(_, blocks)| blocks - smallest).sum();
    if unused > 0 && config.member_blocks.is_none() {
        notes.push(CreateNote::SmallestRules { path, blocks: smallest, unused });
    }
    Ok(used - spare as u64)
}

/// The record of an array of all members and staging devices.
fn record(config: &CreateConfig, sizes: Sizes) -> Result<ArrayRecord, CreateError> {
    let uuid = || random_uuid().map_err(CreateError::Random);
    let uuids = |paths: &[PathBuf]| {
        let uuids = paths.iter().map(|_| Ok(DeviceUuid(uuid()?)));
        uuids.collect::<Result<Vec<_>, CreateError>>()
    };
    let members = config.paths.len();
    let mut new = NewArray {
        array: ArrayId(uuid()?),
        name: config.name.clone(),
        created: wall_clock(),
        level: config.level,
        placement: config.placement,
        chunk: config.chunk,
        consistency: config.consistency,
        devices: uuids(&config.paths)?,
        journal_blocks: JOURNAL_BLOCKS,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: config.distributed_spare,
        member_blocks: vec![sizes.member; members],
    };
    let devices = config.staging_devices.len();
    let mut size = config.staging_size();
    if devices > 0 {
        check_places(members, devices)?;
        // The members' other areas before the log take up more space if there is no log.
        let (start, _) = new.clone().record()?.areas.staging();
        let ring = device_ring(sizes.staging_device, start)?;
        size = size.or(Some(StagingSize::beside(devices, ring, config.level, members)));
        new.staging_device_blocks = ring;
        new.staging_devices = uuids(&config.staging_devices)?;
    }
    if let Some(size) = size {
        new.staging_blocks = size.blocks(config.level, members, sizes.member)?;
    }
    let mut record = new.record()?;
    record.policy = Some(Policy { name: policy_name(config.policy), since: record.created });
    Ok(record)
}

/// The record of a policy.
pub(crate) fn policy_name(scheme: Scheme) -> PolicyName {
    PolicyName::new(&scheme.to_string()).expect("the names of policies are short and printable")
}

/// Files that were made for the array; removed again if it fails.
struct NewFiles {
    paths: Vec<PathBuf>,
}

impl NewFiles {
    fn make(paths: &[&PathBuf], blocks: u64) -> Result<Self, CreateError> {
        let mut made = Self { paths: Vec::new() };
        for path in paths {
            let mut make = || {
                let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
                made.paths.push((*path).clone());
                file.set_len(blocks * BLOCK_BYTES as u64)?;
                file.sync_all()?;
                sync_directory(path)
            };
            make().map_err(|source| CreateError::Io { path: (*path).clone(), source })?;
        }
        Ok(made)
    }

    fn keep(mut self) {
        self.paths.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for path in &self.paths {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(path = %shown(path), %error, "could not remove");
            }
        }
    }
}
