//! Parity arithmetic over bytes: computing P and Q, updating them, recovering data, and locating
//! the wrong block.
//!
//! P is the sum (xor) of a stripe's data chunks and Q is Σ 2ⁱ·Dᵢ, in the field of [`gf`]. All of it
//! works on bytes independently, so any range of a chunk can be computed on its own.
//!
//! Invariants:
//! - a set of kernels is only handed out where the CPU can run it;
//! - all sets give the same bytes;
//! - slices are of one length, a multiple of [`GRAIN`]; a wrong length panics before anything is
//!   written.

pub mod gf;
mod isa;
mod locate;
mod ops;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use locate::{Culprit, culprit, majority};

use ops::{Add, Delta, Equal, Pq, Scale, Solve, Xor, sweep, sweep_many};

/// Lengths are multiples of this many bytes. Kernels are fastest for multiples of 64.
pub const GRAIN: usize = 8;

/// How many data chunks can have different weights in Q.
const WEIGHTS: usize = 255;

/// The kernels for one instruction set.
pub struct Kernels {
    /// What it is called: `scalar`, `avx2`, `avx512` or `avx512-gfni`.
    pub name: &'static str,
    /// Whether this CPU has the instructions. It must be checked before a call of a kernel.
    runs_here: fn() -> bool,
    xor: unsafe fn(&mut Xor),
    pq: unsafe fn(&mut Pq<true>),
    q: unsafe fn(&mut Pq<false>),
    add: unsafe fn(&mut Add),
    delta: unsafe fn(&mut Delta),
    scale: unsafe fn(&mut Scale),
    solve: unsafe fn(&mut Solve),
    equal: unsafe fn(&mut Equal),
}

