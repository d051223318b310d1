//! Memory as machines use it, and the arithmetic that they ask for, over its bytes.

use raidcore::parity::{Kernels, gf};
use raidcore::plan::{BoundStep, Finding, Found, Step};
use raidcore::units::{BLOCK_BYTES, Mem};
use raidlog::array::Looking;
use raidlog::{GroupId, host};

use crate::disk::Kept;
use crate::memory::Memory;

impl<B: Kept> host::Memory for Memory<B> {
    fn compute(&mut self, step: BoundStep<'_>, blocks: u32) -> Option<Found> {
        carry_out(self.kernels, self, step, blocks)
    }

    fn checksum(&self, of: Mem) -> u32 {
        self.blocks(of, 1)[0].checksum()
    }

    fn put(&mut self, to: Mem, bytes: &[u8], _: Option<(GroupId, u64)>) {
        let (bytes, _) = bytes.as_chunks::<BLOCK_BYTES>();
        let blocks = self.blocks_mut(to, bytes.len() as u32).iter_mut();
        blocks.zip(bytes).for_each(|(to, bytes)| *to = B::of(bytes));
    }

    fn copy(&mut self, from: Mem, to: Mem, blocks: u32) {
        let copied = self.blocks(from, blocks);
        self.blocks_mut(to, blocks).clone_from_slice(&copied);
    }

    fn show(&self, looking: &Looking, to: impl FnOnce(&[u8])) {
        let blocks = self.blocks(looking.from, looking.blocks);
        to(blocks.iter().map(Kept::whole).collect::<Vec<_>>().as_flattened());
    }
}

/// Carries out a step; returns what there is to tell.
fn carry_out<B: Kept>(
    kernels: &Kernels,
    memory: &mut Memory<B>,
    step: BoundStep<'_>,
    n: u32,
) -> Option<Found> {
    let all = |memory: &dyn Fn(Mem) -> Vec<u8>, srcs: &[Mem]| -> Vec<Vec<u8>> {
        srcs.iter().map(|&mem| memory(mem)).collect()
    };
    let bytes = |mem: Mem| memory.bytes(mem, n);
    match step {
        Step::Xor { dst, srcs } => {
            let (mut sum, srcs) = (bytes(dst), all(&bytes, srcs));
            kernels.xor(&mut sum, &srcs.iter().map(|src| &src[..]).collect::<Vec<_>>());
            memory.put_kept(dst, n, &sum);
        }
        Step::Pq { p, q, srcs } => {
            let (mut new_p, mut new_q, srcs) = (bytes(p), bytes(q), all(&bytes, srcs));
            let srcs: Vec<Option<&[u8]>> = srcs.iter().map(|src| Some(&src[..])).collect();
            kernels.pq(&mut new_p, &mut new_q, &srcs);
            memory.put_kept(p, n, &new_p);
            memory.put_kept(q, n, &new_q);
        }
        Step::Q { q, srcs } => {
            let (mut new_q, srcs) = (bytes(q), all(&bytes, srcs));
            let srcs: Vec<Option<&[u8]>> = srcs.iter().map(|src| Some(&src[..])).collect();
            kernels.q(&mut new_q, &srcs);
            memory.put_kept(q, n, &new_q);
        }
        Step::Add { dst, src } => {
            let (mut sum, src) = (bytes(dst), bytes(src));
            kernels.add(&mut sum, &src);
            memory.put_kept(dst, n, &sum);
        }
        Step::Delta { p, q, index, old, new } => {
            let (old, new) = (bytes(old), bytes(new));
            let (mut new_p, mut new_q) = (p.map(bytes), q.map(bytes));
            let (p_bytes, q_bytes) = (new_p.as_deref_mut(), new_q.as_deref_mut());
            kernels.delta(p_bytes, q_bytes, index.into(), Some(&old), Some(&new));
            for (mem, bytes) in p.zip(new_p).into_iter().chain(q.zip(new_q)) {
                memory.put_kept(mem, n, &bytes);
            }
        }
        Step::Unscale { dst, index } => {
            let mut scaled = bytes(dst);
            kernels.scale(&mut scaled, gf::inv(gf::pow2(index.into())));
            memory.put_kept(dst, n, &scaled);
        }
        Step::Solve { a, b, x, y } => {
            let (mut new_a, mut new_b) = (bytes(a), bytes(b));
            kernels.solve(&mut new_a, &mut new_b, x.into(), y.into());
            memory.put_kept(a, n, &new_a);
            memory.put_kept(b, n, &new_b);
        }
        Step::Clear { dst } => {
            let zeros = vec![0; bytes(dst).len()];
            memory.put_kept(dst, n, &zeros);
        }
        Step::Copy { dst, src } => {
            let src = bytes(src);
            memory.put_kept(dst, n, &src);
        }
        Step::Compare { a, b } => return (bytes(a) != bytes(b)).then_some(Found::Difference),
        Step::Locate { row, p, q, data } => {
            let (p, q) = (p.map(bytes), q.map(bytes));
            return Finding::of_parity(row, data, p.as_deref(), q.as_deref()).map(Found::Wrong);
        }
        Step::Vote { row, copies } => {
            let there = |&mem: &Mem| (mem != Mem::Zero).then(|| bytes(mem));
            let copies: Vec<_> = copies.iter().map(there).collect();
            let copies: Vec<_> = copies.iter().map(Option::as_deref).collect();
            return Finding::of_copies(row, &copies).map(Found::Wrong);
        }
    }
    None
}
