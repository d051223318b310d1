//! The operations that kernels need from an instruction set, and the portable implementation.
//!
//! A value that implements [`Isa`] is proof that the CPU has the instructions: it can only be made
//! where the compiler knows that they exist. So its methods are safe, and everything built from
//! them.

use super::gf::POLYNOMIAL;

/// Vectors of bytes, taken as elements of the field.
///
/// Every method must be `inline(always)`, and so must its callers, so that all of it ends up in a
/// function with the set's target features. A closure would be a function without them.
pub(super) trait Isa: Copy {
    /// A vector.
    type V: Copy;
    /// A constant, made ready to multiply by.
    type Factor: Copy;
    /// The bytes of a vector.
    const WIDTH: usize = size_of::<Self::V>();

    fn zero(self) -> Self::V;

    /// Panics unless `from` is as long as a vector.
    fn load(self, from: &[u8]) -> Self::V;

    /// Panics unless `to` is as long as a vector.
    fn store(self, to: &mut [u8], v: Self::V);

    fn xor(self, a: Self::V, b: Self::V) -> Self::V;

    /// The sum of three.
    #[inline(always)]
    fn xor3(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        self.xor(self.xor(a, b), c)
    }

    fn or(self, a: Self::V, b: Self::V) -> Self::V;

    /// Adds or removes the offset of the running sums of Horner's rule. An instruction set chooses
    /// the offset that makes a step take the fewest instructions.
    #[inline(always)]
    fn offset(self, a: Self::V) -> Self::V {
        a
    }

    /// 2·sum + a: a step of Horner's rule. The sum has the offset of [`Isa::offset`] before and
    /// after.
    fn horner(self, sum: Self::V, a: Self::V) -> Self::V;

    /// 4·sum + 2·a + b: two steps of Horner's rule.
    #[inline(always)]
    fn horner2(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V {
        self.horner(self.horner(sum, a), b)
    }

    fn factor(self, c: u8) -> Self::Factor;

    fn mul(self, a: Self::V, by: Self::Factor) -> Self::V;

    fn is_zero(self, a: Self::V) -> bool;
}

/// A byte in each lane of a word.
const fn splat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Eight bytes in an ordinary register. The compiler can vectorize loops over several.
#[derive(Clone, Copy)]
pub(super) struct Word;

impl Isa for Word {
    type V = u64;
    /// Of each bit of the constant, from the highest: all ones or all zeros.
    type Factor = [u64; 8];

    #[inline(always)]
    fn zero(self) -> u64 {
        0
    }

    #[inline(always)]
    fn load(self, from: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(from);
        u64::from_le_bytes(bytes)
    }

    #[inline(always)]
    fn store(self, to: &mut [u8], v: u64) {
        to.copy_from_slice(&v.to_le_bytes());
    }

    #[inline(always)]
    fn xor(self, a: u64, b: u64) -> u64 {
        a ^ b
    }

    #[inline(always)]
    fn or(self, a: u64, b: u64) -> u64 {
        a | b
    }

    #[inline(always)]
    fn horner(self, sum: u64, a: u64) -> u64 {
        let overflows = sum & splat(0x80);
        // 0xff in each lane that overflows: no lane borrows from its neighbour.
        let lanes = (overflows << 1).wrapping_sub(overflows >> 7);
        ((sum << 1) & splat(0xfe)) ^ (lanes & splat(POLYNOMIAL)) ^ a
    }

    #[inline(always)]
    fn factor(self, c: u8) -> [u64; 8] {
        let mut bits = [0; 8];
        for (i, bit) in bits.iter_mut().enumerate() {
            *bit = u64::from(c >> (7 - i) & 1).wrapping_neg();
        }
        bits
    }

    #[inline(always)]
    fn mul(self, a: u64, by: [u64; 8]) -> u64 {
        let mut product = 0;
        for bit in by {
            product = self.horner(product, a & bit);
        }
        product
    }

    #[inline(always)]
    fn is_zero(self, a: u64) -> bool {
        a == 0
    }
}
