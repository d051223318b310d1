//! The figures of a run.

use std::time::Duration;

use flashsim::{Ssd, Stats, Wear};
use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use super::latency::Latency;
use super::timeline::Timeline;
use super::{Collecting, Meter};
use crate::plan::{groups, longest_wait, victim_utilisation};
use crate::run::RunEnd;
use crate::system::{Destaged, Logged, Rebuilt, Steered, System};

/// The figures of a run. Shares are parts of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How it ended.
    pub end: RunEnd,
    /// How long it took, in seconds of virtual time.
    pub seconds: f64,
    /// Requests that came.
    pub requests: u64,
    /// Requests that came, per second of the time in which they did.
    pub offered_per_second: f64,
    /// Requests that ended, per second.
    pub requests_per_second: f64,
    /// What was read, in bytes per second.
    pub read_bytes_per_second: f64,
    /// What was written, in bytes per second.
    pub written_bytes_per_second: f64,
    /// Reads.
    pub reads: Latency,
    /// Writes.
    pub writes: Latency,
    /// Reads and writes together.
    pub responses: Latency,
    /// The share of requests that were not aligned to blocks of 4 KiB; they were widened.
    pub unaligned: f64,
    /// The share of block reads that went to blocks more than 90% of whose accesses are reads.
    pub read_intensive: f64,
    /// The share of block writes that went to blocks more than 90% of whose accesses are writes.
    pub write_intensive: f64,
    /// The share of requests that had to wait for garbage collection.
    pub gc_conflicts: f64,
    /// The share of requests of which something came to a die that was erasing.
    #[serde(default)]
    pub erase_hits: f64,
    /// The share of requests that came while any drive was erasing.
    #[serde(default)]
    pub during_erases: f64,
    /// The share of the drives' I/Os that had to wait for it.
    pub gc_io_conflicts: f64,
    /// The share of reads (of stripes) that went around busy drives.
    pub detours: f64,
    /// Reads that were hedged.
    pub hedged: f64,
    /// The share of reads (of stripes) that were served from copies, as home was busy.
    pub copy_reads: f64,
    /// Blocks of which copies were made, per block that was read.
    pub copied: f64,
    /// Extra blocks that detours and copies have read, per block that was requested.
    pub extra_reads: f64,
    /// How long the rebuild took, in seconds, if there was one and it has ended.
    pub rebuild_seconds: Option<f64>,
    /// How long it took until four of five reads of what the failed member had found that rebuilt, in
    /// seconds, if that came to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mostly_rebuilt_seconds: Option<f64>,
    /// Writes (of stripes) that were staged, per write.
    pub staged: f64,
    /// Of these, the share that have the header of another, and none of their own.
    #[serde(default)]
    pub shared_headers: f64,
    /// Writes (of stripes) that would have been staged, had there been room, per write.
    pub staging_refused: f64,
    /// Blocks that were brought home from the staging log.
    pub reclaimed_blocks: u64,
    /// Blocks that were read from the staging log, by users or to be brought home.
    #[serde(default)]
    pub staged_reads: u64,
    /// Blocks of it that were found in memory, and not read.
    #[serde(default)]
    pub kept_reads: u64,
    /// Blocks of the staging log that were not at home in the end.
    pub staging_backlog: u64,
    /// The share of the staging log in use in the end, on the fullest member.
    pub staging_use: f64,
    /// Of the reads and writes that met a collecting drive, the share that went around it.
    pub gc_avoided: f64,
    /// The share of the time in which at least one drive collected garbage.
    pub gc_any: f64,
    /// The share of the time in which at least two did.
    pub gc_overlap: f64,
    /// Standard deviation of the requests per interval of the timeline, as a part of their mean.
    pub throughput_variation: f64,
    /// Pages that the flash programmed per page that the drives were asked to write.
    pub device_waf: f64,
    /// Bytes that the drives were asked to write per byte that the workload wrote.
    pub array_waf: f64,
    /// The product of both.
    pub total_waf: f64,
    /// Bytes that the drives were asked to read per byte that the workload read.
    pub read_amplification: f64,
    /// The figures of its log, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogFigures>,
    /// The figures of its cache in memory, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheFigures>,
    /// The drives, in order.
    pub drives: Vec<DriveFigures>,
    /// The run over time.
    pub timeline: Timeline,
}

