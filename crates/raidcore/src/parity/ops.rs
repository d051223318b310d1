//! The kernels, once for all instruction sets.
//!
//! An operation processes `U` vectors from an offset on. [`sweep`] applies it to the whole length:
//! in wide steps first, then in narrower ones down to eight bytes. A step goes through all sources
//! with the results in registers, so results are written once and never read back.

use core::sync::atomic::{Ordering, compiler_fence};

use super::isa::{Isa, Word};

/// Work that can be done at every offset separately.
pub(super) trait Op {
    /// The bytes of each slice: a multiple of eight.
    fn len(&self) -> usize;

    /// Does it for `U` vectors from byte `at` on.
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize);
}

/// Does `op` for its whole length: `U` vectors in a step while there are as many.
#[inline(always)]
pub(super) fn sweep<I: Isa, const U: usize>(isa: I, op: &mut impl Op) {
    let at = steps::<I, U>(isa, op, 0);
    let at = steps::<I, 1>(isa, op, at);
    steps::<Word, 1>(Word, op, at);
}

/// Does `op` from `at` on while there are `U` vectors, and returns where it stops.
#[inline(always)]
fn steps<I: Isa, const U: usize>(isa: I, op: &mut impl Op, mut at: usize) -> usize {
    // So the compiler knows that the step's range lies in each slice of that length.
    while let Some(end) = at.checked_add(U * I::WIDTH)
        && end <= op.len()
    {
        op.at::<I, U>(isa, at);
        at = end;
    }
    at
}

/// An operation over any number of sources.
pub(super) trait Many: Op {
    /// How many they are.
    fn count(&self) -> usize;

    /// Does it by code for exactly `K` sources, if it can: without a loop over them and without
    /// checks of their lengths.
    fn exactly<I: Isa, const U: usize, const K: usize>(&mut self, isa: I) -> bool;
}

/// Does `op` as [`sweep`] does, with code of its own for each number of sources up to eight: `FEW`
/// vectors in a step for up to four, `SOME` for up to eight, and `MANY` for more.
///
/// Sources often lie at multiples of a page, where their lines share a few ways of the cache. The
/// more sources there are, the more has to be read of each at once before what was prefetched is
/// gone.
#[inline(always)]
pub(super) fn sweep_many<I: Isa, const FEW: usize, const SOME: usize, const MANY: usize>(
    isa: I,
    op: &mut impl Many,
) {
    let done = match op.count() {
        1 => op.exactly::<I, FEW, 1>(isa),
        2 => op.exactly::<I, FEW, 2>(isa),
        3 => op.exactly::<I, FEW, 3>(isa),
        4 => op.exactly::<I, FEW, 4>(isa),
        5 => op.exactly::<I, SOME, 5>(isa),
        6 => op.exactly::<I, SOME, 6>(isa),
        7 => op.exactly::<I, SOME, 7>(isa),
        8 => op.exactly::<I, SOME, 8>(isa),
        _ => false,
    };
    if !done {
        sweep::<I, MANY>(isa, op);
    }
}

#[inline(always)]
fn load<I: Isa, const U: usize>(isa: I, from: &[u8], at: usize) -> [I::V; U] {
    let mut vs = [isa.zero(); U];
    for (v, from) in vs.iter_mut().zip(from[at..at + U * I::WIDTH].chunks_exact(I::WIDTH)) {
        *v = isa.load(from);
    }
    vs
}

/// [`load`] of one of many sources.
#[inline(always)]
fn load_next<I: Isa, const U: usize>(isa: I, from: &[u8], at: usize) -> [I::V; U] {
    let vs = load(isa, from, at);
    // The compiler would mix the reads of several sources and turn their order round, and a CPU
    // prefetches little of what it does not see read upward.
    compiler_fence(Ordering::SeqCst);
    vs
}

#[inline(always)]
fn load_next_or_zero<I: Isa, const U: usize>(isa: I, from: Option<&[u8]>, at: usize) -> [I::V; U] {
    match from {
        Some(from) => load_next(isa, from, at),
        None => [isa.zero(); U],
    }
}

