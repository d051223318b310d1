//! The columns of a table of results.

use crate::measure::{CacheFigures, DriveFigures, Figures, Latency, LogFigures, QUANTILES};

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Microseconds,
    /// Microseconds of a quantity for which less is not better.
    Seconds,
    /// Bytes per second.
    BytesPerSecond,
    /// Per second.
    PerSecond,
    /// A part of one, for people in percent.
    Share,
    /// A factor.
    Factor,
    /// How many.
    Count,
}

/// A figure of every point.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Gets the value.
    pub value: fn(&Figures) -> f64,
    /// Whether narrow tables have it.
    pub brief: bool,
}

impl PartialEq for Column {
    /// By name: there is one of each.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn column(name: &'static str, unit: Unit, value: fn(&Figures) -> f64) -> Column {
    Column { name, unit, value, brief: false }
}

const fn brief(name: &'static str, unit: Unit, value: fn(&Figures) -> f64) -> Column {
    Column { name, unit, value, brief: true }
}

/// All columns, in the order of a table.
pub const COLUMNS: &[Column] = &[
    column("requests", Unit::Count, |f| f.requests as f64),
    column("virtual time", Unit::Seconds, |f| f.seconds),
    column("offered/s", Unit::PerSecond, |f| f.offered_per_second),
    brief("requests/s", Unit::PerSecond, |f| f.requests_per_second),
    column("read", Unit::BytesPerSecond, |f| f.read_bytes_per_second),
    column("written", Unit::BytesPerSecond, |f| f.written_bytes_per_second),
    column("response mean", Unit::Microseconds, |f| f.responses.mean_us),
    column("response sd", Unit::Microseconds, |f| f.responses.deviation_us),
    column("response p50", Unit::Microseconds, |f| quantile(&f.responses, "p50")),
    column("response p95", Unit::Microseconds, |f| quantile(&f.responses, "p95")),
    column("response p99", Unit::Microseconds, |f| quantile(&f.responses, "p99")),
    column("response p99.9", Unit::Microseconds, |f| quantile(&f.responses, "p99.9")),
    column("response p99.99", Unit::Microseconds, |f| quantile(&f.responses, "p99.99")),
    column("response max", Unit::Microseconds, |f| f.responses.max_us),
    brief("read mean", Unit::Microseconds, |f| f.reads.mean_us),
    column("read sd", Unit::Microseconds, |f| f.reads.deviation_us),
    column("read p50", Unit::Microseconds, |f| quantile(&f.reads, "p50")),
    column("read p95", Unit::Microseconds, |f| quantile(&f.reads, "p95")),
    brief("read p99", Unit::Microseconds, |f| quantile(&f.reads, "p99")),
    brief("read p99.9", Unit::Microseconds, |f| quantile(&f.reads, "p99.9")),
    column("read p99.99", Unit::Microseconds, |f| quantile(&f.reads, "p99.99")),
    column("read max", Unit::Microseconds, |f| f.reads.max_us),
    brief("write mean", Unit::Microseconds, |f| f.writes.mean_us),
    column("write sd", Unit::Microseconds, |f| f.writes.deviation_us),
    column("write p50", Unit::Microseconds, |f| quantile(&f.writes, "p50")),
    column("write p95", Unit::Microseconds, |f| quantile(&f.writes, "p95")),
    brief("write p99", Unit::Microseconds, |f| quantile(&f.writes, "p99")),
    brief("write p99.9", Unit::Microseconds, |f| quantile(&f.writes, "p99.9")),
    column("write p99.99", Unit::Microseconds, |f| quantile(&f.writes, "p99.99")),
    column("write max", Unit::Microseconds, |f| f.writes.max_us),
    column("RI reads", Unit::Share, |f| f.read_intensive),
    column("WI writes", Unit::Share, |f| f.write_intensive),
    brief("GC duty", Unit::Share, |f| mean(f, |drive| drive.gc_duty)),
    column("most GC duty", Unit::Share, |f| most(f, |drive| drive.gc_duty)),
    column("GC events", Unit::Count, |f| sum(f, |drive| drive.gc_events as f64)),
    column("GC mean", Unit::Microseconds, gc_mean),
    column("GC max", Unit::Microseconds, |f| most(f, |drive| drive.gc_max_us)),
    brief("GC conflicts", Unit::Share, |f| f.gc_conflicts),
    column("erase hits", Unit::Share, |f| f.erase_hits),
    column("during erases", Unit::Share, |f| f.during_erases),
    brief("detours", Unit::Share, |f| f.detours),
    column("hedged", Unit::Share, |f| f.hedged),
    column("from copies", Unit::Share, |f| f.copy_reads),
    column("copied", Unit::Share, |f| f.copied),
    column("extra reads", Unit::Share, |f| f.extra_reads),
    column("staged", Unit::Share, |f| f.staged),
    column("shared headers", Unit::Share, |f| f.shared_headers),
    column("staging full", Unit::Share, |f| f.staging_refused),
    column("reclaimed", Unit::Count, |f| f.reclaimed_blocks as f64),
    column("staged reads", Unit::Count, |f| f.staged_reads as f64),
    column("kept reads", Unit::Count, |f| f.kept_reads as f64),
    column("backlog", Unit::Count, |f| f.staging_backlog as f64),
    column("staging use", Unit::Share, |f| f.staging_use),
    column("GC avoided", Unit::Share, |f| f.gc_avoided),
    column("GC any", Unit::Share, |f| f.gc_any),
    column("GC overlap", Unit::Share, |f| f.gc_overlap),
    column("GC overlap if any", Unit::Share, |f| f.gc_overlap / f.gc_any.max(f64::MIN_POSITIVE)),
    column("write hits", Unit::Share, |f| cache(f, |cache| cache.write_hits)),
    column("read hits", Unit::Share, |f| cache(f, |cache| cache.read_hits)),
    column("group blocks", Unit::Factor, |f| cache(f, |cache| cache.group_blocks)),
    column("full groups", Unit::Share, |f| cache(f, |cache| cache.full_groups)),
    column("cache full", Unit::Share, |f| cache(f, |cache| cache.waited)),
    column("rebuild", Unit::Seconds, |f| f.rebuild_seconds.unwrap_or(0.0)),
    column("mostly rebuilt", Unit::Seconds, |f| f.mostly_rebuilt_seconds.unwrap_or(0.0)),
    column("throughput CV", Unit::Factor, |f| f.throughput_variation),
    column("device WAF", Unit::Factor, |f| f.device_waf),
    column("array WAF", Unit::Factor, |f| f.array_waf),
    brief("total WAF", Unit::Factor, |f| f.total_waf),
    column("log WAF", Unit::Factor, |f| log(f, |log| log.waf)),
    column("log moved", Unit::Factor, |f| log(f, |log| log.moved)),
    column("log use", Unit::Share, |f| log(f, |log| log.used)),
    column("victim use", Unit::Share, |f| log(f, |log| log.victim)),
    column("victim law", Unit::Share, |f| log(f, |log| log.victim_by_law)),
    column("victim error", Unit::Share, |f| log(f, |log| log.victim - log.victim_by_law)),
    column("cleaned", Unit::Count, |f| log(f, |log| log.cleaned as f64)),
    column("cleaned from", Unit::Factor, |f| log(f, |log| log.cleaned_from)),
    column("checkpoints", Unit::Count, |f| log(f, |log| log.checkpoints as f64)),
    column("stalls", Unit::Count, |f| log(f, |log| log.stalls as f64)),
    column("waited", Unit::Share, |f| log(f, |log| log.waited_seconds) / f.seconds),
    column("longest wait", Unit::Microseconds, |f| log(f, |log| log.longest_wait_us)),
    column("modelled wait", Unit::Microseconds, |f| log(f, |log| log.modelled_wait_us)),
    column("wait to model", Unit::Factor, |f| {
        log(f, |log| log.longest_wait_us / log.modelled_wait_us)
    }),
    column("groups by Eq 1", Unit::Factor, |f| log(f, |log| log.groups_by_model)),
    column("rotations", Unit::Count, |f| log(f, |log| log.rotations as f64)),
    column("front reads", Unit::Share, |f| log(f, |log| side_share(log, 0))),
    column("idle reads", Unit::Share, |f| log(f, |log| side_share(log, 1))),
    column("busy reads", Unit::Share, |f| log(f, |log| side_share(log, 2))),
    column("front read mean", Unit::Microseconds, |f| log(f, |log| log.sides[0].mean_us)),
    column("idle read mean", Unit::Microseconds, |f| log(f, |log| log.sides[1].mean_us)),
    column("busy read mean", Unit::Microseconds, |f| log(f, |log| log.sides[2].mean_us)),
    column("front to idle", Unit::Factor, |f| {
        log(f, |log| log.sides[0].mean_us / log.sides[1].mean_us)
    }),
    column("busy to front", Unit::Factor, |f| {
        log(f, |log| log.sides[2].mean_us / log.sides[0].mean_us)
    }),
    column("read ampl.", Unit::Factor, |f| f.read_amplification),
    column("erases", Unit::Count, |f| sum(f, |drive| drive.erases as f64)),
    column("most erases", Unit::Count, |f| most(f, |drive| drive.erases as f64)),
    column("age ratio", Unit::Factor, age_ratio),
    column("erases 1", Unit::Count, |f| erases_of(f, 1)),
    column("erases 2", Unit::Count, |f| erases_of(f, 2)),
    column("erases 3", Unit::Count, |f| erases_of(f, 3)),
    column("erases 4", Unit::Count, |f| erases_of(f, 4)),
    column("erases 5", Unit::Count, |f| erases_of(f, 5)),
    column("threshold 1", Unit::Share, |f| threshold_of(f, 1)),
    column("threshold 2", Unit::Share, |f| threshold_of(f, 2)),
    column("threshold 3", Unit::Share, |f| threshold_of(f, 3)),
    column("threshold 4", Unit::Share, |f| threshold_of(f, 4)),
    column("threshold 5", Unit::Share, |f| threshold_of(f, 5)),
    column("age error", Unit::Share, |f| error(f, |drive| drive.erases)),
    column("write error", Unit::Share, |f| error(f, |drive| drive.pages_written)),
    column("forced", Unit::Count, |f| sum(f, |drive| drive.forced as f64)),
    column("most worn", Unit::Count, |f| most(f, |drive| f64::from(drive.most_worn))),
];

