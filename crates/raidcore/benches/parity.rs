//! How fast the parity kernels are beside ISA-L, where it is installed, and beside memcpy.
//!
//! Everything is timed in short runs in turn over the same memory, which is robust on a noisy
//! machine: a ratio is the median over pairs of runs, and bytes of source data a second are those
//! of the best run. For scale, the sources are read without doing anything with them.

#![allow(unsafe_code, reason = "a peer that is a C library")]

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::time::{Duration, Instant};

use libloading::Library;
use raidcore::parity::Kernels;

const PAGE_BYTES: usize = 4096;
const COUNTS: [usize; 3] = [4, 8, 16];
/// Bytes of a chunk: in L1, at its edge, in L2, beyond it, and in RAM.
const SIZES: [usize; 6] = [2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 16 << 20];
/// Pairs of runs for a ratio.
const PAIRS: usize = 41;
/// Bytes of source data in a run, or one pass over the chunks if they have more.
const RUN_BYTES: usize = 2 << 20;

#[derive(Clone, Copy)]
enum Operation {
    Xor,
    Pq,
}

/// A function of ISA-L. It takes the number of chunks, of which it writes the last ones, and their
/// length in bytes.
type Generate = unsafe extern "C" fn(vects: c_int, len: c_int, array: *mut *mut c_void) -> c_int;

/// Intel's ISA-L, which chooses its kernels by the CPU, as installed (Debian's `libisal2`).
struct Isal {
    xor: Generate,
    pq: Generate,
    _library: Library,
}

impl Isal {
    fn find() -> Option<Self> {
        // SAFETY: the library is what its name says, and its functions are as its raid.h declares them.
        unsafe {
            let library = Library::new("libisal.so.2").ok()?;
            let function = |name: &[u8]| library.get::<Generate>(name).map(|found| *found).ok();
            let (xor, pq) = (function(b"xor_gen")?, function(b"pq_gen")?);
            Some(Self { xor, pq, _library: library })
        }
    }
}

/// A stripe's memory: `count` data chunks, P and Q, aligned to a page as I/O wants it.
struct Memory {
    bytes: Vec<u8>,
    count: usize,
    chunk_bytes: usize,
}

