//! `evenkeel plan life`: how long an array's drives last, and whether they wear out together.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use lab::plan::life::{Draws, Life, Outcome, Replacement, Setup, Spread, Strategy};
use serde_json::{Value, json};

use crate::args::LifeArgs;
use crate::output::Output;
use crate::table::Table;

const DAYS_OF_A_YEAR: f64 = 365.25;
const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// A strategy, and what becomes of arrays with it.
struct Played {
    outcome: Outcome,
    spread: Spread,
}

pub(super) fn life(args: &LifeArgs, output: Output) -> Result<ExitCode> {
    let life = Life::new(Setup {
        level: args.level.into(),
        members: args.members,
        consistency: args.consistency.into(),
        endurance: args.tbw.0 as f64,
        capacity: args.capacity.0 as f64,
        per_day: args.per_day.0 as f64,
        small: args.small,
        shares: args.shares,
        gap: args.gap,
        replaced_at: args.replace_at,
        days: args.years * DAYS_OF_A_YEAR,
        rebuild_days: args.rebuild.as_secs_f64() / SECONDS_OF_A_DAY,
    })?;
    let draws = Draws { percent: args.spread, count: args.draws, seed: args.seed };
    let play = |strategy| -> Result<Played> {
        let spread = life.spread(strategy, draws)?;
        Ok(Played { outcome: life.outcome(strategy), spread })
    };
    let played = Strategy::ALL.into_iter().map(play).collect::<Result<Vec<_>>>()?;
    let value = json!({ "strategies": played.iter().map(Played::json).collect::<Value>() });
    output.result(&value, || text(args, &played));
    Ok(ExitCode::SUCCESS)
}

impl Played {
    fn json(&self) -> Value {
        let outcome = &self.outcome;
        let replaced = |one: &Replacement| {
            json!({
                "days": one.days,
                "member": one.member,
                "cause": one.cause.name(),
                "next_left": one.next_left,
                "parity_shares": one.shares,
            })
        };
        let [low, middle, high] = match self.spread.least_left {
            Some(percentiles) => percentiles.map(Some),
            None => [None; 3],
        };
        json!({
            "strategy": outcome.strategy.name(),
            "replaced_at_percent": outcome.replaced_at,
            "parity_shares": outcome.shares,
            "first_wear_out_bytes": outcome.first_wear_out,
            "unattended_loss_bytes": outcome.unattended_loss,
            "loss_bytes": outcome.loss,
            "least_left": outcome.least_left,
            "least_left_later": outcome.least_left_later,
            "small_write_speed": outcome.speed,
            "least_small_write_speed": outcome.least_speed,
            "stripes_moved": outcome.moved,
            "drawn": { "least_left_p5": low, "least_left_p50": middle, "least_left_p95": high,
                       "lost": self.spread.lost },
            "calendar": outcome.calendar.iter().map(replaced).collect::<Value>(),
        })
    }
}

fn text(args: &LifeArgs, played: &[Played]) -> String {
    let mut text = format!(
        "{} drives that can be written {} each; users write {} a day for {} years, {:.0}% of it in \
         small writes\n",
        args.members,
        args.tbw,
        args.per_day,
        args.years,
        100.0 * args.small,
    );
    for (title, table) in [
        ("What users can write", bytes(played)),
        ("Life that the next drive has left when one is replaced", lives(args, played)),
        ("Speed of small writes, relative to even parity", speeds(played)),
        ("Members that are replaced, by year", calendar(played)),
    ] {
        let _ = write!(text, "\n{title}\n{}\n", table.text());
    }
    for Played { outcome, .. } in played {
        let percent = |share: &f64| format!("{:.0}", 100.0 * share);
        let shares: Vec<_> = outcome.shares.iter().map(percent).collect();
        let says = outcome.strategy.says();
        let _ = write!(text, "\n{}: {says}; at first {}%", outcome.strategy, shares.join(", "));
    }
    text
}

fn bytes(played: &[Played]) -> Table {
    let mut table = Table::new([
        "",
        "replaced",
        "until the first wear-out",
        "of even",
        "loss, untended",
        "loss",
    ]);
    let even = played.iter().find(|one| one.outcome.strategy == Strategy::Even);
    let even = even.map_or(f64::NAN, |one| one.outcome.first_wear_out);
    for Played { outcome, .. } in played {
        table.row([
            outcome.strategy.to_string(),
            match outcome.replaced_at {
                100 => "worn out".to_owned(),
                percent => format!("at {percent}%"),
            },
            size(outcome.first_wear_out),
            format!("{:.3}", outcome.first_wear_out / even),
            size(outcome.unattended_loss),
            outcome.loss.map_or("none".to_owned(), size),
        ]);
    }
    table
}

fn lives(args: &LifeArgs, played: &[Played]) -> Table {
    let spread = format!("±{}%: p5", args.spread);
    let mut table = Table::new(["", "least", "after a round", &spread, "p50", "p95", "lost"]);
    let percent =
        |part: Option<f64>| part.map_or("–".to_owned(), |part| format!("{:.1}%", 100.0 * part));
    for Played { outcome, spread } in played {
        let at = |rank: usize| percent(spread.least_left.map(|percentiles| percentiles[rank]));
        table.row([
            outcome.strategy.to_string(),
            percent(outcome.least_left),
            percent(outcome.least_left_later),
            at(0),
            at(1),
            at(2),
            percent(Some(spread.lost)),
        ]);
    }
    table
}

fn speeds(played: &[Played]) -> Table {
    let mut table = Table::new(["", "mean", "least", "stripes moved"]);
    for Played { outcome, .. } in played {
        table.row([
            outcome.strategy.to_string(),
            format!("{:.3}", outcome.speed),
            format!("{:.3}", outcome.least_speed),
            format!("{:.2} times", outcome.moved),
        ]);
    }
    table
}

/// A line for each year in which members are replaced.
fn calendar(played: &[Played]) -> Table {
    let names = played.iter().map(|one| one.outcome.strategy.to_string());
    let mut table = Table::new(std::iter::once("year".to_owned()).chain(names));
    let year_of = |one: &Replacement| (one.days / DAYS_OF_A_YEAR) as u64;
    let all = played.iter().flat_map(|one| &one.outcome.calendar);
    let years: BTreeSet<u64> = all.map(year_of).collect();
    for year in years {
        let replaced = |Played { outcome, .. }: &Played| {
            let then = outcome.calendar.iter().filter(|one| year_of(one) == year);
            then.map(|one| one.member.to_string()).collect::<Vec<_>>().join(" ")
        };
        table.row(std::iter::once((year + 1).to_string()).chain(played.iter().map(replaced)));
    }
    table
}

/// With three digits or more, so that strategies can be compared.
fn size(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 10_240.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit])
}
