//! The sizes of requests.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::WorkloadError;
use super::random::{Random, Weighted};
use crate::units::Bytes;

/// One size, or several with weights: `"4K"` or `{ "4K" = 0.7, "64K" = 0.3 }`. The weights need
/// not add up to anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub BTreeMap<Bytes, f64>);

impl Sizes {
    /// All requests of one size.
    #[must_use]
    pub fn one(bytes: Bytes) -> Self {
        Self(BTreeMap::from([(bytes, 1.0)]))
    }

    pub(crate) fn check(&self, key: &'static str) -> Result<(), WorkloadError> {
        for (&Bytes(bytes), &weight) in &self.0 {
            if bytes == 0 || bytes > u64::from(u32::MAX) {
                return Err(WorkloadError::Range {
                    key,
                    value: bytes as f64,
                    expected: "at least one byte and less than 4 GiB",
                });
            }
            if !weight.is_finite() || weight < 0.0 {
                let expected = "weights that are not negative";
                return Err(WorkloadError::Range { key, value: weight, expected });
            }
        }
        let sum: f64 = self.0.values().sum();
        super::range(key, sum, sum > 0.0 && sum.is_finite(), "a size with a weight above 0")
    }

    /// The largest that is ever drawn.
    pub(crate) fn largest(&self) -> u64 {
        let drawn = self.0.iter().filter(|(_, weight)| **weight > 0.0);
        drawn.map(|(bytes, _)| bytes.0).max().unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Sizes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size like \"4K\", or sizes with weights: { \"4K\" = 3, \"8K\" = 1 }")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Sizes, E> {
                Ok(Sizes::one(Bytes(value)))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Sizes, E> {
                let value = u64::try_from(value).map_err(|_| E::custom("a size is positive"))?;
                self.visit_u64(value)
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Sizes, E> {
                value.parse().map(Sizes::one).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sizes, A::Error> {
                let mut sizes = BTreeMap::new();
                while let Some((name, weight)) = map.next_entry::<String, f64>()? {
                    let bytes = name.parse().map_err(A::Error::custom)?;
                    if sizes.insert(bytes, weight).is_some() {
                        return Err(A::Error::custom(format!("the size {bytes} is there twice")));
                    }
                }
                Ok(Sizes(sizes))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// Draws sizes.
#[derive(Debug)]
pub(crate) struct SizeLaw {
    bytes: Box<[u32]>,
    weights: Weighted,
}

impl SizeLaw {
    /// `sizes` have been checked.
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let bytes = sizes.0.keys().map(|bytes| bytes.0 as u32).collect();
        Self { bytes, weights: Weighted::new(sizes.0.values().copied()) }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        self.bytes[self.weights.pick(random)]
    }
}
