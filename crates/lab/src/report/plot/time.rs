//! Runs over time: throughput, latency, and which SSD collected garbage.

use maud::{Markup, html};

use super::path::Path;
use super::{Axis, BOTTOM, LEFT, Plot, RIGHT, TOP, svg, x_axis, y_axis};
use crate::measure::Timeline;
use crate::report::model::{Point, spread};
use crate::report::number::{grouped, time};

/// The most points that are drawn.
const POINTS: usize = 8;

/// The most columns of a plot: about as many as a screen has pixels for.
const COLUMNS: usize = 360;

/// The number of shades for a column's share of garbage collection.
const SHADES: u8 = 8;

/// The most SSDs whose garbage collection is drawn.
const SSDS: usize = 64;

/// How tall the panels are, and what is between them.
const THROUGHPUT: f64 = 76.0;
const LATENCY: f64 = 96.0;
const GAP: f64 = 34.0;

/// Runs share a time axis if the longest is at most this many times as long as the shortest.
const ALIKE: f64 = 4.0;

/// The first seed of each point over time, or of some points if there are many. They share their
/// axes where possible, so that they can be compared.
pub(in crate::report) fn times(points: &[Point<'_>]) -> Vec<Plot> {
    let runs: Vec<_> = spread(points, POINTS).into_iter().filter_map(Run::of).collect();
    let lengths = || runs.iter().map(|run| run.length);
    let longest = lengths().fold(0.0, f64::max);
    let shared = longest <= ALIKE * lengths().fold(f64::INFINITY, f64::min);
    let columns = || runs.iter().flat_map(|run| &run.columns);
    let fastest = columns().filter_map(|column| column.rate).fold(0.0, f64::max);
    let latencies = || columns().filter_map(|column| column.latency);
    let heights = [TOP, TOP + THROUGHPUT, TOP + THROUGHPUT + GAP, TOP + THROUGHPUT + GAP + LATENCY];
    let axes = Axes {
        rate: Axis::count(fastest, heights[1], heights[0]),
        latency: Axis::time_log(
            latencies().flat_map(|(mean, worst)| [mean, worst]),
            heights[3],
            heights[2],
        ),
    };
    let plot = |(index, run): (usize, &Run<'_>)| {
        let longest = if shared { longest } else { run.length };
        run.plot(index, longest, &axes)
    };
    runs.iter().enumerate().map(plot).collect()
}

/// The common axes of an experiment's plots.
struct Axes {
    rate: Axis,
    latency: Axis,
}

/// A run, in as many columns as can be told apart.
struct Run<'a> {
    point: &'a Point<'a>,
    /// In microseconds.
    length: f64,
    columns: Vec<Column>,
    /// For each SSD, the part of each column in which it collected garbage.
    gc: Vec<Vec<f64>>,
}

/// Some intervals of a timeline. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
struct Column {
    from: f64,
    to: f64,
    /// Requests per second; `None` if it is too short to tell.
    rate: Option<f64>,
    /// Mean and worst, if any request ended.
    latency: Option<(f64, f64)>,
}

impl<'a> Run<'a> {
    /// `None` if there is nothing to show.
    fn of(point: &'a Point<'a>) -> Option<Self> {
        let figures = &point.first().figures;
        let timeline = &figures.timeline;
        let length = figures.seconds * 1e6;
        let count = timeline.requests.len();
        let is_time = |time: f64| time.is_finite() && time > 0.0;
        if count == 0 || !is_time(length) || !is_time(timeline.interval_us) {
            return None;
        }
        let each = count.div_ceil(COLUMNS);
        let column = |start| column(timeline, start, (start + each).min(count), length);
        let mean = |part: &[f32]| {
            let sum: f64 = part.iter().map(|share| f64::from(*share)).sum();
            sum / part.len() as f64
        };
        let means = |gc: &Vec<f32>| gc.chunks(each).map(mean).collect();
        Some(Self {
            point,
            length,
            columns: (0..count).step_by(each).map(column).collect(),
            gc: timeline.gc.iter().take(SSDS).map(means).collect(),
        })
    }

    fn plot(&self, index: usize, longest: f64, axes: &Axes) -> Plot {
        let (x, unit) = Axis::time(longest, LEFT, RIGHT);
        let (strips, below) = (axes.latency.span().0 + GAP - 4.0, self.strip());
        let bottom = strips + below * self.gc.len() as f64;
        let panel = |axis: &Axis| (axis.span().1, axis.span().0);
        let panels = [panel(&axes.rate), panel(&axes.latency), (strips, bottom)];
        let drawn = html! {
            (x_axis(&x, &panels, &format!("time in {unit}")))
            (y_axis(&axes.rate, "requests/s"))
            (y_axis(&axes.latency, "latency: mean, and up to the worst"))
            (self.throughput(&x, &axes.rate))
            (self.latency(&x, &axes.latency))
            text class="title" x="4" y=(strips - 9.0) { "garbage collection of each SSD" }
            @for (ssd, shares) in self.gc.iter().enumerate() {
                (self.collected(&x, strips + below * ssd as f64, ssd, shares))
            }
        };
        Plot {
            name: format!("time-{index}"),
            title: self.point.label.clone(),
            note: None,
            svg: svg(bottom + BOTTOM, &self.says(), &drawn),
        }
    }

