//! Members that are modelled SSDs: their ops under way, their latencies, and their states, which
//! are stored from time to time and when a member is closed.
//!
//! Invariant: the file of a member that is closed stays locked until its state is stored.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use det::Instant;
use evenkeel_client::{DelayedIo, FlashDrive, FlashLog, FlashReport, GcInterval, Quantiles};
use flashsim::profile::GcLimits;
use flashsim::real::{Ended, Io, RealTime, Report};
use flashsim::{GcMode, GcOrder, Ssd, Thresholds};
use hdrhistogram::Histogram;
use raidcore::units::DeviceId;
use steering::collect::{self, Flash, Limits, Order};

use super::{MemberIndex, Ring};
use crate::flash;
use crate::members::Device;
use crate::ops::{Op, OpId, OpKind};

/// The shortest interval between two stores of a state.
const STORE_PAUSE: Duration = Duration::from_secs(30);

/// The interval is also at least this many times as long as copying the state has kept the data
/// thread.
const STORE_PAUSE_TIMES: u32 = 200;

/// How many of the latest I/Os that waited for garbage collection are remembered.
const DELAYED_KEPT: usize = 1 << 13;

/// Queries of modelled SSDs, by device.
impl Ring {
    /// How the modelled SSDs are, but for what the policy has them do.
    pub(crate) fn flash_reports(&mut self, now: Instant) -> Vec<(DeviceId, FlashReport)> {
        let members = self.members.iter().zip(0..).filter_map(|(m, at)| Some((m.as_ref()?, at)));
        let here = members.filter(|(member, _)| member.flash && !member.released);
        here.filter_map(|(m, at)| Some((m.id, self.drives.report(now, MemberIndex(at))?))).collect()
    }

    /// Whether a device collects garbage, and for how long it has, if it reports that.
    pub(crate) fn collecting(
        &mut self,
        now: Instant,
        device: DeviceId,
    ) -> Option<(bool, Duration)> {
        self.drives.collecting(now, self.find(device)?)
    }

    /// When a modelled SSD collected garbage since `since`, and which I/Os waited for it.
    pub(crate) fn flash_log(
        &mut self,
        now: Instant,
        device: DeviceId,
        since: Instant,
    ) -> Option<FlashLog> {
        self.drives.log(now, self.find(device)?, since)
    }
}

struct Drive {
    member: MemberIndex,
    path: PathBuf,
    model: RealTime,
    /// Something was written since its state was stored.
    changed: bool,
    /// The earliest time of the next store.
    store_at: Instant,
    storing: Option<JoinHandle<()>>,
    reads: [Histogram<u64>; 2],
    writes: [Histogram<u64>; 2],
    delayed: VecDeque<DelayedIo>,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Drives {
    drives: Vec<Drive>,
    /// Those that are being closed.
    closing: Vec<JoinHandle<()>>,
}

impl Drives {
    /// A member is a drive.
    pub(super) fn open(&mut self, now: Instant, member: MemberIndex, path: PathBuf, drive: Ssd) {
        self.drives.push(Drive {
            member,
            path,
            model: RealTime::new(drive, now),
            changed: false,
            store_at: now + STORE_PAUSE,
            storing: None,
            reads: [latencies(), latencies()],
            writes: [latencies(), latencies()],
            delayed: VecDeque::new(),
        });
    }

    /// Begins an op in its member's model.
    pub(super) fn begin(&mut self, now: Instant, id: OpId, op: &Op) {
        let Some(drive) = self.drive(op.member) else { return };
        let io = match op.kind {
            OpKind::Read(_) => Io::Read,
            OpKind::Write { durable, .. } => Io::Write { durable, stream: 0 },
            OpKind::Gather { .. } => Io::Write { durable: true, stream: 0 },
            OpKind::Flush => Io::Flush,
            OpKind::Discard | OpKind::Trim => Io::Discard,
            OpKind::Look => return,
        };
        drive.changed |= matches!(io, Io::Write { .. } | Io::Discard);
        drive.model.begin(now, id.to_bits(), io, op.offset, op.bytes as u64);
    }

    /// When [`Drives::poll`] is to be called next.
    pub(super) fn next(&self) -> Option<Instant> {
        let store = |drive: &Drive| drive.changed.then_some(drive.store_at);
        self.drives.iter().flat_map(|drive| [drive.model.next(), store(drive)]).flatten().min()
    }

