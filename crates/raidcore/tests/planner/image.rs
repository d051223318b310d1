//! A stripe and a host's memory, whose arithmetic is independent of the crate's kernels.

use raidcore::geometry::{Geometry, Role};
use raidcore::plan::{Plan, Step};
use raidcore::units::{Mem, Stripe};

use crate::Trouble;

pub(crate) type Block = [u8; 8];

/// Multiplication in GF(2^8) modulo 0x11d, by the definition.
pub(crate) fn mul(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 };
        b >>= 1;
    }
    product
}

pub(crate) fn pow(index: usize) -> u8 {
    (0..index).fold(1, |g, _| mul(g, 2))
}

pub(crate) fn inverse(a: u8) -> u8 {
    (1..=255).find(|&b| mul(a, b) == 1).expect("every element but zero has an inverse")
}

pub(crate) fn scaled(c: u8, block: Block) -> Block {
    block.map(|b| mul(c, b))
}

pub(crate) fn sum(a: Block, b: Block) -> Block {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// One stripe on its members, by member and row.
#[derive(Clone)]
pub(crate) struct StripeImage {
    pub(crate) geo: Geometry,
    pub(crate) stripe: Stripe,
    pub(crate) members: Vec<Vec<Block>>,
}

impl StripeImage {
    /// The stripe whose data blocks are `data`, with right parity or copies.
    pub(crate) fn of(geo: Geometry, stripe: Stripe, data: &[Block]) -> Self {
        let chunk = geo.chunk() as usize;
        let mut image = Self { geo, stripe, members: vec![vec![[0; 8]; chunk]; geo.members()] };
        for row in 0..chunk {
            let at = |d: usize| data[d * chunk + row];
            let mirror = geo.is_mirrored();
            for role in 0..if mirror { geo.width() } else { geo.data() } {
                *image.block(Role::at(role), row) = at(if mirror { 0 } else { role });
            }
            if let Some(p) = geo.p() {
                *image.block(p, row) = (0..geo.data()).map(at).fold([0; 8], sum);
            }
            if let Some(q) = geo.q() {
                *image.block(q, row) =
                    (0..geo.data()).map(|d| scaled(pow(d), at(d))).fold([0; 8], sum);
            }
        }
        image
    }

    pub(crate) fn block(&mut self, role: Role, row: usize) -> &mut Block {
        let member = self.geo.member(self.stripe, role);
        &mut self.members[member.index()][row]
    }

    /// Overwrites what `trouble` takes away with bytes that were never stored.
    pub(crate) fn suffer(&mut self, trouble: &Trouble) {
        for role in trouble.down {
            for row in 0..self.geo.chunk() as usize {
                *self.block(role, row) = [0xee; 8];
            }
        }
        for bad in &trouble.bad {
            for row in bad.row..bad.row + bad.blocks {
                *self.block(bad.role, row as usize) = [0xdd; 8];
            }
        }
    }
}

/// A host's memory, poisoned so that bytes that were never filled can't look right.
pub(crate) struct Memory {
    pub(crate) payload: Vec<Block>,
    pub(crate) scratch: Vec<Vec<Block>>,
}

impl Memory {
    pub(crate) fn new(geo: &Geometry, payload: Vec<Block>) -> Self {
        let poison = vec![[0xa5; 8]; geo.chunk() as usize];
        Self { payload, scratch: vec![poison; 2 * (geo.width() + 2)] }
    }

    pub(crate) fn get(&self, mem: Mem, i: u32) -> Block {
        match mem.plus(i) {
            Mem::Payload { at, .. } => self.payload[at as usize],
            Mem::Scratch { buffer, at } => self.scratch[usize::from(buffer)][at as usize],
            Mem::Zero => [0; 8],
        }
    }

    pub(crate) fn set(&mut self, mem: Mem, i: u32, block: Block) {
        match mem.plus(i) {
            Mem::Payload { at, .. } => self.payload[at as usize] = block,
            Mem::Scratch { buffer, at } => self.scratch[usize::from(buffer)][at as usize] = block,
            Mem::Zero => panic!("zeros were written to"),
        }
    }

    /// Carries out a plan's steps; returns whether all comparisons were equal.
    pub(crate) fn compute(&mut self, plan: &Plan) -> bool {
        let mut equal = true;
        for &(step, blocks) in &plan.steps {
            for i in 0..blocks {
                equal &= self.compute_block(plan, step, i);
            }
        }
        equal
    }

    fn compute_block(&mut self, plan: &Plan, step: Step, i: u32) -> bool {
        let all = |m: &Self, srcs| -> Vec<Block> {
            plan.operands(srcs).iter().map(|&mem| m.get(mem, i)).collect()
        };
        let weighted = |blocks: Vec<Block>| {
            blocks.into_iter().enumerate().map(|(d, b)| scaled(pow(d), b)).fold([0; 8], sum)
        };
        match step {
            Step::Xor { dst, srcs } => {
                let total = all(self, srcs).into_iter().fold([0; 8], sum);
                self.set(dst, i, total);
            }
            Step::Pq { p, q, srcs } => {
                let blocks = all(self, srcs);
                self.set(p, i, blocks.iter().copied().fold([0; 8], sum));
                self.set(q, i, weighted(blocks));
            }
            Step::Q { q, srcs } => {
                let blocks = all(self, srcs);
                self.set(q, i, weighted(blocks));
            }
            Step::Add { dst, src } => self.set(dst, i, sum(self.get(dst, i), self.get(src, i))),
            Step::Delta { p, q, index, old, new } => {
                let change = sum(self.get(old, i), self.get(new, i));
                if let Some(p) = p {
                    self.set(p, i, sum(self.get(p, i), change));
                }
                if let Some(q) = q {
                    let change = scaled(pow(usize::from(index)), change);
                    self.set(q, i, sum(self.get(q, i), change));
                }
            }
            Step::Unscale { dst, index } => {
                let c = inverse(pow(usize::from(index)));
                self.set(dst, i, scaled(c, self.get(dst, i)));
            }
            Step::Solve { a, b, x, y } => {
                let (gx, gy) = (pow(usize::from(x)), pow(usize::from(y)));
                let (s, w) = (self.get(a, i), self.get(b, i));
                let dx = scaled(inverse(gx ^ gy), sum(w, scaled(gy, s)));
                self.set(a, i, dx);
                self.set(b, i, sum(s, dx));
            }
            Step::Clear { dst } => self.set(dst, i, [0; 8]),
            Step::Copy { dst, src } => self.set(dst, i, self.get(src, i)),
            Step::Compare { a, b } => return self.get(a, i) == self.get(b, i),
            Step::Locate { .. } | Step::Vote { .. } => unreachable!("nothing is corrected here"),
        }
        true
    }
}

/// Carries out a plan on an image; returns whether all comparisons were equal.
pub(crate) fn carry_out(plan: &Plan, image: &mut StripeImage, memory: &mut Memory) -> bool {
    for io in &plan.reads {
        for i in 0..io.blocks {
            let block = *image.block(io.role, (io.row + i) as usize);
            memory.set(io.mem, i, block);
        }
    }
    let equal = memory.compute(plan);
    for io in &plan.writes {
        for i in 0..io.blocks {
            *image.block(io.role, (io.row + i) as usize) = memory.get(io.mem, i);
        }
    }
    equal
}

/// A different value for every block and version.
pub(crate) fn content(version: u64, block: usize) -> Block {
    let n = version * 1_000_003 + block as u64 * 7919 + 1;
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}
