//! The array's user: several threads that rewrite blocks, and flush from time to time.

use std::io::{BufRead, stdin};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use det::Prng;
use raidcore::units::{BLOCK_BYTES, Pba};
use ublkd::members::{BlockBuffer, Device, OpenOptions};

use crate::ledger::{BLOCKS, Ledger, Point, Versions, fill};

const THREADS: usize = 6;

/// Consecutive blocks of one thread; the next ones are another's. Smaller than a chunk.
const OWN: usize = 8;

/// A thread flushes after about so many writes.
const FLUSH_EVERY: u64 = 12;

/// Writes of all threads between two points, which limits the size of logs.
const PACE: u64 = 400;

struct User {
    disk: Device,
    /// Version by block: submitted, acknowledged, and durable.
    given: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
    durable: Mutex<Versions>,
    writes: AtomicU64,
    /// How many writes are allowed so far.
    allowed: Mutex<u64>,
    changed: Condvar,
    ended: AtomicBool,
}

/// Writes until there were this many points.
pub(crate) fn run(disk: &Path, points: u32, seed: u64) -> Result<Ledger> {
    let zeros = || (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
    let user = User {
        disk: Device::open(disk, OpenOptions::default())?,
        given: zeros(),
        acknowledged: zeros(),
        durable: Mutex::new(vec![0; BLOCKS]),
        writes: AtomicU64::new(0),
        allowed: Mutex::new(0),
        changed: Condvar::new(),
        ended: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let user = &user;
                scope.spawn(move || user.write(number, Prng::new(seed * 100 + number as u64)))
            })
            .collect();
        let ledger = user.make_points(points, Prng::new(seed));
        user.ended.store(true, SeqCst);
        user.allow(u64::MAX);
        for thread in threads {
            thread.join().expect("a thread panicked")?;
        }
        ledger
    })
}

impl User {
    /// Asks for points, each at another moment.
    fn make_points(&self, points: u32, mut rng: Prng) -> Result<Ledger> {
        let mut ledger = Ledger::default();
        let mut answers = stdin().lock().lines();
        for point in 0..points {
            let begun = self.writes.load(SeqCst);
            self.allow(begun + PACE);
            let until = begun + PACE / 8 + rng.below(PACE / 2);
            while self.writes.load(SeqCst) < until && !self.ended.load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            let least = self.durable.lock().expect("nobody panics").clone();
            println!("point {point}");
            answers.next().context("nobody answers")??;
            ledger.0.push(Point { least, most: versions(&self.given) });
        }
        Ok(ledger)
    }

    fn allow(&self, writes: u64) {
        *self.allowed.lock().expect("nobody panics") = writes;
        self.changed.notify_all();
    }

    /// One thread: writes its own blocks, until all ends.
    fn write(&self, number: usize, mut rng: Prng) -> Result<()> {
        let done = self.write_on(number, &mut rng);
        // The others need not go on if this one can't.
        self.ended.store(true, SeqCst);
        done
    }

    fn write_on(&self, number: usize, rng: &mut Prng) -> Result<()> {
        let mut buffer = BlockBuffer::new(OWN * BLOCK_BYTES)?;
        let mut version = 0;
        while self.may_write() {
            let row = rng.below((BLOCKS / OWN / THREADS) as u64) as usize;
            let from = rng.below(OWN as u64) as usize;
            let count = 1 + rng.below((OWN - from) as u64) as usize;
            let first = (row * THREADS + number) * OWN + from;
            version += 1;
            for (lba, block) in (first..first + count).zip(buffer.chunks_mut(BLOCK_BYTES)) {
                fill(lba, version, block);
                self.given[lba].store(version, SeqCst);
            }
            self.disk.write_at(Pba(first as u64), &buffer[..count * BLOCK_BYTES])?;
            self.acknowledged[first..first + count].iter().for_each(|v| v.store(version, SeqCst));
            self.writes.fetch_add(1, SeqCst);
            if rng.chance(1, FLUSH_EVERY) {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Waits until another write is allowed; tells whether there is to be one.
    fn may_write(&self) -> bool {
        let allowed = self.allowed.lock().expect("nobody panics");
        let full = |allowed: &mut u64| self.writes.load(SeqCst) >= *allowed;
        drop(self.changed.wait_while(allowed, full).expect("nobody panics"));
        !self.ended.load(SeqCst)
    }

    /// Writes that were acknowledged before a flush are durable after it.
    fn flush(&self) -> Result<()> {
        let before = versions(&self.acknowledged);
        self.disk.sync()?;
        let mut durable = self.durable.lock().expect("nobody panics");
        for (durable, before) in durable.iter_mut().zip(before) {
            *durable = before.max(*durable);
        }
        Ok(())
    }
}

fn versions(of: &[AtomicU64]) -> Versions {
    of.iter().map(|version| version.load(SeqCst)).collect()
}
