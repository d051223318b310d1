//! The field GF(2⁸) of RAID6: polynomial x⁸ + x⁴ + x³ + x² + 1 (0x11d), generator 2, as Linux md
//! has it (H. Peter Anvin, "The mathematics of RAID-6", 2011).
//!
//! Everything here is `const` and meant for single bytes; the kernels work on many.

/// The polynomial without its leading term: what is added when a doubling overflows.
pub(super) const POLYNOMIAL: u8 = 0x1d;

/// The order of the generator: the number of non-zero elements.
const ORDER: usize = 255;

const TABLES: ([u8; ORDER], [u8; 256]) = {
    let mut powers = [0; ORDER];
    let mut logs = [0; 256];
    let mut element: u8 = 1;
    let mut i = 0;
    while i < ORDER {
        powers[i] = element;
        logs[element as usize] = i as u8;
        let overflows = element & 0x80 != 0;
        element = (element << 1) ^ if overflows { POLYNOMIAL } else { 0 };
        i += 1;
    }
    (powers, logs)
};

static POWERS: [u8; ORDER] = TABLES.0;
static LOGS: [u8; 256] = TABLES.1;

/// 2 to the power of `i`: the weight of data chunk `i` in Q.
#[must_use]
pub const fn pow2(i: usize) -> u8 {
    POWERS[i % ORDER]
}

/// The least `i` for which [`pow2`]`(i)` is `a`.
///
/// # Panics
/// If `a` is zero, which is no power.
#[must_use]
pub const fn log2(a: u8) -> usize {
    assert!(a != 0, "zero has no logarithm");
    LOGS[a as usize] as usize
}

/// The product.
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    pow2(LOGS[a as usize] as usize + LOGS[b as usize] as usize)
}

/// The inverse: `mul(a, inv(a))` is 1.
///
/// # Panics
/// If `a` is zero, which has none.
#[must_use]
pub const fn inv(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    pow2(ORDER - LOGS[a as usize] as usize)
}