/// The figures of a log array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogFigures {
    /// Blocks written to the groups (data, what was moved, summaries, padding, checkpoints) per
    /// block that users wrote.
    pub waf: f64,
    /// Blocks that cleaners moved per block that users wrote.
    pub moved: f64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// The share of live blocks of segments when they were chosen to be cleaned.
    pub victim: f64,
    /// The same by Menon's law for uniform writes, from the live share of the log.
    pub victim_by_law: f64,
    /// The live share of the log in the end.
    pub used: f64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// How often users' writes had to wait for a cleaner.
    pub stalls: u64,
    /// How long they waited for cleaning, for room or as cleaning is paced, in seconds.
    pub waited_seconds: f64,
    /// The longest of these waits, in microseconds.
    pub longest_wait_us: f64,
    /// The longest wait by the model ([`longest_wait`]), with the measured victims, in
    /// microseconds.
    pub modelled_wait_us: f64,
    /// The number of groups by Eq 1, with the measured victims.
    pub groups_by_model: f64,
    /// How often another group went to the front.
    pub rotations: u64,
    /// How many times the log's room had been written when a cleaner first began, even before the
    /// measurement; zero if none has.
    pub cleaned_from: f64,
    /// Reads of the group at the front, of groups at the back, and of those that were being cleaned.
    pub sides: [Latency; 3],
}

/// The figures of a write cache in memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheFigures {
    /// The share of blocks that were written that were in it.
    pub write_hits: f64,
    /// The share of blocks that were read that were in it.
    pub read_hits: f64,
    /// How many blocks were destaged together.
    pub group_blocks: f64,
    /// The share of these groups that were whole stripes, or strips if each SSD is by itself.
    pub full_groups: f64,
    /// The share of writes, by stripe, that had to wait for room.
    pub waited: f64,
}

impl CacheFigures {
    fn of(destaged: &Destaged) -> Self {
        let of = |part_of: u64, all: u64| part(part_of as f64, all as f64);
        Self {
            write_hits: of(destaged.write_hits, destaged.written),
            read_hits: of(destaged.read_hits, destaged.read),
            group_blocks: of(destaged.blocks, destaged.groups),
            full_groups: of(destaged.full, destaged.groups),
            waited: of(destaged.waited, destaged.writes),
        }
    }
}

/// The figures of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveFigures {
    /// The share of the time in which it collected garbage.
    pub gc_duty: f64,
    /// Uninterrupted stretches of collection on a die.
    pub gc_events: u64,
    /// Their mean length in microseconds.
    pub gc_mean_us: f64,
    /// The longest, in microseconds.
    pub gc_max_us: f64,
    /// Write amplification.
    pub waf: f64,
    /// Pages that it was asked to read.
    pub pages_read: u64,
    /// Pages that it was asked to write.
    pub pages_written: u64,
    /// Pages that collection moved.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Of these, those that were erased together with another drive's (`age-aware`).
    #[serde(default)]
    pub forced: u64,
    /// Its age by Eq 1 of McEwan and Komsul and the journal's part, relative to the drive with the most parity:
    /// what small random writes would make it. Zero for one that is no member.
    #[serde(default)]
    pub optimal_age: f64,
    /// Free blocks in the end, as a share of all.
    pub free: f64,
    /// The share of free blocks from which on the scheme has it collect in the end, if it goes by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Erases of the most worn block in the end, since it was made.
    pub most_worn: u32,
    /// Mean erases of a block in the end, since it was made.
    pub mean_wear: f64,
    /// How often a write had to wait for room in the drive's buffer.
    pub buffer_full: u64,
    /// Mean time that the operations of reads waited for their die, in microseconds.
    pub read_queue_us: f64,
    /// The same of writes, or of the buffer's programs.
    pub write_queue_us: f64,
}

