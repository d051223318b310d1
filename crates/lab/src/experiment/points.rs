//! The points of a file: what its variants, its axes and its sweep make of its tables.

use toml::{Spanned, Table, Value};

use super::{ExperimentError, GC_DUTY, Labelled, Point, label, line_of, merge, set};

/// The most points of an experiment.
const POINTS_MAX: usize = 100_000;

/// Makes an error of a line, what is wrong there, and why.
pub(super) type Wrong<'a> = &'a dyn Fn(usize, &str, String) -> ExperimentError;

/// Changes of a file's tables: their name, their line, and the changes.
pub(super) type Change = (Option<String>, usize, Table);

/// A key with the values that points have, in turn.
pub(super) struct Axis {
    /// Its key: that of a sweep is dotted.
    pub(super) key: String,
    /// Its values, and what each of them changes; a swept one is the value of the key.
    pub(super) values: Vec<(Value, Option<Table>)>,
}

impl Axis {
    /// One of an `[[axis.KEY]]`, whose values have names.
    pub(super) fn named(
        key: String,
        values: Vec<Spanned<Table>>,
        line: &dyn Fn(usize) -> usize,
        wrong: Wrong<'_>,
    ) -> Result<Self, ExperimentError> {
        let named = named(&format!("axis.{key}"), values, line, wrong)?;
        if named.is_empty() {
            return Err(wrong(1, &key, "an axis wants at least one table".into()));
        }
        let value =
            |(name, _, table): Change| (Value::String(name.unwrap_or_default()), Some(table));
        Ok(Self { key, values: named.into_iter().map(value).collect() })
    }

    /// One of a list of values.
    pub(super) fn swept(key: String, values: Vec<Value>) -> Self {
        Self { key, values: values.into_iter().map(|value| (value, None)).collect() }
    }

    /// Those of a sweep. The error is a key whose value is no list.
    pub(super) fn all(sweep: &Table) -> Result<Vec<Self>, String> {
        let axis = |(key, value): (String, Value)| {
            let values = value.as_array().filter(|values| !values.is_empty());
            values.cloned().map(|values| Self::swept(key.clone(), values)).ok_or(key)
        };
        leaves(sweep).into_iter().map(axis).collect()
    }
}

/// The line of a key that is swept, whether it is written in quotes or as nested tables.
pub(super) fn line_in_sweep(text: &str, key: &str) -> usize {
    let quoted = [format!("\"{key}\""), format!("'{key}'")];
    let written = |line: &str| quoted.iter().any(|quoted| line.trim_start().starts_with(quoted));
    let line = text.lines().position(written);
    line.map_or_else(|| line_of(text, &format!("sweep.{key}")), |index| index + 1)
}

/// Tables of this kind by name.
pub(super) fn named(
    kind: &str,
    tables: Vec<Spanned<Table>>,
    line: &dyn Fn(usize) -> usize,
    wrong: Wrong<'_>,
) -> Result<Vec<Change>, ExperimentError> {
    let mut named: Vec<Change> = Vec::new();
    for table in tables {
        let line = line(table.span().start);
        let mut changes = table.into_inner();
        let Some(Value::String(name)) = changes.remove("name") else {
            return Err(wrong(line, &format!("[[{kind}]]"), "it needs a name = \"…\"".into()));
        };
        if named.iter().any(|(other, ..)| other.as_deref() == Some(&name)) {
            return Err(wrong(line, &name, format!("there are two [[{kind}]] of this name")));
        }
        named.push((Some(name), line, changes));
    }
    Ok(named)
}

/// The keys of a table with their values; dotted where tables are nested.
pub(super) fn leaves(table: &Table) -> Vec<(String, Value)> {
    let below = |(key, value): (&String, &Value)| {
        let Some(inner) = value.as_table() else { return vec![(key.clone(), value.clone())] };
        leaves(inner).into_iter().map(|(rest, v)| (format!("{key}.{rest}"), v)).collect()
    };
    table.iter().flat_map(below).collect()
}

/// Every point: the file's tables with the changes of every combination of values that have names, then those of
/// each variant, then every combination of swept values.
pub(super) fn points(
    table: &Table,
    variants: &[Change],
    axes: &[Axis],
    text: &str,
    wrong: Wrong<'_>,
) -> Result<Vec<Labelled>, ExperimentError> {
    let mut points = Vec::new();
    for (name, line, changes) in variants {
        for values in combinations(axes) {
            let mut table = table.clone();
            values.iter().filter_map(|(_, _, of)| *of).for_each(|of| merge(&mut table, of));
            merge(&mut table, changes);
            let is_set = |key: &str, of: Option<&Table>| of.is_none() && key != GC_DUTY;
            for (key, value, _) in values.iter().filter(|(key, _, of)| is_set(key, *of)) {
                set(&mut table, key, (*value).clone())
                    .map_err(|m| wrong(line_in_sweep(text, key), key, m))?;
            }
            let swept: Vec<(String, Value)> = values
                .iter()
                .map(|(key, value, _)| ((*key).to_owned(), (*value).clone()))
                .collect();
            let what = label(name.as_deref(), &swept);
            let line = match swept.first() {
                Some((key, _)) if name.is_none() => line_in_sweep(text, key),
                _ => *line,
            };
            let point: Point =
                table.try_into().map_err(|e: toml::de::Error| wrong(line, &what, e.to_string()))?;
            points.push(Labelled { variant: name.clone(), swept, point });
            if points.len() > POINTS_MAX {
                return Err(wrong(1, "the sweep", format!("more than {POINTS_MAX} points")));
            }
        }
    }
    Ok(points)
}

/// A value of an axis: the key, the value, and what it changes.
type Chosen<'a> = (&'a str, &'a Value, Option<&'a Table>);

/// Every combination of one value of each axis; the last axis changes fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<Chosen<'_>>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        let mut longer = Vec::new();
        for before in &all {
            for (value, of) in &axis.values {
                let mut next = before.clone();
                next.push((&*axis.key, value, of.as_ref()));
                longer.push(next);
            }
        }
        all = longer;
    }
    all
}
