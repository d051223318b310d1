//! The plots agree with the results.

use lab::measure::Latency;
use lab::report::html;
use lab::results::{COLUMNS, Group, Record, groups};

use super::experiments::{arrays, swept};
use super::picture::{
    Axis, corners, number, parse, plain, plot, time, with_class, x_labels, y_labels,
};

/// How far off something may be drawn, in user units: rounding, and corners that were left out.
const OFF: f64 = 0.7;

type Kind = fn(&Record) -> &Latency;

const KINDS: [(&str, Kind); 2] =
    [("reads", |record| &record.figures.reads), ("writes", |record| &record.figures.writes)];

/// All latencies of a point, in order, in microseconds.
fn latencies(group: &Group<'_>, kind: Kind) -> Vec<f64> {
    let mut all = Vec::new();
    for record in &group.records {
        let histogram = kind(record).histogram().expect("a histogram");
        for step in histogram.iter_recorded() {
            let latency = step.value_iterated_to() as f64 / 1e3;
            all.extend(vec![latency; step.count_since_last_iteration() as usize]);
        }
    }
    all.sort_by(f64::total_cmp);
    all
}

/// Where a line crosses a height, at most; corners are at right angles.
fn crosses(line: &[(f64, f64)], y: f64) -> (f64, f64) {
    let pairs = line.windows(2).filter(|pair| {
        let (low, high) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
        low - OFF <= y && y <= high + OFF
    });
    pairs
        .flatten()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (x, _)| (low.min(*x), high.max(*x)))
}

#[test]
fn distributions_are_those_of_the_requests() {
    let records = arrays();
    let page = html(&records, &[]).expect("a report");
    let page = parse(&page);
    for (name, kind) in KINDS {
        let svg = plot(&page, &format!("e1-cdf-{name}"));
        let x = Axis::read(&x_labels(svg), true, time);
        let y = Axis::read(&y_labels(svg, 0.0..1e9), false, plain);
        for (index, group) in groups(&records).iter().enumerate() {
            let all = latencies(group, kind);
            let line =
                corners(with_class(svg, &format!("line s{index}"))[0].attribute("d").unwrap());
            for percent in 1..100 {
                let share = f64::from(percent) / 100.0;
                let expected = x.at(all[((share * all.len() as f64).ceil() as usize).max(1) - 1]);
                let (low, high) = crosses(&line, y.at(share));
                let found = low - OFF <= expected && expected <= high + OFF;
                assert!(found, "{name} p{percent} at {expected}, not from {low} to {high}");
            }
            let last = line[line.len() - 1];
            assert!((last.0 - x.at(all[all.len() - 1])).abs() < OFF, "{last:?}");
            assert!((last.1 - y.at(1.0)).abs() < OFF, "{last:?}");
        }
    }
}

#[test]
fn tails_are_those_of_the_requests() {
    let records = arrays();
    let page = html(&records, &[]).expect("a report");
    let page = parse(&page);
    let turned = |(x, y): (f64, f64)| (y, x);
    for (name, kind) in KINDS {
        let svg = plot(&page, &format!("e1-tail-{name}"));
        let nines: fn(&str) -> Option<f64> =
            |label| Some(-(1.0 - label.parse::<f64>().ok()? / 100.0).log10());
        let x = Axis::read(&x_labels(svg), false, nines);
        let y = Axis::read(&y_labels(svg, 0.0..1e9), true, time);
        for (index, group) in groups(&records).iter().enumerate() {
            let all = latencies(group, kind);
            let count = all.len() as f64;
            let line =
                corners(with_class(svg, &format!("line s{index}"))[0].attribute("d").unwrap());
            let line: Vec<_> = line.into_iter().map(turned).collect();
            for share in [0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 0.995] {
                let expected = y.at(all[(share * count).ceil() as usize - 1]);
                let (low, high) = crosses(&line, x.at(-(1.0 - share).log10()));
                let found = low - OFF <= expected && expected <= high + OFF;
                assert!(found, "{name} {share} at {expected}, not from {low} to {high}");
            }
            // Ten requests are beyond its end.
            let end = line[line.len() - 1].1;
            assert!((end - x.at((count / 10.0).log10())).abs() < OFF, "{end}");
        }
    }
}

