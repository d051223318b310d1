//! How fast the parity kernels are, in bytes of source data a second, for 8 data chunks.
//!
//! Criterion measures each set of kernels on its own. Before that, ratios are printed: to the
//! scalar set, to copying the data chunks with memcpy, and to ISA-L where it is installed. They are
//! medians over runs of both in turn, which is robust on a noisy machine.

#![allow(unsafe_code, reason = "a peer that is a C library")]

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use libloading::Library;
use raidcore::parity::Kernels;

const CHUNKS: usize = 8;
const PAGE_BYTES: usize = 4096;
/// Bytes of a chunk: all in L1, at its edge, in L2, and in RAM.
const SIZES: [usize; 4] = [2 << 10, 4 << 10, 64 << 10, 16 << 20];

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

/// A stripe's memory: `CHUNKS` data chunks, P and Q, aligned to a page as I/O wants it.
struct Memory {
    bytes: Vec<u8>,
    chunk_bytes: usize,
}

impl Memory {
    fn new(chunk_bytes: usize) -> Self {
        let mut bytes = vec![0; (CHUNKS + 2) * chunk_bytes + PAGE_BYTES];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (i % 251) as u8;
        }
        Self { bytes, chunk_bytes }
    }

    fn run(&mut self, kernels: &Kernels, operation: Operation) {
        let skip = self.bytes.as_ptr().align_offset(PAGE_BYTES);
        let (data, parity) = self.bytes[skip..].split_at_mut(CHUNKS * self.chunk_bytes);
        let (p, q) = parity[..2 * self.chunk_bytes].split_at_mut(self.chunk_bytes);
        let chunk = |i: usize| &data[i * self.chunk_bytes..][..self.chunk_bytes];
        match operation {
            Operation::Xor => {
                let srcs: [_; CHUNKS] = std::array::from_fn(chunk);
                kernels.xor(black_box(p), black_box(&srcs));
            }
            Operation::Pq => {
                let srcs: [_; CHUNKS] = std::array::from_fn(|i| Some(chunk(i)));
                kernels.pq(black_box(p), black_box(q), black_box(&srcs));
            }
        }
    }

    /// The same by ISA-L.
    fn run_isal(&mut self, isal: &Isal, operation: Operation) {
        let skip = self.bytes.as_ptr().align_offset(PAGE_BYTES);
        let (function, chunks) = match operation {
            Operation::Xor => (isal.xor, CHUNKS + 1),
            Operation::Pq => (isal.pq, CHUNKS + 2),
        };
        let mut memory = self.bytes[skip..].chunks_exact_mut(self.chunk_bytes);
        let mut places: [*mut c_void; CHUNKS + 2] =
            std::array::from_fn(|_| memory.next().expect("all chunks").as_mut_ptr().cast());
        // SAFETY: the number of chunks and their length are right, and they are aligned to 32.
        let failed = unsafe {
            function(chunks as c_int, self.chunk_bytes as c_int, black_box(places.as_mut_ptr()))
        };
        assert_eq!(failed, 0);
    }

    fn parity(&self) -> &[u8] {
        let skip = self.bytes.as_ptr().align_offset(PAGE_BYTES);
        &self.bytes[skip + CHUNKS * self.chunk_bytes..][..2 * self.chunk_bytes]
    }

    /// Copies every data chunk to P's place.
    fn copy(&mut self) {
        let skip = self.bytes.as_ptr().align_offset(PAGE_BYTES);
        let (data, parity) = self.bytes[skip..].split_at_mut(CHUNKS * self.chunk_bytes);
        for chunk in data.chunks_exact(self.chunk_bytes) {
            black_box(&mut parity[..self.chunk_bytes]).copy_from_slice(black_box(chunk));
        }
    }

    /// How long `work` takes, repeated until the clock's resolution does not matter.
    fn time(&mut self, work: impl Fn(&mut Self)) -> Duration {
        let times = ((32 << 20) / (CHUNKS * self.chunk_bytes)).max(1);
        let start = Instant::now();
        (0..times).for_each(|_| work(self));
        start.elapsed()
    }
}

/// How many times as fast as `theirs` `ours` is: the median of pairs of runs.
fn ratio(memory: &mut Memory, ours: impl Fn(&mut Memory), theirs: impl Fn(&mut Memory)) -> f64 {
    const PAIRS: usize = 21;
    let mut ratios: Vec<f64> = (0..PAIRS)
        .map(|_| memory.time(&theirs).as_secs_f64() / memory.time(&ours).as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[PAIRS / 2]
}

fn bench(c: &mut Criterion) {
    let isal = Isal::find();
    if isal.is_none() {
        println!("ISA-L is not here: install libisal2 (Debian) to compare with it");
    }
    for (name, operation) in [("xor", Operation::Xor), ("pq", Operation::Pq)] {
        for size in SIZES {
            let mut memory = Memory::new(size);
            let scalar = Kernels::available().next().expect("every CPU runs the scalar set");
            for kernels in Kernels::available() {
                let ours = |memory: &mut Memory| memory.run(kernels, operation);
                let to_scalar = ratio(&mut memory, ours, |memory| memory.run(scalar, operation));
                let to_copy = ratio(&mut memory, ours, Memory::copy);
                let (size, set) = (size >> 10, kernels.name);
                println!(
                    "{name} {size} KiB: {set} is {to_scalar:.2} x scalar, {to_copy:.2} x memcpy"
                );
                let Some(isal) = &isal else { continue };
                let theirs = |memory: &mut Memory| memory.run_isal(isal, operation);
                let to_isal = ratio(&mut memory, ours, theirs);
                println!("{name} {size} KiB: {set} is {to_isal:.2} x ISA-L");
                memory.run(kernels, operation);
                let right = memory.parity().to_vec();
                memory.run_isal(isal, operation);
                assert!(memory.parity() == right, "both compute the same");
            }
            let mut group = c.benchmark_group(name);
            group.throughput(Throughput::BytesDecimal((CHUNKS * size) as u64));
            for kernels in Kernels::available() {
                let id = BenchmarkId::new(kernels.name, format_args!("{} KiB", size >> 10));
                group.bench_function(id, |b| b.iter(|| memory.run(kernels, operation)));
            }
            group.finish();
        }
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