/// The state of the drives in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Drives {
    drives: Vec<(Stats, Wear, f64, u32)>,
    ios: (u64, u64),
    /// The members' ages, as small writes would make them.
    optimal: Vec<f64>,
    thresholds: Vec<Option<f64>>,
    steered: Steered,
    logged: Option<Logged>,
    destaged: Option<Destaged>,
    rebuilt: Rebuilt,
}

impl Drives {
    pub(super) fn of(system: &impl System) -> Self {
        let say = |ssd: &Ssd| {
            let space = ssd.space();
            let free = f64::from(space.free_blocks) / f64::from(space.blocks);
            (ssd.stats(), ssd.wear(), free, ssd.geometry().page_bytes)
        };
        Self {
            drives: system.ssds().map(say).collect(),
            ios: system.drive_ios(),
            optimal: system.optimal_ages(),
            thresholds: system.thresholds(),
            steered: system.steered(),
            logged: system.logged(),
            destaged: system.destaged(),
            rebuilt: system.rebuilt(),
        }
    }

    /// The sum over the drives of a number of pages, in bytes.
    fn bytes(&self, pages: impl Fn(&Stats) -> u64) -> f64 {
        self.drives.iter().map(|(stats, .., page)| pages(stats) as f64 * f64::from(*page)).sum()
    }
}

impl Meter {
    /// The figures, once it is [finished](Meter::finish).
    #[must_use]
    pub fn figures(&self, end: RunEnd) -> Figures {
        let time = self.start.map_or(Duration::ZERO, |start| self.end - start);
        let seconds = time.as_secs_f64();
        let (reads, writes) = (self.reads.latency(), self.writes.latency());
        let responses = self.reads.and(&self.writes).latency();
        let coming = self.start.map_or(0.0, |start| (self.last - start).as_secs_f64());
        let steered = self.drives.steered;
        let (around, staged) = (steered.detours as f64, steered.staged_writes as f64);
        let copies = steered.copy_reads as f64;
        let avoided = around + copies + staged;
        let delayed = self.delayed_by_gc as f64;
        let pages = self.pages.summary();
        let ended = reads.count + writes.count + self.others;
        let block = BLOCK_BYTES as f64;
        let written = self.written_blocks as f64 * block;
        let read = self.read_blocks as f64 * block;
        let to_drives = self.drives.bytes(|stats| stats.pages_written);
        let flash = |stats: &Stats| stats.flash.programmed + stats.flash.moved + stats.flash.padded;
        let to_flash = self.drives.bytes(flash);
        Figures {
            end,
            seconds,
            requests: self.came,
            offered_per_second: part(self.came as f64, coming),
            requests_per_second: part(ended as f64, seconds),
            read_bytes_per_second: part(read, seconds),
            written_bytes_per_second: part(written, seconds),
            unaligned: part(self.unaligned as f64, self.came as f64),
            read_intensive: pages.read_intensive_share,
            write_intensive: pages.write_intensive_share,
            gc_conflicts: part(delayed, ended as f64),
            erase_hits: part(self.met_erase as f64, ended as f64),
            during_erases: part(self.during_erases as f64, self.came as f64),
            gc_io_conflicts: part(self.drives.ios.1 as f64, self.drives.ios.0 as f64),
            detours: part(around, reads.count as f64),
            hedged: part(steered.hedged_reads as f64, reads.count as f64),
            copy_reads: part(copies, reads.count as f64),
            copied: part(steered.copied_blocks as f64, self.read_blocks as f64),
            extra_reads: part(steered.detour_blocks as f64, self.read_blocks as f64),
            rebuild_seconds: self.drives.rebuilt.took.map(|time| time.as_secs_f64()),
            mostly_rebuilt_seconds: self.drives.rebuilt.mostly.map(|time| time.as_secs_f64()),
            staged: part(staged, writes.count as f64),
            shared_headers: part(steered.staged_together as f64, staged),
            staging_refused: part(steered.refused_writes as f64, writes.count as f64),
            reclaimed_blocks: steered.reclaimed_blocks,
            staged_reads: steered.staged_reads,
            kept_reads: steered.kept_reads,
            staging_backlog: steered.backlog,
            staging_use: steered.staging_use,
            gc_avoided: part(avoided, avoided + delayed),
            gc_any: self.collecting.share(1, time),
            gc_overlap: self.collecting.share(2, time),
            throughput_variation: variation(self.timeline.full_intervals()),
            device_waf: part(to_flash, to_drives),
            array_waf: part(to_drives, written),
            total_waf: part(to_flash, written),
            read_amplification: part(self.drives.bytes(|stats| stats.pages_read), read),
            log: self.drives.logged.map(|logged| self.log_figures(&logged)),
            cache: self.drives.destaged.map(|destaged| CacheFigures::of(&destaged)),
            drives: self
                .drives
                .drives
                .iter()
                .zip(self.drives.optimal.iter().copied().chain(core::iter::repeat(0.0)))
                .zip(self.drives.thresholds.iter().copied().chain(core::iter::repeat(None)))
                .map(|((drive, optimal), threshold)| figures(drive, (optimal, threshold), time))
                .collect(),
            timeline: self.timeline.timeline(),
            reads,
            writes,
            responses,
        }
    }
}

