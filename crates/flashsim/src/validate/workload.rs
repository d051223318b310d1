//! Random numbers with the distributions of the references.

use det::Prng;

/// Uniform in `0.0..1.0`.
pub(super) fn unit(prng: &mut Prng) -> f64 {
    (prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Exponential with this mean.
pub(super) fn exponential(prng: &mut Prng, mean: f64) -> f64 {
    -mean * (1.0 - unit(prng)).ln()
}

/// Numbers that are not equally probable: parts of a range, uniform within each part, and scattered
/// over the range. Unscattered, cold neighbours would circulate in the log together for ever, and
/// the log would not be mixed evenly, as the formulas assume.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Share of the draws, and share of the range.
    pub(super) shares: Vec<(f64, f64)>,
    /// Per class: cumulative probability, first number, count.
    parts: Vec<(f64, u32, u32)>,
    range: u64,
    stride: u64,
}

impl Classes {
    pub(super) fn new(shares: &[(f64, f64)], range: u32) -> Self {
        let (mut parts, mut sum, mut space) = (Vec::new(), 0.0, 0.0);
        for &(draws, part) in shares {
            let first = (space * f64::from(range)) as u32;
            sum += draws;
            space += part;
            let end = ((space * f64::from(range)).round() as u32).min(range);
            parts.push((sum, first, end - first));
        }
        Self { shares: shares.to_vec(), parts, range: range.into(), stride: stride(range) }
    }

    /// Zipf with this exponent, in classes of equal rank sizes that grow towards the unpopular:
    /// within each the probabilities differ by little.
    pub(super) fn zipf(exponent: f64, range: u32) -> Self {
        let mut edges = vec![0u32];
        while let Some(&last) = edges.last().filter(|&&last| last < range) {
            edges.push((last + 1).max((f64::from(last) * 1.02) as u32).min(range));
        }
        let mass: Vec<f64> = edges
            .windows(2)
            .map(|edge| (edge[0]..edge[1]).map(|rank| f64::from(rank + 1).powf(-exponent)).sum())
            .collect();
        let total: f64 = mass.iter().sum();
        let shares: Vec<_> = edges
            .windows(2)
            .zip(&mass)
            .map(|(edge, mass)| (mass / total, f64::from(edge[1] - edge[0]) / f64::from(range)))
            .collect();
        let mut sum = 0.0;
        let parts = edges
            .windows(2)
            .zip(&shares)
            .map(|(edge, &(share, _))| {
                sum += share;
                (sum, edge[0], edge[1] - edge[0])
            })
            .collect();
        Self { shares, parts, range: range.into(), stride: stride(range) }
    }

    pub(super) fn draw(&self, prng: &mut Prng) -> u32 {
        let at = unit(prng);
        let class = self.parts.partition_point(|&(sum, ..)| sum <= at).min(self.parts.len() - 1);
        let (_, first, count) = self.parts[class];
        let number = u64::from(first) + prng.below(count.into());
        (number * self.stride % self.range) as u32
    }
}

/// A number near the golden section of `range` and coprime to it, so that multiplying by it
/// scatters all numbers over the range.
fn stride(range: u32) -> u64 {
    let common = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let range = u64::from(range);
    (range * 618 / 1000..).find(|&stride| common(stride, range) == 1).unwrap_or(1)
}

/// Mean and standard deviation of a series, and any quantile of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    values: Vec<f64>,
}

impl Series {
    pub(super) fn add(&mut self, value: f64) {
        self.values.push(value);
    }

    pub(super) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    pub(super) fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / self.values.len() as f64).sqrt()
    }

    pub(super) fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::MIN, f64::max)
    }

    /// The `part`-quantile of the values.
    pub(super) fn quantile(&mut self, part: f64) -> f64 {
        self.values.sort_by(f64::total_cmp);
        let rank = (part * self.values.len() as f64).ceil() as usize;
        self.values[rank.clamp(1, self.values.len()) - 1]
    }
}
