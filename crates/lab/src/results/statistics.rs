//! Statistics of a figure over several seeds.

use serde::Serialize;

/// A mean over seeds, and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95% confidence interval, by Student's t; infinite for one value.
    pub half_width: f64,
    /// Standard deviation of the values.
    pub deviation: f64,
    /// How many values.
    pub count: usize,
}

impl Estimate {
    /// Of these values; zero if there are none.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count();
        let n = count as f64;
        let mean = values.clone().sum::<f64>() / n.max(1.0);
        if count < 2 {
            return Self { mean, half_width: f64::INFINITY, deviation: 0.0, count };
        }
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (n - 1.0)).sqrt();
        Self { mean, half_width: t(n - 1.0) * deviation / n.sqrt(), deviation, count }
    }

    /// Whether two means differ with 95% confidence, by Welch's test. With a single value on either
    /// side nothing can be said.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        if self.count < 2 || other.count < 2 {
            return false;
        }
        let part = |e: &Self| e.deviation.powi(2) / e.count as f64;
        let (a, b) = (part(self), part(other));
        let difference = (self.mean - other.mean).abs();
        if a + b == 0.0 {
            return difference > 0.0;
        }
        let freedom = |part: f64, e: &Self| part.powi(2) / (e.count as f64 - 1.0);
        let freedom = (a + b).powi(2) / (freedom(a, self) + freedom(b, other));
        difference > t(freedom) * (a + b).sqrt()
    }
}

/// The 97.5% quantile of Student's t distribution: Hill's asymptotic expansion (Communications of
/// the ACM, algorithm 396), which is exact for one and two degrees of freedom and within 0.01% for
/// more.
fn t(freedom: f64) -> f64 {
    const TWO_SIDED: f64 = 0.05;
    let n = freedom.max(1.0);
    if n < 1.5 {
        let half = TWO_SIDED * std::f64::consts::FRAC_PI_2;
        return half.cos() / half.sin();
    }
    if n < 2.5 {
        return (2.0 / (TWO_SIDED * (2.0 - TWO_SIDED)) - 2.0).sqrt();
    }
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let mut c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * std::f64::consts::FRAC_PI_2).sqrt() * n;
    let mut y = (d * TWO_SIDED).powf(2.0 / n);
    if y > 0.05 + a {
        // The 2.5% quantile of the normal distribution.
        let x = -1.959_963_984_540_054;
        y = x * x;
        if n < 5.0 {
            c += 0.3 * (n - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = (a * y * y).exp_m1();
    } else {
        y = ((1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0)
            + 0.5 / (n + 4.0))
            * y
            - 1.0)
            * (n + 1.0)
            / (n + 2.0)
            + 1.0 / y;
    }
    (n * y).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_is_what_tables_say() {
        let table = [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (5.0, 2.571),
            (9.0, 2.262),
            (29.0, 2.045),
            (120.0, 1.980),
        ];
        for (freedom, expected) in table {
            assert!((t(freedom) - expected).abs() < 0.0011, "{freedom}: {}", t(freedom));
        }
    }

    #[test]
    fn an_interval_is_as_wide_as_by_hand() {
        let estimate = Estimate::of([10.0, 12.0, 11.0, 13.0, 9.0].into_iter());
        assert!((estimate.mean - 11.0).abs() < 1e-12);
        assert!((estimate.half_width - 2.776 * 1.5811 / 5f64.sqrt()).abs() < 0.01);
        assert!(!estimate.differs_from(&Estimate::of([12.0, 12.5, 11.0].into_iter())));
        assert!(estimate.differs_from(&Estimate::of([15.0, 15.5, 16.0].into_iter())));
    }
}
