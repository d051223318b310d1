//! The page: experiments one after the other.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::distribution::{Distribution, Requests};
use super::expected::expected;
use super::model::{Point, Section, plain, spread};
use super::number::grouped;
use super::plot::{Plot, bars, cdf, swatch, sweeps, tail, times};
use super::{Lead, ReportError, setup, table};
use crate::judge::Judgement;
use crate::run::WAITING_MAX;

/// The most points with lines or bars in a plot.
const POINTS: usize = 16;

/// The page, with what is said before anything else.
///
/// # Errors
/// If the histogram of a latency is invalid.
pub(super) fn page(
    lead: Option<&Lead>,
    sections: &[Section<'_>],
    judgements: &[Judgement<'_>],
) -> Result<Markup, ReportError> {
    let title = match sections {
        [only] => only.title.clone(),
        _ => "Results".to_owned(),
    };
    let body = |(index, of): (usize, &Section<'_>)| {
        let is_of = |judgement: &&Judgement<'_>| plain(judgement.experiment) == of.title;
        let judgements: Vec<_> = judgements.iter().filter(is_of).collect();
        section(index, of, &judgements)
    };
    let bodies: Vec<_> = sections.iter().enumerate().map(body).collect::<Result<_, _>>()?;
    Ok(html! {
        (DOCTYPE)
        html lang="en" xmlns="http://www.w3.org/1999/xhtml" {
            head {
                // Self-closing, as in XML.
                (PreEscaped(r#"<meta charset="utf-8"/>"#))
                (PreEscaped(
                    r#"<meta name="viewport" content="width=device-width, initial-scale=1"/>"#
                ))
                (PreEscaped(r#"<meta name="color-scheme" content="light dark"/>"#))
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                main {
                    @if let Some(lead) = lead { (led(lead)) }
                    @if sections.is_empty() { p { "There are no results." } }
                    @if sections.len() > 1 { (contents(sections)) }
                    @for body in &bodies { (body) }
                }
                footer {
                    "Simulated by Evenkeel " (env!("CARGO_PKG_VERSION")) " in virtual time."
                }
            }
        }
    })
}

/// What a reader is to know first.
fn led(lead: &Lead) -> Markup {
    html! {
        section {
            h1 { (plain(&lead.heading)) }
            @for paragraph in &lead.paragraphs { p { (plain(paragraph)) } }
            @if let Some(command) = &lead.command { pre { code { (plain(command)) } } }
            @if !lead.doubts.is_empty() {
                h2 { "What is unsure" }
                ul { @for doubt in &lead.doubts { li { (plain(doubt)) } } }
            }
        }
    }
}

fn contents(sections: &[Section<'_>]) -> Markup {
    html! {
        nav aria-label="Experiments" {
            ol {
                @for (index, section) in sections.iter().enumerate() {
                    li { a href={ "#e" (index + 1) } { (section.title) } }
                }
            }
        }
    }
}

fn section(
    index: usize,
    section: &Section<'_>,
    judgements: &[&Judgement<'_>],
) -> Result<Markup, ReportError> {
    let shown = spread(&section.points, POINTS);
    let mut distributions = Vec::new();
    for requests in Requests::BOTH {
        let lines = lines(&shown, requests)?;
        distributions.extend(cdf(requests, &lines));
        distributions.extend(tail(requests, &lines));
    }
    distributions.extend(bars(&shown));
    let id = format!("e{}", index + 1);
    let times = times(&section.points);
    Ok(html! {
        section id=(id) {
            h1 { (section.title) }
            (warnings(section))
            (expected(judgements))
            (setup::setup(section))
            h2 { "Figures" }
            (table::brief(section))
            (table::legend(section))
            details {
                summary { "All figures" }
                (table::full(section))
            }
            (plots(&id, "Over the sweep", None, &sweeps(&section.points)))
            div {
                h2 { "Latency and write amplification" }
                (legend(&shown, section.points.len()))
                (grid(&id, &distributions))
            }
            (plots(&id, "Over time", Some(over_time(section, times.len())), &times))
        }
    })
}

/// The distributions of all points that have such requests.
fn lines<'a, 'b>(
    points: &[&'b Point<'a>],
    requests: Requests,
) -> Result<Vec<(&'b Point<'a>, Distribution)>, ReportError> {
    let mut lines = Vec::new();
    for point in points {
        if let Some(latencies) = Distribution::of(point, requests)? {
            lines.push((*point, latencies));
        }
    }
    Ok(lines)
}

/// Warnings, before anything else.
fn warnings(section: &Section<'_>) -> Markup {
    let (there, all) = section.shards();
    html! {
        @if there < all {
            p class="warning" {
                "Incomplete: " (there) " of " (all) " runs are there."
            }
        }
        @for point in section.points.iter().filter(|point| point.overloaded() > 0) {
            p class="warning" {
                b { (point.label) } " could not keep up in " (point.overloaded()) " of "
                (point.group.records.len()) " runs: more than "
                (grouped(WAITING_MAX as f64, 0)) " requests were waiting. Its figures are of the "
                "time until then."
            }
        }
    }
}

fn legend(shown: &[&Point<'_>], all: usize) -> Markup {
    html! {
        @if all > 1 {
            ul class="legend" aria-label="Legend" {
                @for point in shown { li { (swatch(point.series)) (point.label) } }
            }
        }
        @if shown.len() < all {
            p class="note" {
                "Plots show " (shown.len()) " of " (all) " points, evenly spread; the tables have "
                "all of them."
            }
        }
    }
}

fn over_time(section: &Section<'_>, shown: usize) -> Markup {
    let all = section.points.len();
    html! {
        "One run each, that of the first seed. The darker a strip, the more of the time its SSD "
        "spent in garbage collection."
        @if shown < all { " " (shown) " of " (all) " points are shown, evenly spread." }
    }
}

/// Plots below a heading; nothing if there are none.
fn plots(id: &str, heading: &str, note: Option<Markup>, plots: &[Plot]) -> Markup {
    html! {
        @if !plots.is_empty() {
            h2 { (heading) }
            @if let Some(note) = note { p class="note" { (note) } }
            (grid(id, plots))
        }
    }
}

fn grid(id: &str, plots: &[Plot]) -> Markup {
    html! {
        div class="grid" {
            @for plot in plots {
                figure id={ (id) "-" (plot.name) } {
                    figcaption { (plot.title) }
                    (plot.svg)
                    @if let Some(note) = &plot.note { p class="note" { (note) } }
                }
            }
        }
    }
}
