//! A volume as a file, through FUSE: `<directory>/<name>`, to be used as it is or, where a block
//! device is required, under a loop device (`losetup --direct-io=on --sector-size 4096`; with
//! sectors of 512 bytes, parts of blocks are read, modified and written).
//!
//! Invariants:
//! - The session's thread parses requests and hands them to the volume; answers are written from
//!   the volume's data thread. So the session may wait for a free buffer: requests that hold one
//!   are answered meanwhile.
//! - Every request of the kernel gets exactly one answer, also when the volume stops.
//! - The kernel caches nothing but names and attributes: written data is in the volume before the write returns. Only mapped
//!   pages are cached, until `msync`, as with any file.
//! - A mount that a killed predecessor left is removed before mounting; one that is alive never is.

mod files;
mod transfer;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuser::{Config, MountOption, Notifier, Session, SessionACL, SessionUnmounter};
use rustix::fs::statfs;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::paths::shown;
use crate::thread::become_io_flusher;
use crate::users;
use crate::volume::Volume;
use files::{FILE, Files};

/// The longest time for the session to end after an unmount before it counts as held open.
const SESSION_END: Duration = Duration::from_secs(2);

/// The magic number by which `statfs` tells a FUSE file system.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;

/// The most stale mounts on one directory that are removed. It bounds the loop if an unmount has no
/// effect.
const STALE_MOUNTS_MAX: usize = 16;

/// The place in a file that stands for its attributes, where the kernel is told what has changed.
const ATTRIBUTES_ONLY: i64 = -1;

