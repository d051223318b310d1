//! Expectations and their verdicts.

use maud::{Markup, html};

use super::model::plain;
use super::number::NONE;
use crate::experiment::Class;
use crate::judge::{Finding, Judgement, Verdict};

/// A table of an experiment's expectations, and below it why some are missed.
pub(super) fn expected(judgements: &[&Judgement<'_>]) -> Markup {
    let gates = judgements.iter().filter(|j| j.expectation.class != Class::Reported);
    let (all, missed) = (gates.clone().count(), gates.filter(|j| j.fails()).count());
    let whys = judgements.iter().filter(|j| j.verdict() == Verdict::Miss);
    let whys = whys.filter_map(|j| Some((&j.expectation.name, j.expectation.why.as_ref()?)));
    html! {
        @if !judgements.is_empty() {
            h2 { "What was expected" }
            @if all > 0 {
                p class="note" {
                    (all - missed) " of " (all) " gates are passed. Each is judged by the mean over "
                    "the seeds; “may be chance” is said where the 95% confidence interval reaches "
                    "across an end of the gate."
                }
            }
            div class="scroll" tabindex="0" role="region" aria-label="What was expected" {
                table class="judged" {
                    thead { tr {
                        th scope="col" { "expectation" }
                        th scope="col" class="text" { "at" }
                        th scope="col" colspan="2" { "ours" }
                        th scope="col" { "paper" }
                        th scope="col" { "gate" }
                        th scope="col" class="text" { "class" }
                        th scope="col" class="text" { "verdict" }
                    } }
                    @for judgement in judgements {
                        tbody { @for (index, found) in judgement.findings.iter().enumerate() {
                            (row(judgement, index, found))
                        } }
                    }
                }
            }
            @for (name, why) in whys {
                p class="note" { b { (plain(name)) } ": " (plain(why)) }
            }
        }
    }
}

fn row(judgement: &Judgement<'_>, index: usize, found: &Finding) -> Markup {
    let expectation = judgement.expectation;
    let spread = expectation.spread_text(found.ours.half_width);
    let class = match found.verdict {
        Verdict::Pass => "pass",
        Verdict::Reported => "",
        Verdict::Miss | Verdict::NotMeasured | Verdict::Overloaded | Verdict::Undefined => "miss",
    };
    html! {
        tr {
            @if index == 0 {
                th scope="rowgroup" rowspan=(judgement.findings.len()) {
                    (plain(&expectation.name))
                    div class="unit" { (plain(&expectation.subject())) }
                }
            }
            td class="text" { (if found.at.is_empty() { NONE.into() } else { plain(&found.at) }) }
            td { (expectation.text(found.number())) }
            td class="half" { @if !spread.is_empty() { "± " (spread) } }
            td title=[expectation.source.as_deref().map(plain)] {
                (expectation.paper.map_or(NONE.into(), |paper| expectation.text(paper)))
            }
            td { (expectation.gate_text()) }
            td class="text" { (expectation.class) }
            td class={ "text verdict " (class) } {
                (found.verdict.text())
                @if found.may_be_chance() { ", may be chance" }
            }
        }
    }
}
