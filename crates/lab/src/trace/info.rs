//! Statistics of a trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Format, Record, Selection, Trace, TraceError};
use crate::arrival::Kind;
use crate::pages::{PAGE, Pages};

/// Statistics of a trace, or of the selected part of it. Shares are from 0 to 1.
///
/// Memory grows with the footprint: 546 bytes per 256 KiB that have a touched page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Which file.
    pub file: PathBuf,
    /// Its format.
    pub format: Format,
    /// How many requests.
    pub requests: u64,
    /// How many of them read.
    pub reads: u64,
    /// How many write.
    pub writes: u64,
    /// How many discard.
    pub discards: u64,
    /// How many flush.
    pub flushes: u64,
    /// Reads among all requests.
    pub read_share: f64,
    /// From the first request to the last, in seconds.
    pub seconds: f64,
    /// Requests a second.
    pub rate: f64,
    /// Burstiness: the standard deviation of the times between requests over their mean. 1 is a
    /// Poisson process, 0 constant.
    pub gap_cv: f64,
    /// Sizes of reads and writes.
    pub sizes: Sizes,
    /// Sizes of reads.
    pub read_sizes: Sizes,
    /// Sizes of writes.
    pub write_sizes: Sizes,
    /// The pages of 4 KiB that are read or written, in bytes.
    pub footprint_bytes: u64,
    /// Those that are read.
    pub read_footprint_bytes: u64,
    /// Those that are written.
    pub write_footprint_bytes: u64,
    /// The share of page accesses to the most accessed fifth of the touched pages.
    pub top_fifth_share: f64,
    /// The share of page reads that go to read-intensive pages, more than 90% of whose accesses are
    /// reads (GC-Steering's definition, section II-C).
    pub read_intensive_share: f64,
    /// The share of page writes that go to write-intensive pages, more than 90% of whose accesses
    /// are writes.
    pub write_intensive_share: f64,
    /// Reads and writes that begin where the one before them on their device ended.
    pub sequential_share: f64,
    /// Reads and writes that do not begin and end at a multiple of 4 KiB.
    pub unaligned_share: f64,
    /// Requests that were earlier than one before them.
    pub inversions: u64,
    /// Requests of no bytes, which were left out.
    pub empty: u64,
    /// The devices that are selected, in the order in which they appear.
    pub devices: Vec<DeviceInfo>,
}

/// One of a trace's devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// Its name in the trace.
    pub name: String,
    /// How many requests it has.
    pub requests: u64,
    /// Where the last of its bytes that is asked for ends.
    pub end_bytes: u64,
}

/// How large requests are, in bytes. All 0 if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sizes {
    /// In the mean.
    pub mean: f64,
    /// The median.
    pub p50: u32,
    /// The 90th percentile.
    pub p90: u32,
    /// The 99th percentile.
    pub p99: u32,
    /// The largest.
    pub max: u32,
}

impl Info {
    /// Reads a trace.
    ///
    /// # Errors
    /// If it can't be read to its end, or nothing in it is selected.
    pub fn of(path: &Path, selection: &Selection) -> Result<Self, TraceError> {
        let mut trace = Trace::open(path, selection)?;
        let mut count = Count::default();
        for record in &mut trace {
            if !count.add(record?) {
                return Err(TraceError::Uncountable { path: path.into() });
            }
        }
        Ok(count.info(&trace))
    }
}

/// Counters while reading.
#[derive(Default)]
struct Count {
    reads: u64,
    writes: u64,
    discards: u64,
    flushes: u64,
    gaps: Gaps,
    read_sizes: BTreeMap<u32, u64>,
    write_sizes: BTreeMap<u32, u64>,
    sequential: u64,
    unaligned: u64,
    pages: Pages,
    /// By index: requests, the end of all, the end of the last read or write.
    devices: Vec<(u64, u64, u64)>,
}

