//! Finding the members of an array by its name.

use std::ffi::OsStr;
use std::path::PathBuf;

use raidcore::meta::Superblock;

use super::{AttachError, examine, identity};

/// Finds the members of the array called `name` in `places`: directories, of which all files and
/// block devices but those of ublk are looked at, or such themselves. What can't be opened or read
/// is passed over.
///
/// # Errors
/// If there is none, or members of two arrays of that name, or a directory can't be listed.
pub fn find(name: &str, places: &[PathBuf]) -> Result<Vec<PathBuf>, AttachError> {
    let mut found: Vec<(PathBuf, Superblock)> = Vec::new();
    for path in candidates(places)? {
        let Ok(examined) = examine(&path) else {
            continue;
        };
        match examined.superblock {
            Ok(superblock) if superblock.record.name == name => found.push((path, superblock)),
            Ok(_) | Err(_) => {}
        }
    }
    let list = || {
        let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        places.join(", ")
    };
    let Some(first) = found.first().map(|(_, superblock)| identity(&superblock.record)) else {
        return Err(AttachError::NotFound { name: name.to_owned(), places: list() });
    };
    if let Some((_, other)) = found.iter().find(|(_, s)| identity(&s.record) != first) {
        return Err(AttachError::Ambiguous {
            name: name.to_owned(),
            first,
            second: identity(&other.record),
        });
    }
    Ok(found.into_iter().map(|(path, _)| path).collect())
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

/// Whether it is called like a device of the ublk driver: one that its server has left by dying,
/// maybe this very array, can't be read before it is served again.
fn is_served(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"ublkb")
}
