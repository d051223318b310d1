//! Closed forms for cleaning under random page writes, and for queues.
//!
//! `alpha` is the space that data is spread over per page of data: all pages less those of the mean
//! free pool and the unwritten part of open blocks, over the logical pages.
//!
//! Sources: J. Menon, "A performance comparison of RAID-5 and log-structured arrays" (1995), for
//! cleaning in order of age; P. Desnoyers, "Analytic models of SSD write performance" (ACM
//! Transactions on Storage, 2014), for greedy cleaning and for classes of data.

/// The principal branch of Lambert's W: the `w` ≥ −1 with `w·e^w = x`, for `x` ≥ −1/e.
pub fn lambert_w(x: f64) -> f64 {
    // Newton's method fails near the branch point; the series in p does not.
    let p = (2.0 * (1.0 + x * core::f64::consts::E)).max(0.0).sqrt();
    let mut w = if x < 0.0 { -1.0 + p - p * p / 3.0 + 11.0 / 72.0 * p * p * p } else { x.ln_1p() };
    for _ in 0..50 {
        let e = w.exp();
        let f = w * e - x;
        if w <= -1.0 + 1e-9 || f.abs() < 1e-15 {
            break;
        }
        // Halley's method.
        w -= f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
    }
    w
}

/// Write amplification of cleaning in order of age, uniform writes: `1/(1−u)` with
/// `1/alpha = (u−1)/ln u`.
pub fn fifo(alpha: f64) -> f64 {
    // (u−1)/ln u rises from 0 to 1 as u does.
    let u = bisect(1e-12, 1.0 - 1e-12, |u| (u - 1.0) / u.ln() - 1.0 / alpha);
    1.0 / (1.0 - u)
}

/// Write amplification of greedy cleaning with `pages` pages in a block, uniform writes.
pub fn greedy(alpha: f64, pages: f64) -> f64 {
    let k = 1.0 + 1.0 / (2.0 * pages);
    let w = lambert_w(-k * alpha * (-k * alpha).exp());
    let valid = 0.5 - pages / alpha * w;
    pages / (pages - (valid - 1.0))
}

/// Write amplification of cleaning in order of age where `classes` are (share of the writes, share
/// of the space), all in the same blocks.
pub fn fifo_classes(alpha: f64, classes: &[(f64, f64)]) -> f64 {
    // A page of a class is still valid after one round of the log with probability e^(−x).
    bisect(1.0, 1e6, |wa| {
        let sum: f64 =
            classes.iter().map(|&(r, f)| r / (1.0 - (-r * alpha / (f * wa)).exp())).sum();
        wa - sum
    })
}

/// Mean response time of M/D/1: Poisson arrivals at load `rho`, constant service time.
pub fn md1(service: f64, rho: f64) -> f64 {
    service + rho * service / (2.0 * (1.0 - rho))
}

/// Where `f`, which rises through zero between `low` and `high`, is zero.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b} ± {tolerance}");
    }

    #[test]
    fn lambert_w_inverts() {
        for w in [-0.999, -0.9, -0.5, -0.1, -1e-6, 0.0, 1e-6, 0.5, 1.0, 3.0, 20.0_f64] {
            near(lambert_w(w * w.exp()), w, 1e-6);
        }
        near(lambert_w(-(-1.0_f64).exp()), -1.0, 1e-6);
    }

    #[test]
    fn the_published_table() {
        for (alpha, age, greedy_64, greedy_256) in [
            (1.10, 5.677, 5.242, 5.562),
            (1.15, 4.016, 3.799, 3.959),
            (1.25, 2.693, 2.598, 2.668),
            (1.50, 1.716, 1.681, 1.707),
            (2.00, 1.255, 1.239, 1.251),
        ] {
            near(fifo(alpha), age, 0.0006);
            near(greedy(alpha, 64.0), greedy_64, 0.0006);
            near(greedy(alpha, 256.0), greedy_256, 0.0006);
        }
    }

    #[test]
    fn one_class_is_no_class() {
        for alpha in [1.07, 1.2, 1.7, 3.0] {
            near(fifo_classes(alpha, &[(1.0, 1.0)]), fifo(alpha), 1e-6);
            near(fifo_classes(alpha, &[(0.3, 0.3), (0.7, 0.7)]), fifo(alpha), 1e-6);
        }
    }
}
