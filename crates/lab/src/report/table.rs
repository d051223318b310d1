//! Tables of figures: means over seeds with the half width of their 95% confidence interval.

use maud::{Markup, html};

use super::model::{Point, Section};
use super::number::{NONE, digits, grouped};
use super::plot::swatch;
use crate::results::{COLUMNS, Column, Estimate, Unit};

/// The most digits after the point.
const DECIMALS: usize = 3;

/// A column, and what its figures have in common.
struct Figures {
    column: &'static Column,
    /// By point; `None` where the figure has no meaning.
    estimates: Vec<Option<Estimate>>,
    /// By point: better than all comparable ones.
    best: Vec<bool>,
    /// The size and symbol of the unit.
    unit: (f64, &'static str),
    decimals: usize,
}

/// The most important figures: a row for each point.
pub(super) fn brief(section: &Section<'_>) -> Markup {
    let columns = COLUMNS.iter().filter(|column| column.brief);
    let columns: Vec<_> = columns.map(|column| Figures::of(column, &section.points)).collect();
    let several = has_several_seeds(section);
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Figures" {
            table class="figures brief" {
                thead { tr {
                    th scope="col" { "point" }
                    @for figures in &columns {
                        th scope="col" colspan=(if several { 2 } else { 1 }) { (figures.head()) }
                    }
                } }
                tbody {
                    @for (index, point) in section.points.iter().enumerate() {
                        tr {
                            (row_head(point))
                            @for figures in &columns { (figures.cell(index, several)) }
                        }
                    }
                }
            }
        }
    }
}

