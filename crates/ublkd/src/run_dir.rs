//! The run directory, which has the sockets and logs of this machine's arrays.
//!
//! Invariants:
//! - Only its owner (or root) can put anything there. Another user could otherwise intercept
//!   passwords and errors, or have other files overwritten.
//! - A file in it is readable by its owner alone, and never opened through a symbolic link.

use crate::paths::shown;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a run directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// It belongs to another user.
    #[error(
        "the run directory {path} belongs to user {owner}: it has to belong to who runs this, or \
         to root; choose another by --run-dir",
        path = shown(.path)
    )]
    Owner {
        /// The directory.
        path: PathBuf,
        /// The numeric id of its owner.
        owner: u32,
    },
    /// Its group or anyone can write there.
    #[error(
        "the run directory {path} can be written by others (mode {mode:o}); `chmod go-w {path}`, \
         or choose another by --run-dir",
        path = shown(.path)
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file in it is a symbolic link.
    #[error("{path} is a symbolic link, which is not followed: remove it", path = shown(.path))]
    Link {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path}: {source}; the run directory can be chosen by --run-dir", path = shown(.path))]
    Io {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Makes the run directory if there is none, and checks that it is safe.
///
/// # Errors
/// If it can't be made, or others could put files there.
pub fn prepare(path: &Path) -> Result<(), RunDirError> {
    let io = |source| RunDirError::Io { path: path.to_path_buf(), source };
    // The usual mode: anyone may list it, only the owner may change it.
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(io)?;
    let metadata = std::fs::metadata(path).map_err(io)?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(RunDirError::Owner { path: path.to_path_buf(), owner });
    }
    if mode & 0o022 != 0 {
        return Err(RunDirError::Writable { path: path.to_path_buf(), mode });
    }
    Ok(())
}

/// Opens the log of the array called `name`, to write at its end.
///
/// # Errors
/// If it can't be opened, or is a symbolic link.
pub fn open_log(run_dir: &Path, name: &str) -> Result<(PathBuf, File), RunDirError> {
    let path = run_dir.join(format!("{name}.log"));
    let open = || -> io::Result<File> {
        let log = private().create(true).append(true).open(&path)?;
        // An earlier release may have made it readable by anyone.
        log.set_permissions(Permissions::from_mode(0o600))?;
        Ok(log)
    };
    match open() {
        Ok(log) => Ok((path, log)),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(RunDirError::Link { path }),
        Err(source) => Err(RunDirError::Io { path, source }),
    }
}

/// How a file in the run directory is opened: for its owner alone, and not through a link.
pub(crate) fn private() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b");
        prepare(&path).expect("it is made");
        for mode in [0o777, 0o1777, 0o775] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            let refused = prepare(&path).expect_err("others can write there").to_string();
            assert!(refused.contains(&format!("(mode {mode:o})")), "{refused}");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("it is ours");
        prepare(&path).expect("the owner's alone");
    }

    #[test]
    fn a_log_is_the_owners_and_no_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let other = dir.path().join("other");
        std::fs::write(&other, "").expect("a file");
        symlink(&other, dir.path().join("evil.log")).expect("a link");
        let refused = open_log(dir.path(), "evil").expect_err("a link").to_string();
        assert!(refused.contains("evil.log is a symbolic link"), "{refused}");
        let (path, _) = open_log(dir.path(), "tank").expect("it is made");
        let mode = std::fs::metadata(path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
