//! An array at work: one thread that owns its engine, its ring and its memory, and carries out what
//! the engine says.
//!
//! Invariants:
//! - Only the data thread touches the engine, the ring and the arena; all others talk to it through
//!   a [`Volume`] and a [`HostHandle`].
//! - All actions of a step are begun before the next step.
//! - However the data thread ends, every request completes and every question is answered.

mod data;
mod handle;
mod metrics;
mod notes;
mod steer;
mod why;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use raidcore::engine::Config;
use raidcore::meta::Assembled;
use raidcore::units::DeviceId;
use steering::Source;
use steering::scheme::{SCHEMES, Scheme};

use crate::members::Device;
use crate::volume::{Volume, VolumeConfig};
use data::Setup;
pub use handle::{Answer, HostError, HostHandle};
use handle::{Client, Shared};
pub use metrics::{MemberMetrics, Metrics};
pub use notes::{Event, Notes};
pub use why::{AdviceReport, Detected, Known, MemberWhy, PartReport, Verdict, WhyReport};

pub use crate::ring::{
    DelayedIo, FlashLog, FlashReport, IoStats, LATENCY_BOUNDS_NS, Quantiles, Transfers,
};

/// How an array is run.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// The engine's tables and pace. Its `tags` is the most requests in flight.
    pub engine: Config,
    /// The most blocks that a read or write moves. Memory of this size is set aside for every tag,
    /// but taken from the system only when it is first used.
    pub max_request_blocks: u32,
    /// What is done about garbage collection.
    pub scheme: Scheme,
    /// Whether members are believed that say when they collect garbage.
    pub signals: Source,
    /// How long a member may take for an I/O before it is given up, if the others make up for it; if
    /// not, it is waited for. Shorter than what the kernel's driver takes to recover a device (for
    /// SCSI and NVMe 30 s a try) gives up devices that would have come back.
    pub io_timeout: Duration,
    /// I/Os that are handed to the kernel at once; more are handed over in several turns.
    pub ring_entries: u32,
    /// Whether to register the memory of I/O with the kernel, which saves time on every I/O and
    /// keeps all of that memory in RAM.
    pub register_memory: bool,
}

impl Default for HostConfig {
    /// Requests of up to 1 MiB, a limit of 30 s, 256 I/Os at once, registered memory.
    fn default() -> Self {
        Self {
            engine: Config::default(),
            max_request_blocks: 256,
            scheme: SCHEMES[0],
            signals: Source::Told,
            io_timeout: Duration::from_secs(30),
            ring_entries: 256,
            register_memory: true,
        }
    }
}

/// Starts arrays. See the [module](self).
#[derive(Debug)]
pub struct Host;

impl Host {
    /// Starts an array that has been assembled. `devices` are those of its members, by slot, and
    /// then of its spares, in the record's order; they get the numbers ([`DeviceId`]) 0, 1, … in
    /// that order. Requests can be submitted at once; they wait while the journal is replayed.
    ///
    /// # Errors
    /// If the kernel refuses a thread, an io_uring or memory.
    ///
    /// # Panics
    /// If there is not one entry of `devices` for each member and spare.
    pub fn spawn(
        config: HostConfig,
        assembled: Assembled,
        devices: Vec<Option<Device>>,
    ) -> io::Result<(Volume, HostHandle)> {
        let record = &assembled.record;
        let geometry = record.geometry;
        assert_eq!(
            devices.len(),
            record.slots.len() + record.spares.len(),
            "a device or a gap for each member and spare"
        );
        let name = record.name.clone();
        let (volume, submissions) = Volume::try_channel(VolumeConfig {
            name: name.clone(),
            blocks: geometry.capacity(),
            chunk_blocks: geometry.chunk(),
            stripe_blocks: geometry.stripe_blocks(),
            max_request_blocks: config.max_request_blocks,
            tags: config.engine.tags,
        })?;
        let shared = Arc::new(Shared::new(Arc::clone(submissions.bell()), paths(&devices)));
        let setup = Setup { config, assembled, devices, submissions, shared: Arc::clone(&shared) };
        let (ready, started) = sync_channel(1);
        std::thread::Builder::new()
            .name(format!("array {name}"))
            .spawn(move || data::serve(setup, ready))?;
        started
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the data thread failed as it started")))?;
        let handle = HostHandle { client: Arc::new(Client { shared }) };
        Ok((volume, handle))
    }
}

/// What the devices are called, by their numbers.
fn paths(devices: &[Option<Device>]) -> impl Iterator<Item = (DeviceId, PathBuf)> {
    let numbered = (0u32..).map(DeviceId).zip(devices);
    numbered.filter_map(|(id, device)| Some((id, device.as_ref()?.path().to_path_buf())))
}

#[cfg(test)]
mod tests;