#[test]
fn what_happened_over_time_adds_up() {
    let mut records = arrays();
    // In the first half of the time, two eighths of it more on each next SSD.
    for record in &mut records {
        for (ssd, shares) in record.figures.timeline.gc.iter_mut().enumerate() {
            let half = shares.len() / 2;
            shares[..half].fill(ssd as f32 / 4.0);
            shares[half..].fill(0.0);
        }
    }
    let page = html(&records, &[]).expect("a report");
    let page = parse(&page);
    for (index, group) in groups(&records).iter().enumerate() {
        let figures = &group.records[0].figures;
        let svg = plot(&page, &format!("e1-time-{index}"));
        let title = with_class(svg, "x title")[0].text().expect("a title");
        let unit = time(&title.replace("time in", "1")).expect("a unit of time") / 1e6;
        let x = Axis::read(&x_labels(svg), false, plain);
        let lines = with_class(svg, &format!("line s{index}"));
        let rates = corners(lines[0].attribute("d").unwrap());
        // The first panel is above the others.
        let titles = with_class(svg, "title").into_iter();
        let titles: Vec<_> = titles.filter(|node| node.text() != Some(title)).collect();
        let y = Axis::read(&y_labels(svg, 0.0..number(titles[1], "y") - 8.0), false, plain);
        let under = rates
            .windows(2)
            .map(|pair| (x.value(pair[1].0) - x.value(pair[0].0)) * unit * y.value(pair[0].1));
        let (drawn, ended): (f64, u32) = (under.sum(), figures.timeline.requests.iter().sum());
        assert!((drawn / f64::from(ended) - 1.0).abs() < 0.03, "{drawn} for {ended} requests");
        let strips = with_class(svg, "gc");
        assert_eq!(strips.len(), figures.drives.len());
        for (strip, shares) in strips.iter().zip(&figures.timeline.gc) {
            let shaded: f64 = strip.children().map(shade).sum();
            let shares: f64 = shares.iter().map(|share| f64::from(*share)).sum();
            let expected = shares * figures.timeline.interval_us / 1e6 / unit;
            let expected = x.at(expected) - x.at(0.0);
            assert!((shaded - expected).abs() < 2.0, "{shaded} for {expected}");
        }
    }
}

/// The length of a strip's rectangles of one shade, as if they were of full shade.
fn shade(node: roxmltree::Node<'_, '_>) -> f64 {
    let Some(d) = node.attribute("d") else { return 0.0 };
    let rectangles = corners(d);
    let lengths = rectangles.chunks(4).map(|corners| corners[1].0 - corners[0].0);
    lengths.sum::<f64>() * number(node, "fill-opacity")
}

#[test]
fn bars_are_as_high_as_the_factors() {
    let records = arrays();
    let page = html(&records, &[]).expect("a report");
    let page = parse(&page);
    let svg = plot(&page, "e1-waf");
    let y = Axis::read(&y_labels(svg, 0.0..1e9), false, plain);
    let bars = with_class(svg, "bar");
    let factors = ["array WAF", "device WAF", "total WAF"];
    let groups = groups(&records);
    let expected = factors.iter().flat_map(|name| groups.iter().map(move |group| (name, group)));
    assert_eq!(bars.len(), factors.len() * groups.len());
    for (bar, (name, group)) in bars.iter().zip(expected) {
        let column = COLUMNS.iter().find(|column| column.name == *name).expect("a column");
        let corners = corners(bar.attribute("d").unwrap());
        let factor = group.estimate(column).mean;
        assert!((corners[0].1 - y.at(factor)).abs() < OFF, "{name} {factor}: {corners:?}");
        assert!((corners[2].1 - y.at(0.0)).abs() < OFF, "{name} {factor}: {corners:?}");
    }
}

#[test]
fn a_sweep_is_drawn_against_its_key() {
    let records = swept();
    let page = html(&records, &[]).expect("a report");
    let page = parse(&page);
    let svg = plot(&page, "e1-sweep-writes");
    let x = Axis::read(&x_labels(svg), true, plain);
    let y = Axis::read(&y_labels(svg, 0.0..1e9), true, time);
    for (index, name) in ["write p50", "write p99", "write p99.9"].into_iter().enumerate() {
        let line = corners(with_class(svg, &format!("line q{index}"))[0].attribute("d").unwrap());
        let column = COLUMNS.iter().find(|column| column.name == name).expect("a column");
        for (group, depth) in groups(&records).iter().zip([1.0, 4.0, 16.0]) {
            let at = (x.at(depth), y.at(group.estimate(column).mean));
            let is_there = |corner: &(f64, f64)| {
                (corner.0 - at.0).abs() < OFF && (corner.1 - at.1).abs() < OFF
            };
            assert!(line.iter().any(is_there), "{name} at {depth} is {at:?}, not in {line:?}");
        }
    }
}
