//! Axes: the position of a value, and the labelled values.

use crate::report::number::{round, round_count, round_time, time_unit};

/// The space for a label, in user units along a horizontal and a vertical axis. It fits the style
/// sheet's largest text.
const ROOM: [f64; 2] = [60.0, 19.0];

/// The shares with labels on a percentile scale.
pub(super) const PERCENTILES: [f64; 7] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];

/// An axis from one end of a panel to the other.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    pub(super) ticks: Vec<Tick>,
}

/// A value that is marked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    /// Its label; empty for a small tick.
    pub(super) label: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
    /// Shares, the closer to one the further apart: 90%, 99%, 99.9% are equally far.
    Nines,
}

impl Axis {
    /// Times in microseconds, logarithmic, between `from` and `to` on the page.
    pub(super) fn time_log(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        Self::log(values, (from, to), 1.0, round_time)
    }

    /// Numbers, logarithmic; the ends have labels if nothing else has.
    fn log(
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
        default: f64,
        label: fn(f64) -> String,
    ) -> Self {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = positive.fold((f64::INFINITY, 0.0), |(low, high), value| {
            (f64::min(low, value), f64::max(high, value))
        });
        let (low, high) = if low <= high { (low, high) } else { (default, default) };
        let (low, mut high) = (below(low), above(high));
        if high <= low * 1.01 {
            high = above(low * 1.5);
        }
        let mut axis = Self { scale: Scale::Log, low, high, from, to, ticks: Vec::new() };
        axis.ticks = axis.log_ticks(label);
        axis
    }

    /// Numbers from zero on, with a unit for all of them.
    pub(super) fn count(most: f64, from: f64, to: f64) -> Self {
        let mut axis = Self::linear(most, from, to);
        axis.label(round_count);
        axis
    }

    /// Factors from zero on.
    pub(super) fn factor(most: f64, from: f64, to: f64) -> Self {
        let mut axis = Self::linear(most, from, to);
        axis.label(round);
        axis
    }

    /// Time from zero to exactly `most` microseconds, and the unit of its labels.
    pub(super) fn time(most: f64, from: f64, to: f64) -> (Self, &'static str) {
        let mut axis = Self::linear(most, from, to);
        let (unit, symbol) = time_unit(axis.high / 2.0);
        axis.ticks.retain(|tick| tick.at <= most * (1.0 + 1e-9));
        axis.high = if most > 0.0 { most } else { axis.high };
        axis.label(|at| round(at / unit));
        (axis, symbol)
    }

    /// Shares from 0 to 100%.
    pub(super) fn share(from: f64, to: f64) -> Self {
        let mut axis = Self::linear(1.0, from, to);
        axis.label(|at| format!("{}%", round(at * 100.0)));
        axis
    }

    /// Percentiles up to that of `most`, a share, within a limit.
    pub(super) fn percentiles(most: f64, from: f64, to: f64) -> Self {
        let tick = |at: f64| Tick { at, label: round(at * 100.0) };
        let high = nines(most).clamp(1.0, nines(PERCENTILES[PERCENTILES.len() - 1]));
        let shown = |at: &f64| nines(*at) <= high + 1e-9;
        let mut axis = Self {
            scale: Scale::Nines,
            low: 0.0,
            high,
            from,
            to,
            ticks: PERCENTILES.into_iter().filter(shown).map(tick).collect(),
        };
        axis.thin();
        axis
    }

    /// Values with the labels that they were written with.
    pub(super) fn values(values: &[(f64, String)], from: f64, to: f64) -> Self {
        let at = || values.iter().map(|(at, _)| *at);
        let low = at().fold(f64::INFINITY, f64::min);
        let high = at().fold(f64::NEG_INFINITY, f64::max);
        // Values over a large range are on a logarithmic scale.
        let scale = if low > 0.0 && high / low >= 8.0 { Scale::Log } else { Scale::Linear };
        let (low, high) = match scale {
            Scale::Log => (low / (high / low).powf(0.04), high * (high / low).powf(0.04)),
            Scale::Linear | Scale::Nines => (low - (high - low) * 0.04, high + (high - low) * 0.04),
        };
        let tick = |(at, label): &(f64, String)| Tick { at: *at, label: label.clone() };
        let mut ticks: Vec<_> = values.iter().map(tick).collect();
        ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
        let mut axis = Self { scale, low, high, from, to, ticks };
        axis.thin();
        axis
    }

