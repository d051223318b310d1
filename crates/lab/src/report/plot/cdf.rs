//! Which share of the requests stays within a latency.

use maud::{Markup, html};

use super::path::stairs;
use super::{Axis, BOTTOM, LEFT, Plot, RIGHT, TOP, marker, svg, x_axis, y_axis};
use crate::report::distribution::{Distribution, Requests};
use crate::report::model::Point;
use crate::report::number::time;

const HEIGHT: f64 = 190.0;

/// The shares that are marked on every line.
const MARKED: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];

/// The cumulative distribution of latencies; `None` without any.
pub(in crate::report) fn cdf(
    requests: Requests,
    lines: &[(&Point<'_>, Distribution)],
) -> Option<Plot> {
    if lines.is_empty() {
        return None;
    }
    let bottom = TOP + HEIGHT;
    let ends = lines.iter().flat_map(|(_, latencies)| <[f64; 2]>::from(latencies.range()));
    let x = Axis::time_log(ends, LEFT, RIGHT);
    let y = Axis::share(bottom, TOP);
    let drawn = html! {
        (x_axis(&x, &[(TOP, bottom)], "latency"))
        (y_axis(&y, "share of requests"))
        @for (point, latencies) in lines { (line(&x, &y, point, latencies)) }
    };
    let name = requests.name();
    Some(Plot {
        name: format!("cdf-{name}"),
        title: format!("Latency of {name}"),
        note: Some(html! { "Markers: p50, p90, p99." }),
        svg: svg(bottom + BOTTOM, &says(requests, lines), &drawn),
    })
}

fn line(x: &Axis, y: &Axis, point: &Point<'_>, latencies: &Distribution) -> Markup {
    let (first, _) = latencies.range();
    let corners = latencies.steps().map(|(latency, share)| (x.at(latency), y.at(share)));
    let path = stairs([(x.at(first), y.at(0.0))].into_iter().chain(corners), true);
    html! {
        path class={ "line " (point.series.class()) } d=(path.into_string()) {
            title { (point.label) }
        }
        @for (share, name) in MARKED {
            @let latency = latencies.quantile(share);
            @let says = format!("{}: {name} {}", point.label, time(latency));
            (marker(point.series, x.at(latency), y.at(share), &says))
        }
    }
}

fn says(requests: Requests, lines: &[(&Point<'_>, Distribution)]) -> String {
    let one = |(point, latencies): &(&Point<'_>, Distribution)| {
        let quantile = |(share, name)| format!("{name} {}", time(latencies.quantile(share)));
        format!("{}: {}", point.label, MARKED.map(quantile).join(", "))
    };
    let all: Vec<_> = lines.iter().map(one).collect();
    format!("Cumulative distribution of the latency of {}. {}.", requests.name(), all.join("; "))
}
