//! Recorded block traces: one reader per format, behind one iterator.
//!
//! A file, possibly compressed (gzip, xz, zstd), is read as a stream of [`Record`]s: only a buffer
//! of it is in memory. [`Trace`] reads the selected records unchanged, [`Replay`] turns them into
//! requests for a system, [`Info`] computes statistics.
//!
//! | format | a record |
//! |---|---|
//! | `spc` | `unit,lba,bytes,R or W,seconds[,…]`: the Storage Performance Council's |
//! | `msr` | `ticks,host,disk,Read or Write,offset,bytes,response` with ticks of 100 ns |
//! | `ssdsim` | `ns device lba sectors op`, 1 is a read |
//! | `disksim` | `ms device lba sectors flags`, flags hexadecimal, bit 0 is a read |
//! | `heimdall` | `ms device offset bytes op`, 1 is a read |
//! | `vscsi` | binary, VMware's, versions 1 (32 bytes) and 2 (40 bytes) |
//! | `blkparse` | the default output of blkparse |
//!
//! Sectors and `lba` are of 512 bytes.
//!
//! Invariants: bytes from a file never cause a panic, and every iterator ends with the file or at
//! the first error. Times never go back: a record that is earlier than one before it gets its time,
//! and is counted as an inversion.

mod action;
mod blkparse;
mod columns;
mod csv;
mod error;
mod fit;
mod format;
mod info;
mod input;
mod replay;
mod text;
mod vscsi;

use std::path::Path;

use det::Instant;

pub use action::Action;
pub use error::{Position, TraceError};
pub use fit::Fit;
pub use format::Format;
pub use info::{DeviceInfo, Info, Sizes};
use input::Input;
pub(crate) use replay::Player;
pub use replay::{Device, Repeat, Replay};
use text::Devices;

use crate::arrival::Kind;

/// The selected part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Its format; found out if absent.
    pub format: Option<Format>,
    /// Which events of a blkparse trace are taken as requests; by default dispatches if there are
    /// any, otherwise queued requests.
    pub action: Option<Action>,
    /// The names of the wanted devices; all if absent.
    pub devices: Option<Vec<String>>,
    /// How many requests to skip.
    pub skip: u64,
    /// The most requests after that.
    pub limit: Option<u64>,
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, counted from the first selected record.
    pub at: Instant,
    /// Where: an index into [`Trace::devices`].
    pub device: u32,
    /// What it does.
    pub kind: Kind,
    /// The first byte; 0 for a flush.
    pub offset: u64,
    /// How many bytes: at least one, but for a flush. `offset + bytes` does not overflow.
    pub bytes: u32,
}

/// The selected requests of a trace, in the order of the file. After an error there are no more.
pub struct Trace {
    input: Input,
    format: Format,
    reader: Box<dyn Reader>,
    devices: Devices,
    wanted: Option<Vec<String>>,
    skip: u64,
    left: u64,
    /// The time of the first selected record, and the latest one since.
    start: Option<u64>,
    latest: u64,
    inversions: u64,
    empty: u64,
    selected: u64,
    failed: bool,
}

/// Reads the records of a format.
trait Reader {
    /// The next one, or `None` at the end. Its time counts from any origin.
    fn next(
        &mut self,
        input: &mut Input,
        devices: &mut Devices,
    ) -> Result<Option<Record>, TraceError>;
}

impl Trace {
    /// Opens a trace.
    ///
    /// # Errors
    /// If the file can't be read, or its format can't be told.
    pub fn open(path: &Path, selection: &Selection) -> Result<Self, TraceError> {
        let input = Input::open(path)?;
        let format = match selection.format {
            Some(format) => format,
            None => Format::detect(path, input.head())
                .ok_or_else(|| TraceError::UnknownFormat { path: path.into() })?,
        };
        let reader = format.reader(input.head(), selection.action);
        Ok(Self {
            input,
            format,
            reader,
            devices: Devices::default(),
            wanted: selection.devices.clone(),
            skip: selection.skip,
            left: selection.limit.unwrap_or(u64::MAX),
            start: None,
            latest: 0,
            inversions: 0,
            empty: 0,
            selected: 0,
            failed: false,
        })
    }

    /// Its format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The devices seen so far, wanted or not.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.devices.names()
    }

    /// How many selected records so far were earlier than one before them.
    #[must_use]
    pub fn inversions(&self) -> u64 {
        self.inversions
    }

    /// How many reads, writes and discards of no bytes were left out so far.
    #[must_use]
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    fn advance(&mut self) -> Result<Option<Record>, TraceError> {
        while self.left > 0 {
            let Some(mut record) = self.reader.next(&mut self.input, &mut self.devices)? else {
                return self.end();
            };
            if !self.devices.is_wanted(record.device, self.wanted.as_deref()) {
                continue;
            }
            if record.bytes == 0 && record.kind != Kind::Flush {
                self.empty += 1;
                continue;
            }
            if record.offset.checked_add(u64::from(record.bytes)).is_none() {
                let found = format!("{} bytes from {} on", record.bytes, record.offset);
                return Err(self.input.malformed("a request within 16 EiB", found.as_bytes()));
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.left -= 1;
            self.selected += 1;
            let start = *self.start.get_or_insert(record.at.0);
            let at = record.at.0.saturating_sub(start);
            self.inversions += u64::from(record.at.0 < start || at < self.latest);
            self.latest = self.latest.max(at);
            record.at = Instant(self.latest);
            return Ok(Some(record));
        }
        Ok(None)
    }

    fn end(&self) -> Result<Option<Record>, TraceError> {
        if self.selected > 0 {
            return Ok(None);
        }
        let devices = self.devices().map(str::to_owned).collect();
        Err(TraceError::Nothing { path: self.path().into(), devices })
    }
}

impl Iterator for Trace {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = self.advance();
        self.failed = !matches!(record, Ok(Some(_)));
        record.transpose()
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("path", &self.path()).field("format", &self.format).finish()
    }
}
