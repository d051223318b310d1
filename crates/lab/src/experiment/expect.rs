//! What an experiment is expected to show: `[[expect]]` tables.
//!
//! An expectation is a figure of one variant, by itself or compared with another one, with the
//! number in a paper and the gate that it must pass here. It does not affect what is measured, so
//! it can also judge earlier results.

use std::fmt;

use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};

use super::Labelled;
use super::points::leaves;
use crate::report::number;
use crate::results::{COLUMNS, Column, Unit};

/// An expectation of results.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// A name for people.
    pub name: String,
    /// The figure that it is about.
    pub column: &'static Column,
    /// The variant whose figure it is, if there are variants.
    pub variant: Option<String>,
    /// The variant that it is compared with.
    pub against: Option<String>,
    /// How it is compared.
    pub measure: Measure,
    /// Swept keys, and the values at which it is expected; other keys can have any value.
    pub at: Vec<(String, Vec<Value>)>,
    /// Whether it is expected of each of these points, or of their mean.
    pub over: Over,
    /// The consequence of missing it.
    pub class: Class,
    /// What it has to be.
    pub gate: Gate,
    /// The number in a paper.
    pub paper: Option<f64>,
    /// Where the paper has the number.
    pub source: Option<String>,
    /// Why it is missed, if that is known.
    pub why: Option<String>,
}

/// How a figure is compared with another variant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Not at all.
    Value,
    /// The ratio of the two.
    Ratio,
    /// The relative change: a third less is -0.333.
    Change,
    /// The difference, in the figure's own unit.
    Difference,
}

/// How several points are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Each has to pass.
    #[default]
    Each,
    /// Their mean has to.
    Mean,
}

/// The consequence of missing an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Class {
    /// None: it is reported.
    #[serde(rename = "R")]
    Reported,
    /// Direction and least magnitude have to be right.
    #[serde(rename = "D")]
    Directional,
    /// The number has to be right: a closed form's, or another program's.
    #[serde(rename = "H")]
    Hard,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reported => "R",
            Self::Directional => "D",
            Self::Hard => "H",
        })
    }
}

/// The numbers that pass, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gate {
    /// None below.
    pub at_least: Option<f64>,
    /// None above.
    pub at_most: Option<f64>,
}

impl Gate {
    /// Whether there is no gate.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.at_least.is_none() && self.at_most.is_none()
    }

    /// The distance to the nearer end of the gate; negative if the number does not pass.
    #[must_use]
    pub fn margin(&self, value: f64) -> f64 {
        let above = self.at_least.map_or(f64::INFINITY, |least| value - least);
        above.min(self.at_most.map_or(f64::INFINITY, |most| most - value))
    }
}

impl Expectation {
    /// Whether it is about a point.
    #[must_use]
    pub fn concerns(&self, point: &Labelled) -> bool {
        let at = |(key, values): &(String, Vec<Value>)| {
            point.swept.iter().any(|(swept, value)| swept == key && values.contains(value))
        };
        point.variant == self.variant && self.at.iter().all(at)
    }

    /// A number in its unit: a multiple, a change in percent, or a figure.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        match (self.measure, self.column.unit) {
            _ if !value.is_finite() => number::NONE.to_owned(),
            (Measure::Ratio, _) => format!("{value:.3}×"),
            (Measure::Change, _) => format!("{:+.1}%", 100.0 * value),
            (_, Unit::Microseconds) if value < 0.0 => format!("-{}", number::time(-value)),
            (_, Unit::Microseconds) => number::time(value),
            (_, Unit::Seconds) => number::time(value * 1e6),
            (_, Unit::Share) => format!("{:.1}%", 100.0 * value),
            (_, Unit::BytesPerSecond) => format!("{} MB/s", number::grouped(value / 1e6, 1)),
            (_, Unit::Factor) => format!("{value:.3}"),
            (_, Unit::PerSecond | Unit::Count) => {
                number::grouped(value, number::digits(value, 3).min(3))
            }
        }
    }

    /// Half the width of a confidence interval, as [`Self::text`] has numbers; empty if it is not
    /// known.
    #[must_use]
    pub fn spread_text(&self, half_width: f64) -> String {
        match self.measure {
            _ if !half_width.is_finite() => String::new(),
            Measure::Change => format!("{:.1}%", 100.0 * half_width),
            Measure::Value | Measure::Ratio | Measure::Difference => self.text(half_width),
        }
    }

    /// The gate in words; empty if there is none.
    #[must_use]
    pub fn gate_text(&self) -> String {
        match self.gate {
            Gate { at_least: Some(least), at_most: Some(most) } => {
                format!("{} … {}", self.text(least), self.text(most))
            }
            Gate { at_least: Some(least), at_most: None } => format!("≥ {}", self.text(least)),
            Gate { at_least: None, at_most: Some(most) } => format!("≤ {}", self.text(most)),
            Gate { at_least: None, at_most: None } => String::new(),
        }
    }

    /// What is measured, in words: the figure, the variant, and the one that it is compared with.
    #[must_use]
    pub fn subject(&self) -> String {
        let of = self.variant.as_ref().map(|name| format!(", {name}"));
        let against = self.against.as_ref().map(|name| format!(" against {name}"));
        let mean = (self.over == Over::Mean).then_some(", mean");
        let parts = [of.as_deref(), against.as_deref(), mean];
        self.column.name.to_owned() + &parts.into_iter().flatten().collect::<String>()
    }
}

