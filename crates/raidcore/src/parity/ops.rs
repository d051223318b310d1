//! The kernels, once for all instruction sets.
//!
//! An operation processes `U` vectors from an offset on. [`sweep`] applies it to the whole length:
//! in wide steps first, then in narrower ones down to eight bytes. A step goes through all sources
//! with the results in registers, so results are written once and never read back.

use super::isa::{Isa, Word};

/// Work that can be done at every offset separately.
pub(super) trait Op {
    /// Does it for `U` vectors from byte `at` on.
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize);
}

/// Does `op` for `len` bytes, a multiple of eight: `U` vectors in a step while there are as many.
#[inline(always)]
pub(super) fn sweep<I: Isa, const U: usize>(isa: I, len: usize, op: &mut impl Op) {
    let mut at = 0;
    while len - at >= U * I::WIDTH {
        op.at::<I, U>(isa, at);
        at += U * I::WIDTH;
    }
    while len - at >= I::WIDTH {
        op.at::<I, 1>(isa, at);
        at += I::WIDTH;
    }
    while len - at >= Word::WIDTH {
        op.at::<Word, 1>(Word, at);
        at += Word::WIDTH;
    }
}

#[inline(always)]
fn load<I: Isa, const U: usize>(isa: I, from: &[u8], at: usize) -> [I::V; U] {
    let mut vs = [isa.zero(); U];
    for (v, from) in vs.iter_mut().zip(from[at..][..U * I::WIDTH].chunks_exact(I::WIDTH)) {
        *v = isa.load(from);
    }
    vs
}

#[inline(always)]
fn store<I: Isa, const U: usize>(isa: I, to: &mut [u8], at: usize, vs: [I::V; U]) {
    for (to, v) in to[at..][..U * I::WIDTH].chunks_exact_mut(I::WIDTH).zip(vs) {
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

/// `p` = the sum of `last` and `rest`. It goes from the last source to the first. If the sources
/// follow one another in memory, going up would make the CPU prefetch beyond the last one in each
/// step, which is slow.
pub(super) struct Xor<'a> {
    pub(super) p: &'a mut [u8],
    pub(super) last: &'a [u8],
    pub(super) rest: &'a [&'a [u8]],
}

impl Op for Xor<'_> {
    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let mut p = load::<I, U>(isa, self.last, at);
        let (odd, pairs) = self.rest.as_rchunks::<2>();
        for [b, a] in pairs.iter().rev() {
            let (a, b) = (load::<I, U>(isa, a, at), load::<I, U>(isa, b, at));
            for i in 0..U {
                p[i] = isa.xor3(p[i], a[i], b[i]);
            }
        }
        if let [a] = odd {
            p = xor(isa, p, load(isa, a, at));
        }
        store(isa, self.p, at, p);
    }
}

/// `q` = Σ 2ⁱ·Dᵢ by Horner's rule, where `last` is the source of the highest index and `rest` those
/// below it; with `P` also `p` = Σ Dᵢ.
pub(super) struct Pq<'a, const P: bool> {
    pub(super) p: &'a mut [u8],
    pub(super) q: &'a mut [u8],
    pub(super) last: &'a [u8],
    pub(super) rest: &'a [Option<&'a [u8]>],
}

impl<const P: bool> Op for Pq<'_, P> {
    #[inline(always)]
    fn at<I: Isa, const U: usize>(&mut self, isa: I, at: usize) {
        let mut p = load::<I, U>(isa, self.last, at);
        let mut q = offset(isa, p);
        let (odd, pairs) = self.rest.as_rchunks::<2>();
        for [b, a] in pairs.iter().rev() {
            if let (Some(a), Some(b)) = (a, b) {
                let (a, b) = (load::<I, U>(isa, a, at), load::<I, U>(isa, b, at));
                for i in 0..U {
                    q[i] = isa.horner2(q[i], a[i], b[i]);
                    if P {
                        p[i] = isa.xor(isa.xor(p[i], a[i]), b[i]);
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

/// One source of [`Pq`].
#[inline(always)]
fn step<I: Isa, const U: usize, const P: bool>(
    isa: I,
    p: &mut [I::V; U],
    q: &mut [I::V; U],
    src: Option<&[u8]>,
    at: usize,
) {
    let src = match src {
        Some(src) => load(isa, src, at),
        None => [isa.zero(); U],
    };
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