#[inline(always)]
fn store<I: Isa, const U: usize>(isa: I, to: &mut [u8], at: usize, vs: [I::V; U]) {
    for (to, v) in to[at..at + U * I::WIDTH].chunks_exact_mut(I::WIDTH).zip(vs) {
        isa.store(to, v);
    }
}

#[inline(always)]
fn xor<I: Isa, const U: usize>(isa: I, mut a: [I::V; U], b: [I::V; U]) -> [I::V; U] {
    for i in 0..U {
        a[i] = isa.xor(a[i], b[i]);
    }
    a
}

#[inline(always)]
fn offset<I: Isa, const U: usize>(isa: I, mut vs: [I::V; U]) -> [I::V; U] {
    for v in &mut vs {
        *v = isa.offset(*v);
    }
    vs
}

#[inline(always)]
fn mul<I: Isa, const U: usize>(isa: I, mut vs: [I::V; U], by: u8) -> [I::V; U] {
    let by = isa.factor(by);
    for v in &mut vs {
        *v = isa.mul(*v, by);
    }
    vs
}

/// `p` = the sum of `srcs`. It goes from the last source to the first. If the sources follow
/// one another in memory, going up would make the CPU prefetch beyond the last one in each step,
/// which is slow.
pub(super) struct Xor<'a> {
    pub(super) p: &'a mut [u8],
    pub(super) srcs: &'a [&'a [u8]],
}

impl Op for Xor<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.p.len()
    }

    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let mut p = [isa.zero(); U];
        let (odd, pairs) = self.srcs.as_rchunks::<2>();
        for [b, a] in pairs.iter().rev() {
            let (a, b) = (load_next::<I, U>(isa, a, at), load_next::<I, U>(isa, b, at));
            for i in 0..U {
                p[i] = isa.xor3(p[i], a[i], b[i]);
            }
        }
        if let [a] = odd {
            p = xor(isa, p, load_next(isa, a, at));
        }
        store(isa, self.p, at, p);
    }
}

impl Many for Xor<'_> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.srcs.len()
    }

    #[inline(always)]
    fn exactly<I: Isa, const U: usize, const K: usize>(&mut self, isa: I) -> bool {
        let mut srcs = [&[][..]; K];
        for (to, src) in srcs.iter_mut().zip(self.srcs) {
            *to = &src[..self.p.len()];
        }
        sweep::<I, U>(isa, &mut Xor { p: self.p, srcs: &srcs });
        true
    }
}

/// `q` = Σ 2ⁱ·Dᵢ by Horner's rule over `srcs`; with `P` also `p` = Σ Dᵢ.
pub(super) struct Pq<'a, const P: bool> {
    pub(super) p: &'a mut [u8],
    pub(super) q: &'a mut [u8],
    pub(super) srcs: &'a [Option<&'a [u8]>],
}

impl<const P: bool> Op for Pq<'_, P> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.q.len()
    }

    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let (mut p, rest) = match self.srcs {
            [rest @ .., last] => (load_next_or_zero::<I, U>(isa, *last, at), rest),
            none => ([isa.zero(); U], none),
        };
        let mut q = offset(isa, p);
        let (odd, pairs) = rest.as_rchunks::<2>();
        for [b, a] in pairs.iter().rev() {
            if let (Some(a), Some(b)) = (a, b) {
                let (a, b) = (load_next::<I, U>(isa, a, at), load_next::<I, U>(isa, b, at));
                for i in 0..U {
                    q[i] = isa.horner2(q[i], a[i], b[i]);
                    if P {
                        p[i] = isa.xor3(p[i], a[i], b[i]);
                    }
                }
            } else {
                step::<I, U, P>(isa, &mut p, &mut q, *a, at);
                step::<I, U, P>(isa, &mut p, &mut q, *b, at);
            }
        }
        if let [a] = odd {
            step::<I, U, P>(isa, &mut p, &mut q, *a, at);
        }
        store(isa, self.q, at, offset(isa, q));
        if P {
            store(isa, self.p, at, p);
        }
    }
}