impl Meter {
    fn log_figures(&self, logged: &Logged) -> LogFigures {
        let written = logged.written as f64;
        let Logged { segment, times, turn: (segments, written_first), .. } = *logged;
        let segment = f64::from(segment);
        let victim = part(logged.victims_live as f64, logged.victims as f64 * segment);
        let modelled = longest_wait(&times, victim, segments, written_first as f64 / segment);
        LogFigures {
            waf: part(logged.logged as f64, written),
            moved: part(logged.moved as f64, written),
            cleaned: logged.cleaned,
            victim,
            victim_by_law: victim_utilisation(logged.used),
            used: logged.used,
            checkpoints: logged.checkpoints,
            stalls: logged.stalls,
            waited_seconds: logged.waited.as_secs_f64(),
            longest_wait_us: us(logged.longest_wait),
            modelled_wait_us: modelled * 1e6,
            groups_by_model: groups(&times, victim),
            rotations: logged.rotations,
            cleaned_from: logged.cleaned_from.unwrap_or(0.0),
            sides: [0, 1, 2].map(|side: usize| self.sides[side].latency()),
        }
    }
}

impl Collecting {
    /// The part of `time` in which at least `level` drives collected.
    fn share(&self, level: usize, time: Duration) -> f64 {
        let at_least: Duration = self.time.iter().skip(level).sum();
        part(at_least.as_secs_f64(), time.as_secs_f64())
    }
}

fn figures(
    (stats, wear, free, _): &(Stats, Wear, f64, u32),
    (optimal_age, threshold): (f64, Option<f64>),
    time: Duration,
) -> DriveFigures {
    DriveFigures {
        gc_duty: part(stats.gc_time.as_secs_f64(), time.as_secs_f64()),
        gc_events: stats.gc.count,
        gc_mean_us: us(stats.gc.mean()),
        gc_max_us: us(stats.gc.longest),
        waf: stats.waf(),
        pages_read: stats.pages_read,
        pages_written: stats.pages_written,
        pages_moved: stats.flash.moved,
        erases: stats.flash.erases,
        forced: stats.forced,
        optimal_age,
        free: *free,
        threshold,
        most_worn: wear.most,
        mean_wear: wear.mean,
        buffer_full: stats.buffer_full,
        read_queue_us: us(stats.read_queue.mean()),
        write_queue_us: us(stats.write_queue.mean()),
    }
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// `a / b`; zero if `b` is.
fn part(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn variation(counts: impl Iterator<Item = u32>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for count in counts.map(f64::from) {
        (n, sum, squares) = (n + 1.0, sum + count, squares + count * count);
    }
    let mean = part(sum, n);
    part((part(squares, n) - mean * mean).max(0.0).sqrt(), mean)
}
