//! Reads and writes with verifiable contents: a block's content follows from its address and the
//! number of its writes, so every block can be checked at any time.
//!
//! Invariant: each worker has its own part of the array, so it knows its last writes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use det::Prng;
use hdrhistogram::Histogram;
use raidcore::units::BLOCK_BYTES;
use rustix::time::{ClockId, clock_gettime};
use ublkd::random::random_uuid;

use super::address::Address;
use super::target::{Aligned, Target};

/// Blocks per request when everything is written or checked (1 MiB).
const SWEEP_BLOCKS: u64 = 256;

/// The most blocks of a request of the mixed load (128 KiB).
const REQUEST_BLOCKS_MAX: u64 = 32;

/// Of ten requests of the mixed load, how many are reads.
const READS_OF_TEN: u64 = 7;

/// All written contents.
pub(super) struct Contents {
    parts: Vec<Part>,
}

/// The rate of requests, their number, and their largest size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) every: Duration,
    pub(super) count: u64,
    pub(super) blocks_max: u64,
}

/// A worker's part of the array.
struct Part {
    number: u64,
    seed: u64,
    first: u64,
    /// How many times each block was written.
    written: Vec<u32>,
    prng: Prng,
}

/// A worker's resources.
struct Hands {
    /// When the next request should begin, if that is given.
    due: Option<u64>,
    target: Box<dyn Target>,
    buffer: Aligned,
    figures: Figures,
}

/// The measurements.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) bytes: u64,
    pub(super) time: Duration,
    /// In nanoseconds.
    pub(super) reads: Histogram<u64>,
    /// In nanoseconds.
    pub(super) writes: Histogram<u64>,
    /// When the requests were under way.
    pub(super) spans: Vec<Span>,
}

/// When a request was under way, or due, in nanoseconds of the system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) read: bool,
    pub(super) began: u64,
    pub(super) ended: u64,
}

impl Span {
    /// How long it took.
    pub(super) fn nanos(&self) -> u64 {
        self.ended - self.began
    }
}

impl Figures {
    fn new() -> Result<Self> {
        // Three digits, and it grows as needed.
        let histogram = Histogram::new(3).map_err(|e| anyhow!("a histogram: {e:?}"))?;
        let (reads, writes) = (histogram.clone(), histogram);
        Ok(Self { bytes: 0, time: Duration::ZERO, reads, writes, spans: Vec::new() })
    }

    /// Adds the measurements of another worker from the same time.
    fn add(&mut self, other: &Self) -> Result<()> {
        self.bytes += other.bytes;
        self.time = self.time.max(other.time);
        self.spans.extend(&other.spans);
        self.reads.add(&other.reads).map_err(|e| anyhow!("a histogram: {e:?}"))?;
        self.writes.add(&other.writes).map_err(|e| anyhow!("a histogram: {e:?}"))
    }

    fn add_span(&mut self, span: Span) -> Result<()> {
        let latencies = if span.read { &mut self.reads } else { &mut self.writes };
        latencies.record(span.nanos()).map_err(|e| anyhow!("a histogram: {e:?}"))?;
        self.spans.push(span);
        Ok(())
    }

    pub(super) fn bytes_per_second(&self) -> u64 {
        let nanos = self.time.as_nanos().max(1);
        u64::try_from(u128::from(self.bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }

    pub(super) fn requests_per_second(&self) -> u64 {
        let requests = self.reads.len() + self.writes.len();
        u64::try_from(u128::from(requests) * 1000 / self.time.as_millis().max(1)).unwrap_or(0)
    }
}

impl Contents {
    /// For an array of `bytes` bytes that was not written yet (zeros), with `workers` connections.
    pub(super) fn new(bytes: u64, seed: u64, workers: u64) -> Self {
        let blocks = bytes / BLOCK_BYTES as u64;
        let each = blocks.div_ceil(workers);
        let part = |number: u64| {
            let first = (number * each).min(blocks);
            let end = (first + each).min(blocks);
            let written = vec![0; (end - first) as usize];
            Part { number, seed, first, written, prng: Prng::new(seed ^ number) }
        };
        Self { parts: (0..workers).map(part).collect() }
    }

    /// Writes every block.
    pub(super) fn write_all(&mut self, address: &Address) -> Result<Figures> {
        self.each(address, SWEEP_BLOCKS, |part, hands| {
            part.sweep(|part, at, blocks| part.write(at, blocks, hands))?;
            hands.target.flush().context("a flush")
        })
    }

    /// Reads every block and checks it.
    pub(super) fn check_all(&mut self, address: &Address) -> Result<Figures> {
        self.each(address, SWEEP_BLOCKS, |part, hands| {
            part.sweep(|part, at, blocks| part.check(at, blocks, hands))
        })
    }

    /// Random reads (with checks) and writes, until `stop` is set.
    pub(super) fn mix(&mut self, address: &Address, stop: &AtomicBool) -> Result<Figures> {
        self.each(address, REQUEST_BLOCKS_MAX, |part, hands| {
            while !stop.load(Ordering::Relaxed) && part.blocks() > 0 {
                part.step(REQUEST_BLOCKS_MAX, hands)?;
            }
            hands.target.flush().context("a flush")
        })
    }

    /// Random reads (with checks) and writes, at a rate. The workers take turns. A late worker
    /// makes its next request at once, and its delay counts.
    pub(super) fn pace(&mut self, address: &Address, pace: Pace) -> Result<Figures> {
        let workers = self.parts.len() as u64;
        let every = u64::try_from(pace.every.as_nanos()).context("a pace")?;
        self.each(address, pace.blocks_max, |part, hands| {
            let start = monotonic_nanos();
            let count = if part.blocks() > 0 { pace.count } else { 0 };
            for number in (part.number..count).step_by(workers as usize) {
                let due = start + number * every;
                thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic_nanos())));
                hands.due = Some(due);
                part.step(pace.blocks_max, hands)?;
            }
            hands.due = None;
            hands.target.flush().context("a flush")
        })
    }

    /// Runs `work` in every part at once, each over its own connection, with up to `most` blocks at
    /// a time.
    fn each(
        &mut self,
        address: &Address,
        most: u64,
        work: impl Fn(&mut Part, &mut Hands) -> Result<()> + Sync,
    ) -> Result<Figures> {
        let one = |part: &mut Part| -> Result<Figures> {
            let figures = Figures::new()?;
            let target = address.connect().with_context(|| address.name())?;
            let start = Instant::now();
            let buffer = Aligned::new(most as usize * BLOCK_BYTES);
            let mut hands = Hands { due: None, target, buffer, figures };
            work(part, &mut hands)?;
            Ok(Figures { time: start.elapsed(), ..hands.figures })
        };
        thread::scope(|scope| {
            let spawn = |part| scope.spawn(|| one(part));
            let workers: Vec<_> = self.parts.iter_mut().map(spawn).collect();
            let mut sum = Figures::new()?;
            for worker in workers {
                let figures = worker.join().map_err(|_| anyhow!("a worker panicked"))?;
                sum.add(&figures?)?;
            }
            Ok(sum)
        })
    }
}