impl<const P: bool> Many for Pq<'_, P> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.srcs.len()
    }

    #[inline(always)]
    fn exactly<I: Isa, const U: usize, const K: usize>(&mut self, isa: I) -> bool {
        let mut srcs = [None; K];
        for (to, src) in srcs.iter_mut().zip(self.srcs) {
            let Some(src) = src else { return false };
            *to = Some(&src[..self.q.len()]);
        }
        let p = if P { &mut self.p[..self.q.len()] } else { &mut [][..] };
        sweep::<I, U>(isa, &mut Pq::<P> { p, q: self.q, srcs: &srcs });
        true
    }
}

/// One source of [`Pq`].
#[inline(always)]
fn step<I: Isa, const U: usize, const P: bool>(
    isa: I,
    p: &mut [I::V; U],
    q: &mut [I::V; U],
    src: Option<&[u8]>,
    at: usize,
) {
    let src = load_next_or_zero(isa, src, at);
    for i in 0..U {
        q[i] = isa.horner(q[i], src[i]);
    }
    if P {
        *p = xor(isa, *p, src);
    }
}

/// `dst` += `src`.
pub(super) struct Add<'a> {
    pub(super) dst: &'a mut [u8],
    pub(super) src: &'a [u8],
}

impl Op for Add<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.dst.len()
    }

    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let src = load::<I, U>(isa, self.src, at);
        let sum = xor(isa, load(isa, self.dst, at), src);
        store(isa, self.dst, at, sum);
    }
}

/// `p` += `old` + `new` and `q` += `weight`·(`old` + `new`), each if given.
pub(super) struct Delta<'a> {
    pub(super) p: Option<&'a mut [u8]>,
    pub(super) q: Option<&'a mut [u8]>,
    pub(super) weight: u8,
    pub(super) old: &'a [u8],
    pub(super) new: Option<&'a [u8]>,
}

impl Op for Delta<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.old.len()
    }

    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let mut change = load::<I, U>(isa, self.old, at);
        if let Some(new) = self.new {
            change = xor(isa, change, load(isa, new, at));
        }
        if let Some(p) = &mut self.p {
            let sum = xor(isa, load(isa, p, at), change);
            store(isa, p, at, sum);
        }
        if let Some(q) = &mut self.q {
            let sum = xor(isa, load(isa, q, at), mul(isa, change, self.weight));
            store(isa, q, at, sum);
        }
    }
}

/// `buf` = `by`·`buf`.
pub(super) struct Scale<'a> {
    pub(super) buf: &'a mut [u8],
    pub(super) by: u8,
}

impl Op for Scale<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.buf.len()
    }

    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let product = mul::<I, U>(isa, load(isa, self.buf, at), self.by);
        store(isa, self.buf, at, product);
    }
}

/// `a` = `of_a`·`a` + `of_b`·`b`, and `b` = the old `a` plus the new one.
pub(super) struct Solve<'a> {
    pub(super) a: &'a mut [u8],
    pub(super) b: &'a mut [u8],
    pub(super) of_a: u8,
    pub(super) of_b: u8,
}

impl Op for Solve<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.a.len()
    }

    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let a = load::<I, U>(isa, self.a, at);
        let b = load::<I, U>(isa, self.b, at);
        let x = xor(isa, mul(isa, a, self.of_a), mul(isa, b, self.of_b));
        store(isa, self.a, at, x);
        store(isa, self.b, at, xor(isa, a, x));
    }
}

/// Whether `a` and `b` are the `same`, as far as they were compared.
pub(super) struct Equal<'a> {
    pub(super) a: &'a [u8],
    pub(super) b: &'a [u8],
    pub(super) same: bool,
}

impl Op for Equal<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.a.len()
    }

    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        if !self.same {
            return;
        }
        let mut sum = isa.zero();
        for v in xor::<I, U>(isa, load(isa, self.a, at), load(isa, self.b, at)) {
            sum = isa.or(sum, v);
        }
        self.same = isa.is_zero(sum);
    }
}
