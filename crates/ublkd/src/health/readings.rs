//! What drives told last, and the threads that ask them.
//!
//! Invariants:
//! - A drive is asked at most once in [`Readings::ASK_EVERY`], and never twice at once. So one that does
//!   not answer has one thread that waits for it, and the others are asked all the same.
//! - No lock is held while a drive is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use raidcore::units::DeviceId;

use super::read::read;
use super::{DriveHealth, Expected};
use crate::create::wall_clock;

/// What a drive told, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// When, in seconds since 1970.
    pub at: u64,
    /// What.
    pub health: DriveHealth,
}

impl Reading {
    /// When the drive is expected to be worn, if that can be told.
    #[must_use]
    pub fn expected(&self) -> Option<Expected> {
        Expected::of(&self.health, self.at)
    }
}

/// How the drive is asked that the block device of a number is on.
type Reader = dyn Fn(u64) -> Option<DriveHealth> + Send + Sync;

/// The readings of an array's devices. Clones share them.
#[derive(Clone)]
pub struct Readings {
    table: Arc<Mutex<BTreeMap<DeviceId, Entry>>>,
    reader: Arc<Reader>,
}

/// A device that was asked.
struct Entry {
    asked: Asked,
    /// What it told last; nothing if it told nothing then.
    last: Option<Reading>,
}

enum Asked {
    /// It has not answered yet.
    UnderWay,
    /// It was asked at this time, and has answered.
    At(Instant),
}

impl Default for Readings {
    /// None yet, of the system's drives.
    fn default() -> Self {
        Self::with_reader(read)
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").finish_non_exhaustive()
    }
}

impl Readings {
    /// How often a device is asked.
    pub const ASK_EVERY: Duration = Duration::from_secs(600);

    /// None yet. `reader` asks the drive that the block device of a number is on.
    #[must_use]
    pub fn with_reader(
        reader: impl Fn(u64) -> Option<DriveHealth> + Send + Sync + 'static,
    ) -> Self {
        Self { table: Arc::default(), reader: Arc::new(reader) }
    }

    /// What a device told last, if it told anything.
    #[must_use]
    pub fn of(&self, device: DeviceId) -> Option<Reading> {
        lock(&self.table).get(&device)?.last
    }

    /// Asks those of `devices` (which are all, with the numbers of their block devices) that were not asked
    /// yet or whose turn has come at `now`, and forgets others. Returns the threads that ask, which go on
    /// by themselves.
    pub fn ask(
        &self,
        devices: &BTreeMap<DeviceId, u64>,
        now: Instant,
    ) -> Vec<(DeviceId, JoinHandle<()>)> {
        let mut table = lock(&self.table);
        table.retain(|device, _| devices.contains_key(device));
        let is_due = |device: &DeviceId| match table.get(device).map(|entry| &entry.asked) {
            None => true,
            Some(Asked::UnderWay) => false,
            Some(Asked::At(then)) => now.saturating_duration_since(*then) >= Self::ASK_EVERY,
        };
        let due: BTreeSet<DeviceId> = devices.keys().copied().filter(is_due).collect();
        let mut threads = Vec::new();
        for device in due {
            let entry = table.entry(device).or_insert(Entry { asked: Asked::UnderWay, last: None });
            entry.asked = Asked::UnderWay;
            match self.begin(device, devices[&device], now) {
                Ok(thread) => threads.push((device, thread)),
                Err(error) => {
                    tracing::debug!(%error, "no thread to ask a drive for its health");
                    entry.asked = Asked::At(now);
                }
            }
        }
        threads
    }

    fn begin(
        &self,
        device: DeviceId,
        number: u64,
        now: Instant,
    ) -> std::io::Result<JoinHandle<()>> {
        let Self { table, reader } = self.clone();
        Builder::new().name("drive health".to_owned()).spawn(move || {
            let health = reader(number);
            let last = health.map(|health| Reading { at: wall_clock(), health });
            // A device that has left meanwhile has no entry.
            if let Some(entry) = lock(&table).get_mut(&device) {
                *entry = Entry { asked: Asked::At(now), last };
            }
        })
    }
}

/// The table is consistent even after a panic.
fn lock(table: &Mutex<BTreeMap<DeviceId, Entry>>) -> MutexGuard<'_, BTreeMap<DeviceId, Entry>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
