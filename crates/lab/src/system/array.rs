//! An array: the engine over simulated SSDs.
//!
//! The engine is the one that serves real devices. Blocks have no bytes here and arithmetic takes
//! no time; all other actions of the engine, including metadata and journal, are I/O on the SSDs.

use det::Instant;
use flashsim::{Op, Ssd};
use raidcore::engine::{self, Command, Config, Engine, Pace, Slowdown, Stream};
use raidcore::geometry::{GeometryError, Placement, Shares};
use raidcore::meta::{
    ArrayId, Assembled, DeviceUuid, Features, LayoutError, NewArray, STAGING_MAX,
};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, MemberId, Pba};
use raidlog::array::Input;
use raidlog::{Machine, ONLY};
use steering::Steering;
use steering::wear::optimal_ages;

use super::array_spec::ArraySpec;
use super::drive::{Drive, Io};
use super::hosted::Hosted;
use super::rebuild::{RebuildSpec, Rebuilt, Watch};
use super::{Request, Steered, System, Told};
use crate::units::Bytes;
use crate::workload::Kind;

/// Why an array can't be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its shape is impossible.
    #[error("[array]: {0}")]
    Layout(#[from] LayoutError),
    /// The chunk is not whole blocks.
    #[error("array.chunk is {0}; it must be a multiple of 4 KiB, and at most 1 MiB")]
    Chunk(Bytes),
    /// The scheme stages writes, and there is nowhere to.
    #[error("array.scheme = \"{0}\" stages writes: set array.staging, to \"64M\" for example")]
    NoStaging(String),
    /// That is no part of an SSD that can be left unused.
    #[error("array.over_provisioning is {0}; it is a part of each SSD, from 0 to less than 1")]
    OverProvisioning(f64),
}

/// The most steps of an array's start.
const START_STEPS_MAX: u32 = 1_000_000;

/// An array: the engine over simulated SSDs.
pub struct Array {
    hosted: Hosted,
    config: Config,
    /// SSDs that are members or staging devices at first. One more may be a spare.
    places: usize,
    rebuild: Option<RebuildSpec>,
    watch: Watch,
}

/// The parameters of the array, on drives of `member_blocks` blocks.
fn new_array(spec: &ArraySpec, member_blocks: u64) -> Result<NewArray, StartError> {
    let block = BLOCK_BYTES as u64;
    let chunk = u32::try_from(spec.chunk.0 / block)
        .ok()
        .filter(|_| spec.chunk.0.is_multiple_of(block))
        .ok_or(StartError::Chunk(spec.chunk))?;
    let uuids = |places: std::ops::Range<usize>| {
        places.map(|place| DeviceUuid([place as u8 + 1; 16])).collect()
    };
    let members = usize::from(spec.members);
    let placement = match &spec.parity_shares {
        Some(percent) => Placement::Uneven(
            Shares::new(percent).map_err(|e| LayoutError::from(GeometryError::from(e)))?,
        ),
        None => Placement::of(spec.level),
    };
    let mut new = NewArray {
        array: ArrayId(*b"in virtual time!"),
        name: "lab".into(),
        created: 0,
        level: spec.level,
        placement,
        chunk,
        consistency: spec.consistency,
        devices: uuids(0..members),
        journal_blocks: spec.journal.0 / block,
        staging_blocks: spec.staging.0 / block,
        staging_devices: uuids(members..spec.places()),
        staging_device_blocks: 0,
        distributed_spare: spec.distributed_spare,
        member_blocks: vec![member_blocks; members],
    };
    if spec.staging_ssds > 0 {
        let (start, _) =
            NewArray { staging_devices: Vec::new(), ..new.clone() }.record()?.areas.staging();
        let most = member_blocks.saturating_sub(start.0).min(STAGING_MAX);
        new.staging_device_blocks = spec.staging_ssd.map_or(most, |size| size.0 / block);
    }
    Ok(new)
}

impl Array {
    /// A new array, started and serving, on SSDs without any of its data. Also returns the time at
    /// which it serves.
    ///
    /// # Errors
    /// If its shape is impossible or the SSDs are too small.
    pub fn start(
        spec: &ArraySpec,
        ssds: Vec<Ssd>,
        config: Config,
        told: &mut Told,
    ) -> Result<(Self, Instant), StartError> {
        let needs_staging = spec.scheme.0.needs_staging() || spec.staging_ssds > 0;
        if needs_staging && spec.staging.0 == 0 {
            return Err(StartError::NoStaging(spec.scheme.0.to_string()));
        }
        let mut drives: Vec<_> =
            (0..).zip(ssds).map(|(number, ssd)| Drive::new(ssd, number)).collect();
        let smallest = drives.iter().map(Drive::blocks).min().unwrap_or(0);
        let member_blocks = used_of(smallest, spec.over_provisioning)?;
        let mut record = new_array(spec, member_blocks)?.record()?;
        if spec.own_headers {
            record.features.incompatible &= !Features::SHARED_HEADERS;
        }
        let mut now = Instant::ORIGIN;
        if member_blocks < smallest {
            for drive in &mut drives {
                let unused = drive.blocks() - member_blocks;
                now = now.max(leave_unused(drive, Pba(member_blocks), unused, told));
            }
        }
        if spec.distributed_spare {
            let (layout, blocks) = (record.layout(), record.areas.distributed_spare_blocks());
            for (drive, place) in drives.iter_mut().zip(record.places()) {
                let start = layout.data_end(place);
                now = now.max(leave_unused(drive, start, blocks, told));
            }
        }
        let devices: Vec<_> =
            (0..spec.places() as u32).map(|device| Some(DeviceId(device))).collect();
        let assembled = Assembled::of_new(record, false);
        let kept = spec.staging_memory.map_or(0, |Bytes(bytes)| bytes / BLOCK_BYTES as u64);
        let staged_blocks = u32::try_from(kept).unwrap_or(u32::MAX);
        let config = Config { staged_blocks, ..config };
        let engine = Engine::new(config, assembled, &devices, Instant::ORIGIN, 0);
        let machine = Machine::Array(Box::new(engine));
        let steering = || Steering::new(spec.scheme.0, spec.extra_reads);
        let members = drives.len();
        let mut array = Self {
            hosted: Hosted::new(machine, steering, drives, members, config.tags),
            config,
            places: spec.places(),
            rebuild: spec.rebuild,
            watch: Watch::new(spec.rebuild.is_some_and(|rebuild| rebuild.goes_on)),
        };
        array.hosted.tell(now, Input::Tick, &mut array.watch, told);
        for _ in 0..START_STEPS_MAX {
            if array.engine().is_serving() {
                break;
            }
            now = array.next().expect("a start that has not ended goes on");
            array.poll(now, told);
        }
        assert!(array.engine().is_serving(), "nothing fails, so it starts");
        Ok((array, now))
    }