impl Memory {
    fn new(count: usize, chunk_bytes: usize) -> Self {
        let mut bytes = vec![0; (count + 2) * chunk_bytes + PAGE_BYTES];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (i % 251) as u8;
        }
        Self { bytes, count, chunk_bytes }
    }

    /// The data chunks, and P with Q.
    fn parts(&mut self) -> (impl Iterator<Item = &[u8]>, &mut [u8]) {
        let skip = self.bytes.as_ptr().align_offset(PAGE_BYTES);
        let (data, parity) = self.bytes[skip..].split_at_mut(self.count * self.chunk_bytes);
        (data.chunks_exact(self.chunk_bytes), &mut parity[..2 * self.chunk_bytes])
    }

    /// How long `times` calls of a kernel take.
    fn time(&mut self, kernels: &Kernels, operation: Operation, times: usize) -> Duration {
        let chunk_bytes = self.chunk_bytes;
        let (data, parity) = self.parts();
        let (p, q) = parity.split_at_mut(chunk_bytes);
        let srcs: Vec<_> = data.collect();
        let of_q: Vec<_> = srcs.iter().copied().map(Some).collect();
        timed(times, || match operation {
            Operation::Xor => kernels.xor(black_box(p), black_box(&srcs)),
            Operation::Pq => kernels.pq(black_box(p), black_box(q), black_box(&of_q)),
        })
    }

    /// The same by ISA-L.
    fn time_isal(&mut self, isal: &Isal, operation: Operation, times: usize) -> Duration {
        let skip = self.bytes.as_ptr().align_offset(PAGE_BYTES);
        let (function, chunks) = match operation {
            Operation::Xor => (isal.xor, self.count + 1),
            Operation::Pq => (isal.pq, self.count + 2),
        };
        let memory = self.bytes[skip..].chunks_exact_mut(self.chunk_bytes);
        let mut places: Vec<*mut c_void> =
            memory.take(chunks).map(|chunk| chunk.as_mut_ptr().cast()).collect();
        let (chunks, len) = (chunks as c_int, self.chunk_bytes as c_int);
        timed(times, || {
            // SAFETY: the number of chunks and their length are right, and they are aligned to 32.
            let failed = unsafe { function(chunks, len, black_box(places.as_mut_ptr())) };
            assert_eq!(failed, 0);
        })
    }

    /// The same for copying every data chunk to P's place.
    fn time_copy(&mut self, times: usize) -> Duration {
        let chunk_bytes = self.chunk_bytes;
        let (data, parity) = self.parts();
        let srcs: Vec<_> = data.collect();
        timed(times, || {
            for src in &srcs {
                black_box(&mut parity[..chunk_bytes]).copy_from_slice(black_box(src));
            }
        })
    }

    /// The same for reading every data chunk.
    #[cfg(target_arch = "x86_64")]
    fn time_reading(&mut self, times: usize) -> Duration {
        assert!(is_x86_feature_detected!("avx512f"));
        let srcs: Vec<_> = self.parts().0.collect();
        // SAFETY: the CPU has been asked.
        timed(times, || srcs.iter().for_each(|src| unsafe { read(src) }))
    }

    /// How often work is done in a run, so that the clock's resolution does not matter.
    fn times(&self) -> usize {
        (RUN_BYTES / (self.count * self.chunk_bytes)).max(1)
    }

    /// How many times as fast as `theirs` `ours` is: the median of pairs of runs.
    fn ratio(
        &mut self,
        ours: impl Fn(&mut Self, usize) -> Duration,
        theirs: impl Fn(&mut Self, usize) -> Duration,
    ) -> f64 {
        let times = self.times();
        let mut ratios: Vec<f64> = (0..PAIRS)
            .map(|_| theirs(self, times).as_secs_f64() / ours(self, times).as_secs_f64())
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios[PAIRS / 2]
    }

    /// Gigabytes of source data a second, in the best of several runs.
    fn speed(&mut self, work: impl Fn(&mut Self, usize) -> Duration) -> f64 {
        let times = self.times();
        let best = (0..PAIRS).map(|_| work(self, times)).min().unwrap_or_default();
        (times * self.count * self.chunk_bytes) as f64 / best.as_secs_f64() / 1e9
    }

    /// Whether both compute the same.
    fn agree(&mut self, kernels: &Kernels, isal: &Isal, operation: Operation) -> bool {
        let written = match operation {
            Operation::Xor => self.chunk_bytes,
            Operation::Pq => 2 * self.chunk_bytes,
        };
        self.time_isal(isal, operation, 1);
        let right = self.parts().1[..written].to_vec();
        self.parts().1.fill(0);
        self.time(kernels, operation, 1);
        self.parts().1[..written] == right
    }
}

fn timed(times: usize, mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..times).for_each(|_| work());
    start.elapsed()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn read(chunk: &[u8]) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_or_si512, _mm512_setzero_si512};
    let mut sums = [_mm512_setzero_si512(); 4];
    for lines in chunk.as_chunks::<256>().0 {
        for (sum, line) in sums.iter_mut().zip(lines.as_chunks::<64>().0) {
            // SAFETY: 64 bytes are there, and need no alignment.
            *sum = _mm512_or_si512(*sum, unsafe { _mm512_loadu_si512(line.as_ptr().cast()) });
        }
    }
    black_box(sums);
}

fn main() {
    let isal = Isal::find();
    if isal.is_none() {
        println!("ISA-L is not here: install libisal2 (Debian) to compare with it");
    }
    for (name, operation) in [("xor", Operation::Xor), ("pq", Operation::Pq)] {
        for count in COUNTS {
            for size in SIZES {
                let mut memory = Memory::new(count, size);
                println!("{name} of {count} chunks of {} KiB", size >> 10);
                for kernels in Kernels::available() {
                    let ours = |memory: &mut Memory, times| memory.time(kernels, operation, times);
                    let speed = memory.speed(ours);
                    let to_copy = memory.ratio(ours, Memory::time_copy);
                    print!("{:>13} {speed:6.1} GB/s {to_copy:5.2} x memcpy", kernels.name);
                    if let Some(isal) = &isal {
                        assert!(memory.agree(kernels, isal, operation), "both compute the same");
                        let theirs =
                            |memory: &mut Memory, times| memory.time_isal(isal, operation, times);
                        print!(" {:5.2} x ISA-L", memory.ratio(ours, theirs));
                    }
                    println!();
                }
                if let Some(isal) = &isal {
                    let theirs =
                        |memory: &mut Memory, times| memory.time_isal(isal, operation, times);
                    println!("{:>13} {:6.1} GB/s", "ISA-L", memory.speed(theirs));
                }
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx512f") {
                    println!("{:>13} {:6.1} GB/s", "reading", memory.speed(Memory::time_reading));
                }
            }
        }
    }
}