    /// The height of an SSD's strip.
    fn strip(&self) -> f64 {
        (80.0 / self.gc.len().max(1) as f64).clamp(3.0, 11.0).floor()
    }

    fn throughput(&self, x: &Axis, y: &Axis) -> Markup {
        let mut path = Path::default();
        for column in &self.columns {
            match column.rate {
                Some(rate) => {
                    path.line_to(x.at(column.from), y.at(rate));
                    path.line_to(x.at(column.to), y.at(rate));
                }
                None => path.lift(),
            }
        }
        html! { path class={ "line thin " (self.point.series.class()) } d=(path.into_string()) {} }
    }

    fn latency(&self, x: &Axis, y: &Axis) -> Markup {
        let (mut means, mut worst) = (Path::default(), Path::default());
        for column in &self.columns {
            let (from, to) = (x.at(column.from), x.at(column.to));
            let Some((mean, longest)) = column.latency else {
                means.lift();
                continue;
            };
            let (low, high) = (y.at(mean), y.at(longest));
            worst.rectangle(from, high, to - from, low - high);
            means.line_to(from, low);
            means.line_to(to, low);
        }
        let class = self.point.series.class();
        html! {
            path class={ "band " (class) } d=(worst.into_string()) {}
            path class={ "line thin " (class) } d=(means.into_string()) {}
        }
    }

    /// An SSD's strip: the darker, the larger the share of garbage collection.
    fn collected(&self, x: &Axis, y: f64, ssd: usize, shares: &[f64]) -> Markup {
        let height = self.strip() - 1.0;
        let shade = |share: &f64| (share.clamp(0.0, 1.0) * f64::from(SHADES)).ceil() as u8;
        let mut shades: [Path; SHADES as usize + 1] = Default::default();
        let columns: Vec<_> = self.columns.iter().zip(shares.iter().map(shade)).collect();
        for same in columns.chunk_by(|a, b| a.1 == b.1) {
            let (from, to) = (x.at(same[0].0.from), x.at(same[same.len() - 1].0.to));
            shades[usize::from(same[0].1)].rectangle(from, y, to - from, height);
        }
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        let (from, to) = (x.at(0.0), x.at(self.length));
        let told = ssd == 0 || ssd + 1 == self.gc.len() && self.strip() * ssd as f64 >= 20.0;
        html! {
            g class="gc" {
                title { "SSD " (ssd + 1) ": " (grouped(mean * 100.0, 1)) "% of the time" }
                rect class="idle" x=(from) y=(y) width=(super::round(to - from)) height=(height) {}
                @for (shade, path) in (1..=SHADES).zip(shades.into_iter().skip(1)) {
                    @if !path.is_empty() {
                        path d=(path.into_string())
                            fill-opacity=(f64::from(shade) / f64::from(SHADES)) {}
                    }
                }
            }
            @if told {
                text class="y" x=(LEFT - 6.0) y=(super::round(y + height / 2.0 + 3.5)) { (ssd + 1) }
            }
        }
    }

    fn says(&self) -> String {
        let figures = &self.point.first().figures;
        let worst = self.columns.iter().filter_map(|column| column.latency);
        let worst = worst.map(|(_, worst)| worst).fold(0.0, f64::max);
        let one = |(ssd, drive): (usize, &crate::measure::DriveFigures)| {
            format!("SSD {} {}%", ssd + 1, grouped(drive.gc_duty * 100.0, 1))
        };
        let gc: Vec<_> = figures.drives.iter().take(SSDS).enumerate().map(one).collect();
        format!(
            "{} over {}: {} requests/s on average, worst latency {}. Time spent in garbage \
             collection: {}.",
            self.point.label,
            time(self.length),
            grouped(figures.requests_per_second, 0),
            time(worst),
            gc.join(", "),
        )
    }
}

/// The intervals from `start` to `end` of a run that took `length` microseconds.
fn column(timeline: &Timeline, start: usize, end: usize, length: f64) -> Column {
    let width = timeline.interval_us;
    let (from, to) = (start as f64 * width, (end as f64 * width).min(length));
    let of = |all: &[f32], index: usize| f64::from(all.get(index).copied().unwrap_or(0.0));
    let (mut requests, mut sum, mut worst) = (0.0, 0.0, 0.0);
    for index in start..end {
        let ended = f64::from(timeline.requests[index]);
        requests += ended;
        sum += ended * of(&timeline.mean_us, index);
        worst = f64::max(worst, of(&timeline.worst_us, index));
    }
    Column {
        from: from.min(to),
        to,
        rate: (to - from >= width / 2.0).then(|| requests / (to - from) * 1e6),
        latency: (requests > 0.0).then(|| (sum / requests, worst.max(sum / requests))),
    }
}
