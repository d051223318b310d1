//! Finds an array's members: by its name, and those that the given ones lack.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use raidcore::meta::{ArrayId, ArrayRecord, AssembleOptions, SlotState, Superblock};

use super::{AttachError, examine, identity, preview};
use crate::members::Identity;
use crate::paths::shown;

/// The array that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its identity, if that is known: no other is taken.
    pub uuid: Option<&'a str>,
    /// The identity of the array that last ran under the name; it is preferred.
    pub last: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// The array of this name, whichever it is.
    #[must_use]
    pub fn named(name: &'a str) -> Self {
        Self { name, uuid: None, last: None }
    }
}

/// The devices that are to make an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Their paths.
    pub paths: Vec<PathBuf>,
    /// What was not taken.
    pub left_out: Vec<LeftOut>,
}

/// A device that was not taken for a member, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeftOut {
    /// It was given twice.
    Again {
        /// The second time.
        path: PathBuf,
        /// The first time.
        first: PathBuf,
    },
    /// Another device has the same identity, and is newer or was there before.
    Copy {
        /// The device.
        path: PathBuf,
        /// The other one.
        taken: PathBuf,
    },
    /// It belongs to another array of the same name.
    Namesake {
        /// The device.
        path: PathBuf,
        /// Its array.
        array: ArrayId,
        /// The array that was taken.
        taken: ArrayId,
    },
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again { path, first } => {
                write!(f, "{} is the same device as {}", shown(path), shown(first))
            }
            Self::Copy { path, taken } => write!(
                f,
                "{} is left out: it is a copy of {}, and not the one that the array has written last",
                shown(path),
                shown(taken)
            ),
            Self::Namesake { path, array, taken } => write!(
                f,
                "{} is left out: it belongs to another array of this name, {array}; this is {taken} \
                 (--uuid chooses)",
                shown(path)
            ),
        }
    }
}

/// Finds the members of an array in `places`, which are directories, files or block devices. All
/// files and block devices of a directory are looked at, except those of ublk. Devices that can't
/// be opened or read are skipped. If there are several arrays of the name, the wanted one or the
/// last one is taken, else the only complete one, else the only one with enough members.
///
/// # Errors
/// If there is none, if there are several and none is preferred, or if a directory can't be listed.
pub fn find(wanted: &Wanted<'_>, places: &[PathBuf]) -> Result<Found, AttachError> {
    let mut arrays = members_in(places, |record| {
        let other = wanted.uuid.is_some_and(|uuid| identity(record).to_string() != uuid);
        record.name == wanted.name && !other
    })?;
    let (taken, paths) = choose(wanted, &mut arrays).map_err(|error| match error {
        Undecided::Nothing => {
            let places: Vec<String> = places.iter().map(|p| shown(p).to_string()).collect();
            AttachError::NotFound { name: wanted.name.to_owned(), places: places.join(", ") }
        }
        Undecided::Between(first, second) => {
            AttachError::Ambiguous { name: wanted.name.to_owned(), first, second }
        }
    })?;
    let others = arrays.into_iter().flat_map(|(array, paths)| {
        paths.into_iter().map(move |path| LeftOut::Namesake { path, array, taken })
    });
    Ok(Found { paths, left_out: others.collect() })
}

/// An array whose members were found.
#[derive(Debug)]
pub struct Scanned {
    /// Its identity.
    pub array: ArrayId,
    /// Its name.
    pub name: String,
    /// Where its members, and spares, are.
    pub paths: Vec<PathBuf>,
    /// The records of the array, or of a log volume's groups, with which it would start; or why it would
    /// not.
    pub records: Result<Vec<ArrayRecord>, AttachError>,
    /// Whether it would start only without members that should be there.
    pub degraded: bool,
}

/// Finds all arrays whose members are in `places`, as [`find`] does, by their names. Those that run are
/// among them.
///
/// # Errors
/// If a directory can't be listed.
pub fn scan(places: &[PathBuf]) -> Result<Vec<Scanned>, AttachError> {
    let scanned = members_in(places, |_| true)?.into_iter().filter_map(|(array, paths)| {
        let superblock = examine(paths.first()?).ok()?.superblock.ok()?;
        let start = |degraded| preview(&paths, AssembleOptions { degraded, force: false });
        let whole = start(false);
        let degraded = whole.is_err();
        let attached = whole.or_else(|_| start(true));
        let records = attached.map(|attached| {
            attached.groups.into_iter().map(|group| group.assembled.record).collect()
        });
        let degraded = degraded && records.is_ok();
        Some(Scanned { array, name: superblock.record.name, paths, records, degraded })
    });
    let mut scanned: Vec<Scanned> = scanned.collect();
    scanned.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(scanned)
}

