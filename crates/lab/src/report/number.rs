//! Numbers for people.

/// Stands for a missing figure.
pub(crate) const NONE: &str = "—";

/// Parts of a unit, in what they are a multiple of it.
const TIMES: [(f64, &str); 4] = [(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")];

/// The largest unit of time that this many microseconds are at least one of: microseconds in it,
/// and its symbol.
pub(crate) fn time_unit(us: f64) -> (f64, &'static str) {
    // The tolerance is for rounding: 999.9999 µs count as 1 ms.
    let fits = |(unit, _): &&(f64, &str)| us >= unit * (1.0 - 1e-9);
    *TIMES.iter().find(fits).unwrap_or(&TIMES[3])
}

/// A time in microseconds, with three significant digits.
pub(crate) fn time(us: f64) -> String {
    if !us.is_finite() {
        return NONE.to_owned();
    }
    if us == 0.0 {
        return "0".to_owned();
    }
    let (unit, symbol) = time_unit(us);
    let value = us / unit;
    format!("{} {symbol}", grouped(value, digits(value, 3)))
}

/// A time in microseconds on an axis: no more digits than it has.
pub(crate) fn round_time(us: f64) -> String {
    let (unit, symbol) = time_unit(us);
    format!("{} {symbol}", round(us / unit))
}

/// A round number: as few digits as are needed.
pub(crate) fn round(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A round count on an axis, in thousands or millions if it is large.
pub(crate) fn round_count(value: f64) -> String {
    let (unit, symbol) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{}{symbol}", round(value / unit))
}

/// How many decimals a number needs for `significant` significant digits.
pub(crate) fn digits(value: f64, significant: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let first = value.abs().log10().floor() as i32;
    (significant - 1 - first).clamp(0, 6) as usize
}

/// A number with `decimals` decimals and separated thousands.
pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = sign.to_owned();
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        let told = [
            (0.0, "0"),
            (0.25, "250 ns"),
            (1.0, "1.00 µs"),
            (85.24, "85.2 µs"),
            (999.9, "1\u{202f}000 µs"),
            (12_345.0, "12.3 ms"),
            (1e6, "1.00 s"),
            (1.5e10, "15\u{202f}000 s"),
            (f64::INFINITY, NONE),
        ];
        for (us, expected) in told {
            assert_eq!(time(us), expected);
        }
        assert_eq!(round_time(0.5), "500 ns");
        assert_eq!(round_time(2000.0), "2 ms");
        assert_eq!(round_time(1e3 * (1.0 - 1e-12)), "1 ms");
    }

    #[test]
    fn counts_are_short_on_axes_and_grouped_in_tables() {
        assert_eq!(round_count(20_000.0), "20k");
        assert_eq!(round_count(2.5e6), "2.5M");
        assert_eq!(round_count(0.0), "0");
        assert_eq!(grouped(1_234_567.0, 0), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(-1234.5, 2), "-1\u{202f}234.50");
        assert_eq!(grouped(f64::NAN, 2), NONE);
    }
}
