//! Percentiles of latency against a swept key.

use maud::{Markup, html};
use toml::Value;

use super::{Axis, BOTTOM, LEFT, Path, Plot, RIGHT, TOP, marker, svg, swatch, x_axis, y_axis};
use crate::report::distribution::Requests;
use crate::report::model::{Point, Series, column, plain};
use crate::report::number::time;
use crate::results::{Column, Estimate};

const HEIGHT: f64 = 210.0;

/// The most lines of a percentile.
const LINES: usize = 8;

/// The percentiles that are drawn.
const PERCENTILES: [&str; 3] = ["p50", "p99", "p99.9"];

/// Points that differ only in the swept key.
struct Line<'a> {
    label: String,
    series: Series,
    /// By the value of the key.
    points: Vec<(f64, &'a Point<'a>)>,
}

/// A key that was swept through numbers, and its results.
struct Sweep<'a> {
    key: &'a str,
    /// Its values, and how they were written.
    values: Vec<(f64, String)>,
    lines: Vec<Line<'a>>,
    left_out: usize,
}

/// Latencies of reads and writes against the swept key with the most values; none if no numbers
/// were swept.
pub(in crate::report) fn sweeps(points: &[Point<'_>]) -> Vec<Plot> {
    let Some(sweep) = Sweep::of(points) else { return Vec::new() };
    Requests::BOTH.into_iter().filter_map(|requests| sweep.plot(requests)).collect()
}

impl<'a> Sweep<'a> {
    fn of(points: &'a [Point<'a>]) -> Option<Self> {
        let swept = &points.first()?.first().swept;
        // Of keys with equally many values, the first.
        let keys = swept.iter().rev();
        let keys = keys.filter_map(|(key, _)| Some((key.as_str(), values(points, key)?)));
        let (key, values) = keys.max_by_key(|(_, values)| values.len())?;
        let mut lines: Vec<Line<'a>> = Vec::new();
        for point in points {
            let record = point.first();
            let rest: Vec<_> =
                record.swept.iter().filter(|(other, _)| other != key).cloned().collect();
            let label = plain(&crate::experiment::label(record.variant.as_deref(), &rest));
            let Some(at) = value(point, key).and_then(number) else { continue };
            match lines.iter_mut().find(|line| line.label == label) {
                Some(line) => line.points.push((at, point)),
                None => {
                    let series = Series(lines.len());
                    lines.push(Line { label, series, points: vec![(at, point)] });
                }
            }
        }
        for line in &mut lines {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let left_out = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        Some(Self { key, values, lines, left_out })
    }

    fn plot(&self, requests: Requests) -> Option<Plot> {
        let every = self.lines.iter().flat_map(|line| PERCENTILES.map(|name| (line, name)));
        let all: Vec<_> =
            every.flat_map(|(line, name)| percentiles(line, requests, name)).collect();
        if all.is_empty() {
            return None;
        }
        let bottom = TOP + HEIGHT;
        let x = Axis::values(&self.values, LEFT, RIGHT);
        let ends = all.iter().flat_map(|(_, latency, _)| {
            let half = Some(latency.half_width).filter(|half| half.is_finite()).unwrap_or(0.0);
            [latency.mean, latency.mean + half]
        });
        let y = Axis::time_log(ends, bottom, TOP);
        let name = requests.name();
        let key = plain(self.key);
        let drawn = html! {
            (x_axis(&x, &[(TOP, bottom)], &key))
            (y_axis(&y, "latency"))
            @for line in &self.lines {
                @for (index, percentile) in PERCENTILES.into_iter().enumerate() {
                    (line.draw(&x, &y, requests, (index, percentile)))
                }
            }
        };
        let says = self.says(requests);
        Some(Plot {
            name: format!("sweep-{name}"),
            title: format!("Latency of {name} by {key}"),
            note: Some(self.note()),
            svg: svg(bottom + BOTTOM, &says, &drawn),
        })
    }

    fn note(&self) -> Markup {
        html! {
            @for (index, percentile) in PERCENTILES.into_iter().enumerate() {
                span class="key" {
                    svg class="swatch" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 10"
                        aria-hidden="true" {
                        path class={ "line ink q" (index) } d="M1 5H29" {}
                    }
                    (percentile)
                }
                " "
            }
            @if self.lines.len() > 1 {
                @for line in &self.lines {
                    span class="key" { (swatch(line.series)) (line.label) }
                    " "
                }
            }
            "Bars are 95% confidence intervals."
            @if self.left_out > 0 { " " (self.left_out) " more lines are left out." }
        }
    }

    fn says(&self, requests: Requests) -> String {
        let mut says = format!("Latency of {} by {}.", requests.name(), plain(self.key));
        for line in &self.lines {
            for percentile in PERCENTILES {
                let told = percentiles(line, requests, percentile);
                if let (Some(first), Some(last)) = (told.first(), told.last()) {
                    let label = if line.label.is_empty() { "" } else { " of " };
                    says += &format!(
                        " {percentile}{label}{}: from {} to {}.",
                        line.label,
                        time(first.1.mean),
                        time(last.1.mean)
                    );
                }
            }
        }
        says
    }
}

impl Line<'_> {
    fn draw(&self, x: &Axis, y: &Axis, requests: Requests, (index, p): (usize, &str)) -> Markup {
        let told = percentiles(self, requests, p);
        let mut path = Path::default();
        for (at, latency, _) in &told {
            path.line_to(x.at(*at), y.at(latency.mean));
        }
        html! {
            path class={ "line " (self.series.class()) " q" (index) } d=(path.into_string()) {}
            @for (at, latency, label) in &told {
                @if latency.half_width.is_finite() {
                    @let ends = [-1.0, 1.0].map(|side| latency.mean + side * latency.half_width);
                    (super::whisker(x.at(*at), y.at(ends[0]), y.at(ends[1])))
                }
                @let says = format!("{label}: {p} {}", time(latency.mean));
                (marker(self.series, x.at(*at), y.at(latency.mean), &says))
            }
        }
    }
}

