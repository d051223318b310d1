//! Runs an array or a log volume: one thread owns its engines, its ring and its memory, and carries
//! out the engines' actions.
//!
//! Invariants:
//! - Only the data thread touches the engine, the ring and the arena; other threads use a
//!   [`Volume`] and a [`HostHandle`].
//! - All actions of a step are begun before the next step.
//! - However the data thread ends, every request completes and every query is answered.

mod askers;
mod cache;
mod carry;
mod clock;
mod data;
mod diagnosis;
mod former;
mod handle;
mod idle;
mod leased;
mod log;
mod metrics;
mod notes;
mod orders;
mod partial;
mod requests;
mod residents;
mod returns;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use raidcore::engine::Config;
use raidcore::meta::{Assembled, VolumePart};
use raidcore::units::DeviceId;
use raidlog::cache::CacheConfig;
use raidlog::{CachedArray, LogArray};
use steering::scheme::{SCHEMES, Scheme};

use crate::lease::Leash;
use crate::members::{Device, DurableBy};
use crate::nvme::{View, Windows};
use crate::topology::{Cpus, Machine, Site};
use crate::volume::{Volume, VolumeConfig};
pub use cache::CacheState;
use data::Setup;
pub use handle::{Answer, HostError, HostHandle};
use handle::{Client, Shared};
pub use log::{Begin, LogStatus};
pub use metrics::{MemberMetrics, Metrics};
pub use notes::{Event, Happened, Notes};
pub use requests::{KindStats, RequestSize, RequestStats};
pub(crate) use residents::seat;

pub use crate::ring::{IoStats, LATENCY_BOUNDS_NS, Transfers};

/// Requests in flight of all clients together. The memory of each is taken when it is used.
const TAGS: u16 = 256;

/// The most threads of an array.
pub const THREADS_MAX: u16 = 64;

/// Memory for what is written again and again, in blocks: 16 MiB, or less where fewer are.
const WARM_BLOCKS: u32 = 4096;

/// Memory for what is staged, in blocks, unless it is told otherwise: 64 MiB, or less where fewer are.
const STAGED_BLOCKS: u32 = 1 << 14;

/// How an array is run.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// The engine's tables and pace. Its `tags` is the most requests in flight.
    pub engine: Config,
    /// The most blocks of a read or write. Each tag has address space of this size; its memory is
    /// taken from the system only when used, and given back after a while without use.
    pub max_request_blocks: u32,
    /// The scheme against garbage collection, and the write cache.
    pub scheme: Scheme,
    /// Memory of a write cache in memory, in blocks, if the scheme has one.
    pub cache_blocks: u32,
    /// How long what is in that memory may stay there when no room is wanted.
    pub cache_linger: Duration,
    /// How long a member may take for an I/O before it is failed, if redundancy permits that;
    /// otherwise it is waited for. A limit shorter than the recovery time of the kernel's driver
    /// (30 s per try for SCSI and NVMe) fails devices that would have come back.
    pub io_timeout: Duration,
    /// I/Os that are handed to the kernel at once; more take several turns.
    pub ring_entries: u32,
    /// Threads of the array, 1 to [`THREADS_MAX`]: one decides, the others talk to the kernel for it.
    pub threads: u16,
    /// The CPUs that they run on. If there are none given, and the machine has several NUMA nodes, and the
    /// controllers of all devices are on one of them, those of that node.
    pub cpus: Option<Cpus>,
    /// Whether to register memory of I/O with the kernel when it is used. That saves time on every
    /// I/O, and keeps the memory in RAM until it has been unused for a while.
    pub register_memory: bool,
    /// Whether to take memory of I/O in huge pages where the kernel has some. Large I/O is cheaper then, and
    /// memory is taken and given back in larger pieces.
    pub huge_pages: bool,
    /// Whether I/O on NVMe drives goes past the block layer where it can; on devices that are added
    /// later if it does on one from the start.
    pub passthrough: bool,
}

