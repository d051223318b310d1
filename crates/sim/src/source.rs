//! The source of a world's choices: a seed, or given bytes.

use det::Prng;

/// A source of choices. The same source gives the same choices.
#[derive(Clone, Debug)]
pub struct Source {
    /// What is left of the chosen bytes, the next one last.
    bytes: Vec<u8>,
    /// The generator after the bytes are used up.
    prng: Prng,
}

impl Source {
    /// Choices that a seed decides.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self { bytes: Vec::new(), prng: Prng::new(seed) }
    }

    /// Choices from bytes, each using as many bytes as its bound has. When they are used up, a
    /// generator continues, so that every run ends.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.iter().rev().copied().collect(), prng: Prng::new(0) }
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if self.bytes.is_empty() {
            return self.prng.below(bound);
        }
        let wanted = (u64::BITS - (bound - 1).leading_zeros()).div_ceil(8).max(1);
        let bytes = (0..wanted).map(|_| u64::from(self.bytes.pop().unwrap_or(0)));
        bytes.fold(0, |number, byte| number << 8 | byte) % bound
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// One of a slice.
    ///
    /// # Panics
    /// If it is empty.
    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// One of several, each with a probability by its weight.
    pub(crate) fn weighted<T: Copy>(&mut self, of: &[(T, u64)]) -> T {
        let mut at = self.below(of.iter().map(|&(_, weight)| weight).sum());
        let chosen = of.iter().find(|&&(_, weight)| {
            let inside = at < weight;
            at = at.wrapping_sub(weight);
            inside
        });
        chosen.expect("some weight is more than nothing").0
    }

    pub(crate) fn noise(&mut self, bytes: &mut [u8]) {
        self.prng.fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_choices_until_they_are_used_up() {
        let mut source = Source::bytes(&[7, 1, 2, 9]);
        assert_eq!(source.below(10), 7);
        assert_eq!(source.below(1 << 16), 0x0102);
        assert_eq!(source.below(4), 1);
        let (mut first, mut second) = (source.clone(), source);
        let later: Vec<u64> = (0..100).map(|_| first.below(1000)).collect();
        assert!(later.iter().all(|&number| number < 1000) && later.iter().any(|&n| n != later[0]));
        assert_eq!((0..100).map(|_| second.below(1000)).collect::<Vec<_>>(), later);
    }
}
