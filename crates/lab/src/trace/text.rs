//! Common parts of the text formats: numbers, times and names of devices.

use super::input::Input;
use super::{Record, TraceError};
use crate::arrival::Kind;

use det::Instant;

/// The unit of Linux and of most traces.
pub(super) const SECTOR: u64 = 512;

/// What was expected instead.
pub(super) type Expected = &'static str;

/// A format with a record a line.
pub(super) struct Lines<F>(pub(super) F);

impl<F> super::Reader for Lines<F>
where
    F: FnMut(&[u8], &mut Devices) -> Result<Record, Expected>,
{
    fn next(
        &mut self,
        input: &mut Input,
        devices: &mut Devices,
    ) -> Result<Option<Record>, TraceError> {
        loop {
            let Some(line) = input.line()? else { return Ok(None) };
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            return match (self.0)(line, devices) {
                Ok(record) => Ok(Some(record)),
                Err(expected) => {
                    let line = line.to_vec();
                    Err(input.malformed(expected, &line))
                }
            };
        }
    }
}

/// Devices by the order in which they appear, under the names that the trace has for them.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// The names as in the file, and for people.
    known: Vec<(Box<[u8]>, String)>,
    last: usize,
}

impl Devices {
    /// A file with more is of another format.
    const MAX: usize = 4096;

    /// The index of the device with the name `raw` in the file.
    pub(super) fn index(&mut self, raw: &[u8]) -> Result<u32, Expected> {
        if self.known.get(self.last).is_none_or(|(known, _)| **known != *raw) {
            let found = self.known.iter().position(|(known, _)| **known == *raw);
            self.last = match found {
                Some(index) => index,
                None if self.known.len() == Self::MAX => return Err("at most 4096 devices"),
                None => {
                    self.known.push((raw.into(), name(raw)));
                    self.known.len() - 1
                }
            };
        }
        Ok(self.last as u32)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|(_, name)| &name[..])
    }

    pub(super) fn is_wanted(&self, index: u32, wanted: Option<&[String]>) -> bool {
        let name = self.known.get(index as usize).map(|(_, name)| name);
        wanted.is_none_or(|wanted| name.is_some_and(|name| wanted.contains(name)))
    }
}

/// MSR's `hm,1` becomes `hm_1`; Linux's `8,16` stays.
fn name(raw: &[u8]) -> String {
    let name = String::from_utf8_lossy(raw);
    if raw.first().is_some_and(u8::is_ascii_digit) { name.into() } else { name.replace(',', "_") }
}

/// A whole decimal number.
pub(super) fn number(field: &[u8], expected: Expected) -> Result<u64, Expected> {
    if field.is_empty() {
        return Err(expected);
    }
    field.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        let shifted = number.checked_mul(10).filter(|_| digit < 10);
        shifted.and_then(|shifted| shifted.checked_add(digit.into())).ok_or(expected)
    })
}

/// A decimal number of units of `nanos` (a power of ten) as a time. What is below a nanosecond is
/// cut off.
pub(super) fn time(field: &[u8], nanos: u64, expected: Expected) -> Result<Instant, Expected> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let (whole, fraction) = field.split_at(point);
    if fraction.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return exponent(field, nanos, expected);
    }
    let whole = if whole.is_empty() { 0 } else { number(whole, expected)? };
    let mut time = whole.checked_mul(nanos).ok_or(expected)?;
    let mut unit = nanos;
    for &digit in fraction.iter().skip(1) {
        if !digit.is_ascii_digit() {
            return Err(expected);
        }
        unit /= 10;
        time = time.checked_add(u64::from(digit - b'0') * unit).ok_or(expected)?;
    }
    if point == 0 && fraction.len() < 2 { Err(expected) } else { Ok(Instant(time)) }
}

/// `1.5e-05`, as some converters write small times.
fn exponent(field: &[u8], nanos: u64, expected: Expected) -> Result<Instant, Expected> {
    let text = std::str::from_utf8(field).map_err(|_| expected)?;
    let value: f64 = text.parse().map_err(|_| expected)?;
    let time = value * nanos as f64;
    if (0.0..1.8e19).contains(&time) { Ok(Instant(time as u64)) } else { Err(expected) }
}

/// A place in sectors, in bytes.
pub(super) fn sectors(field: &[u8], expected: Expected) -> Result<u64, Expected> {
    number(field, expected)?.checked_mul(SECTOR).ok_or(expected)
}

/// A valid number of bytes for one request.
pub(super) fn length(bytes: u64, expected: Expected) -> Result<u32, Expected> {
    u32::try_from(bytes).map_err(|_| expected)
}

/// `1` is a read, `0` a write.
pub(super) fn one_reads(field: &[u8]) -> Result<Kind, Expected> {
    match field {
        b"1" => Ok(Kind::Read),
        b"0" => Ok(Kind::Write),
        _ => Err("1 (read) or 0 (write) in column 5"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        const S: u64 = 1_000_000_000;
        for (text, unit, nanos) in [
            ("0", S, Some(0)),
            ("0.551706", S, Some(551_706_000)),
            ("12.", S, Some(12 * S)),
            (".5", S, Some(S / 2)),
            ("223.412", 1_000_000, Some(223_412_000)),
            ("0.0000000019", S, Some(1)),
            ("1.5e-05", S, Some(15_000)),
            ("18446744073.709551615", S, Some(u64::MAX)),
            ("18446744073.709551616", S, None),
            ("18446744074", S, None),
            ("1.e99", S, None),
            (".", S, None),
            ("", S, None),
            ("-1", S, None),
            ("1.2.3", S, None),
            ("nan", S, None),
        ] {
            let parsed = time(text.as_bytes(), unit, "a time");
            assert_eq!(parsed.ok(), nanos.map(Instant), "{text}");
        }
    }

    #[test]
    fn numbers_do_not_overflow() {
        assert_eq!(number(b"18446744073709551615", "n"), Ok(u64::MAX));
        for text in ["18446744073709551616", "99999999999999999999999", "", "+1", "1 ", "x"] {
            assert_eq!(number(text.as_bytes(), "n"), Err("n"), "{text}");
        }
    }
}