/// A percentile along a line, for points with such requests: position, latency, and point.
fn percentiles<'a>(
    line: &Line<'a>,
    requests: Requests,
    name: &str,
) -> Vec<(f64, Estimate, &'a str)> {
    let column = latency(requests, name);
    let there =
        |point: &Point<'_>| point.group.records.iter().all(|record| requests.of(record).count > 0);
    let told = line.points.iter().filter(|(_, point)| there(point));
    let told = told.map(|(at, point)| (*at, point.group.estimate(column), point.label.as_str()));
    told.filter(|(_, latency, _)| latency.mean.is_finite()).collect()
}

fn latency(requests: Requests, name: &str) -> &'static Column {
    let kind = match requests {
        Requests::Reads => "read",
        Requests::Writes => "write",
    };
    column(&format!("{kind} {name}"))
}

/// The values of a key that has only numbers, and at least two.
fn values(points: &[Point<'_>], key: &str) -> Option<Vec<(f64, String)>> {
    let mut values: Vec<(f64, String)> = Vec::new();
    for point in points {
        let value = value(point, key)?;
        let at = number(value)?;
        if values.iter().all(|(other, _)| *other != at) {
            let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            values.push((at, plain(&written)));
        }
    }
    (values.len() >= 2).then_some(values)
}

fn value<'a>(point: &'a Point<'_>, key: &str) -> Option<&'a Value> {
    point.first().swept.iter().find(|(other, _)| other == key).map(|(_, value)| value)
}

fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::String(text) => size(text)?,
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => return None,
    };
    number.is_finite().then_some(number)
}

/// The number of a text like `64K` or `16 MiB`: such texts are in order, too.
fn size(text: &str) -> Option<f64> {
    const UNITS: [&str; 5] = ["", "k", "m", "g", "t"];
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit);
    let power = UNITS.iter().position(|known| *known == unit)?;
    Some(number.parse::<f64>().ok()? * 1024f64.powi(power as i32))
}