    /// Appends the ops that the models have ended.
    pub(super) fn poll(&mut self, now: Instant, ended: &mut Vec<Ended>) {
        for drive in &mut self.drives {
            drive.model.poll(now, ended);
            if drive.changed && drive.store_at <= now {
                drive.store(now);
            }
        }
    }

    /// Records the latency of an op.
    pub(super) fn count(&mut self, op: &Op, began: Instant, ended: Ended, now: Instant) {
        let Some(drive) = self.drive(op.member) else { return };
        let read = matches!(op.kind, OpKind::Read(_));
        let latencies = match op.kind {
            OpKind::Read(_) => &mut drive.reads,
            OpKind::Write { .. } | OpKind::Gather { .. } => &mut drive.writes,
            OpKind::Flush | OpKind::Discard | OpKind::Trim | OpKind::Look => return,
        };
        let nanos = u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX);
        latencies[usize::from(ended.delayed_by_gc)].saturating_record(nanos);
        if ended.delayed_by_gc {
            if drive.delayed.len() == DELAYED_KEPT {
                drive.delayed.pop_front();
            }
            let (began, modelled, ended) = (began.0, ended.at.0, now.0);
            drive.delayed.push_back(DelayedIo { read, began, modelled, ended });
        }
    }

    /// Whether a member collects garbage, if it tells.
    pub(super) fn is_collecting(&self, member: MemberIndex) -> bool {
        let drive = self.drives.iter().find(|drive| drive.member == member);
        drive.is_some_and(|drive| drive.tells() && drive.model.is_collecting())
    }

    /// Whether a member takes orders when to collect.
    pub(super) fn obeys(&self, member: MemberIndex) -> bool {
        let drive = self.drives.iter().find(|drive| drive.member == member);
        drive.is_some_and(|drive| drive.model.ssd().profile().obeys)
    }

    /// Whether a member collects garbage, and for how long it has since it was opened, if it tells.
    pub(super) fn collecting(
        &mut self,
        now: Instant,
        member: MemberIndex,
    ) -> Option<(bool, Duration)> {
        let drive = self.drive(member).filter(|drive| drive.tells())?;
        let time = Duration::from_nanos(drive.model.report(now).gc_ns);
        Some((drive.model.is_collecting(), time))
    }

    /// A member's state, for deciding which one collects next, if it tells.
    pub(super) fn steering(&self, member: MemberIndex) -> Option<(Flash, Limits)> {
        let drive = self.drives.iter().find(|drive| drive.member == member && drive.tells())?;
        let (ssd, collecting) = (drive.model.ssd(), drive.model.is_collecting());
        let space = ssd.space();
        let free = f64::from(space.least_free_blocks) / f64::from(space.blocks_per_plane);
        let GcLimits { start, stop, hard, spare } = ssd.profile().gc_limits();
        let flash = Flash {
            free,
            collecting,
            at_work: ssd.gc_mode() != GcMode::None,
            dirtiest: ssd.dirtiest(),
            age: ssd.erases() as f64 / f64::from(space.blocks),
            in_flight: 0,
        };
        Some((flash, Limits { start, stop, hard, spare }))
    }

    /// How much of its life a member has used, in percent.
    pub(super) fn used_percent(&self, member: MemberIndex) -> Option<f64> {
        let drive = self.drives.iter().find(|drive| drive.member == member)?;
        Some(drive.model.ssd().used_percent())
    }

    /// Tells a member when to collect.
    pub(super) fn order(&mut self, now: Instant, member: MemberIndex, order: Order) {
        let Some(drive) = self.drive(member) else { return };
        let order = match order {
            Order::Auto => GcOrder::Auto,
            Order::Hold => GcOrder::Hold,
            Order::Reach(share) => GcOrder::Reach(share),
            Order::Thresholds(collect::Thresholds { low, medium, high, gce }) => {
                GcOrder::Thresholds(Thresholds { low, medium, high, gce })
            }
            Order::Once { gce } => GcOrder::Once { gce },
        };
        drive.model.order_gc(now, order);
    }

