//! Latency at each percentile, the last ones far apart.

use maud::{Markup, html};

use super::axis::PERCENTILES;
use super::path::stairs;
use super::{Axis, BOTTOM, LEFT, Plot, RIGHT, TOP, marker, svg, x_axis, y_axis};
use crate::report::distribution::{Distribution, Requests};
use crate::report::model::Point;
use crate::report::number::{round, time};

const HEIGHT: f64 = 190.0;

/// How many requests must be beyond a percentile for it to be meaningful.
const BEYOND: f64 = 10.0;

/// Latencies by percentile; `None` without enough requests.
pub(in crate::report) fn tail(
    requests: Requests,
    lines: &[(&Point<'_>, Distribution)],
) -> Option<Plot> {
    let told: Vec<_> = lines.iter().filter(|(_, latencies)| last(latencies) >= 0.5).collect();
    if told.is_empty() {
        return None;
    }
    let bottom = TOP + HEIGHT;
    let most = told.iter().map(|(_, latencies)| last(latencies)).fold(0.0, f64::max);
    let ends = told
        .iter()
        .flat_map(|(_, latencies)| [latencies.range().0, latencies.quantile(last(latencies))]);
    let x = Axis::percentiles(most, LEFT, RIGHT);
    let y = Axis::time_log(ends, bottom, TOP);
    let drawn = html! {
        (x_axis(&x, &[(TOP, bottom)], "percentile"))
        (y_axis(&y, "latency"))
        @for (point, latencies) in &told { (line(&x, &y, point, latencies)) }
    };
    let name = requests.name();
    Some(Plot {
        name: format!("tail-{name}"),
        title: format!("Tail latency of {name}"),
        note: Some(html! { "Lines end where fewer than " (BEYOND) " requests are beyond." }),
        svg: svg(bottom + BOTTOM, &says(requests, &told), &drawn),
    })
}

/// The last share with enough requests beyond it.
fn last(latencies: &Distribution) -> f64 {
    1.0 - BEYOND / latencies.count() as f64
}

/// The percentiles that are marked: those on the axis that the line reaches.
fn marked(latencies: &Distribution) -> impl Iterator<Item = f64> {
    let last = last(latencies);
    PERCENTILES.into_iter().filter(move |share| *share <= last)
}

fn line(x: &Axis, y: &Axis, point: &Point<'_>, latencies: &Distribution) -> Markup {
    let last = last(latencies);
    let mut before = 0.0;
    let shown = latencies.steps().take_while(move |(_, share)| {
        let begins = before;
        before = *share;
        begins < last
    });
    let corners = shown.map(|(latency, share)| (x.at(share.min(last)), y.at(latency)));
    let (first, _) = latencies.range();
    let path = stairs([(x.at(0.0), y.at(first))].into_iter().chain(corners), false);
    html! {
        path class={ "line " (point.series.class()) } d=(path.into_string()) {
            title { (point.label) }
        }
        @for share in marked(latencies) {
            @let latency = latencies.quantile(share);
            @let says = format!("{}: p{} {}", point.label, round(share * 100.0), time(latency));
            (marker(point.series, x.at(share), y.at(latency), &says))
        }
    }
}

fn says(requests: Requests, lines: &[&(&Point<'_>, Distribution)]) -> String {
    let one = |(point, latencies): &&(&Point<'_>, Distribution)| {
        let told = marked(latencies)
            .map(|share| format!("p{} {}", round(share * 100.0), time(latencies.quantile(share))));
        format!("{}: {}", point.label, told.collect::<Vec<_>>().join(", "))
    };
    let all: Vec<_> = lines.iter().map(one).collect();
    format!("Latency of {} by percentile. {}.", requests.name(), all.join("; "))
}
