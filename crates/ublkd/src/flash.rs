//! Files that behave like SSDs: `flash:PROFILE:PATH`, and the drive's state beside the file.
//!
//! The state of the drive behind `PATH` is in `PATH.flash`, as written by [`flashsim::Ssd::save`].
//! It is about timing only, and no data depends on it: without it the file is a plain one.
//!
//! Invariants:
//! - Only the process that has the file locked reads and writes its state.
//! - A crash at any moment leaves a complete state: the older one or the newer one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flashsim::profile::BUILTIN;
use flashsim::{Precondition, Profile, ProfileError, RestoreError, Ssd};

use crate::paths::{shown, sync_directory};
use crate::random::random_uuid;

/// The prefix of a modelled SSD's name.
const PREFIX: &str = "flash:";

/// The states that a new drive can be in, and what they are called.
const STATES: [(&str, Precondition); 3] = [
    ("fresh", Precondition::Fresh),
    ("filled", Precondition::Filled),
    ("aged", Precondition::Aged(2.0)),
];

/// A state larger than this part of the file's size is rejected: one for pages of 512 bytes takes 4
/// of these parts.
const SHARE_MAX: u64 = 64;

/// A state up to this size is accepted in any case.
const BYTES_MAX: u64 = 64 << 20;

/// Why a file can't be a modelled SSD.
#[derive(Debug, thiserror::Error)]
pub enum FlashError {
    /// Its name is malformed.
    #[error(
        "{0}: write it like flash:mqsim:PATH, with a profile's name or file, or like \
         flash:mqsim+aged:PATH with one of +fresh, +filled, +aged; +told makes it tell when it collects \
         garbage, +obeys take orders when to; the profiles are {names}",
        names = profile_names()
    )]
    Spelling(String),
    /// The profile can't be used.
    #[error("{path} can't be such an SSD: {source}", path = shown(.path))]
    Profile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ProfileError,
    },
    /// It is a block device.
    #[error("{path} is no file: only files can be modelled as SSDs", path = shown(.path))]
    NotAFile {
        /// The device.
        path: PathBuf,
    },
    /// Its state can't be read or written.
    #[error(
        "{path}: {source}; a modelled SSD has its state there, without which the file is not used",
        path = shown(.path)
    )]
    Io {
        /// The file with the state.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its state is invalid.
    #[error(
        "{path} can't be used: {source}; it only says how worn the modelled SSD is. Delete it to go \
         on with a plain file, or to start over with an SSD by giving the member as \
         flash:PROFILE:PATH",
        path = shown(.path)
    )]
    State {
        /// The file with the state.
        path: PathBuf,
        /// Why.
        source: StateError,
    },
    /// It is a drive of another profile already.
    #[error(
        "{path} holds the state of the profile {found:?}, which is not the one that was asked for, \
         {asked:?}; leave the profile away to go on with it, or delete it to start over",
        path = shown(.path)
    )]
    Other {
        /// The file with the state.
        path: PathBuf,
        /// The profile's name.
        found: String,
        /// The name of the one that was asked for.
        asked: String,
    },
}

/// Why a state can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The kernel refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no saved state.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// It is that of a smaller drive than there is.
    #[error("it is the state of a drive of {drive} bytes, the file has {file}")]
    TooSmall {
        /// The drive's size.
        drive: u64,
        /// The file's size.
        file: u64,
    },
    /// It is larger than that of any drive of this size.
    #[error("it is too large for the state of a drive of {file} bytes")]
    TooLarge {
        /// The file's size.
        file: u64,
    },
}

/// A device's name: a path, or `flash:PROFILE:PATH`, where the profile may be followed by `+STATE`, `+told` and
/// `+obeys`.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    /// Where it is.
    pub path: PathBuf,
    /// What drive it is to be modelled as, if that was said.
    pub flash: Option<NewFlash>,
}

/// A drive that was asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct NewFlash {
    /// A profile's name, or the path of its file.
    profile: String,
    state: Precondition,
    /// Whether it tells when it collects, and obeys orders about it, though its profile may not say so.
    told: bool,
    obeys: bool,
}

impl Named {
    /// Parses a name.
    ///
    /// # Errors
    /// If it begins like a modelled SSD's name and is malformed.
    pub fn parse(typed: &Path) -> Result<Self, FlashError> {
        let Some(rest) = typed.as_os_str().as_bytes().strip_prefix(PREFIX.as_bytes()) else {
            return Ok(Self { path: typed.to_path_buf(), flash: None });
        };
        let wrong = || FlashError::Spelling(shown(typed).to_string());
        let colon = rest.iter().position(|&b| b == b':').ok_or_else(wrong)?;
        let typed = str::from_utf8(&rest[..colon]).map_err(|_| wrong())?;
        let path = PathBuf::from(OsStr::from_bytes(&rest[colon + 1..]));
        let flash = NewFlash::parse(typed).ok_or_else(wrong)?;
        if flash.profile.is_empty() || path.as_os_str().is_empty() {
            return Err(wrong());
        }
        Ok(Self { path, flash: Some(flash) })
    }

    /// The name that means in any working directory what `typed` means in this one. A malformed
    /// name stays as it is.
    ///
    /// # Errors
    /// If there is no working directory.
    pub fn absolute(typed: &Path) -> io::Result<PathBuf> {
        let Ok(Self { path, flash }) = Self::parse(typed) else {
            return Ok(typed.to_path_buf());
        };
        let Some(flash) = flash else {
            return std::path::absolute(path);
        };
        let state = STATES.iter().find(|(_, state)| *state == flash.state);
        let switches = [("told", flash.told), ("obeys", flash.obeys)];
        let switches = switches.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name);
        let words = state.into_iter().map(|(name, _)| *name).chain(switches);
        let profile = match flash.file() {
            None => flash.profile.clone().into(),
            Some(file) => std::path::absolute(file)?.into_os_string(),
        };
        let mut name = PREFIX.as_bytes().to_vec();
        name.extend(profile.into_vec());
        name.extend(words.flat_map(|word| [b"+", word.as_bytes()].concat()));
        name.push(b':');
        name.extend(std::path::absolute(path)?.into_os_string().into_vec());
        Ok(std::ffi::OsString::from_vec(name).into())
    }
}