/// The devices in `places` that are members of arrays whose records are wanted, by their arrays.
fn members_in(
    places: &[PathBuf],
    wanted: impl Fn(&ArrayRecord) -> bool,
) -> Result<Vec<(ArrayId, Vec<PathBuf>)>, AttachError> {
    let mut arrays: Vec<(ArrayId, Vec<PathBuf>)> = Vec::new();
    for path in distinct(candidates(places)?).paths {
        let Some(superblock) = examine(&path).ok().and_then(|found| found.superblock.ok()) else {
            continue;
        };
        if !wanted(&superblock.record) {
            continue;
        }
        let array = identity(&superblock.record);
        match arrays.iter_mut().find(|(known, _)| *known == array) {
            Some((_, paths)) => paths.push(path),
            None => arrays.push((array, vec![path])),
        }
    }
    Ok(arrays)
}

/// Why no array can be taken.
enum Undecided {
    Nothing,
    Between(ArrayId, ArrayId),
}

/// Takes the preferred one of several arrays out of the list.
fn choose(
    wanted: &Wanted<'_>,
    arrays: &mut Vec<(ArrayId, Vec<PathBuf>)>,
) -> Result<(ArrayId, Vec<PathBuf>), Undecided> {
    if arrays.len() < 2 {
        return arrays.pop().ok_or(Undecided::Nothing);
    }
    let is_last =
        |(array, _): &(ArrayId, _)| wanted.last.is_some_and(|last| array.to_string() == last);
    if let Some(at) = arrays.iter().position(is_last) {
        return Ok(arrays.swap_remove(at));
    }
    let could_start = |paths: &[PathBuf], degraded| {
        preview(paths, AssembleOptions { degraded, force: false }).is_ok()
    };
    let rank = |(_, paths): &(ArrayId, Vec<PathBuf>)| {
        u8::from(could_start(paths, false)) + u8::from(could_start(paths, true))
    };
    let ranks: Vec<u8> = arrays.iter().map(rank).collect();
    let best = ranks.iter().max().copied().unwrap_or(0);
    let mut at = (0..arrays.len()).filter(|&at| ranks[at] == best);
    match (at.next(), at.next()) {
        (Some(first), Some(second)) => Err(Undecided::Between(arrays[first].0, arrays[second].0)),
        (Some(only), None) => Ok(arrays.swap_remove(only)),
        (None, _) => Err(Undecided::Nothing),
    }
}

/// Leaves out paths to devices that are there already.
pub(super) fn distinct(paths: Vec<PathBuf>) -> Found {
    let mut known: Vec<(Identity, PathBuf)> = Vec::new();
    let mut found = Found { paths: Vec::new(), left_out: Vec::new() };
    for path in paths {
        // Opening a missing device reports the error.
        let Ok(identity) = Identity::of_path(&path) else {
            found.paths.push(path);
            continue;
        };
        match known.iter().find(|(other, _)| *other == identity) {
            Some((_, first)) => {
                found.left_out.push(LeftOut::Again { path, first: first.clone() });
            }
            None => {
                known.push((identity, path.clone()));
                found.paths.push(path);
            }
        }
    }
    found
}

/// Adds to an array's members those in service, and spares, that are missing and are among
/// `others`, the last known devices of the array.
pub(crate) fn complete(paths: &mut Vec<PathBuf>, others: impl FnOnce(&str) -> Vec<PathBuf>) {
    let look = |path: &PathBuf| examine(path).ok()?.superblock.ok();
    let given: Vec<Superblock> = paths.iter().filter_map(look).collect();
    let Some(first) = given.first() else { return };
    let array = identity(&first.record);
    let others = others(&first.record.name);
    let others = others.into_iter().filter_map(|path| Some((look(&path)?, path)));
    let others = others.filter(|(superblock, _)| identity(&superblock.record) == array);
    let others: Vec<(Superblock, PathBuf)> = others.collect();
    let all = || given.iter().chain(others.iter().map(|(superblock, _)| superblock));
    let mut there: HashSet<_> = given.iter().map(|superblock| superblock.device).collect();
    for (superblock, path) in &others {
        let of_its_group = all().map(|s| &s.record).filter(|r| r.array == superblock.record.array);
        let newest = of_its_group.max_by_key(|record| record.events);
        if newest.is_some_and(|newest| uses(newest, superblock)) && there.insert(superblock.device)
        {
            paths.push(path.clone());
        }
    }
}

/// Whether a record lists a device as a member in service or as a spare.
fn uses(record: &ArrayRecord, superblock: &Superblock) -> bool {
    let device = superblock.device;
    let mut slots = record.slots.iter();
    let in_service = slots.any(|slot| slot.device == device && slot.state != SlotState::Failed);
    in_service || record.spares.contains(&device)
}

fn candidates(places: &[PathBuf]) -> Result<Vec<PathBuf>, AttachError> {
    let mut paths = Vec::new();
    for place in places {
        if !place.is_dir() {
            paths.push(place.clone());
            continue;
        }
        let scan = |source| AttachError::Scan { path: place.clone(), source };
        for entry in std::fs::read_dir(place).map_err(scan)? {
            let entry = entry.map_err(scan)?;
            let path = entry.path();
            if !path.is_dir() && !is_served(&entry.file_name()) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Whether it is named like a device of the ublk driver. Such a device whose server has died,
/// perhaps that of this very array, can't be read until it is served again.
fn is_served(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"ublkb")
}