/// One of [`SETS`]: a function per operation, compiled with the features that the set needs. The
/// three numbers are the vectors in a step, as [`sweep_many`] has them; other operations go by the
/// last.
macro_rules! kernels {
    (
        $name:literal, $runs_here:expr, $isa:expr, [$few:literal, $some:literal, $many:literal]
        $(, $features:literal)?
    ) => {{
        macro_rules! kernel {
            ($op:ty, $sweep:expr) => {{
                $(#[target_feature(enable = $features)])?
                fn kernel(op: &mut $op) {
                    $sweep($isa, op);
                }
                kernel
            }};
        }
        Kernels {
            name: $name,
            runs_here: $runs_here,
            xor: kernel!(Xor, sweep_many::<_, $few, $some, $many>),
            pq: kernel!(Pq<true>, sweep_many::<_, $few, $some, $many>),
            q: kernel!(Pq<false>, sweep_many::<_, $few, $some, $many>),
            add: kernel!(Add, sweep::<_, $many>),
            delta: kernel!(Delta, sweep::<_, $many>),
            scale: kernel!(Scale, sweep::<_, $many>),
            solve: kernel!(Solve, sweep::<_, $many>),
            equal: kernel!(Equal, sweep::<_, $many>),
        }
    }};
}

#[cfg(target_arch = "x86_64")]
mod detect {
    cpufeatures::new!(avx2, "avx2");
    cpufeatures::new!(avx512, "avx512f", "avx512bw");
    cpufeatures::new!(gfni, "avx512f", "avx512bw", "gfni");
    pub(super) use {avx2::get as avx2, avx512::get as avx512, gfni::get as gfni};
}

/// From the slowest to the fastest.
static SETS: &[Kernels] = &[
    kernels!("scalar", || true, isa::Word, [8, 8, 8]),
    #[cfg(target_arch = "x86_64")]
    kernels!("avx2", detect::avx2, x86::Avx2::here(), [2, 4, 4], "avx2"),
    #[cfg(target_arch = "x86_64")]
    kernels!("avx512", detect::avx512, x86::Avx512::<false>::here(), [2, 4, 8], "avx512f,avx512bw"),
    #[cfg(target_arch = "x86_64")]
    kernels!(
        "avx512-gfni",
        detect::gfni,
        x86::Avx512::<true>::here(),
        [2, 4, 8],
        "avx512f,avx512bw,gfni"
    ),
];

// SAFETY (of every call through a pointer below): `self` is one of `SETS` that `available` has
// handed out, so its `runs_here` has found the features that its functions are compiled with.
#[allow(unsafe_code)]
impl Kernels {
    /// The fastest set that this CPU runs.
    #[must_use]
    pub fn best() -> &'static Self {
        Self::available().last().unwrap_or(&SETS[0])
    }

    /// All sets that this CPU runs, scalar first and the fastest last. The CPU is asked once.
    pub fn available() -> impl Iterator<Item = &'static Self> {
        SETS.iter().filter(|set| (set.runs_here)())
    }

    /// `p` = the sum of `srcs`; zeros if there are none.
    pub fn xor(&self, p: &mut [u8], srcs: &[&[u8]]) {
        check(p, srcs.iter().copied());
        // SAFETY: see above.
        unsafe { (self.xor)(&mut Xor { p, srcs }) }
    }

    /// `p` = the sum of `srcs` and `q` = Σ 2ⁱ·srcsᵢ, where `None` stands for zeros.
    pub fn pq(&self, p: &mut [u8], q: &mut [u8], srcs: &[Option<&[u8]>]) {
        check(p, srcs.iter().flatten().copied().chain([&*q]));
        assert!(srcs.len() <= WEIGHTS, "more data chunks than there are weights");
        // SAFETY: see above.
        unsafe { (self.pq)(&mut Pq { p, q, srcs: trimmed(srcs) }) }
    }

    /// `q` as of [`Kernels::pq`], alone.
    pub fn q(&self, q: &mut [u8], srcs: &[Option<&[u8]>]) {
        check(q, srcs.iter().flatten().copied());
        assert!(srcs.len() <= WEIGHTS, "more data chunks than there are weights");
        // SAFETY: see above.
        unsafe { (self.q)(&mut Pq { p: &mut [], q, srcs: trimmed(srcs) }) }
    }

    /// `dst` += `src`.
    pub fn add(&self, dst: &mut [u8], src: &[u8]) {
        check(dst, [src]);
        // SAFETY: see above.
        unsafe { (self.add)(&mut Add { dst, src }) }
    }

    /// Updates the given parities for a change of data chunk `index` from `old` to `new`; `None`
    /// stands for zeros.
    pub fn delta(
        &self,
        p: Option<&mut [u8]>,
        q: Option<&mut [u8]>,
        index: usize,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) {
        let Some(change) = old.or(new) else { return };
        let more = if old.is_some() { new } else { None };
        check(change, [p.as_deref(), q.as_deref(), more].into_iter().flatten());
        assert!(index < WEIGHTS, "more data chunks than there are weights");
        let weight = gf::pow2(index);
        // SAFETY: see above.
        unsafe { (self.delta)(&mut Delta { p, q, weight, old: change, new: more }) }
    }

    /// `buf` = `c`·`buf`.
    pub fn scale(&self, buf: &mut [u8], c: u8) {
        check(buf, []);
        // SAFETY: see above.
        unsafe { (self.scale)(&mut Scale { buf, by: c }) }
    }

    /// Recovers the data chunks `x` and `y` from P and Q less the other data chunks: `a` = D_x +
    /// D_y becomes D_x, and `b` = 2ˣ·D_x + 2ʸ·D_y becomes D_y.
    ///
    /// # Panics
    /// If `x` and `y` are equal.
    pub fn solve(&self, a: &mut [u8], b: &mut [u8], x: usize, y: usize) {
        check(a, [&*b]);
        assert!(x != y && x.max(y) < WEIGHTS, "chunks {x} and {y} are not two data chunks");
        // D_x = (b + 2^y * a) / (2^x + 2^y), and D_y = a + D_x.
        let of_b = gf::inv(gf::pow2(x) ^ gf::pow2(y));
        let of_a = gf::mul(gf::pow2(y), of_b);
        // SAFETY: see above.
        unsafe { (self.solve)(&mut Solve { a, b, of_a, of_b }) }
    }

    /// Whether `a` and `b` are the same bytes.
    #[must_use]
    pub fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        check(a, [b]);
        let mut op = Equal { a, b, same: true };
        // SAFETY: see above.
        unsafe { (self.equal)(&mut op) };
        op.same
    }
}

impl core::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Kernels").field(&self.name).finish()
    }
}

fn check<'a>(one: &[u8], others: impl IntoIterator<Item = &'a [u8]>) {
    assert!(one.len().is_multiple_of(GRAIN), "{} bytes are not whole words", one.len());
    for other in others {
        assert!(other.len() == one.len(), "slices of {} and {} bytes", one.len(), other.len());
    }
}

/// The sources without the zeros at the highest indices, which add nothing to Q.
fn trimmed<'a, 'b>(srcs: &'a [Option<&'b [u8]>]) -> &'a [Option<&'b [u8]>] {
    let end = srcs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    &srcs[..end]
}