    /// The position of a value on the page, limited to the axis.
    pub(super) fn at(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).ln(),
            Scale::Nines => nines(value),
        };
        let ends = match self.scale {
            Scale::Nines => (self.low, self.high),
            Scale::Linear | Scale::Log => (place(self.low), place(self.high)),
        };
        let part = (place(value) - ends.0) / (ends.1 - ends.0);
        let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self.from + part * (self.to - self.from)
    }

    /// Its ends on the page.
    pub(super) fn span(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// From zero to a round number that is at least `most`; ticks at round numbers.
    fn linear(most: f64, from: f64, to: f64) -> Self {
        let most = if most.is_finite() && most > 1e-9 { most.min(1e300) } else { 1.0 };
        let ticks = ((to - from).abs() / room(from, to)).clamp(1.0, 6.0);
        let decade = 10f64.powf((most / ticks).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let step = steps.into_iter().find(|step| (most / step).ceil() <= ticks).unwrap_or(steps[3]);
        let count = (most / step - 1e-9).ceil().max(1.0);
        let tick = |index| Tick { at: f64::from(index) * step, label: String::new() };
        let ticks = (0..=count as u32).map(tick).collect();
        Self { scale: Scale::Linear, low: 0.0, high: count * step, from, to, ticks }
    }

    fn label(&mut self, label: impl Fn(f64) -> String) {
        for tick in &mut self.ticks {
            tick.label = label(tick.at);
        }
    }

    /// Removes labels that are too close to the one before.
    fn thin(&mut self) {
        let mut last = f64::NEG_INFINITY;
        for index in 0..self.ticks.len() {
            let at = (self.at(self.ticks[index].at) - self.from).abs();
            if at - last < room(self.from, self.to) * 0.7 {
                self.ticks[index].label.clear();
            } else {
                last = at;
            }
        }
    }

    /// Small ticks at 1 to 9 in each decade, and labels at 1, 2, 5 or 1, or in fewer decades.
    fn log_ticks(&self, label: fn(f64) -> String) -> Vec<Tick> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let length = (self.to - self.from).abs() / (self.high / self.low).log10();
        let room = room(self.from, self.to);
        // 1 and 2 are 0.301 decades apart.
        let (labelled, every): (&[i32], i32) = if length * 0.301 >= room {
            (&[1, 2, 5], 1)
        } else {
            (&[1], (room / length).ceil().clamp(1.0, 1e3) as i32)
        };
        let all = decades.flat_map(|decade| (1..=9).map(move |digit| (decade, digit)));
        let inside = |at: f64| at >= self.low * (1.0 - 1e-9) && at <= self.high * (1.0 + 1e-9);
        let tick = |(decade, digit): (i32, i32)| {
            let at = f64::from(digit) * 10f64.powi(decade);
            let told = labelled.contains(&digit) && decade.rem_euclid(every) == 0;
            let is_small = every > 1 && digit > 1;
            let label = if told { label(at) } else { String::new() };
            (inside(at) && !is_small).then_some(Tick { at, label })
        };
        let mut ticks: Vec<_> = all.filter_map(tick).collect();
        if ticks.iter().filter(|tick| !tick.label.is_empty()).count() < 2 {
            for at in [self.low, self.high] {
                ticks.retain(|tick| (tick.at / at - 1.0).abs() > 1e-9);
                ticks.push(Tick { at, label: label(at) });
            }
        }
        ticks
    }
}

fn room(from: f64, to: f64) -> f64 {
    // Coordinates grow downwards: an axis that goes up is vertical.
    if from > to { ROOM[1] } else { ROOM[0] }
}

fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-12).log10()
}

/// The largest of 1, 2, 5, 10, … that is at most `value`.
fn below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let step = [5.0, 2.0, 1.0].into_iter().find(|step| step * decade <= value * (1.0 + 1e-9));
    step.unwrap_or(1.0) * decade
}

/// The smallest of 1, 2, 5, 10, … that is at least `value`.
fn above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * decade >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| &*tick.label).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn ticks_are_round_and_fit() {
        let axis = Axis::time_log([85.0, 12_000.0].into_iter(), 50.0, 440.0);
        assert_eq!(labels(&axis), ["100 µs", "1 ms", "10 ms"]);
        let axis = Axis::time_log([85.0, 450.0].into_iter(), 50.0, 440.0);
        assert_eq!(labels(&axis), ["50 µs", "100 µs", "200 µs", "500 µs"]);
        let axis = Axis::time_log([85.0].into_iter(), 50.0, 440.0);
        assert_eq!(labels(&axis), ["50 µs", "100 µs"]);
        let axis = Axis::count(43_210.0, 100.0, 0.0);
        assert_eq!(labels(&axis), ["0", "10k", "20k", "30k", "40k", "50k"]);
        let (axis, unit) = Axis::time(1.3e6, 50.0, 440.0);
        assert_eq!((labels(&axis), unit), (vec!["0", "500", "1000"], "ms"));
        let axis = Axis::percentiles(0.9995, 50.0, 440.0);
        assert_eq!(labels(&axis), ["50", "90", "99", "99.9"]);
    }

    #[test]
    fn every_value_has_a_place_within() {
        let axes = [
            Axis::time_log(std::iter::empty(), 50.0, 440.0),
            Axis::time_log([f64::NAN, 0.0, f64::INFINITY].into_iter(), 50.0, 440.0),
            Axis::time_log([1e-300, 1e300].into_iter(), 440.0, 50.0),
            Axis::count(f64::NAN, 50.0, 440.0),
            Axis::count(f64::INFINITY, 50.0, 440.0),
            Axis::count(-1.0, 50.0, 440.0),
            Axis::percentiles(0.0, 50.0, 440.0),
            Axis::values(&[(3.0, "3".to_owned())], 50.0, 440.0),
        ];
        for axis in axes {
            assert!(labels(&axis).len() < 40, "{axis:?}");
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1.0, 1e300] {
                let at = axis.at(value);
                assert!((50.0..=440.0).contains(&at), "{value} is at {at} of {axis:?}");
            }
        }
    }
}
