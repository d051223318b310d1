//! The engine's arithmetic, over the arena's memory.
//!
//! Invariant: the memory that a step writes overlaps no other memory of the step, which is checked.
#![allow(unsafe_code)]

use raidcore::parity::gf;
use raidcore::plan::{BoundStep, Finding, Found, Step};
use raidcore::units::{BLOCK_BYTES, MEMBERS_MAX, Mem};

use crate::arena::Arena;

/// The most memory that a step names.
const OPERANDS_MAX: usize = MEMBERS_MAX + 2;

/// Carries out a step over `blocks` blocks; tells what it found, if it was to find something.
pub(crate) fn run(arena: &mut Arena, step: BoundStep<'_>, blocks: u32) -> Option<Found> {
    let kernels = arena.kernels;
    let memory = Memory { arena, blocks };
    match step {
        Step::Xor { dst, srcs } => {
            memory.check([dst], srcs);
            let mut room: [&[u8]; OPERANDS_MAX] = [&[]; OPERANDS_MAX];
            let operands = srcs.iter().filter_map(|&src| memory.operand(src));
            let count = room.iter_mut().zip(operands).map(|(to, from)| *to = from).count();
            kernels.xor(memory.target(dst), &room[..count]);
        }
        Step::Pq { p, q, srcs } => {
            memory.check([p, q], srcs);
            let mut room = [None; OPERANDS_MAX];
            kernels.pq(memory.target(p), memory.target(q), memory.operands(srcs, &mut room));
        }
        Step::Q { q, srcs } => {
            memory.check([q], srcs);
            let mut room = [None; OPERANDS_MAX];
            kernels.q(memory.target(q), memory.operands(srcs, &mut room));
        }
        Step::Add { dst, src } => {
            memory.check([dst], &[src]);
            if let Some(src) = memory.operand(src) {
                kernels.add(memory.target(dst), src);
            }
        }
        Step::Delta { p, q, index, old, new } => {
            let targets = [p.unwrap_or(Mem::Zero), q.unwrap_or(Mem::Zero)];
            memory.check(targets, &[old, new]);
            let (p, q) = (p.map(|p| memory.target(p)), q.map(|q| memory.target(q)));
            kernels.delta(p, q, index.into(), memory.operand(old), memory.operand(new));
        }
        Step::Unscale { dst, index } => {
            kernels.scale(memory.target(dst), gf::inv(gf::pow2(index.into())));
        }
        Step::Solve { a, b, x, y } => {
            memory.check([a, b], &[]);
            kernels.solve(memory.target(a), memory.target(b), x.into(), y.into());
        }
        Step::Clear { dst } => memory.target(dst).fill(0),
        Step::Copy { dst, src } => {
            memory.check([dst], &[src]);
            memory.target(dst).copy_from_slice(memory.bytes(src));
        }
        Step::Compare { a, b } => {
            let same = kernels.equal(memory.bytes(a), memory.bytes(b));
            return (!same).then_some(Found::Difference);
        }
        Step::Locate { row, p, q, data } => {
            let (p, q) = (p.map(|p| memory.bytes(p)), q.map(|q| memory.bytes(q)));
            return Finding::of_parity(row, data, p, q).map(Found::Wrong);
        }
        Step::Vote { row, copies } => {
            let mut room = [None; OPERANDS_MAX];
            let copies = memory.operands(copies, &mut room);
            return Finding::of_copies(row, copies).map(Found::Wrong);
        }
    }
    None
}

/// The arena's memory during a step. The arena is borrowed mutably, so nothing else has it; the
/// kernel has no I/O on what a step writes, and none but writes of what it reads.
struct Memory<'a> {
    arena: &'a mut Arena,
    blocks: u32,
}

impl Memory<'_> {
    /// That `targets` (zeros stand for none) overlap neither each other nor `operands`.
    fn check<const N: usize>(&self, targets: [Mem; N], operands: &[Mem]) {
        for (i, &target) in targets.iter().enumerate() {
            let others = targets[i + 1..].iter().chain(operands);
            let apart = others.copied().all(|other| self.is_apart(target, other));
            assert!(apart, "{target:?} of {targets:?} overlaps what it is computed from");
        }
    }

    fn is_apart(&self, a: Mem, b: Mem) -> bool {
        if a == Mem::Zero || b == Mem::Zero {
            return true;
        }
        let start = |mem| self.arena.resolve(mem, self.blocks).0.addr();
        start(a).abs_diff(start(b)) >= self.len()
    }

    fn len(&self) -> usize {
        self.blocks as usize * BLOCK_BYTES
    }

    fn bytes(&self, mem: Mem) -> &[u8] {
        let (base, _) = self.arena.resolve(mem, self.blocks);
        // SAFETY: `resolve` has checked the range; see `Memory`, and `check` for targets.
        unsafe { std::slice::from_raw_parts(base, self.len()) }
    }

    /// The memory, unless it is zeros.
    fn operand(&self, mem: Mem) -> Option<&[u8]> {
        (mem != Mem::Zero).then(|| self.bytes(mem))
    }

    fn operands<'b>(
        &'b self,
        mems: &[Mem],
        room: &'b mut [Option<&'b [u8]>; OPERANDS_MAX],
    ) -> &'b [Option<&'b [u8]>] {
        for (to, &from) in room.iter_mut().zip(mems) {
            *to = self.operand(from);
        }
        &room[..mems.len()]
    }

    /// Memory to write. The step must have been checked.
    #[expect(clippy::mut_from_ref, reason = "`check` tells apart what a step borrows")]
    fn target(&self, mem: Mem) -> &mut [u8] {
        assert!(mem != Mem::Zero, "zeros can't be written");
        let (base, _) = self.arena.resolve(mem, self.blocks);
        // SAFETY: `resolve` has checked the range; see `Memory`, and `check` for the others.
        unsafe { std::slice::from_raw_parts_mut(base, self.len()) }
    }
}
