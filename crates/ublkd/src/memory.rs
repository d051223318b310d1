//! The last known devices of this machine's arrays, in the run directory, until the next boot:
//! which array has a name, and where its devices were. It is only a hint where to look: the
//! devices' metadata decides.

use std::fs;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::run_dir::private;

/// The last known devices of an array.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Its identity.
    pub(crate) array: String,
    /// Its members and spares.
    #[serde(with = "crate::paths::list")]
    pub(crate) devices: Vec<PathBuf>,
}

impl Memory {
    /// The last known devices of the array of this name.
    pub(crate) fn of(run_dir: &Path, name: &str) -> Option<Self> {
        let file = private().read(true).open(file(run_dir, name)).ok()?;
        serde_json::from_reader(BufReader::new(file)).ok()
    }

    /// Stores them if possible: nothing depends on it.
    pub(crate) fn keep(&self, run_dir: &Path, name: &str) {
        let keep = || -> io::Result<()> {
            let new = run_dir.join(format!(".{name}.devices.{}", std::process::id()));
            let mut to = private().write(true).create(true).truncate(true).open(&new)?;
            to.write_all(&serde_json::to_vec(self)?)?;
            fs::rename(&new, file(run_dir, name))
        };
        if let Err(error) = keep() {
            tracing::info!(%error, "where the devices of {name} are is not remembered");
        }
    }
}

fn file(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.devices"))
}
