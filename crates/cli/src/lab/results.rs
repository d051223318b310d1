//! Operations on results: compare, report, merge.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_client::paths::shown;
use evenkeel_client::paths::to_text;
use lab::results::{self, Comparison, Group, Record, groups, read};
use serde_json::{Value, json};

use super::check::{Given, judgements};
use super::values;
use crate::args::{CompareArgs, MergeArgs, ReportArgs};
use crate::output::Output;
use crate::table::Table;

pub(super) fn compare(args: &CompareArgs, output: Output) -> Result<ExitCode> {
    let first = read(&args.first)?;
    let second = args.second.as_deref().map(read).transpose()?;
    let pairs = match &second {
        Some(second) => between(&groups(&first), &groups(second))?,
        None => within(&groups(&first), args.base.as_deref())?,
    };
    let value: Value = pairs.iter().map(Pair::json).collect();
    output.result(&json!({ "pairs": value }), || {
        let texts: Vec<_> = pairs.iter().map(|pair| pair.text(args.full)).collect();
        texts.join("\n\n")
    });
    Ok(ExitCode::SUCCESS)
}

/// Two points side by side.
struct Pair {
    base: String,
    other: String,
    figures: Vec<Comparison>,
}

impl Pair {
    fn new(base: &Group<'_>, other: &Group<'_>, names: [&str; 2]) -> Self {
        let figures = results::compare(base, other);
        Self { base: names[0].to_owned(), other: names[1].to_owned(), figures }
    }

    fn text(&self, full: bool) -> String {
        let mut table = Table::new(["", &self.base, &self.other, "ratio", ""]);
        let there = |c: &&Comparison| {
            (full || c.column.brief) && (c.base.mean != 0.0 || c.other.mean != 0.0)
        };
        for comparison in self.figures.iter().filter(there) {
            let Comparison { column, base, other } = comparison;
            table.row([
                column.name.to_owned(),
                values::estimate(base, column.unit),
                values::estimate(other, column.unit),
                comparison.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}×")),
                verdict(comparison).to_owned(),
            ]);
        }
        table.text()
    }

    fn json(&self) -> Value {
        let figure = |comparison: &Comparison| {
            let Comparison { column, base, other } = comparison;
            json!({
                "figure": column.name,
                "base": base,
                "other": other,
                "ratio": comparison.ratio(),
                "significant": comparison.is_significant(),
            })
        };
        json!({
            "base": self.base,
            "other": self.other,
            "figures": self.figures.iter().map(figure).collect::<Value>(),
        })
    }
}

fn verdict(comparison: &Comparison) -> &'static str {
    if comparison.base.count < 2 || comparison.other.count < 2 {
        "one seed: may be chance"
    } else if comparison.is_significant() {
        ""
    } else {
        "may be chance"
    }
}

/// All points of a file with one of them.
fn within(groups: &[Group<'_>], base: Option<&str>) -> Result<Vec<Pair>> {
    let names = || groups.iter().map(|group| group.label.as_str()).collect::<Vec<_>>().join(", ");
    let base = match base {
        None => groups.first().context("there are no results")?,
        Some(name) => groups
            .iter()
            .find(|group| group.label == name)
            .with_context(|| format!("there is no point \"{name}\"; there are: {}", names()))?,
    };
    let others = groups.iter().filter(|group| !core::ptr::eq(*group, base));
    let pairs: Vec<_> =
        others.map(|other| Pair::new(base, other, [&base.label, &other.label])).collect();
    if pairs.is_empty() {
        bail!("there is only one point, and nothing to compare it with: give a second file");
    }
    Ok(pairs)
}

/// Points of the same name.
fn between(first: &[Group<'_>], second: &[Group<'_>]) -> Result<Vec<Pair>> {
    if let ([base], [other]) = (first, second) {
        return Ok(vec![Pair::new(base, other, ["first", "second"])]);
    }
    let names = |label: &str| [format!("{label} (first)"), format!("{label} (second)")];
    let pairs: Vec<_> = first
        .iter()
        .filter_map(|base| {
            let other = second.iter().find(|other| other.label == base.label)?;
            let [one, two] = names(&base.label);
            Some(Pair::new(base, other, [&one, &two]))
        })
        .collect();
    if pairs.is_empty() {
        bail!("the files have no point of the same name");
    }
    Ok(pairs)
}

pub(super) fn merge(args: &MergeArgs, output: Output) -> Result<ExitCode> {
    let files = args.results.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let merged = results::merge(files)?;
    results::write(&args.out, &merged)?;
    let missing = missing(&merged);
    let value = json!({
        "results": to_text(&args.out),
        "shards": merged.len(),
        "missing": missing.iter().map(|(title, _, gaps)| json!({
            "experiment": title,
            "shards": gaps,
        })).collect::<Value>(),
    });
    output.result(&value, || {
        let mut text = format!("{} results in {}", merged.len(), shown(&args.out));
        for (title, of, gaps) in &missing {
            let list: Vec<_> = gaps.iter().take(20).map(|gap| (gap + 1).to_string()).collect();
            let more = if gaps.len() > 20 { ", …" } else { "" };
            text += &format!(
                "\n\"{title}\" lacks {} of its {of} shards: {}{more}",
                gaps.len(),
                list.join(", ")
            );
        }
        text
    });
    Ok(ExitCode::SUCCESS)
}

/// Experiments with missing shards: how many shards they have, and the missing ones.
fn missing(records: &[Record]) -> Vec<(&str, u64, Vec<u64>)> {
    let mut there: BTreeMap<&str, (u64, Vec<u64>)> = BTreeMap::new();
    for record in records {
        let entry = there.entry(&record.experiment).or_insert((record.shards, Vec::new()));
        entry.1.push(record.shard);
    }
    let gaps = |(title, (of, there)): (_, (u64, Vec<u64>))| {
        let gaps: Vec<_> = (0..of).filter(|shard| !there.contains(shard)).collect();
        (!gaps.is_empty()).then_some((title, of, gaps))
    };
    there.into_iter().filter_map(gaps).collect()
}

pub(super) fn report(args: &ReportArgs, output: Output) -> Result<ExitCode> {
    let Given { experiments, records } = Given::of(&args.results)?;
    if records.is_empty() {
        bail!("there are no results in these files");
    }
    let judgements = judgements(&experiments, &records)?;
    let page = lab::report::html(&records, &judgements)?;
    std::fs::write(&args.out, page).with_context(|| shown(&args.out).to_string())?;
    let value = json!({ "report": to_text(&args.out), "results": records.len() });
    output.result(&value, || {
        format!("{} results in {}: open it in a browser", records.len(), shown(&args.out))
    });
    Ok(ExitCode::SUCCESS)
}