    /// The engine, to look at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.hosted.machine.engine(ONLY)
    }

    /// A member fails, and the spare replaces it, be it an SSD or distributed.
    fn fail(
        &mut self,
        now: Instant,
        RebuildSpec { pace: Bytes(min), max, slowdown, order, .. }: RebuildSpec,
        told: &mut Told,
    ) {
        let fails = Command::Fail(MemberId(0));
        let paced = Command::SetPace(Pace { min, max: max.map_or(min, |Bytes(max)| max) });
        let slowdown = slowdown.map_or(Some(Slowdown::default()), |times| {
            Slowdown::percent((100.0 * times).round() as u32)
        });
        let limited = Command::LimitSlowdown(slowdown);
        let ordered = Command::SetRebuildOrder(order.0);
        let drives = &self.hosted.drives;
        let spare = (drives.len() > self.places).then(|| drives.len() - 1);
        let replaced = spare.map(|spare| Command::AddSpare {
            device: DeviceId(spare as u32),
            uuid: DeviceUuid([u8::MAX; 16]),
            blocks: drives[spare].blocks(),
        });
        for (number, command) in
            (0..).zip([paced, limited, ordered, fails].into_iter().chain(replaced))
        {
            let input = engine::Input::Command { number, command };
            let input = Input::Array { group: ONLY, input };
            self.hosted.tell(now, input, &mut self.watch, told);
        }
    }
}

impl System for Array {
    fn blocks(&self) -> u64 {
        self.engine().geometry().capacity()
    }

    fn depth(&self) -> u16 {
        self.config.tags
    }

    fn submit(&mut self, now: Instant, request: Request, told: &mut Told) {
        if self.watch.looks() && request.kind == Kind::Read {
            let blocks = (0..u64::from(request.blocks)).map(|at| Lba(request.lba + at));
            for at in blocks {
                if let Some(whole) = self.hosted.machine.engine(ONLY).is_rebuilt(at) {
                    self.watch.read(now, whole);
                }
            }
        }
        self.hosted.submit(now, (request, None), &mut self.watch, told);
    }

    fn next(&self) -> Option<Instant> {
        self.hosted.next()
    }

    fn poll(&mut self, now: Instant, told: &mut Told) {
        self.hosted.poll(now, &mut self.watch, told);
    }

    fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.hosted.ssds()
    }

    fn begin(&mut self, now: Instant, told: &mut Told) {
        self.hosted.begin();
        if let Some(rebuild) = self.rebuild {
            self.watch.failed(now);
            self.fail(now, rebuild, told);
        }
    }

    fn rebuilt(&self) -> Rebuilt {
        self.watch.rebuilt()
    }

    fn optimal_ages(&self) -> Vec<f64> {
        optimal_ages(self.engine().geometry(), self.engine().entries())
    }

    fn thresholds(&self) -> Vec<Option<f64>> {
        self.hosted.thresholds()
    }

    fn drive_ios(&self) -> (u64, u64) {
        self.hosted.drive_ios()
    }

    fn steered(&self) -> Steered {
        self.hosted.steered()
    }
}

/// How many blocks of an SSD are used, if this part of it is not.
fn used_of(blocks: u64, unused: f64) -> Result<u64, StartError> {
    if !(0.0..1.0).contains(&unused) {
        return Err(StartError::OverProvisioning(unused));
    }
    Ok((blocks as f64 * (1.0 - unused)) as u64)
}

/// Discards these blocks of a drive, whatever its preconditioning; returns when that has ended.
fn leave_unused(drive: &mut Drive, Pba(at): Pba, blocks: u64, told: &mut Told) -> Instant {
    let blocks = u32::try_from(blocks).expect("an SSD in memory has fewer blocks");
    let trim = Io { id: 0, op: Op::Trim, fua: false, stream: Stream::Data, at, blocks };
    drive.begin(Instant::ORIGIN, trim, &mut told.gc);
    let (mut now, mut ended) = (Instant::ORIGIN, Vec::new());
    while ended.is_empty() {
        now = Instant(drive.next());
        drive.poll(now, &mut ended, &mut told.gc);
    }
    now
}