impl Default for HostConfig {
    /// 256 requests of up to 1 MiB, a limit of 30 s, 256 I/Os at once, registered memory.
    fn default() -> Self {
        Self {
            engine: Config {
                tags: TAGS,
                warm_blocks: WARM_BLOCKS,
                staged_blocks: STAGED_BLOCKS,
                ..Config::default()
            },
            max_request_blocks: 256,
            scheme: SCHEMES[0],
            cache_blocks: CacheConfig::default().blocks,
            cache_linger: CacheConfig::default().linger,
            io_timeout: Duration::from_secs(30),
            ring_entries: 256,
            threads: 1,
            cpus: None,
            register_memory: true,
            huge_pages: false,
            passthrough: false,
        }
    }
}

impl HostConfig {
    /// The configuration of the engine of each of `groups` arrays.
    fn engine_of(&self, groups: usize, log: bool) -> Config {
        if !log {
            let cache = self.cache_config();
            return cache.map_or(self.engine, |it| CachedArray::engine_config(&it, self.engine));
        }
        // The groups share the resources of one array where possible.
        let Config { jobs, background_jobs, scratch_blocks, .. } = self.engine;
        let share = Config {
            jobs: (jobs / groups as u16).max(4 * background_jobs),
            scratch_blocks: (scratch_blocks / groups as u32).max(2048),
            ..self.engine
        };
        LogArray::engine_config(&self.log_config(), share)
    }

    /// The configuration of a write cache in memory, if there is one.
    fn cache_config(&self) -> Option<CacheConfig> {
        let config = CacheConfig {
            tags: self.engine.tags,
            blocks: self.cache_blocks,
            linger: self.cache_linger,
            ..CacheConfig::default()
        };
        self.scheme.cache().is_volatile().then_some(config)
    }

    /// The configuration of a log volume.
    fn log_config(&self) -> raidlog::Config {
        raidlog::Config { tags: self.engine.tags, ..raidlog::Config::default() }
    }
}

/// An array that has been assembled.
#[derive(Debug)]
pub struct Group {
    /// Its metadata.
    pub assembled: Assembled,
    /// The devices of its members, by slot, and then of its spares, in the record's order.
    pub devices: Vec<Option<Device>>,
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
        Self::spawn_leased(config, Group { assembled, devices }, None)
    }

    /// The same, of an array that is run only as long as its lease is held, which ends with it.
    pub(crate) fn spawn_leased(
        config: HostConfig,
        Group { assembled, devices }: Group,
        lease: Option<Leash>,
    ) -> io::Result<(Volume, HostHandle)> {
        let geometry = assembled.record.geometry;
        let shape = VolumeConfig {
            name: assembled.record.name.clone(),
            blocks: assembled.record.layout().capacity(),
            chunk_blocks: geometry.chunk(),
            stripe_blocks: geometry.stripe_blocks(),
            discard_blocks: geometry.stripe_blocks(),
            max_request_blocks: config.max_request_blocks,
            tags: config.engine.tags,
        };
        Self::run(config, vec![Group { assembled, devices }], (None, lease), shape)
    }

    /// Starts a log volume above the arrays of its groups, in order, whose devices are numbered one
    /// group after the other. Requests can be submitted at once; they wait until the volume is
    /// found. If there is none, they fail, and [`HostHandle::lost`] tells why.
    ///
    /// # Errors
    /// If the kernel refuses a thread, an io_uring or memory.
    ///
    /// # Panics
    /// If the arrays are not those of one volume's groups, or there is not one entry of devices for
    /// each member and spare of a group.
    pub fn spawn_log(
        config: HostConfig,
        groups: Vec<Group>,
        begin: Begin,
    ) -> io::Result<(Volume, HostHandle)> {
        let parts = groups.iter().map(|group| group.assembled.record.volume);
        let part = parts.clone().next().flatten().expect("a group of a volume");
        let expected = (0..part.groups).map(|group| Some(VolumePart { group, ..part }));
        assert!(parts.eq(expected), "all groups of one volume, in order");
        let shape = VolumeConfig {
            name: groups[0].assembled.record.name.clone(),
            blocks: part.blocks,
            chunk_blocks: 1,
            // Writes of all sizes are appended to the log; the largest are the cheapest.
            stripe_blocks: config.max_request_blocks,
            discard_blocks: 1,
            max_request_blocks: config.max_request_blocks,
            tags: config.engine.tags,
        };
        Self::run(config, groups, (Some(begin), None), shape)
    }

    /// Finds out whether the kernel lets this process run an array.
    ///
    /// # Errors
    /// If it refuses an io_uring.
    pub fn probe(config: &HostConfig) -> io::Result<()> {
        crate::ring::probe(config.ring_entries)
    }

    fn run(
        config: HostConfig,
        mut groups: Vec<Group>,
        (begin, lease): (Option<Begin>, Option<Leash>),
        shape: VolumeConfig,
    ) -> io::Result<(Volume, HostHandle)> {
        let passthrough = config.passthrough && pass_block_layer(&mut groups);
        for Group { assembled, devices } in &groups {
            assert_eq!(
                devices.len(),
                assembled.record.slots.len() + assembled.record.spares.len(),
                "a device or a gap for each member and spare"
            );
        }
        let (name, count) = (shape.name.clone(), groups.len());
        let HostConfig { io_timeout, threads, .. } = config;
        let (volume, submissions) = Volume::try_channel(shape)?;
        let shared = Arc::new(Shared::new(Arc::clone(submissions.bell()), opened(&groups)));
        if let Some(lease) = &lease {
            lease.permit.wakes(submissions.bell());
        }
        let site = Site::choose(config.cpus, Machine::here(), &numbers(&groups));
        site.tell();
        let setup = Setup {
            config,
            groups,
            begin,
            submissions,
            site,
            shared: Arc::clone(&shared),
            lease: lease.clone(),
        };
        let (ready, started) = sync_channel(1);
        std::thread::Builder::new()
            .name(format!("array {name}"))
            .spawn(move || data::serve(setup, ready))?;
        started
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the data thread failed as it started")))?;
        let client =
            Client { shared, groups: count, io_timeout, threads, site, passthrough, lease };
        Ok((volume, HostHandle { client: Arc::new(client), group: raidlog::ONLY }))
    }
}

