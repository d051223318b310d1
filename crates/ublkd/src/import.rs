//! Arrays of Linux md become Evenkeel's where they lie: metadata goes into the room before md's data.
//!
//! Two steps. [`prepare`] writes all of Evenkeel's metadata beside md's superblock, which stays valid: the
//! devices are md's, and the prepared array can't be started. [`commit`] makes md's superblocks void, and
//! only then writes the record by which the array can be started. [`undo`] gives devices back to md as long
//! as that record is on none.
//!
//! Invariants:
//! - Data and parity are neither moved nor written.
//! - At no moment can md and Evenkeel both use the devices. After a crash either md has all of its
//!   superblocks; or a commit was begun, and both [`commit`] and [`undo`] go on from there; or the array can
//!   be started.
//! - No device changes before every check has passed for all of them.

mod array;
mod found;
mod md;
mod problem;
mod rounds;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use raidcore::meta::{
    ArrayId, ArrayRecord, Consistency, DeviceUuid, ImportedArray, MapKind, Policy,
};
use raidcore::units::Pba;
use steering::scheme::SCHEMES;

use crate::attach::open;
use crate::create::{check_name, policy_name, wall_clock};
use crate::members::{Device, OpenOptions};
use crate::random::random_uuid;
use array::Given;
pub use array::MdArray;
use found::Found;
pub use md::{MdError, MdSuperblock};
use problem::MdRefusal;
pub use problem::{ImportError, InTheWay, Unfit};
use rounds::carry_out;

/// What is to be imported, and as what.
#[derive(Clone, Debug)]
pub struct ImportConfig {
    /// The members, in any order.
    pub paths: Vec<PathBuf>,
    /// The array's name; md's if not given.
    pub name: Option<String>,
    /// What survives an unclean stop; a journal if not given.
    pub consistency: Option<Consistency>,
    /// Parity is believed to match the data everywhere, so that the first start makes no resync.
    pub assume_clean: bool,
}

/// How far an import is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Nothing was written.
    Planned,
    /// The array is prepared, and the devices are md's.
    Prepared,
    /// The devices are Evenkeel's.
    Committed,
}

/// An array that is imported, or would be.
#[derive(Clone, Debug)]
pub struct Import {
    /// Its record.
    pub record: ArrayRecord,
    /// The members' paths, in order.
    pub paths: Vec<PathBuf>,
    /// Whether its first start begins with a resync.
    pub needs_resync: bool,
    /// How far it is.
    pub stage: Stage,
}

/// Finds out whether devices can be imported, and as what. They are neither locked nor changed, and may be in
/// use by md.
///
/// # Errors
/// Why they can't be, see [`ImportError`].
pub fn plan(config: &ImportConfig) -> Result<Import, ImportError> {
    let look = OpenOptions { direct: true, read_only: true };
    let found = find(&config.paths, |path| Ok(Device::open(path, look)?))?;
    Ok(Plan::of(config, found)?.import(Stage::Planned))
}

/// Prepares an array on devices that stay md's, in place of one that was prepared before, if there is one.
///
/// # Errors
/// If devices can't be imported, see [`ImportError`], or written.
pub fn prepare(config: &ImportConfig) -> Result<Import, ImportError> {
    let plan = Plan::of(config, find(&config.paths, |path| Ok(open(path)?))?)?;
    plan.write()?;
    Ok(plan.import(Stage::Prepared))
}

