//! The instruction sets of x86-64: AVX2, AVX-512 (F and BW), and AVX-512 with GFNI.
//!
//! Multiplication by a constant looks up the products of both halves of a byte in tables of 16
//! (`pshufb`), or with GFNI is the product of a bit matrix and the byte: `gf2p8affineqb` does that
//! for any field, while `gf2p8mulb` knows only 0x11b.
//!
//! Doubling without GFNI is a shift, plus the polynomial where it overflows. `pshufb` gives zero
//! for bytes with the top bit set. So one `pshufb` with the polynomial everywhere in its table
//! gives the polynomial where *nothing* overflows, and the doubling is off by the polynomial.
//! [`OFFSET`] solves 2·x + polynomial = x, so a sum that is off by it stays off by it.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::gf;
use super::isa::Isa;

const POLYNOMIAL: i8 = gf::POLYNOMIAL as i8;

const OFFSET: i8 = gf::mul(gf::POLYNOMIAL, gf::inv(3)) as i8;

/// The truth table of the sum of three bits.
const XOR3: i32 = 0b1001_0110;

/// For each constant its products with 0..16, and after them those with 0, 16, 32, .. 240.
static PRODUCTS: [[u8; 32]; 256] = {
    let mut products = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut i = 0;
        while i < 16 {
            products[c][i] = gf::mul(c as u8, i as u8);
            products[c][16 + i] = gf::mul(c as u8, (i as u8) << 4);
            i += 1;
        }
        c += 1;
    }
    products
};

/// For each constant the bit matrix that multiplies by it.
static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        matrices[c] = matrix(c as u8);
        c += 1;
    }
    matrices
};

/// The matrix in the order of `gf2p8affineqb`: bit `i` of the result is the parity of the operand
/// and *byte 7 - i* of the matrix, so bit `j` of that byte is bit `i` of c·2ʲ.
const fn matrix(c: u8) -> u64 {
    let mut rows = [0u8; 8];
    let mut j = 0;
    while j < 8 {
        let column = gf::mul(c, 1 << j);
        let mut i = 0;
        while i < 8 {
            rows[7 - i] |= (column >> i & 1) << j;
            i += 1;
        }
        j += 1;
    }
    u64::from_le_bytes(rows)
}

/// The two halves of [`PRODUCTS`] for `c`.
#[inline(always)]
fn products(c: u8) -> (&'static [u8; 16], &'static [u8; 16]) {
    let [low, high] = PRODUCTS[usize::from(c)].as_chunks::<16>().0 else { unreachable!() };
    (low, high)
}

/// Proof of AVX2.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn here() -> Self {
        Self(())
    }
}

impl Isa for Avx2 {
    type V = __m256i;
    /// The products of the lower and of the upper half of a byte.
    type Factor = [__m256i; 2];

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn load(self, from: &[u8]) -> __m256i {
        assert!(from.len() == Self::WIDTH);
        // SAFETY: `self` proves AVX2; 32 bytes are there, and need no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, to: &mut [u8], v: __m256i) {
        assert!(to.len() == Self::WIDTH);
        // SAFETY: `self` proves AVX2; 32 bytes are there, and need no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn offset(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, _mm256_set1_epi8(OFFSET)) }
    }

    #[inline(always)]
    fn horner(self, sum: __m256i, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let unless_overflow = _mm256_shuffle_epi8(_mm256_set1_epi8(POLYNOMIAL), sum);
            let doubled = _mm256_xor_si256(_mm256_add_epi8(sum, sum), unless_overflow);
            _mm256_xor_si256(doubled, a)
        }
    }

    #[inline(always)]
    fn factor(self, c: u8) -> [__m256i; 2] {
        let (low, high) = products(c);
        // SAFETY: `self` proves AVX2; the tables are of 16 bytes, and need no alignment.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    fn mul(self, a: __m256i, [low, high]: [__m256i; 2]) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let half = _mm256_set1_epi8(0x0f);
            let lower = _mm256_and_si256(a, half);
            let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(a), half);
            _mm256_xor_si256(_mm256_shuffle_epi8(low, lower), _mm256_shuffle_epi8(high, upper))
        }
    }

    #[inline(always)]
    fn is_zero(self, a: __m256i) -> bool {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_testz_si256(a, a) == 1 }
    }
}

/// Proof of AVX-512 F and BW, and of GFNI if so said.
#[derive(Clone, Copy)]
pub(super) struct Avx512<const GFNI: bool>(());

impl Avx512<false> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn here() -> Self {
        Self(())
    }
}

impl Avx512<true> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    pub(super) fn here() -> Self {
        Self(())
    }
}

