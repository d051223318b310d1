//! How well a detector does on a recorded run, compared with the truth.

use std::collections::BTreeMap;
use std::time::Duration;

use det::Instant;
use raidcore::units::MemberId;
use steering::detect::{Detector, Kind, Mood, Tuning};

use crate::load::{Io, Run};

/// Reads of an array of five that stand in for one.
const RECONSTRUCTION_READS: u64 = 4;

/// What a detector is worth on a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Score {
    /// Share of the time in which at least one die collected.
    pub gc_time: f64,
    /// Share of the I/Os that collection delayed to at least three times the median of the others of
    /// their kind and size: *harmed* ones.
    pub harmed: f64,
    /// Share of the time in which the detector said BUSY.
    pub busy_time: f64,
    /// BUSY verdicts, in a second.
    pub verdicts: f64,
    /// Share of the verdicts at which a harmed I/O was under way.
    pub right: f64,
    /// Share of the BUSY time in which the drive collected.
    pub collecting: f64,
    /// Share of the I/Os begun while BUSY that were harmed.
    pub precision: f64,
    /// Share of the harmed I/Os that were begun while BUSY.
    pub recall: f64,
    /// Share of the time that harmed I/Os took that was after a verdict.
    pub wait_known: f64,
    /// Stalls, in a second: stretches in which at least one harmed I/O is under way.
    pub stalls: f64,
    /// Share of the stalls in which the member was BUSY at some time.
    pub found: f64,
    /// Median time from the beginning of a stall that was found to its being found.
    pub delay: Duration,
    /// Share of the reads begun while BUSY.
    pub avoided: f64,
    /// What going around the drive while BUSY would have saved if the others were idle: the
    /// latencies of the reads begun then, less four medians for each, as a share of the latencies
    /// of all harmed reads.
    pub saved: f64,
    /// The detector's own precision and recall of I/Os, which it knows without the truth.
    pub own_precision: f64,
    pub own_recall: f64,
}

/// Stretches of time, in order.
type Stretches = Vec<(u64, u64)>;

/// Lets a detector watch a run.
pub(crate) fn replay(run: &Run, tuning: Tuning) -> Score {
    let (busy, into_busy, detector) = watch(run, tuning);
    // Nothing is scored before the medians can be known.
    let first = run.ios.len() / 10;
    let (start, end) = (run.ios[first].begun, last_end(run));
    let medians = medians(run);
    let harmed = |io: &Io| delayed_by_gc(run, io) && io.latency() >= 3 * median_of(&medians, io);

    let mut sums = Sums::default();
    let mut waits: Stretches = Vec::new();
    for (io, &into_busy) in run.ios.iter().zip(&into_busy).skip(first) {
        let harmed = harmed(io);
        sums.add(io, harmed, into_busy, median_of(&medians, io));
        if harmed {
            waits.push((io.begun, io.ended));
            sums.wait_known += overlap(&busy, (io.begun, io.ended)) as f64;
        }
    }
    let stalls = merged(waits);
    let seconds = (end - start) as f64 / 1e9;
    let busy: Stretches = busy.into_iter().filter(|&(from, _)| from >= start).collect();
    let right = busy.iter().filter(|(from, _)| contains(&stalls, *from)).count();
    let time = |stretches: &[(u64, u64)]| overlap(stretches, (start, end)) as f64;
    let found = delays(&stalls, &busy);
    let own = detector.log().score();
    Score {
        gc_time: time(&run.collecting) / (end - start) as f64,
        harmed: ratio(sums.harmed, sums.all),
        busy_time: time(&busy) / (end - start) as f64,
        verdicts: busy.len() as f64 / seconds,
        right: ratio(right as f64, busy.len() as f64),
        collecting: ratio(
            busy.iter().map(|&stretch| overlap(&run.collecting, stretch) as f64).sum(),
            time(&busy),
        ),
        precision: ratio(sums.harmed_into_busy, sums.into_busy),
        recall: ratio(sums.harmed_into_busy, sums.harmed),
        wait_known: ratio(sums.wait_known, sums.wait),
        stalls: stalls.len() as f64 / seconds,
        found: ratio(found.len() as f64, stalls.len() as f64),
        delay: Duration::from_nanos(found.get(found.len() / 2).copied().unwrap_or(0)),
        avoided: ratio(sums.reads_into_busy, sums.reads),
        saved: ratio(sums.gain, sums.read_wait),
        own_precision: own.precision_of_ios().unwrap_or(f64::NAN),
        own_recall: own.recall_of_ios().unwrap_or(f64::NAN),
    }
}

#[derive(Default)]
struct Sums {
    all: f64,
    harmed: f64,
    into_busy: f64,
    harmed_into_busy: f64,
    reads: f64,
    reads_into_busy: f64,
    wait: f64,
    wait_known: f64,
    read_wait: f64,
    gain: f64,
}