    /// A member's state.
    pub(super) fn report(&mut self, now: Instant, member: MemberIndex) -> Option<FlashReport> {
        let drive = self.drive(member)?;
        let [reads, reads_delayed] = drive.reads.each_ref().map(quantiles);
        let [writes, writes_delayed] = drive.writes.each_ref().map(quantiles);
        let drive = shown_drive(drive.model.report(now));
        Some(FlashReport { drive, threshold: None, reads, reads_delayed, writes, writes_delayed })
    }

    /// What was remembered of a member since `since`.
    pub(super) fn log(
        &mut self,
        now: Instant,
        member: MemberIndex,
        since: Instant,
    ) -> Option<FlashLog> {
        let drive = self.drive(member)?;
        let delayed = drive.delayed.iter().filter(|io| io.ended >= since.0);
        let gc = drive.model.gc_log(now, since).into_iter();
        let gc =
            gc.map(|stretch| GcInterval { began: stretch.began, ended: stretch.ended }).collect();
        Some(FlashLog { delayed: delayed.copied().collect(), gc })
    }

    /// Stores a member's state, then closes the device. Ops that the model has not ended by then
    /// are lost, as with a power failure.
    pub(super) fn close(&mut self, member: MemberIndex, device: Device) {
        let Some(at) = self.drives.iter().position(|drive| drive.member == member) else { return };
        let Drive { path, model, storing, .. } = self.drives.swap_remove(at);
        self.closing.retain(|thread| !thread.is_finished());
        self.closing.extend(in_background(move || {
            if let Some(storing) = storing {
                join(storing);
            }
            store(&path, &model.save());
            drop(device);
        }));
    }

    fn drive(&mut self, member: MemberIndex) -> Option<&mut Drive> {
        self.drives.iter_mut().find(|drive| drive.member == member)
    }
}

impl Drop for Drives {
    /// Waits until all is stored.
    fn drop(&mut self) {
        let storing = self.drives.iter_mut().filter_map(|drive| drive.storing.take());
        self.closing.drain(..).chain(storing).for_each(join);
    }
}

impl Drive {
    /// Whether it tells the host when it collects.
    fn tells(&self) -> bool {
        self.model.ssd().profile().told
    }

    /// Stores the state: only copying it takes time of the data thread.
    fn store(&mut self, now: Instant) {
        self.store_at = now + STORE_PAUSE;
        if self.storing.as_ref().is_some_and(|storing| !storing.is_finished()) {
            return;
        }
        if let Some(storing) = self.storing.take() {
            join(storing);
        }
        let begin = std::time::Instant::now();
        let state = self.model.save();
        self.store_at = now + STORE_PAUSE.max(begin.elapsed() * STORE_PAUSE_TIMES);
        self.changed = false;
        let path = self.path.clone();
        self.storing = in_background(move || store(&path, &state));
    }
}

fn store(path: &Path, state: &[u8]) {
    if let Err(error) = flash::store(path, state) {
        tracing::warn!(%error, "the state of a modelled SSD could not be stored");
    }
}

/// Runs work on a thread of its own, if one can be started.
fn in_background(work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("flash state".into()).spawn(work);
    let refused = |error: &_| tracing::warn!(%error, "no thread to store a modelled SSD's state");
    thread.inspect_err(refused).ok()
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("storing the state of a modelled SSD failed");
    }
}

/// From 1 ns to an hour, to 1 in 100.
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("bounds and precision are possible")
}

fn quantiles(latencies: &Histogram<u64>) -> Quantiles {
    let at = |quantile| latencies.value_at_quantile(quantile);
    Quantiles {
        count: latencies.len(),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: latencies.max(),
    }
}

/// What a model says of its drive, for clients.
fn shown_drive(report: Report) -> FlashDrive {
    let Report {
        profile,
        told,
        obeys,
        waf,
        pages_written,
        pages_moved,
        erases,
        free_blocks,
        blocks,
        gc_stretches,
        gc_longest_ns,
        gc_ns,
        open_ns,
        delayed_by_gc,
    } = report;
    FlashDrive {
        profile,
        told,
        obeys,
        waf,
        pages_written,
        pages_moved,
        erases,
        free_blocks,
        blocks,
        gc_stretches,
        gc_longest_ns,
        gc_ns,
        open_ns,
        delayed_by_gc,
    }
}
