//! Plots, as SVG: their common parts.
//!
//! All are equally wide in user units. Text is in user units too, larger on small screens; the
//! margins have room for the largest.

mod axis;
mod bars;
mod cdf;
mod path;
mod sweep;
mod tail;
mod time;

use maud::{Markup, html};

use super::model::Series;
use axis::Axis;
use path::{Path, round};

pub(super) use bars::bars;
pub(super) use cdf::cdf;
pub(super) use sweep::sweeps;
pub(super) use tail::tail;
pub(super) use time::times;

/// The width of all plots, in user units.
const WIDTH: f64 = 460.0;

/// Where panels begin and end.
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 26.0;

/// Where the first panel begins, below the title of its y axis.
const TOP: f64 = 28.0;

/// The room below a panel with an x axis and its title.
const BOTTOM: f64 = 42.0;

/// A plot, and what is said about it.
#[derive(Debug)]
pub(super) struct Plot {
    /// What kind it is; with the experiment it makes an id.
    pub(super) name: String,
    pub(super) title: String,
    /// The meaning of the marks, if it is not obvious.
    pub(super) note: Option<Markup>,
    pub(super) svg: Markup,
}

/// The frame of a plot. `says` is its text for screen readers.
fn svg(height: f64, says: &str, content: &Markup) -> Markup {
    html! {
        svg class="plot" xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(says)
            viewBox={ "0 0 " (WIDTH) " " (round(height)) } {
            (content)
        }
    }
}

/// An x axis with its title below panels, each of which reaches from a top to a bottom.
fn x_axis(axis: &Axis, panels: &[(f64, f64)], title: &str) -> Markup {
    let (grid, small) = grid(axis, |path, x, labelled| {
        for (top, bottom) in panels {
            path.move_to(x, *bottom);
            path.line_to(x, if labelled { *top } else { bottom - 3.0 });
        }
    });
    let bottom = panels.last().map_or(TOP, |(_, bottom)| *bottom);
    let (from, to) = axis.span();
    html! {
        path class="grid" d=(grid) {}
        path class="tick" d=(small) {}
        path class="base" d={ "M" (round(from)) " " (round(bottom)) "H" (round(to)) } {}
        @for tick in axis.ticks.iter().filter(|tick| !tick.label.is_empty()) {
            text class="x" x=(round(axis.at(tick.at))) y=(round(bottom + 18.0)) { (tick.label) }
        }
        text class="x title" x=(round((from + to) / 2.0)) y=(round(bottom + 36.0)) { (title) }
    }
}

/// A y axis to the left of a panel, with its title above.
fn y_axis(axis: &Axis, title: &str) -> Markup {
    let (grid, small) = grid(axis, |path, y, labelled| {
        path.move_to(LEFT, y);
        path.line_to(if labelled { RIGHT } else { LEFT + 3.0 }, y);
    });
    let (_, top) = axis.span();
    html! {
        path class="grid" d=(grid) {}
        path class="tick" d=(small) {}
        @for tick in axis.ticks.iter().filter(|tick| !tick.label.is_empty()) {
            text class="y" x=(LEFT - 6.0) y=(round(axis.at(tick.at) + 3.5)) { (tick.label) }
        }
        text class="title" x="4" y=(round(top - 13.0)) { (title) }
    }
}

/// The lines of labelled ticks and those of small ones.
fn grid(axis: &Axis, draw: impl Fn(&mut Path, f64, bool)) -> (String, String) {
    let (mut grid, mut small) = (Path::default(), Path::default());
    for tick in &axis.ticks {
        let labelled = !tick.label.is_empty();
        draw(if labelled { &mut grid } else { &mut small }, axis.at(tick.at), labelled);
    }
    (grid.into_string(), small.into_string())
}

/// A marker, and its tooltip.
fn marker(series: Series, x: f64, y: f64, says: &str) -> Markup {
    html! {
        path class={ "mark " (series.class()) } d=(outline(series, x, y)) {
            title { (says) }
        }
    }
}

/// The outline of a series' marker.
fn outline(series: Series, x: f64, y: f64) -> String {
    let (x, y) = (round(x), round(y));
    let sides = match series.shape() {
        0 => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
        1 => "m-2.7-2.7h5.4v5.4h-5.4z",
        2 => "m0-3.6l3.5 6.2h-7z",
        3 => "m0-3.9l3.4 3.9-3.4 3.9-3.4-3.9z",
        4 => "m0 3.6l3.5-6.2h-7z",
        5 => "m-1.1-3.4h2.2v2.3h2.3v2.2h-2.3v2.3h-2.2v-2.3h-2.3v-2.2h2.3z",
        6 => "m-3.6 0l6.2-3.5v7z",
        _ => "m3.6 0l-6.2-3.5v7z",
    };
    format!("M{x} {y}{sides}")
}

/// An upright bar with ends, from one height to another.
fn whisker(x: f64, low: f64, high: f64) -> Markup {
    let mut path = Path::default();
    path.move_to(x, low);
    path.line_to(x, high);
    for end in [low, high] {
        path.move_to(x - 2.0, end);
        path.line_to(x + 2.0, end);
    }
    html! { path class="whisker" d=(path.into_string()) {} }
}

/// A sample of a series' style, for a legend.
pub(super) fn swatch(series: Series) -> Markup {
    html! {
        svg class="swatch" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 10"
            aria-hidden="true" {
            path class={ "line " (series.class()) } d="M1 5H29" {}
            path class={ "mark " (series.class()) } d=(outline(series, 15.0, 5.0)) {}
        }
    }
}
