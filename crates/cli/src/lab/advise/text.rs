//! What `evenkeel advise` says.

use evenkeel_client::paths::shown;
use lab::advise::{Advice, FIGURES, Row, WEAR};
use lab::report::Lead;
use lab::results::COLUMNS;

use crate::args::AdviseArgs;
use crate::lab::fit::Fitted;
use crate::lab::values;
use crate::table::Table;

pub(super) struct Text<'a> {
    pub(super) args: &'a AdviseArgs,
    pub(super) advice: &'a Advice,
    pub(super) fitted: &'a [Fitted],
    /// The name of the drives' profile.
    pub(super) drive: &'a str,
}

impl Text<'_> {
    /// All of it.
    pub(super) fn whole(&self) -> String {
        let mut parts: Vec<String> = self.fitted.iter().map(Fitted::text).collect();
        parts.push(self.rows(&self.advice.rows));
        if !self.advice.others.is_empty() {
            parts
                .push(format!("played briefly, and left out:\n{}", self.rows(&self.advice.others)));
        }
        parts.push(format!("{}\n{}", self.recommended(), self.command()));
        parts.extend(self.runner_up());
        let doubts: Vec<_> = self.doubts().iter().map(|doubt| format!("unsure: {doubt}")).collect();
        parts.push(doubts.join("\n"));
        if let Some(page) = &self.args.page {
            parts.push(format!("plots are in {}: open it in a browser", shown(page)));
        }
        parts.join("\n\n")
    }

    /// What a page begins with.
    pub(super) fn lead(&self) -> Lead {
        let played = format!(
            "Played in virtual time with drives like “{}”: {} requests, {} seeds.",
            self.drive, self.args.requests, self.args.seeds
        );
        Lead {
            heading: "Advice".to_owned(),
            paragraphs: [Some(self.recommended()), self.runner_up(), Some(played)]
                .into_iter()
                .flatten()
                .collect(),
            command: Some(self.command()),
            doubts: self.doubts(),
        }
    }

    /// The command that makes the array.
    pub(super) fn command(&self) -> String {
        let members: Vec<_> =
            self.args.members.iter().map(|path| shown(path).to_string()).collect();
        let members = if members.is_empty() { "MEMBER…".to_owned() } else { members.join(" ") };
        let arguments = &self.best().candidate.arguments;
        format!("evenkeel create NAME {arguments} {members}")
    }

    /// What is in doubt: about the advice, and about what was fitted to drives.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts: Vec<String> = self.advice.doubts.iter().map(ToString::to_string).collect();
        for fitted in self.fitted {
            let path = shown(&fitted.drive.path);
            doubts.extend(fitted.doubts().iter().map(|doubt| format!("{path}: {doubt}")));
        }
        doubts
    }

    fn best(&self) -> &Row {
        &self.advice.rows[self.advice.recommended]
    }

    fn recommended(&self) -> String {
        let best = self.best();
        let name = &best.candidate.name;
        let mean = |of: fn(&lab::advise::Beside) -> f64| {
            best.beside.iter().map(of).sum::<f64>() / best.beside.len().max(1) as f64
        };
        let (latency, wear) = (mean(|beside| beside.latency), mean(|beside| beside.wear));
        if best.is_plain() {
            return format!("recommended: {name}: nothing else is clearly better");
        }
        let log = if best.candidate.point.log.is_some() {
            ". It is a log volume: it takes memory, and what was not flushed is lost with its process"
        } else {
            ""
        };
        format!(
            "recommended: {name}: latencies {latency:.2} times those of the array without a policy, flash \
             written {wear:.2} times as much{log}"
        )
    }

    fn runner_up(&self) -> Option<String> {
        let row = &self.advice.rows[self.advice.runner_up?];
        let by = 100.0 * (row.cost() / self.best().cost() - 1.0);
        let how = if by >= 0.0 { "worse" } else { "better, though not by enough" };
        let arguments = &row.candidate.arguments;
        Some(format!("runner-up: {} ({:.0}% {how}): {arguments}", row.candidate.name, by.abs()))
    }

    fn rows(&self, rows: &[Row]) -> String {
        let headings = ["array"].into_iter().chain(FIGURES).chain([WEAR, "beside plain"]);
        let mut table = Table::new(headings);
        for row in rows {
            let figures = FIGURES.iter().chain([&WEAR]).map(|name| cell(row, name));
            let beside = match row.keeps_up() {
                true => format!("{:.2}", row.cost()),
                false => "overloaded".to_owned(),
            };
            table.row([row.candidate.name.clone()].into_iter().chain(figures).chain([beside]));
        }
        table.text()
    }
}

fn cell(row: &Row, name: &str) -> String {
    let unit = COLUMNS.iter().find(|column| column.name == name).map(|column| column.unit);
    let value = row.figure(name);
    match unit {
        Some(_) if value == 0.0 => "–".to_owned(),
        Some(unit) => values::value(value, unit),
        None => value.to_string(),
    }
}