/// Makes devices Evenkeel's. What is prepared on them counts if md has not changed its superblocks since;
/// otherwise they are prepared first.
///
/// # Errors
/// If devices can't be imported, see [`ImportError`], or written.
pub fn commit(config: &ImportConfig) -> Result<Import, ImportError> {
    let found = find(&config.paths, |path| Ok(open(path)?))?;
    let (record, found) = match prepared(found)? {
        Known::Prepared { record, found } => (*record, found),
        Known::Unprepared(found) => {
            let plan = Plan::of(config, found)?;
            plan.write()?;
            // Read again: what is committed is what is on the devices.
            let found = plan.found.into_iter().map(|found| Found::read(found.device));
            match prepared(found.collect::<Result<_, _>>()?)? {
                Known::Prepared { record, found } => (*record, found),
                Known::Unprepared(_) => return Err(ImportError::Unwritten),
            }
        }
    };
    let needs_resync = marked(&record, &found)?;
    let record = record.taken_over();
    carry_out(&rounds::commit(&record), &found)?;
    Ok(Import { record, paths: paths(&found), needs_resync, stage: Stage::Committed })
}

/// Gives devices back to md, as they were before they were prepared.
///
/// # Errors
/// If the array was committed, nothing is prepared, or a device can't be written; see [`ImportError`].
pub fn undo(paths: &[PathBuf]) -> Result<(), ImportError> {
    let found = find(paths, |path| Ok(open(path)?))?;
    let mut records = Vec::new();
    for found in &found {
        records.extend(found.prepared()?.map(|superblock| superblock.record));
    }
    for ArrayRecord { name, slots, .. } in records {
        let (members, given) = (slots.len(), found.len());
        if members != given {
            return Err(ImportError::Incomplete { name, members, given });
        }
    }
    carry_out(&rounds::undo(&found)?, &found)
}

/// What is known of devices.
enum Known {
    /// An array is prepared on all of them, in this order, or its commit was begun.
    Prepared { record: Box<ArrayRecord>, found: Vec<Found> },
    /// None is, or md was used since.
    Unprepared(Vec<Found>),
}

/// What is prepared on devices.
fn prepared(found: Vec<Found>) -> Result<Known, ImportError> {
    let superblocks = found.iter().map(Found::prepared).collect::<Result<Vec<_>, _>>()?;
    let is_intact = |found: &Found| found.md().is_ok();
    let is_former = |found: &Found| found.former() == Some(&*found.md);
    let begun = found.iter().find(|found| !is_intact(found) && found.former().is_some());
    let whole: Option<Vec<_>> = superblocks.into_iter().collect();
    let record = whole.as_ref().and_then(|whole| whole.first()).map(|first| first.record.clone());
    let (Some(record), Some(whole)) = (record, whole) else {
        return Ok(Known::Unprepared(found));
    };
    let is_of = |superblock: &raidcore::meta::Superblock| superblock.record == record;
    let place = |slot: DeviceUuid| whole.iter().position(|superblock| superblock.device == slot);
    let order: Option<Vec<usize>> = record.slots.iter().map(|slot| place(slot.device)).collect();
    let members = record.slots.len();
    let Some(order) = order.filter(|_| whole.iter().all(is_of) && found.len() == members) else {
        let given = found.len();
        let incomplete = ImportError::Incomplete { name: record.name, members, given };
        return if begun.is_some() { Err(incomplete) } else { Ok(Known::Unprepared(found)) };
    };
    if begun.is_some() {
        if let Some(used) = found.iter().find(|found| is_intact(found) && !is_former(found)) {
            return Err(ImportError::UsedSince { path: used.device.path().to_path_buf() });
        }
    } else if !found.iter().all(is_former) {
        return Ok(Known::Unprepared(found));
    }
    Ok(Known::Prepared { record: Box::new(record), found: reordered(found, &order) })
}

/// What would be written to devices, which are in the order of the members.
struct Plan {
    record: ArrayRecord,
    found: Vec<Found>,
    needs_resync: bool,
}

