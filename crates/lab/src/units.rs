//! Quantities as people write them in a file: sizes, times, parts of something.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const UNITS: [(&str, u32); 6] = [("E", 60), ("P", 50), ("T", 40), ("G", 30), ("M", 20), ("K", 10)];

/// A number of bytes: in a file an integer, or a string such as `"64K"`, `"64KiB"` or `"1M"`, in
/// powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size; write it like 4096, 64K, 64KiB or 1G");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = text[digits.len()..].to_ascii_uppercase();
        let unit = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
        let shift = match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, shift)) => *shift,
            None if unit.is_empty() => 0,
            None => return Err(wrong()),
        };
        let number: u64 = digits.trim_end().parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << shift);
        bytes.map(Self).ok_or_else(|| format!("{text} is more than 16 EiB"))
    }
}

/// Exact, in the largest unit of which it is a multiple: `64KiB`, `4097B`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, shift)| self.0 != 0 && self.0.trailing_zeros() >= *shift) {
            Some((name, shift)) => write!(f, "{}{name}iB", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(Quantity { shares: false })? {
            Portion::Bytes(bytes) => Ok(bytes),
            Portion::Share(_) => Err(D::Error::custom("a size is a whole number of bytes")),
        }
    }
}

/// A part of a system: an integer or a string is a number of bytes, a fraction (`0.5`, `1.0`) the
/// share of its capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Portion {
    /// So much.
    Bytes(Bytes),
    /// So much of the whole, from 0 to 1.
    Share(f64),
}

impl Portion {
    /// In bytes, of `capacity` bytes.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.0,
            Self::Share(share) if share >= 1.0 => capacity,
            Self::Share(share) => (capacity as f64 * share) as u64,
        }
    }
}

impl<'de> Deserialize<'de> for Portion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Quantity { shares: true })
    }
}

/// Reads a number of bytes, or a share where that makes sense.
struct Quantity {
    shares: bool,
}

impl Visitor<'_> for Quantity {
    type Value = Portion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = if self.shares { ", or a share between 0.0 and 1.0" } else { "" };
        write!(f, "a size like 4096 or \"64K\"{or}")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Portion, E> {
        Ok(Portion::Bytes(Bytes(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Portion, E> {
        let value = u64::try_from(value).map_err(|_| E::custom("a size can't be negative"))?;
        self.visit_u64(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Portion, E> {
        value.parse().map(Portion::Bytes).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Portion, E> {
        if self.shares && (0.0..=1.0).contains(&value) {
            return Ok(Portion::Share(value));
        }
        Err(E::invalid_value(serde::de::Unexpected::Float(value), &self))
    }
}

/// A time, in a file a string such as `"250us"`, `"1ms"` or `"2s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|error| format!("{text:?} is not a time like \"250us\" or \"2s\": {error}"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, like \"250us\", \"1ms\" or \"2s\"")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Span, E> {
                value.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        size: Option<Bytes>,
        part: Option<Portion>,
        time: Option<Span>,
    }

    fn file(text: &str) -> Result<File, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes, shown) in [
            ("4096", 4096, "4KiB"),
            ("\"4096\"", 4096, "4KiB"),
            ("\"64K\"", 64 << 10, "64KiB"),
            ("\"64k\"", 64 << 10, "64KiB"),
            ("\"3 MiB\"", 3 << 20, "3MiB"),
            ("\"1GB\"", 1 << 30, "1GiB"),
            ("\"15E\"", 15 << 60, "15EiB"),
            ("\"4097\"", 4097, "4097B"),
            ("0", 0, "0B"),
        ] {
            let size = file(&format!("size = {text}")).unwrap().size.unwrap();
            assert_eq!(size, Bytes(bytes), "{text}");
            assert_eq!(size.to_string(), shown);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in ["-1", "1.5", "\"\"", "\"K\"", "\"4Q\"", "\"16E\"", "\"-4K\"", "true"] {
            assert!(file(&format!("size = {text}")).is_err(), "{text}");
        }
    }

    #[test]
    fn portions_are_bytes_or_shares() {
        let part = |text: &str| file(&format!("part = {text}")).map(|file| file.part.unwrap());
        assert_eq!(part("\"1K\"").unwrap().of(10_000), 1024);
        assert_eq!(part("1").unwrap().of(10_000), 1);
        assert_eq!(part("0.25").unwrap().of(10_000), 2500);
        assert_eq!(part("1.0").unwrap().of(u64::MAX), u64::MAX);
        assert!(part("1.5").unwrap_err().contains("between 0.0 and 1.0"));
        assert!(part("-0.5").is_err());
    }

    #[test]
    fn times_have_units() {
        let time = |text: &str| file(&format!("time = {text}")).map(|file| file.time.unwrap());
        assert_eq!(time("\"250us\"").unwrap().0, Duration::from_micros(250));
        assert_eq!(time("\"1m 2s\"").unwrap().0, Duration::from_secs(62));
        assert!(time("3").unwrap_err().contains("with its unit"));
        assert!(time("\"3 parsecs\"").is_err());
    }
}
