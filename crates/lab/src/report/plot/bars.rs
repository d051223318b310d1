//! Write amplification.

use maud::{Markup, html};

use super::{Axis, BOTTOM, LEFT, Path, Plot, RIGHT, TOP, outline, round, svg, y_axis};
use crate::report::model::{Point, column};
use crate::report::number::grouped;
use crate::results::Estimate;

const HEIGHT: f64 = 190.0;

/// The factors: their names, and their place in figures.
const FACTORS: [(&str, &str); 3] =
    [("array WAF", "array"), ("device WAF", "device"), ("total WAF", "total")];

/// Write amplification of the array, of the SSDs, and of both; `None` if nothing was written.
pub(in crate::report) fn bars(points: &[&Point<'_>]) -> Option<Plot> {
    let wrote = |point: &&&Point<'_>| {
        point.group.records.iter().any(|record| record.figures.writes.count > 0)
    };
    let points: Vec<_> = points.iter().filter(wrote).copied().collect();
    if points.is_empty() {
        return None;
    }
    let all = || points.iter().flat_map(|point| FACTORS.map(|(name, _)| factor(point, name)));
    let most =
        all().map(|factor| factor.mean + whisker(&factor).unwrap_or(0.0)).fold(1.0, f64::max);
    let bottom = TOP + HEIGHT;
    let y = Axis::factor(most, bottom, TOP);
    let group = (RIGHT - LEFT) / FACTORS.len() as f64;
    let width = (group * 0.84 / points.len() as f64).min(28.0);
    let drawn = html! {
        (y_axis(&y, "bytes written per byte"))
        path class="one" d={ "M" (LEFT) " " (round(y.at(1.0))) "H" (RIGHT) } {}
        @for (index, (name, short)) in FACTORS.into_iter().enumerate() {
            @let middle = LEFT + group * (index as f64 + 0.5);
            @let first = middle - width * points.len() as f64 / 2.0;
            text class="x" x=(round(middle)) y=(round(bottom + 18.0)) { (short) }
            @for (index, point) in points.iter().enumerate() {
                (bar(&y, first + width * index as f64, width, point, name))
            }
        }
        path class="base" d={ "M" (LEFT) " " (round(bottom)) "H" (RIGHT) } {}
        text class="x title" x=(round((LEFT + RIGHT) / 2.0)) y=(round(bottom + 36.0)) {
            "array × device = total"
        }
    };
    Some(Plot {
        name: "waf".to_owned(),
        title: "Write amplification".to_owned(),
        note: Some(html! { "Bars follow the legend; whiskers are 95% confidence intervals." }),
        svg: svg(bottom + BOTTOM, &says(&points), &drawn),
    })
}

fn bar(y: &Axis, x: f64, width: f64, point: &Point<'_>, name: &str) -> Markup {
    let factor = factor(point, name);
    let (top, bottom) = (y.at(factor.mean), y.at(0.0));
    let mut bar = Path::default();
    bar.rectangle(x + width * 0.08, top, width * 0.84, bottom - top);
    let middle = x + width / 2.0;
    let has_room = width >= 9.0 && bottom - top >= 14.0;
    html! {
        path class={ "bar " (point.series.class()) } d=(bar.into_string()) {
            title { (point.label) ": " (name) " " (told(&factor)) }
        }
        @if has_room { path class="foot" d=(outline(point.series, middle, bottom - 7.0)) {} }
        @if let Some(half) = whisker(&factor) {
            (super::whisker(middle, y.at(factor.mean - half), y.at(factor.mean + half)))
        }
    }
}

fn factor(point: &Point<'_>, name: &str) -> Estimate {
    let estimate = point.group.estimate(column(name));
    Estimate { mean: if estimate.mean.is_finite() { estimate.mean } else { 0.0 }, ..estimate }
}

/// Half of the confidence interval, if it is large enough to be seen.
fn whisker(factor: &Estimate) -> Option<f64> {
    (factor.half_width.is_finite() && factor.half_width > 0.0).then_some(factor.half_width)
}

fn told(factor: &Estimate) -> String {
    let mean = grouped(factor.mean, 2);
    whisker(factor).map_or(mean.clone(), |half| format!("{mean} ± {}", grouped(half, 2)))
}

fn says(points: &[&Point<'_>]) -> String {
    let one = |point: &&Point<'_>| {
        let factors =
            FACTORS.map(|(name, short)| format!("{short} {}", told(&factor(point, name))));
        format!("{}: {}", point.label, factors.join(", "))
    };
    let all: Vec<_> = points.iter().map(one).collect();
    format!("Write amplification. {}.", all.join("; "))
}