/// An `[[expect]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    name: Spanned<String>,
    column: Spanned<String>,
    variant: Option<Spanned<String>>,
    against: Option<Spanned<String>>,
    #[serde(rename = "as")]
    measure: Option<Spanned<Measure>>,
    #[serde(default)]
    at: Option<Spanned<Table>>,
    #[serde(default)]
    over: Over,
    class: Spanned<Class>,
    at_least: Option<Spanned<f64>>,
    at_most: Option<Spanned<f64>>,
    paper: Option<f64>,
    source: Option<String>,
    why: Option<String>,
}

/// An error of an expectation: the place in the text, and a message.
type Wrong = (usize, String);

impl Written {
    /// Interprets the table, in an experiment with these points.
    pub(super) fn expectation(self, points: &[Labelled]) -> Result<Expectation, Wrong> {
        let start = self.name.span().start;
        let gate = self.gate()?;
        let measure = self.measure()?;
        let variants: Vec<_> = points.iter().filter_map(|p| p.variant.as_deref()).collect();
        if let (Some(first), None) = (variants.first(), &self.variant) {
            return Err((start, format!("whose? It needs a variant, like \"{first}\"")));
        }
        for name in self.variant.iter().chain(&self.against) {
            if !variants.contains(&name.get_ref().as_str()) {
                let message = format!("there is no variant \"{}\"", name.get_ref());
                return Err((name.span().start, message));
            }
        }
        let at = self.at.map_or(Ok(Vec::new()), |at| values(&at, points))?;
        let column = COLUMNS.iter().find(|column| column.name == self.column.get_ref());
        let column = column.ok_or_else(|| {
            let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
            let message = format!(
                "there is no figure \"{}\"; there are {}",
                self.column.get_ref(),
                names.join(", ")
            );
            (self.column.span().start, message)
        })?;
        Ok(Expectation {
            name: self.name.into_inner(),
            column,
            variant: self.variant.map(Spanned::into_inner),
            against: self.against.map(Spanned::into_inner),
            measure,
            at,
            over: self.over,
            class: self.class.into_inner(),
            gate,
            paper: self.paper,
            source: self.source,
            why: self.why,
        })
    }

    fn gate(&self) -> Result<Gate, Wrong> {
        let end = |end: &Option<Spanned<f64>>| end.as_ref().map(|end| *end.get_ref());
        let gate = Gate { at_least: end(&self.at_least), at_most: end(&self.at_most) };
        let class = self.class.span().start;
        match (self.class.get_ref(), &self.at_least, &self.at_most) {
            (Class::Reported, Some(end), _) | (Class::Reported, None, Some(end)) => {
                let message = "what is only reported (class R) has no gate".into();
                Err((end.span().start, message))
            }
            (Class::Directional | Class::Hard, None, None) => {
                let message = "a gate (class D or H) needs at_least, at_most, or both".into();
                Err((class, message))
            }
            (_, Some(least), Some(most)) if least.get_ref() > most.get_ref() => {
                Err((least.span().start, "at_least is more than at_most: nothing passes".into()))
            }
            _ => Ok(gate),
        }
    }

    fn measure(&self) -> Result<Measure, Wrong> {
        let Some(measure) = &self.measure else {
            return Ok(if self.against.is_some() { Measure::Ratio } else { Measure::Value });
        };
        let at = measure.span().start;
        match (*measure.get_ref(), &self.against) {
            (Measure::Value, Some(_)) => {
                Err((at, "a value stands by itself: leave out `against`".into()))
            }
            (Measure::Ratio | Measure::Change | Measure::Difference, None) => {
                Err((at, "against what? It needs `against`, a variant".into()))
            }
            (measure, _) => Ok(measure),
        }
    }
}

/// The selected values. Each has to be one that is swept.
fn values(at: &Spanned<Table>, points: &[Labelled]) -> Result<Vec<(String, Vec<Value>)>, Wrong> {
    let mut keys = Vec::new();
    for (key, value) in leaves(at.get_ref()) {
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        let there = |value: &Value| {
            points.iter().flat_map(|p| &p.swept).any(|(k, v)| *k == key && v == value)
        };
        if let Some(value) = values.iter().find(|value| !there(value)) {
            return Err((at.span().start, format!("no point is swept to {key} = {value}")));
        }
        keys.push((key, values));
    }
    Ok(keys)
}