impl<const GFNI: bool> Isa for Avx512<GFNI> {
    type V = __m512i;
    /// The products of the lower and of the upper half of a byte; with GFNI the matrix, twice.
    type Factor = [__m512i; 2];

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load(self, from: &[u8]) -> __m512i {
        assert!(from.len() == Self::WIDTH);
        // SAFETY: `self` proves AVX-512 F; 64 bytes are there, and need no alignment.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, to: &mut [u8], v: __m512i) {
        assert!(to.len() == Self::WIDTH);
        // SAFETY: `self` proves AVX-512 F; 64 bytes are there, and need no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn xor3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_ternarylogic_epi64::<XOR3>(a, b, c) }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn offset(self, a: __m512i) -> __m512i {
        if GFNI {
            return a;
        }
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_xor_si512(a, _mm512_set1_epi8(OFFSET)) }
    }

    #[inline(always)]
    fn horner(self, sum: __m512i, a: __m512i) -> __m512i {
        if GFNI {
            return self.xor(self.mul(sum, self.factor(gf::pow2(1))), a);
        }
        // SAFETY: `self` proves AVX-512 F and BW.
        unsafe {
            let unless_overflow = _mm512_shuffle_epi8(_mm512_set1_epi8(POLYNOMIAL), sum);
            _mm512_ternarylogic_epi64::<XOR3>(_mm512_add_epi8(sum, sum), unless_overflow, a)
        }
    }

    #[inline(always)]
    fn horner2(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        if !GFNI {
            return self.horner(self.horner(sum, a), b);
        }
        // One multiplication of both halves the length of the dependency chain.
        let four = self.mul(sum, self.factor(gf::pow2(2)));
        let two = self.mul(a, self.factor(gf::pow2(1)));
        self.xor(self.xor(four, two), b)
    }

    #[inline(always)]
    fn factor(self, c: u8) -> [__m512i; 2] {
        // SAFETY: `self` proves AVX-512 F; the tables are of 16 bytes, and need no alignment.
        unsafe {
            if GFNI {
                return [_mm512_set1_epi64(MATRICES[usize::from(c)] as i64); 2];
            }
            let (low, high) = products(c);
            [
                _mm512_broadcast_i32x4(_mm_loadu_si128(low.as_ptr().cast())),
                _mm512_broadcast_i32x4(_mm_loadu_si128(high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    fn mul(self, a: __m512i, [low, high]: [__m512i; 2]) -> __m512i {
        // SAFETY: `self` proves AVX-512 F and BW, and GFNI where it says so.
        unsafe {
            if GFNI {
                return _mm512_gf2p8affine_epi64_epi8::<0>(a, low);
            }
            let half = _mm512_set1_epi8(0x0f);
            let lower = _mm512_and_si512(a, half);
            let upper = _mm512_and_si512(_mm512_srli_epi64::<4>(a), half);
            _mm512_xor_si512(_mm512_shuffle_epi8(low, lower), _mm512_shuffle_epi8(high, upper))
        }
    }

    #[inline(always)]
    fn is_zero(self, a: __m512i) -> bool {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_test_epi64_mask(a, a) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One byte of `gf2p8affineqb` with immediate 0, after `affine_byte` in Intel's manual
    /// (Software Developer's Manual, volume 2, GF2P8AFFINEQB).
    fn affine_byte(matrix: u64, operand: u8) -> u8 {
        (0..8).fold(0, |result, bit| {
            let row = (matrix >> (8 * (7 - bit))) as u8;
            let parity = (row & operand).count_ones() as u8 & 1;
            result | parity << bit
        })
    }

    /// The product by the schoolbook: shifted addends, then division by the polynomial.
    fn product(a: u8, b: u8) -> u8 {
        let mut sum: u16 = 0;
        for bit in 0..8 {
            sum ^= (u16::from(a) << bit) * u16::from(b >> bit & 1);
        }
        for bit in (8..16).rev() {
            sum ^= (0x11d << (bit - 8)) * (sum >> bit & 1);
        }
        sum as u8
    }

    #[test]
    fn matrices_multiply_as_the_cpu_would() {
        for c in 0..=255 {
            for byte in 0..=255 {
                let matrix = MATRICES[usize::from(c)];
                assert_eq!(affine_byte(matrix, byte), product(c, byte), "{c} * {byte}");
            }
        }
    }

    #[test]
    fn halves_add_up_to_products() {
        for c in 0..=255 {
            let (low, high) = products(c);
            for byte in 0..=255u8 {
                let sum = low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
                assert_eq!(sum, product(c, byte), "{c} * {byte}");
            }
        }
    }
}