fn quantile(latency: &Latency, name: &str) -> f64 {
    let at = QUANTILES.iter().position(|(quantile, _)| *quantile == name);
    latency.quantiles_us[at.expect("a quantile that is told")]
}

/// A figure of the log; zero if there is none.
fn log(f: &Figures, value: impl Fn(&LogFigures) -> f64) -> f64 {
    f.log.as_ref().map_or(0.0, value)
}

/// A figure of the cache in memory; zero if there is none.
fn cache(f: &Figures, value: impl Fn(&CacheFigures) -> f64) -> f64 {
    f.cache.as_ref().map_or(0.0, value)
}

/// The share of reads that went to one side of a log array.
fn side_share(log: &LogFigures, side: usize) -> f64 {
    let all: u64 = log.sides.iter().map(|side| side.count).sum();
    log.sides[side].count as f64 / all.max(1) as f64
}

fn sum(f: &Figures, value: impl Fn(&DriveFigures) -> f64) -> f64 {
    f.drives.iter().map(value).sum()
}

fn mean(f: &Figures, value: impl Fn(&DriveFigures) -> f64) -> f64 {
    sum(f, value) / f.drives.len().max(1) as f64
}

fn most(f: &Figures, value: impl Fn(&DriveFigures) -> f64) -> f64 {
    f.drives.iter().map(value).fold(0.0, f64::max)
}

