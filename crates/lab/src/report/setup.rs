//! The measured setup: what all points have in common, and how they differ.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::model::{Section, plain};
use super::number::NONE;
use super::plot::swatch;

/// The keys of a point, dotted where tables are nested, and their values.
type Keys = BTreeMap<String, String>;

/// The tables of an experiment's file, in order.
const ORDER: [&str; 6] = ["array", "log", "pdb", "ssd", "workload", "run"];

/// The most points whose differences are shown unfolded.
const OPEN: usize = 8;

/// A list of the common keys, and a table of the others.
pub(super) fn setup(section: &Section<'_>) -> Markup {
    let points: Vec<_> = section.points.iter().map(|point| keys(&point.first().point)).collect();
    let mut all: Vec<&String> = points.iter().flat_map(Keys::keys).collect();
    all.sort_by_key(|key| (ORDER.iter().position(|name| *name == table(key)), *key));
    all.dedup();
    let common = |key: &&String| points.iter().all(|point| point.get(*key) == points[0].get(*key));
    let (common, differing): (Vec<_>, Vec<_>) = all.into_iter().partition(common);
    html! {
        dl class="setup" {
            @for part in common.chunk_by(|a, b| table(a) == table(b)) {
                dt { (table(part[0])) }
                dd {
                    @for key in part {
                        span class="key" { (rest(key)) " " b { (points[0][*key]) } }
                        " "
                    }
                }
            }
        }
        @if !differing.is_empty() {
            details open=[(section.points.len() <= OPEN).then_some("")] {
                summary { "What differs" }
                (table_of(section, &points, &differing))
            }
        }
    }
}

/// The values of some keys, point by point.
fn table_of(section: &Section<'_>, points: &[Keys], shown: &[&String]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="What differs" {
            table {
                thead { tr {
                    th scope="col" { "point" }
                    @for key in shown { th scope="col" class="text" { (key) } }
                } }
                tbody {
                    @for (point, keys) in section.points.iter().zip(points) {
                        tr {
                            th scope="row" { (swatch(point.series)) (point.label) }
                            @for value in shown.iter().map(|key| keys.get(*key)) {
                                td class="text" { (value.map_or(NONE, String::as_str)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The keys of a point.
fn keys(point: &crate::experiment::Point) -> Keys {
    let mut keys = Keys::new();
    let value = serde_json::to_value(point).expect("it was read from JSON or TOML");
    flatten(&mut keys, "", &value);
    keys
}

fn flatten(keys: &mut Keys, prefix: &str, value: &Value) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(keys, &format!("{prefix}{dot}{}", plain(key)), value);
            }
        }
        Value::String(text) => _ = keys.insert(prefix.to_owned(), plain(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            keys.insert(prefix.to_owned(), plain(&value.to_string()));
        }
    }
}

/// The table of a key.
fn table(key: &str) -> &str {
    key.split_once('.').map_or(key, |(table, _)| table)
}

/// The name of a key within its table.
fn rest(key: &str) -> &str {
    key.split_once('.').map_or("", |(_, rest)| rest)
}