/// Lets I/O on devices go past the block layer where it can, and tells whether it does on any: only
/// then the ring is one for it.
fn pass_block_layer(groups: &mut [Group]) -> bool {
    let devices = groups.iter_mut().flat_map(|group| &mut group.devices).flatten();
    let passing = devices.filter_map(|device| {
        device.pass_block_layer();
        device.passthrough()
    });
    let any = passing.count() > 0;
    if !any {
        tracing::info!(
            "no member's I/O goes past the block layer; nor will that of later ones, until the array is \
             started again"
        );
    }
    any
}

/// The numbers of those devices that are block devices.
fn numbers(groups: &[Group]) -> Vec<Option<u64>> {
    let devices = groups.iter().flat_map(|group| &group.devices).flatten();
    devices.map(|device| device.identity().block_device()).collect()
}

/// Facts about an opened device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) durable_by: DurableBy,
    /// The device number of a block device.
    pub(crate) number: Option<u64>,
    /// Whether I/O goes past the block layer.
    pub(crate) passthrough: bool,
    /// How many streams of writes it keeps apart.
    pub(crate) write_streams: u16,
    /// The windows in which it collects garbage as it is told.
    pub(crate) windows: Option<View>,
}

impl Opened {
    fn of(device: &Device) -> Self {
        Self {
            path: device.path().to_path_buf(),
            durable_by: device.durable_by(),
            number: device.identity().block_device(),
            passthrough: device.passthrough().is_some(),
            write_streams: device.write_streams(),
            windows: device.windows().map(Windows::view),
        }
    }
}

/// The devices by their numbers.
fn opened(groups: &[Group]) -> impl Iterator<Item = (DeviceId, Opened)> {
    let numbered = (0u32..).map(DeviceId).zip(groups.iter().flat_map(|group| &group.devices));
    numbered.filter_map(|(id, device)| Some((id, Opened::of(device.as_ref()?))))
}

#[cfg(test)]
mod tests;