impl Sums {
    fn add(&mut self, io: &Io, harmed: bool, into_busy: bool, median: u64) {
        let one = |is: bool| f64::from(u8::from(is));
        let (read, latency) = (io.kind == Kind::Read, io.latency() as f64);
        self.all += 1.0;
        self.harmed += one(harmed);
        self.into_busy += one(into_busy);
        self.harmed_into_busy += one(harmed && into_busy);
        self.reads += one(read);
        self.reads_into_busy += one(read && into_busy);
        self.wait += one(harmed) * latency;
        self.read_wait += one(harmed && read) * latency;
        self.gain += one(read && into_busy) * (latency - (RECONSTRUCTION_READS * median) as f64);
    }
}

/// Whether collection delayed an I/O. The drive does not tell this of a write that waits for room
/// in the buffer: every such write counts during which the drive collected.
fn delayed_by_gc(run: &Run, io: &Io) -> bool {
    let into_buffer = run.buffered && io.kind == Kind::Write;
    io.delayed_by_gc || into_buffer && overlap(&run.collecting, (io.begun, io.ended)) > 0
}

/// When the drive was BUSY, and which I/Os began then.
fn watch(run: &Run, tuning: Tuning) -> (Stretches, Vec<bool>, Detector) {
    let mut detector = Detector::new(1, tuning);
    let mut by_end: Vec<usize> = (0..run.ios.len()).collect();
    by_end.sort_by_key(|&at| (run.ios[at].ended, at));
    let (mut begins, mut ends) = (0..run.ios.len(), by_end.into_iter().peekable());
    let mut handles = Vec::with_capacity(run.ios.len());
    let mut into_busy = Vec::with_capacity(run.ios.len());
    let (mut busy, mut since) = (Vec::new(), None);
    while let Some(&ending) = ends.peek() {
        let end = run.ios[ending].ended;
        let begin = run.ios.get(begins.start).map_or(u64::MAX, |io| io.begun);
        let due = detector.deadline().map_or(u64::MAX, |at| at.0);
        let now = end.min(begin).min(due);
        if due == now {
            detector.tick(Instant(now));
        } else if end == now && ending < begins.start {
            detector.ended(Instant(now), handles[ending]);
            ends.next();
        } else if let Some(at) = begins.next() {
            let io = run.ios[at];
            into_busy.push(detector.mood(MemberId(0)) == Mood::Busy);
            handles.push(detector.began(Instant(now), MemberId(0), io.kind, io.blocks));
        }
        match (since, detector.mood(MemberId(0)) == Mood::Busy) {
            (None, true) => since = Some(now),
            (Some(from), false) => {
                busy.push((from, now));
                since = None;
            }
            _ => {}
        }
    }
    busy.extend(since.map(|from| (from, last_end(run))));
    (busy, into_busy, detector)
}

fn last_end(run: &Run) -> u64 {
    run.ios.iter().map(|io| io.ended).max().unwrap_or(0)
}

type Medians = BTreeMap<(bool, u32), u64>;

/// Medians of the I/Os that collection did not delay, by kind and size.
fn medians(run: &Run) -> Medians {
    let mut latencies: BTreeMap<(bool, u32), Vec<u64>> = BTreeMap::new();
    for io in run.ios.iter().filter(|io| !io.delayed_by_gc) {
        latencies.entry((io.kind == Kind::Read, io.blocks)).or_default().push(io.latency());
    }
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values[values.len() / 2]
    };
    latencies.into_iter().map(|(class, values)| (class, median(values))).collect()
}

fn median_of(medians: &Medians, io: &Io) -> u64 {
    medians.get(&(io.kind == Kind::Read, io.blocks)).copied().unwrap_or(u64::MAX / 4)
}

/// Stretches that touch become one.
fn merged(mut stretches: Stretches) -> Stretches {
    stretches.sort_unstable();
    let mut all: Stretches = Vec::new();
    for (from, to) in stretches {
        match all.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(to),
            None => all.push((from, to)),
        }
    }
    all
}

/// Those of ordered stretches that end after `from`.
fn after(stretches: &[(u64, u64)], from: u64) -> &[(u64, u64)] {
    &stretches[stretches.partition_point(|stretch| stretch.1 <= from)..]
}

fn overlap(stretches: &[(u64, u64)], (from, to): (u64, u64)) -> u64 {
    let meets = after(stretches, from).iter().take_while(|stretch| stretch.0 < to);
    meets.map(|stretch| stretch.1.min(to) - stretch.0.max(from)).sum()
}

fn contains(stretches: &[(u64, u64)], at: u64) -> bool {
    after(stretches, at).first().is_some_and(|stretch| stretch.0 <= at)
}

/// For each stall that was found, how long it took, in order of length.
fn delays(stalls: &[(u64, u64)], busy: &[(u64, u64)]) -> Vec<u64> {
    let delay = |&(from, to): &(u64, u64)| {
        let first = after(busy, from).first()?;
        (first.0 < to).then(|| first.0.saturating_sub(from))
    };
    let mut delays: Vec<u64> = stalls.iter().filter_map(delay).collect();
    delays.sort_unstable();
    delays
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { f64::NAN }
}
