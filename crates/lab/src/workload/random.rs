//! Random numbers of several distributions. Equal seeds give equal numbers on every platform and in
//! every version: the logarithms are not the platform's, and tests hold samples of every
//! distribution.

use det::Prng;

/// Uniform random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(Prng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Prng::new(seed))
    }

    /// In `0..1`, a multiple of 2⁻⁵³.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// In `0..bound`, which must not be empty.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// True with the probability `share`. Draws a number only if both answers are possible.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && (share >= 1.0 || self.unit() < share)
    }

    /// An exponential random number with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }
}

/// Picks from a list by weight.
#[derive(Clone, Debug)]
pub(crate) struct Weighted {
    /// Cumulative weights, as shares; the last is 1.
    sums: Box<[f64]>,
}

impl Weighted {
    /// `weights` are finite, not negative, and not all zero.
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let running = weights.into_iter().map(|weight| {
            sum += weight;
            sum
        });
        let mut sums: Box<[f64]> = running.collect();
        sums.iter_mut().for_each(|partial| *partial /= sum);
        Self { sums }
    }

    /// An index into the list.
    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        if self.sums.len() == 1 {
            return 0;
        }
        let unit = random.unit();
        // For short lists, a linear search is cheaper than a binary one.
        self.sums.iter().position(|&sum| unit < sum).unwrap_or(self.sums.len() - 1)
    }
}

/// Ranks from 0, rank `k` with a probability in proportion to `(k + 1)` to the power `-theta`:
/// exact, in constant time and memory, by rejection-inversion (Hörmann and Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS
/// 6(3), 1996).
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: u64,
    theta: f64,
    /// `1 / (1 - theta)`; not used near 1.
    over: f64,
    /// The integral at the ends of the area to draw from.
    first: f64,
    last: f64,
    /// A point closer than this to its rank is certainly under the histogram.
    sure: f64,
}

impl Zipf {
    /// Over `count` ranks, at least one; `theta` is at least 0, which is the uniform law.
    pub(crate) fn new(count: u64, theta: f64) -> Self {
        let mut zipf =
            Self { count, theta, over: 1.0 / (1.0 - theta), first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        if self.theta == 0.0 || self.count == 1 {
            return random.below(self.count);
        }
        loop {
            let area = self.last + random.unit() * (self.first - self.last);
            let point = self.inverse(area);
            let rank = ((point + 0.5) as u64).clamp(1, self.count);
            let near = rank as f64;
            if near - point <= self.sure || area >= self.integral(near + 0.5) - self.density(near) {
                return rank - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// Of the density from 1 to `x`: `(x^(1-theta) - 1) / (1-theta)`, the logarithm at 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let power = (1.0 - self.theta) * log;
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { self.over * libm::expm1(power) }
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding may make it less than -1.
        let power = (area * (1.0 - self.theta)).max(-1.0);
        let log = if power.abs() < 1e-8 {
            area * (1.0 - power / 2.0)
        } else {
            self.over * libm::log1p(power)
        };
        libm::exp(log)
    }
}

/// A permutation of `0..count` that scatters neighbours, so that popular items are not adjacent.
#[derive(Clone, Debug)]
pub(crate) struct Scramble {
    count: u64,
    /// A mask for the next power of two.
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Scramble {
    pub(crate) fn new(count: u64, random: &mut Random) -> Self {
        let mask = count.checked_next_power_of_two().map_or(u64::MAX, |power| power - 1);
        let shift = (mask.count_ones() / 2).max(1);
        let keys = std::array::from_fn(|_| random.0.next_u64());
        Self { count, mask, shift, keys }
    }

    /// The image of `x`, which is below the count.
    pub(crate) fn of(&self, x: u64) -> u64 {
        let mut x = x;
        // A permutation of a larger range, repeated until the image is in range.
        loop {
            for key in self.keys {
                x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(key) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_is_exact() {
        const DRAWS: u64 = 1_000_000;
        for (count, theta) in [(10, 0.5), (100, 0.99), (100, 1.0), (1000, 1.2), (7, 3.0), (2, 0.01)]
        {
            let zipf = Zipf::new(count, theta);
            let mut random = Random::new(7);
            let mut drawn = vec![0u64; count as usize];
            for _ in 0..DRAWS {
                drawn[zipf.rank(&mut random) as usize] += 1;
            }
            let mass = |k: usize| (k as f64 + 1.0).powf(-theta);
            let total: f64 = (0..drawn.len()).map(mass).sum();
            // Chi-square over the ranks with enough draws; its mean is their number, its standard
            // deviation the root of twice that.
            let expected = (0..drawn.len()).map(|k| DRAWS as f64 * mass(k) / total);
            let terms: Vec<f64> = expected
                .zip(&drawn)
                .filter(|(expected, _)| *expected >= 10.0)
                .map(|(expected, &drawn)| (drawn as f64 - expected).powi(2) / expected)
                .collect();
            let chi: f64 = terms.iter().sum();
            let freedom = terms.len() as f64;
            let limit = freedom + 4.0 * (2.0 * freedom).sqrt();
            assert!(chi < limit, "{count} {theta}: {chi} over {limit}");
        }
    }

    #[test]
    fn a_scramble_is_a_permutation() {
        let mut random = Random::new(3);
        for count in [1, 2, 3, 5, 64, 65, 1000] {
            let scramble = Scramble::new(count, &mut random);
            let mut seen = vec![false; count as usize];
            (0..count).for_each(|x| seen[scramble.of(x) as usize] = true);
            assert!(seen.iter().all(|&seen| seen), "{count}");
        }
    }

    #[test]
    fn a_scramble_parts_neighbours() {
        let mut random = Random::new(3);
        let scramble = Scramble::new(1 << 20, &mut random);
        let near = (0..10_000u64)
            .filter(|&x| scramble.of(x).abs_diff(scramble.of(x + 1)) < 1 << 10)
            .count();
        // By chance about 2 in 1024.
        assert!(near < 60, "{near}");
    }

    #[test]
    fn huge_ranges_stay_in_range() {
        let mut random = Random::new(1);
        let scramble = Scramble::new(u64::MAX - 5, &mut random);
        for theta in [0.0, 0.3, 0.99, 1.0, 1.5, 8.0] {
            let zipf = Zipf::new(u64::MAX - 5, theta);
            for _ in 0..1000 {
                let rank = zipf.rank(&mut random);
                assert!(rank < u64::MAX - 5);
                assert!(scramble.of(rank) < u64::MAX - 5);
            }
        }
    }

    #[test]
    fn weights_may_be_zero_and_of_any_sum() {
        let weighted = Weighted::new([0.0, 30.0, 10.0, 0.0]);
        let mut random = Random::new(1);
        let mut picked = [0u32; 4];
        (0..40_000).for_each(|_| picked[weighted.pick(&mut random)] += 1);
        assert_eq!((picked[0], picked[3]), (0, 0));
        assert!(picked[1].abs_diff(30_000) < 350, "{picked:?}");
    }
}