impl NewFlash {
    /// Parses a profile and the words behind it. A profile's path may have a `+`, too.
    fn parse(typed: &str) -> Option<Self> {
        let (mut profile, mut state, mut told, mut obeys) = (typed, None, false, false);
        while let Some((before, word)) = profile.rsplit_once('+') {
            match (word, STATES.iter().find(|(name, _)| *name == word)) {
                ("told", _) if !told => told = true,
                ("obeys", _) if !obeys => obeys = true,
                (_, Some((_, known))) if state.is_none() => state = Some(*known),
                _ if word.contains(['/', '.']) => break,
                _ => return None,
            }
            profile = before;
        }
        let state = state.unwrap_or(Precondition::Fresh);
        Some(Self { profile: profile.to_owned(), state, told, obeys })
    }

    /// Whether it takes orders when to collect garbage, as far as its name tells.
    pub(crate) fn obeys(&self) -> bool {
        self.load().is_ok_and(|profile| profile.obeys)
    }

    /// A new drive for the file at `path`, which has `bytes` bytes.
    ///
    /// # Errors
    /// If there can be none of that profile.
    pub(crate) fn drive(&self, path: &Path, bytes: u64) -> Result<Ssd, FlashError> {
        let profile = self.load().and_then(|profile| profile.covering(bytes));
        let drive = profile.and_then(|profile| Ssd::new(&profile, self.state, seed()));
        drive.map_err(|source| FlashError::Profile { path: path.to_path_buf(), source })
    }

    /// Checks that a drive of `bytes` bytes is possible.
    pub(crate) fn check_size(&self, path: &Path, bytes: u64) -> Result<(), FlashError> {
        let profile = self.load().and_then(|profile| profile.covering(bytes));
        let path = path.to_path_buf();
        profile.map(drop).map_err(|source| FlashError::Profile { path, source })
    }

    /// Checks that the drive behind the file at `path` has this profile; its size does not matter.
    pub(crate) fn check(&self, path: &Path, drive: &Ssd) -> Result<(), FlashError> {
        let profile = self.load();
        let asked =
            profile.map_err(|source| FlashError::Profile { path: path.to_path_buf(), source })?;
        let found = drive.profile();
        if asked.clone().with_blocks(found.geometry.blocks) == *found {
            return Ok(());
        }
        let (found, asked) = (full_name(found), full_name(&asked));
        Err(FlashError::Other { path: state_path(path), found, asked })
    }

    fn load(&self) -> Result<Profile, ProfileError> {
        let profile = self.file().map_or_else(|| Profile::builtin(&self.profile), Profile::load)?;
        let (told, obeys) = (profile.told || self.told, profile.obeys || self.obeys);
        Ok(Profile { told, obeys, ..profile })
    }

    /// The profile's file, if it is not a built-in one.
    fn file(&self) -> Option<&Path> {
        let path = Path::new(&self.profile);
        let is_file = self.profile.contains('/') || path.extension().is_some();
        is_file.then_some(path)
    }
}

/// A profile's name, and what it tells and obeys.
fn full_name(profile: &Profile) -> String {
    let (told, obeys) = (profile.told, profile.obeys);
    format!(
        "{}{}{}",
        profile.name,
        if told { "+told" } else { "" },
        if obeys { "+obeys" } else { "" }
    )
}

/// Where the state of the drive behind the file at `path` is.
pub(crate) fn state_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".flash");
    name.into()
}

/// The drive behind the file at `path`, which has `bytes` bytes, if it is modelled as one.
pub(crate) fn load(path: &Path, bytes: u64) -> Result<Option<Ssd>, FlashError> {
    let path = state_path(path);
    let drive = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error.into()),
        Ok(mut file) => read(&mut file, bytes),
    };
    drive.map(Some).map_err(|source| match source {
        StateError::Io(source) => FlashError::Io { path, source },
        source @ (StateError::Restore(_)
        | StateError::TooSmall { .. }
        | StateError::TooLarge { .. }) => FlashError::State { path, source },
    })
}

fn read(file: &mut File, bytes: u64) -> Result<Ssd, StateError> {
    let most = BYTES_MAX.max(bytes / SHARE_MAX);
    let mut state = Vec::new();
    file.take(most + 1).read_to_end(&mut state)?;
    if state.len() as u64 > most {
        return Err(StateError::TooLarge { file: bytes });
    }
    let ssd = Ssd::restore(&state)?;
    let g = ssd.geometry();
    let drive = u64::from(g.logical_pages) * u64::from(g.page_bytes);
    if drive < bytes { Err(StateError::TooSmall { drive, file: bytes }) } else { Ok(ssd) }
}

/// Stores a state beside the file at `path`, replacing the old one.
pub(crate) fn store(path: &Path, state: &[u8]) -> Result<(), FlashError> {
    let path = state_path(path);
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let write = || {
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(state)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        sync_directory(&path)
    };
    write().map_err(|source| FlashError::Io { path: path.clone(), source })
}

/// So that drives that were made at the same time collect garbage at different times.
fn seed() -> u64 {
    random_uuid().map_or(1, |uuid| u64::from_le_bytes(*uuid.first_chunk().unwrap_or(&[1; 8])))
}

fn profile_names() -> String {
    BUILTIN.iter().map(|builtin| builtin.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
