use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::blkparse::{Blkparse, is_blkparse};
use super::text::Lines;
use super::vscsi::{Vscsi, is_vscsi};
use super::{Reader, columns, csv};

/// The format of a trace. The table in the documentation of [`Trace`](super::Trace)'s module
/// describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The Storage Performance Council's.
    Spc,
    /// MSR Cambridge's.
    Msr,
    /// SSDsim's.
    Ssdsim,
    /// DiskSim's `ascii`.
    Disksim,
    /// Heimdall's.
    Heimdall,
    /// VMware's, as CloudPhysics has it.
    Vscsi,
    /// What blkparse prints.
    Blkparse,
}

impl Format {
    const ALL: [Self; 7] = [
        Self::Spc,
        Self::Msr,
        Self::Ssdsim,
        Self::Disksim,
        Self::Heimdall,
        Self::Vscsi,
        Self::Blkparse,
    ];

    /// Its name, as in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Spc => "spc",
            Self::Msr => "msr",
            Self::Ssdsim => "ssdsim",
            Self::Disksim => "disksim",
            Self::Heimdall => "heimdall",
            Self::Vscsi => "vscsi",
            Self::Blkparse => "blkparse",
        }
    }

    /// By a format's name in the file's name, otherwise by its first bytes.
    pub(super) fn detect(path: &Path, head: &[u8]) -> Option<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let parts = name.split('.').skip(1).map(str::to_ascii_lowercase);
        let named =
            parts.filter_map(|part| Self::ALL.into_iter().find(|format| format.name() == part));
        named.last().or_else(|| Self::of_content(head))
    }

    fn of_content(head: &[u8]) -> Option<Self> {
        /// Enough to be sure.
        const LINES: usize = 100;

        if is_vscsi(head) {
            return Some(Self::Vscsi);
        }
        // The last line may be cut off.
        let whole = head.iter().rposition(|&byte| byte == b'\n').map_or(head, |end| &head[..end]);
        let lines = whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        let lines: Vec<&[u8]> = lines.take(LINES).collect();
        let first = *lines.first()?;
        if csv::is_spc(first) {
            Some(Self::Spc)
        } else if csv::is_msr(first) {
            Some(Self::Msr)
        } else if is_blkparse(&lines[..1]) {
            Some(Self::Blkparse)
        } else if columns::is_ssdsim(&lines) {
            Some(Self::Ssdsim)
        } else if columns::is_heimdall(&lines) {
            Some(Self::Heimdall)
        } else if columns::is_disksim(&lines) {
            Some(Self::Disksim)
        } else {
            None
        }
    }

    pub(super) fn reader(self, head: &[u8], action: Option<Action>) -> Box<dyn Reader> {
        match self {
            Self::Spc => Box::new(Lines(csv::spc)),
            Self::Msr => Box::new(Lines(csv::msr)),
            Self::Ssdsim => Box::new(Lines(columns::ssdsim)),
            Self::Disksim => Box::new(Lines(columns::disksim)),
            Self::Heimdall => Box::new(Lines(columns::heimdall)),
            Self::Vscsi => Box::new(Vscsi::new(head)),
            Self::Blkparse => Box::new(Blkparse::new(head, action)),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no format {name:?}; there are {names}")
        })
    }
}
