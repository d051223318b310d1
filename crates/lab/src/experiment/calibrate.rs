//! Loads that are found, not given: `[calibrate]`.

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::{Point, set};

/// The key that a calibrated experiment sweeps besides its own sweep.
pub(crate) const GC_DUTY: &str = "gc_duty";

/// The load is chosen so that the drives of one variant collect garbage for given shares of the
/// time. All variants get the same load.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The dotted key of the load, like `workload.paper.scale`: a larger value has to mean a higher
    /// load.
    pub key: String,
    /// The variant whose drives are looked at, if there are variants.
    pub variant: Option<String>,
    /// The shares of the time, each from 0 to 1.
    pub gc_duty: Vec<f64>,
}

impl Calibration {
    /// The key's value at a point.
    #[must_use]
    pub fn load(&self, point: &Point) -> Option<f64> {
        let table = Table::try_from(point).ok()?;
        number(&table, &self.key)
    }

    /// A point with another load.
    ///
    /// # Errors
    /// If there can't be such a point.
    pub fn with_load(&self, point: &Point, load: f64) -> Result<Point, String> {
        let mut table = Table::try_from(point).map_err(|e| e.to_string())?;
        set(&mut table, &self.key, Value::Float(load))?;
        table.try_into().map_err(|e: toml::de::Error| e.to_string().trim_end().to_owned())
    }
}

fn number(table: &Table, key: &str) -> Option<f64> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(a, b)| (a, Some(b)));
    match (table.get(first)?, rest) {
        (Value::Table(inner), Some(rest)) => number(inner, rest),
        (Value::Float(number), None) => Some(*number),
        (Value::Integer(number), None) => Some(*number as f64),
        _ => None,
    }
}

/// The `[calibrate]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    key: Spanned<String>,
    variant: Option<Spanned<String>>,
    gc_duty: Spanned<Vec<f64>>,
}

impl Written {
    /// Interprets the table, in a file with these tables and variants. The error has the place in
    /// the text and a message.
    pub(super) fn calibration(
        self,
        file: &Table,
        swept: &[&str],
        variants: &[&str],
    ) -> Result<Calibration, (usize, String)> {
        let (key, at) = (self.key.get_ref(), self.key.span().start);
        if swept.contains(&key.as_str()) {
            return Err((at, format!("{key} is swept: it can't be found as well")));
        }
        if !number(file, key).is_some_and(|load| load > 0.0 && load.is_finite()) {
            return Err((at, format!("{key} needs a number above 0 to begin with")));
        }
        let duties = self.gc_duty.get_ref();
        if duties.is_empty() || !duties.iter().all(|duty| *duty > 0.0 && *duty < 1.0) {
            let message = "gc_duty is a list of shares of the time, above 0 and below 1";
            return Err((self.gc_duty.span().start, message.into()));
        }
        match (&self.variant, variants) {
            (None, []) => {}
            (None, [first, ..]) => {
                return Err((at, format!("whose? It needs a variant, like \"{first}\"")));
            }
            (Some(name), _) if variants.contains(&name.get_ref().as_str()) => {}
            (Some(name), _) => {
                let message = format!("there is no variant \"{}\"", name.get_ref());
                return Err((name.span().start, message));
            }
        }
        Ok(Calibration {
            key: self.key.into_inner(),
            variant: self.variant.map(Spanned::into_inner),
            gc_duty: self.gc_duty.into_inner(),
        })
    }
}