/// All figures: a row for each.
pub(super) fn full(section: &Section<'_>) -> Markup {
    let several = has_several_seeds(section);
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="All figures" {
            table class="figures full" {
                thead { tr {
                    th scope="col" { "figure" }
                    @for point in &section.points {
                        th scope="col" colspan=(if several { 2 } else { 1 }) {
                            (swatch(point.series)) (point.label)
                        }
                    }
                } }
                tbody {
                    @for figures in COLUMNS.iter().map(|c| Figures::of(c, &section.points)) {
                        tr {
                            th scope="row" { (figures.head()) }
                            @for index in 0..section.points.len() {
                                (figures.cell(index, several))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The explanation of the tables.
pub(super) fn legend(section: &Section<'_>) -> Markup {
    let seeds = section.points.iter().map(|point| point.group.records.len());
    let (least, most) = (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0));
    let marked =
        COLUMNS.iter().any(|column| Figures::of(column, &section.points).best.contains(&true));
    html! {
        p class="note" {
            @if most == 1 { "One seed each: nothing is known about chance." }
            @else {
                "Means over "
                @if least == most { (most) } @else { (least) " to " (most) }
                " seeds ± half of the 95% confidence interval (Student’s t)."
            }
            @if marked {
                " " b class="best" { "Marked" }
                ": better than each other point of the same workload with 95% confidence (Welch’s "
                "test)."
            }
        }
    }
}

fn has_several_seeds(section: &Section<'_>) -> bool {
    section.points.iter().any(|point| point.group.records.len() > 1)
}

fn row_head(point: &Point<'_>) -> Markup {
    html! {
        th scope="row" {
            (swatch(point.series)) (point.label)
            @if point.overloaded() > 0 { " " span class="flag" { "overloaded" } }
        }
    }
}

impl Figures {
    fn of(column: &'static Column, points: &[Point<'_>]) -> Self {
        let estimate = |point: &Point<'_>| {
            let estimate = is_there(column, point).then(|| point.group.estimate(column));
            estimate.filter(|estimate| estimate.mean.is_finite())
        };
        let estimates: Vec<_> = points.iter().map(estimate).collect();
        let sizes = || estimates.iter().flatten().map(|estimate| estimate.mean.abs());
        let most = sizes().fold(0.0, f64::max);
        let unit = unit(column.unit, most);
        let least = sizes().filter(|size| *size > 0.0).fold(most, f64::min);
        // Three digits of the largest, four if the smallest has two then or fewer.
        let (least, most) = (least / unit.0, most / unit.0);
        let decimals = digits(least, 2).clamp(digits(most, 3), digits(most, 4)).min(DECIMALS);
        let decimals = if column.unit == Unit::Count { 0 } else { decimals };
        let best = best(column, points, &estimates);
        Self { column, estimates, best, unit, decimals }
    }

    /// Its name and its unit.
    fn head(&self) -> Markup {
        html! {
            (self.column.name)
            @if !self.unit.1.is_empty() { " " span class="unit" { (self.unit.1) } }
        }
    }

    fn cell(&self, index: usize, several: bool) -> Markup {
        let columns = if several { 2 } else { 1 };
        let Some(estimate) = self.estimates[index] else {
            return html! { td class="none" colspan=(columns) { (NONE) } };
        };
        let number = |value: f64| grouped(value / self.unit.0, self.decimals);
        let mean = number(estimate.mean);
        html! {
            td {
                @if self.best[index] {
                    b class="best" title="significantly better than each other" { (mean) }
                } @else { (mean) }
            }
            @if several {
                td class="half" {
                    // The width is not known for a single seed.
                    @if estimate.half_width.is_finite() { "± " (number(estimate.half_width)) }
                }
            }
        }
    }
}

/// Whether a figure has a meaning: latencies of reads need reads.
fn is_there(column: &Column, point: &Point<'_>) -> bool {
    let any = |count: fn(&crate::measure::Figures) -> u64| {
        point.group.records.iter().any(|record| count(&record.figures) > 0)
    };
    match column.name {
        name if name.starts_with("read ") => any(|figures| figures.reads.count),
        name if name.starts_with("write ") || name.ends_with(" WAF") => {
            any(|figures| figures.writes.count)
        }
        _ => true,
    }
}

/// The unit that suits the largest figure of a column: its size and symbol.
fn unit(unit: Unit, most: f64) -> (f64, &'static str) {
    match unit {
        Unit::Microseconds if most < 1e4 => (1.0, "µs"),
        Unit::Microseconds if most < 1e7 => (1e3, "ms"),
        Unit::Microseconds => (1e6, "s"),
        Unit::Seconds => (1.0, "s"),
        Unit::BytesPerSecond if most < 1e9 => (1e6, "MB/s"),
        Unit::BytesPerSecond => (1e9, "GB/s"),
        Unit::Share => (0.01, "%"),
        Unit::PerSecond | Unit::Factor | Unit::Count => (1.0, ""),
    }
}

/// Which points are significantly better than every other one with the same workload. Points with
/// other workloads are not comparable, and neither are figures that are no goals.
fn best(column: &Column, points: &[Point<'_>], estimates: &[Option<Estimate>]) -> Vec<bool> {
    let better: fn(f64, f64) -> bool = match column.unit {
        _ if ["offered/s", "RI reads", "WI writes", "detours", "staged", "GC avoided"]
            .contains(&column.name) =>
        {
            |_, _| false
        }
        Unit::Microseconds | Unit::Share | Unit::Factor => |a, b| a < b,
        Unit::PerSecond | Unit::BytesPerSecond => |a, b| a > b,
        Unit::Seconds | Unit::Count => |_, _| false,
    };
    let is_best = |index: usize| {
        let workload = &points[index].first().point.workload;
        let is_same = |other: usize| points[other].first().point.workload == *workload;
        let rival = |other: &usize| *other != index && is_same(*other);
        let mut rivals = (0..points.len()).filter(rival).peekable();
        let beats = |other: usize| match (&estimates[index], &estimates[other]) {
            (Some(this), Some(other)) => better(this.mean, other.mean) && this.differs_from(other),
            _ => false,
        };
        rivals.peek().is_some() && rivals.all(beats)
    };
    (0..points.len()).map(is_best).collect()
}