/// Why a volume can't be served, or not be withdrawn, as a file.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// The volume's name is not the name of a file.
    #[error("the array's name {name:?} can't be a file name: no '/', no NUL, 1 to 255 bytes")]
    Name {
        /// The name.
        name: String,
    },
    /// There is no directory to mount on.
    #[error("{} is not a directory: create it with mkdir, then try again", shown(.dir))]
    NotADirectory {
        /// What was to be mounted on.
        dir: PathBuf,
    },
    /// The directory can't be looked at.
    #[error("can't look at {}: {source}", shown(.dir))]
    Inspect {
        /// What was to be mounted on.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A living FUSE file system is mounted there.
    #[error(
        "{} already has a FUSE file system: choose another directory, or stop its server first",
        shown(.dir)
    )]
    InUse {
        /// What was to be mounted on.
        dir: PathBuf,
    },
    /// What a killed server left can't be removed.
    #[error(
        "can't remove the dead mount on {}: {source}; try `fusermount3 -uz` on it, or `umount --lazy` as root",
        shown(.dir)
    )]
    Stale {
        /// What was to be mounted on.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel has no FUSE, or it is not loaded.
    #[error("/dev/fuse is missing: run `modprobe fuse`, or serve the array with --nbd instead")]
    NoFuse,
    /// Mounting failed.
    #[error("can't mount on {}: {source}; run as root, or install fuse3", shown(.dir))]
    Mount {
        /// What was to be mounted on.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The session's thread can't be started.
    #[error("can't start a thread for FUSE: {0}")]
    Thread(io::Error),
    /// Unmounting failed.
    #[error("can't unmount {}: {source}", shown(.dir))]
    Unmount {
        /// Where it is mounted.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// How a file system is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FuseOptions {
    /// Allow other users, within the file's mode, which then is 0660 instead of 0600. Without it
    /// only the user that runs the server has access: not even root, if that is another user.
    pub allow_other: bool,
}

/// How an unmount ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmounted {
    /// The file was not in use; the session has ended.
    Clean,
    /// The file is still open (a loop device holds it, for example). Its name is gone, the session
    /// goes on until the last user closes it or the process ends.
    Busy,
}

/// A volume that is served as a file. Dropping it unmounts.
#[derive(Debug)]
pub struct FuseServer {
    dir: PathBuf,
    name: String,
    unmounter: SessionUnmounter,
    notifier: Notifier,
    ended: Receiver<()>,
    session: Option<JoinHandle<()>>,
}

impl FuseServer {
    /// Serves `volume` as `<dir>/<name>`, for this user only.
    ///
    /// # Errors
    /// When the directory is not there or taken, or mounting is not allowed.
    pub fn mount(dir: &Path, volume: Volume) -> Result<Self, FuseError> {
        Self::mount_with(dir, volume, FuseOptions::default())
    }

    /// Serves `volume` as `<dir>/<name>`.
    ///
    /// # Errors
    /// When the directory is not there or taken, or mounting is not allowed.
    pub fn mount_with(dir: &Path, volume: Volume, options: FuseOptions) -> Result<Self, FuseError> {
        check_name(volume.name())?;
        remove_stale_mounts(dir)?;
        let dir = mount_point(dir)?;
        let name = volume.name().to_owned();
        let files = Files::new(volume, options);
        let mount = |source: io::Error| {
            if source.kind() == io::ErrorKind::NotFound {
                FuseError::NoFuse
            } else {
                FuseError::Mount { dir: dir.clone(), source }
            }
        };
        let mut session = Session::new(files, &dir, &config(options)).map_err(mount)?;
        let (unmounter, notifier) = (session.unmount_callable(), session.notifier());
        let (end, ended) = mpsc::channel();
        let session = thread::Builder::new()
            .name("fuse".to_owned())
            .spawn(move || {
                become_io_flusher();
                if let Err(error) = session.run() {
                    tracing::error!(%error, "the FUSE session has ended");
                }
                drop(end);
            })
            .map_err(FuseError::Thread)?;
        Ok(Self { dir, name, unmounter, notifier, ended, session: Some(session) })
    }

    /// The directory of the mount.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Tells the kernel that the file has grown. Programs that have it open find the new size; a loop
    /// device takes it with `losetup --set-capacity`.
    ///
    /// # Errors
    /// If the kernel does not take it. The file serves, as large as it is known.
    pub fn tell_size(&self) -> io::Result<()> {
        match self.notifier.inval_inode(FILE, ATTRIBUTES_ONLY, 0) {
            // The kernel does not know the file yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            told => told?,
        }
        // A loop device goes by what the kernel knows, which it asks for by this.
        self.file().metadata().map(drop)
    }

    /// The users of the file or its directory, as far as this process may know.
    pub(crate) fn users(&self) -> Vec<String> {
        let file = self.file();
        let path = shown(&file);
        let Ok(meta) = file.metadata() else { return Vec::new() };
        let is_it = |link: PathBuf| {
            // Only links of its name are followed: other files may be on file systems that hang.
            let named = fs::read_link(&link).is_ok_and(|target| target.ends_with(&self.name));
            let found = || link.metadata();
            named && found().is_ok_and(|m| (m.dev(), m.ino()) == (meta.dev(), meta.ino()))
        };
        let is_inside = |process: &Path| {
            fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.dir))
        };
        let opened = users::processes_that(|process| users::open_files(process).any(is_it));
        let inside = users::processes_that(is_inside);
        let loops = users::loop_devices_on(&file);
        loops
            .map(|device| format!("{path} is in use by the loop device {device}"))
            .chain(opened.map(|process| format!("{path} is in use by {process}")))
            .chain(inside.map(|process| format!("{process} is in {}", shown(&self.dir))))
            .collect()
    }

    /// Whether the kernel has a disk on the file, whose file systems may hold unwritten data.
    pub(crate) fn carries_disks(&self) -> bool {
        users::loop_devices_on(&self.file()).next().is_some()
    }

    /// Withdraws the file, if it is not in use. Only root can do this; for other users nothing
    /// happens.
    ///
    /// # Errors
    /// If it is in use: it is still served.
    pub(crate) fn withdraw_unused(&self) -> Result<(), String> {
        match unmount(&self.dir, UnmountFlags::empty()) {
            Err(Errno::BUSY) => Err(format!("{} is in use", shown(&self.dir))),
            // Other errors show up in the session's own unmount.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Withdraws the file. If it is in use, its name goes and its users keep it.
    ///
    /// # Errors
    /// When the kernel refuses even a lazy unmount.
    pub fn unmount(mut self) -> Result<Unmounted, FuseError> {
        self.withdraw()
    }

    fn withdraw(&mut self) -> Result<Unmounted, FuseError> {
        let Some(session) = self.session.take() else {
            return Ok(Unmounted::Clean);
        };
        let unmounted = self.unmounter.unmount();
        let held =
            unmounted.as_ref().is_err_and(|error| error.raw_os_error() != Some(libc::EINVAL));
        if held {
            unmount(&self.dir, UnmountFlags::DETACH).map_err(|error| FuseError::Unmount {
                dir: self.dir.clone(),
                source: error.into(),
            })?;
            return Ok(Unmounted::Busy);
        }
        // EINVAL means that an operator's `umount` came first. The session ends when the kernel lets
        // go of the connection, which is at the last close if the unmount was lazy.
        if let Err(mpsc::RecvTimeoutError::Timeout) = self.ended.recv_timeout(SESSION_END) {
            return Ok(Unmounted::Busy);
        }
        if session.join().is_err() {
            tracing::error!("the FUSE session's thread has panicked");
        }
        Ok(Unmounted::Clean)
    }
}

impl Drop for FuseServer {
    fn drop(&mut self) {
        if let Err(error) = self.withdraw() {
            tracing::error!(%error, "a FUSE mount stays behind");
        }
    }
}

fn config(options: FuseOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("evenkeel".to_owned()),
        MountOption::Subtype("evenkeel".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoExec,
        MountOption::NoAtime,
    ];
    if options.allow_other {
        config.acl = SessionACL::All;
    }
    config
}

fn check_name(name: &str) -> Result<(), FuseError> {
    let is_file_name = !matches!(name, "" | "." | "..")
        && name.len() <= 255
        && !name.bytes().any(|byte| matches!(byte, b'/' | 0));
    is_file_name.then_some(()).ok_or_else(|| FuseError::Name { name: name.to_owned() })
}

/// A killed server's mount answers every request with a connection error, unless the kernel answers
/// by itself, as it does `stat` for a while. There may be several on top of each other.
fn remove_stale_mounts(dir: &Path) -> Result<(), FuseError> {
    for _ in 0..STALE_MOUNTS_MAX {
        match statfs(dir) {
            Err(Errno::NOTCONN | Errno::CONNABORTED) => {}
            Ok(_) | Err(_) => break,
        }
        tracing::warn!(dir = %shown(dir), "removing the mount that a dead server left");
        unmount(dir, UnmountFlags::DETACH)
            .map_err(|error| FuseError::Stale { dir: dir.to_owned(), source: error.into() })?;
    }
    Ok(())
}

/// The absolute path of the directory, if it can be mounted on.
fn mount_point(dir: &Path) -> Result<PathBuf, FuseError> {
    let inspect = |source| FuseError::Inspect { dir: dir.to_owned(), source };
    let metadata = match dir.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FuseError::NotADirectory { dir: dir.to_owned() });
        }
        other => other.map_err(inspect)?,
    };
    if !metadata.is_dir() {
        return Err(FuseError::NotADirectory { dir: dir.to_owned() });
    }
    let path = dir.canonicalize().map_err(inspect)?;
    let is_mount_point = path
        .parent()
        .is_some_and(|parent| parent.metadata().is_ok_and(|parent| parent.dev() != metadata.dev()));
    let kind = statfs(&path).map_err(|error| inspect(error.into()))?.f_type;
    if is_mount_point && kind as i64 == FUSE_SUPER_MAGIC {
        return Err(FuseError::InUse { dir: path });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_names_are_served() {
        for name in ["a", "tank", "..a", "Ä b", &"x".repeat(255)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "/", "a\0b", &"x".repeat(256)] {
            assert!(matches!(check_name(name), Err(FuseError::Name { .. })), "{name}");
        }
    }

    #[test]
    fn a_missing_directory_is_named_in_the_error() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let dir = parent.path().join("absent");
        let error = mount_point(&dir).expect_err("there is no such directory");
        assert!(error.to_string().contains("mkdir"), "{error}");
        assert!(error.to_string().contains("absent"), "{error}");
        fs::write(&dir, "a file").expect("a file");
        assert!(matches!(mount_point(&dir), Err(FuseError::NotADirectory { .. })));
    }
}
