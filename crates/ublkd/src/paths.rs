//! Paths as text, as the [client](evenkeel_client::paths) has them, and the names of files.

use std::fs::File;
use std::io;
use std::path::Path;

pub use evenkeel_client::paths::*;

/// Makes a new file's name durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}