impl Part {
    fn blocks(&self) -> u64 {
        self.written.len() as u64
    }

    /// A random request of at most `blocks_max` blocks.
    fn step(&mut self, blocks_max: u64, hands: &mut Hands) -> Result<()> {
        let at = self.prng.below(self.blocks());
        let most = blocks_max.min(self.blocks() - at);
        let blocks = 1 + self.prng.below(most);
        if self.prng.chance(READS_OF_TEN, 10) {
            self.check(at, blocks, hands)
        } else {
            self.write(at, blocks, hands)
        }
    }

    /// Runs `work` over all blocks, from the first to the last.
    fn sweep(&mut self, mut work: impl FnMut(&mut Self, u64, u64) -> Result<()>) -> Result<()> {
        for at in (0..self.blocks()).step_by(SWEEP_BLOCKS as usize) {
            work(self, at, SWEEP_BLOCKS.min(self.blocks() - at))?;
        }
        Ok(())
    }

    /// Writes `blocks` blocks of the part, with new contents.
    fn write(&mut self, at: u64, blocks: u64, hands: &mut Hands) -> Result<()> {
        let Hands { due, target, buffer, figures } = hands;
        let buffer = &mut buffer[..blocks as usize * BLOCK_BYTES];
        for (block, at) in buffer.chunks_mut(BLOCK_BYTES).zip(at..) {
            self.written[at as usize] += 1;
            fill(self.seed, self.first + at, self.written[at as usize], block);
        }
        let first = self.first + at;
        let write = || target.write(first * BLOCK_BYTES as u64, buffer);
        let span = timed(false, *due, write);
        figures.add_span(span.with_context(|| format!("writing {blocks} blocks at {first}"))?)?;
        figures.bytes += buffer.len() as u64;
        Ok(())
    }

    /// Reads `blocks` blocks of the part, and checks that they hold their last writes.
    fn check(&mut self, at: u64, blocks: u64, hands: &mut Hands) -> Result<()> {
        let Hands { due, target, buffer, figures } = hands;
        let buffer = &mut buffer[..blocks as usize * BLOCK_BYTES];
        let first = self.first + at;
        let read = || target.read(first * BLOCK_BYTES as u64, buffer);
        let span = timed(true, *due, read);
        figures.add_span(span.with_context(|| format!("reading {blocks} blocks at {first}"))?)?;
        figures.bytes += buffer.len() as u64;
        let mut expected = [0; BLOCK_BYTES];
        for (block, at) in buffer.chunks(BLOCK_BYTES).zip(at..) {
            fill(self.seed, self.first + at, self.written[at as usize], &mut expected);
            if *block != expected {
                let block = self.first + at;
                bail!("block {block} does not hold what was written last: DATA IS WRONG");
            }
        }
        Ok(())
    }
}

/// A block's content after `times` writes.
fn fill(seed: u64, block: u64, times: u32, into: &mut [u8]) {
    match times {
        0 => into.fill(0),
        times => Prng::new(seed ^ block << 24 ^ u64::from(times)).fill(into),
    }
}

/// The time of `work`, counted from when it was due, if that is given.
fn timed(read: bool, due: Option<u64>, work: impl FnOnce() -> io::Result<()>) -> io::Result<Span> {
    let began = due.unwrap_or_else(monotonic_nanos);
    work()?;
    Ok(Span { read, began, ended: monotonic_nanos() })
}

/// A run's seed for contents and requests.
pub(super) fn random_seed() -> Result<u64> {
    let random = random_uuid()?;
    Ok(u64::from_le_bytes(*random.first_chunk().ok_or(anyhow!("16 bytes"))?))
}

/// The system's monotonic clock, which the array uses for modelled SSDs.
pub(super) fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