impl Count {
    /// False if there are too many pages.
    fn add(&mut self, record: Record) -> bool {
        let Record { at, device, kind, offset, bytes } = record;
        self.gaps.add(at.0);
        let device = device as usize;
        if self.devices.len() <= device {
            self.devices.resize(device + 1, (0, 0, u64::MAX));
        }
        let (requests, last, previous) = &mut self.devices[device];
        let end = offset + u64::from(bytes);
        *requests += 1;
        *last = end.max(*last);
        let sizes = match kind {
            Kind::Read => {
                self.reads += 1;
                &mut self.read_sizes
            }
            Kind::Write => {
                self.writes += 1;
                &mut self.write_sizes
            }
            Kind::Discard => {
                self.discards += 1;
                return true;
            }
            Kind::Flush => {
                self.flushes += 1;
                return true;
            }
        };
        *sizes.entry(bytes).or_default() += 1;
        self.sequential += u64::from(*previous == offset);
        *previous = end;
        self.unaligned += u64::from(!(offset.is_multiple_of(PAGE) && end.is_multiple_of(PAGE)));
        self.pages.touch(device as u32, offset / PAGE..end.div_ceil(PAGE), kind == Kind::Read)
    }

    fn info(self, trace: &Trace) -> Info {
        let requests = self.reads + self.writes + self.discards + self.flushes;
        let data = (self.reads + self.writes).max(1) as f64;
        let seconds = self.gaps.last.unwrap_or(0) as f64 / 1e9;
        let between = requests.saturating_sub(1) as f64;
        let mut sizes = self.read_sizes.clone();
        for (&bytes, count) in &self.write_sizes {
            *sizes.entry(bytes).or_default() += count;
        }
        let devices =
            trace.devices().zip(&self.devices).map(|(name, &(requests, end_bytes, _))| {
                DeviceInfo { name: name.into(), requests, end_bytes }
            });
        let pages = self.pages.summary();
        Info {
            file: trace.path().into(),
            format: trace.format(),
            requests,
            reads: self.reads,
            writes: self.writes,
            discards: self.discards,
            flushes: self.flushes,
            read_share: self.reads as f64 / requests.max(1) as f64,
            seconds,
            rate: if seconds > 0.0 { between / seconds } else { 0.0 },
            gap_cv: self.gaps.variation(),
            sizes: Sizes::of(&sizes),
            read_sizes: Sizes::of(&self.read_sizes),
            write_sizes: Sizes::of(&self.write_sizes),
            footprint_bytes: pages.touched * PAGE,
            read_footprint_bytes: pages.read * PAGE,
            write_footprint_bytes: pages.written * PAGE,
            top_fifth_share: pages.top_fifth_share,
            read_intensive_share: pages.read_intensive_share,
            write_intensive_share: pages.write_intensive_share,
            sequential_share: self.sequential as f64 / data,
            unaligned_share: self.unaligned as f64 / data,
            inversions: trace.inversions(),
            empty: trace.empty(),
            devices: devices.filter(|device| device.requests > 0).collect(),
        }
    }
}

/// Times between requests: mean and variance in one pass (Welford, "Note on a method for
/// calculating corrected sums of squares and products", Technometrics 4(3), 1962).
#[derive(Default)]
struct Gaps {
    last: Option<u64>,
    count: u64,
    mean: f64,
    squares: f64,
}

impl Gaps {
    fn add(&mut self, at: u64) {
        if let Some(last) = self.last.replace(at) {
            let gap = (at - last) as f64;
            self.count += 1;
            let off = gap - self.mean;
            self.mean += off / self.count as f64;
            self.squares += off * (gap - self.mean);
        }
    }

    fn variation(&self) -> f64 {
        let variance = self.squares / self.count.max(1) as f64;
        if self.mean > 0.0 { variance.sqrt() / self.mean } else { 0.0 }
    }
}

impl Sizes {
    fn of(sizes: &BTreeMap<u32, u64>) -> Self {
        let count: u64 = sizes.values().sum();
        let total: f64 = sizes.iter().map(|(&bytes, &count)| f64::from(bytes) * count as f64).sum();
        let at = |share: f64| {
            let wanted = (count as f64 * share).ceil() as u64;
            let mut seen = 0;
            let found = sizes.iter().find(|(_, count)| {
                seen += **count;
                seen >= wanted
            });
            found.map_or(0, |(&bytes, _)| bytes)
        };
        Self {
            mean: total / count.max(1) as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}