impl Plan {
    fn of(config: &ImportConfig, found: Vec<Found>) -> Result<Self, ImportError> {
        let mut before = None;
        for found in &found {
            let prepared = found.prepared()?;
            before = before.or(prepared.map(|superblock| superblock.record));
        }
        let superblocks = found.iter().map(Found::md).collect::<Result<Vec<_>, _>>()?;
        let given = superblocks
            .iter()
            .zip(&found)
            .map(|(superblock, found)| Given { superblock, blocks: found.device.blocks() });
        let given: Vec<_> = given.collect();
        let array = MdArray::of(&given).map_err(|refusal| match refusal {
            MdRefusal::Array(unfit) => ImportError::Array(unfit),
            MdRefusal::Device { index, unfit } => {
                ImportError::Device { path: found[index].device.path().to_path_buf(), unfit }
            }
        })?;
        let record = record(config, &array, before.as_ref())?;
        let zero_map = record.areas.map(MapKind::ZeroMap);
        let last = zero_map.pages().saturating_sub(1);
        let Pba(last) = record.areas.map_page(MapKind::ZeroMap, last, 1);
        for (found, superblock) in found.iter().zip(&superblocks) {
            found.check_room(superblock, Pba(last + 1))?;
        }
        let needs_resync = record.geometry.redundancy() > 0 && !config.assume_clean;
        Ok(Self { record, found: reordered(found, &array.order), needs_resync })
    }

    fn write(&self) -> Result<(), ImportError> {
        carry_out(&rounds::prepare(&self.record, &self.found, self.needs_resync), &self.found)
    }

    fn import(self, stage: Stage) -> Import {
        let Self { record, found, needs_resync } = self;
        Import { record, paths: paths(&found), needs_resync, stage }
    }
}

/// Whether a prepared array's first start begins with a resync.
fn marked(record: &ArrayRecord, found: &[Found]) -> Result<bool, ImportError> {
    let marks = record.new_maps(true).find(|_| record.geometry.redundancy() > 0);
    let (Some((at, marked)), Some(first)) = (marks, found.first()) else {
        return Ok(false);
    };
    Ok(*first.block(at)? == marked)
}

/// The record of an array of md, named as one that was prepared before if nothing else is asked for.
fn record(
    config: &ImportConfig,
    array: &MdArray,
    before: Option<&ArrayRecord>,
) -> Result<ArrayRecord, ImportError> {
    let uuid = || random_uuid().map_err(ImportError::Random);
    let name = config.name.clone().or_else(|| before.map(|before| before.name.clone()));
    let name = name.unwrap_or_else(|| array.name.clone());
    check_name(&name).map_err(|_| ImportError::Name(name.clone()))?;
    let consistency = config.consistency.or_else(|| before.map(|before| before.consistency));
    let devices = array.order.iter().map(|_| Ok(DeviceUuid(uuid()?)));
    let new = ImportedArray {
        array: ArrayId(uuid()?),
        name,
        created: wall_clock(),
        geometry: array.geometry,
        data_start: array.data_start,
        consistency: consistency.unwrap_or(Consistency::Journal),
        devices: devices.collect::<Result<_, ImportError>>()?,
    };
    let mut record = new.record().map_err(ImportError::Layout)?;
    record.policy = Some(Policy { name: policy_name(SCHEMES[0]), since: record.created });
    Ok(record)
}

/// Opens and reads devices.
fn find(
    paths: &[PathBuf],
    open: impl Fn(&PathBuf) -> Result<Device, ImportError>,
) -> Result<Vec<Found>, ImportError> {
    let mut found: Vec<Found> = Vec::with_capacity(paths.len());
    for path in paths {
        // Before it is opened, which would wait for it.
        let same =
            |other: &&Found| other.device.path().canonicalize().ok() == path.canonicalize().ok();
        if let Some(first) = found.iter().find(same) {
            let first = first.device.path().to_path_buf();
            return Err(ImportError::Duplicate { first, second: path.clone() });
        }
        found.push(Found::read(open(path)?)?);
    }
    Ok(found)
}

fn reordered(found: Vec<Found>, order: &[usize]) -> Vec<Found> {
    let mut found: Vec<Option<Found>> = found.into_iter().map(Some).collect();
    order.iter().filter_map(|&index| found.get_mut(index)?.take()).collect()
}

fn paths(found: &[Found]) -> Vec<PathBuf> {
    found.iter().map(|found| found.device.path().to_path_buf()).collect()
}