/// The wear of the drive that is worn most over that of the one that is worn least; zero if one is
/// not worn at all.
fn age_ratio(f: &Figures) -> f64 {
    let least = f.drives.iter().map(|drive| drive.mean_wear).fold(f64::INFINITY, f64::min);
    if least > 0.0 { most(f, |drive| drive.mean_wear) / least } else { 0.0 }
}

/// Erases of the drive of this number, from 1 on; zero if there is none.
fn erases_of(f: &Figures, number: usize) -> f64 {
    f.drives.get(number - 1).map_or(0.0, |drive| drive.erases as f64)
}

/// The share of free blocks from which on the drive of this number collects by order, from 1 on; zero if there is
/// none.
fn threshold_of(f: &Figures, number: usize) -> f64 {
    f.drives.get(number - 1).and_then(|drive| drive.threshold).unwrap_or(0.0)
}

/// How far the member that is furthest from it is from its optimal age, as a part, by what is counted of each.
/// The reference is the member with the most parity, the paper's n.
fn error(f: &Figures, count: impl Fn(&DriveFigures) -> u64) -> f64 {
    let most = f.drives.iter().rfind(|drive| drive.optimal_age == 1.0);
    let most = most.map_or(0.0, |drive| count(drive) as f64);
    let members = f.drives.iter().filter(|drive| drive.optimal_age > 0.0);
    let errors = members.map(|drive| (count(drive) as f64 / most / drive.optimal_age - 1.0).abs());
    if most > 0.0 { errors.fold(0.0, f64::max) } else { 0.0 }
}

fn gc_mean(f: &Figures) -> f64 {
    let events = sum(f, |drive| drive.gc_events as f64);
    sum(f, |drive| drive.gc_events as f64 * drive.gc_mean_us) / events.max(1.0)
}
