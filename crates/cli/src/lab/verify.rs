//! `evenkeel plan swan --verify`: simulates the recommended array, and one with a group less.
//! Larger ones follow until one is confirmed. If the segments are so small that the SSDs collect
//! garbage, the recommended array is also simulated with larger segments.

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Result, anyhow, bail};
use flashsim::Profile;
use lab::measure::Figures;
use lab::plan::Swan;
use lab::play::{Play, PlayError, Verdict};
use lab::sweep::Progress;
use lab::system::{DriveSpec, LogSpec};
use lab::units::Bytes;
use rayon::prelude::*;
use serde_json::{Value, json};
use toml::Table as Toml;
use ublkd::create::VOLUME_MEMBERS_MAX;

use super::drive::drive;
use super::run::watched;
use super::values;
use crate::args::SwanArgs;
use crate::output::Output;
use crate::size::Size;
use crate::table::Table;

/// The fewest pages of a flash block when blocks are made smaller.
const LEAST_PAGES: u32 = 8;

/// The device WAF from which the SSDs' own garbage collection affects the measurement.
const COLLECTS: f64 = 1.05;

/// The share of the wanted utilisation that the simulated array must reach to be comparable with
/// the plan.
const CLOSE: f64 = 0.97;

/// The most groups that are tried beyond the recommended number.
const MORE_GROUPS: u32 = 4;

/// The largest segment, of a whole group.
const SEGMENT_MAX: u64 = 64 << 20;

/// A simulated array and its result.
struct One {
    swan: Swan,
    figures: Figures,
    verdict: Verdict,
}

/// The simulated arrays: the recommended one, then one with a group less if that leaves a back,
/// then larger ones.
pub(super) struct Verified {
    throughput: Size,
    ssd: String,
    /// The size that an SSD erases at once, all dies together.
    erased: Size,
    /// A segment's part on each SSD, in whole chunks.
    segment: Bytes,
    arrays: Vec<One>,
    /// The recommended array with the segment that is closest to what an SSD erases at once, if
    /// that helps: its result, or why it can't be simulated.
    suited: Option<(Bytes, Result<One, String>)>,
}

/// Simulates the requested array, and one with a group less. If it is not confirmed, larger ones
/// follow, until one is confirmed, or a further group would not help or exceeds the limit.
pub(super) fn play(args: &SwanArgs, asked: Swan, output: Output) -> Result<Verified> {
    if let Some(seconds) = args.seconds.filter(|s| !(*s > 0.0 && *s <= 1e9)) {
        bail!("--seconds is {seconds}, but must be positive and at most 1e9");
    }
    let (ssd, told) = smaller(args)?;
    let chunk = LogSpec::CHUNK.0;
    let segment = Bytes(args.segment.0.next_multiple_of(chunk));
    let play = Play {
        ssd,
        segment,
        throughput: args.throughput.0 as f64,
        seconds: args.seconds,
        seed: args.seed,
    };
    let swans: Vec<Swan> = core::iter::once(asked).chain(asked.with_a_group_less()).collect();
    let progress = Progress::default();
    progress.shards.store(swans.len() as u64, Ordering::Relaxed);
    let one_of = |play: &Play, swan: &Swan| {
        let figures = play.run(swan, &progress.requests)?;
        progress.done.fetch_add(1, Ordering::Relaxed);
        let verdict = Verdict::of(&figures, swan.groups);
        Ok::<_, PlayError>(One { swan: *swan, figures, verdict })
    };
    let one = |swan: &Swan| one_of(&play, swan);
    let arrays: Result<Vec<One>, PlayError> =
        watched(&progress, output, || swans.par_iter().map(one).collect())?;
    let mut arrays = arrays.map_err(|error| anyhow!("{error}"))?;
    let mut last = arrays.first().map(|one| (one.swan, one.verdict));
    // More groups leave more time to clean. They do not make the front faster.
    while let Some((swan, Verdict::Stalls)) = last
        && swan.groups < asked.groups + MORE_GROUPS
    {
        let more = Swan { groups: swan.groups + 1, ..swan };
        if more.layout().is_none() || more.ssds() > VOLUME_MEMBERS_MAX as u64 {
            break;
        }
        progress.shards.fetch_add(1, Ordering::Relaxed);
        let played = watched(&progress, output, || one(&more))?;
        let played = played.map_err(|error| anyhow!("{error}"))?;
        last = Some((played.swan, played.verdict));
        arrays.push(played);
    }
    let sizes = drive(args).profile(Path::new(""))?.sizes();
    let block = u64::from(sizes.data_pages) * u64::from(sizes.page_bytes);
    let erased = u64::from(sizes.dies * sizes.planes_per_die) * block;
    let most = SEGMENT_MAX / u64::from(asked.members - asked.parity) / chunk * chunk;
    let suits = Bytes(erased.next_multiple_of(chunk).min(most));
    let is_small = |one: &One| one.collects() && one.verdict != Verdict::Keeps && segment < suits;
    let suited = if arrays.first().is_some_and(is_small) {
        progress.shards.fetch_add(1, Ordering::Relaxed);
        let larger = Play { segment: suits, ..play.clone() };
        let played = watched(&progress, output, || one_of(&larger, &asked))?;
        Some((suits, played.map_err(|error| error.to_string())))
    } else {
        None
    };
    let throughput = args.throughput;
    Ok(Verified { throughput, ssd: told, erased: Size(erased), segment, arrays, suited })
}

impl One {
    /// Whether the SSDs' own garbage collection affected the measurement.
    fn collects(&self) -> bool {
        self.figures.device_waf > COLLECTS
    }
}

/// The SSD with fewer blocks. If even the fewest would be far more than requested, blocks also get
/// fewer pages, and their erase time shrinks with them. Its speed stays the same. Returns also a
/// description.
fn smaller(args: &SwanArgs) -> Result<(DriveSpec, String)> {
    let whole = drive(args).profile(Path::new(""))?;
    let mut part = whole.clone().covering(args.ssd_size.0)?;
    while room(&part).0 > 4 * args.ssd_size.0 && part.geometry.pages >= 2 * LEAST_PAGES {
        let mut half = part.clone();
        half.geometry.pages /= 2;
        half.nand.erase_us /= 2.0;
        // Not every number of pages can be programmed.
        let Ok(half) = half.covering(args.ssd_size.0) else { break };
        part = half;
    }
    let blocks = part.geometry.blocks.min(whole.geometry.blocks);
    let mut spec = DriveSpec { blocks: Some(blocks), ..drive(args) };
    let mut told =
        format!("{} with {blocks} of {} blocks a plane", args.profile, whole.geometry.blocks);
    let pages = part.geometry.pages;
    if pages < whole.geometry.pages {
        let set = [
            ("geometry", Toml::from_iter([("pages".to_owned(), i64::from(pages).into())])),
            ("nand", Toml::from_iter([("erase_us".to_owned(), part.nand.erase_us.into())])),
        ];
        spec.set = set.into_iter().map(|(key, table)| (key.to_owned(), table.into())).collect();
        told += &format!(
            " and {pages} of {} pages a block (erased in as much less time)",
            whole.geometry.pages
        );
    }
    told += &format!(", {} each", room(&spec.profile(Path::new(""))?));
    Ok((spec, told))
}

/// The capacity of an SSD.
fn room(profile: &Profile) -> Size {
    let sizes = profile.sizes();
    Size(u64::from(sizes.logical_pages) * u64::from(sizes.page_bytes))
}

impl Verified {
    /// Whether the recommended array is confirmed.
    pub(super) fn is_confirmed(&self) -> bool {
        self.arrays.first().is_some_and(|one| one.verdict == Verdict::Keeps)
    }

    /// The array that was found to keep up, if the recommended one does not.
    fn enough(&self) -> Option<&One> {
        let mut more = self.arrays.iter().filter(|one| one.verdict == Verdict::Keeps);
        let first = self.arrays.first()?;
        more.find(|one| one.swan.groups > first.swan.groups)
    }

    pub(super) fn json(&self) -> Value {
        let of = |one: &One| {
            json!({
                "groups": one.swan.groups,
                "members": one.swan.members,
                "verdict": name(one.verdict),
                "figures": one.figures,
            })
        };
        let suited = |(segment, played): &(Bytes, Result<One, String>)| match played {
            Ok(one) => json!({ "segment": segment.0, "array": of(one) }),
            Err(why) => json!({ "segment": segment.0, "error": why }),
        };
        json!({
            "ssd": self.ssd,
            "segment": self.segment.0,
            "confirmed": self.is_confirmed(),
            "enough": self.enough().map(|one| one.swan.groups),
            "erased_at_once": self.erased.0,
            "arrays": self.arrays.iter().map(of).collect::<Value>(),
            "larger_segment": self.suited.as_ref().map(suited),
        })
    }

    pub(super) fn text(&self) -> String {
        let columns = [
            "requests",
            "virtual time",
            "written",
            "write p99.9",
            "write max",
            "stalls",
            "rotations",
            "log use",
            "victim use",
            "log WAF",
            "device WAF",
        ];
        let suited = self.suited.as_ref();
        let suited = suited.and_then(|(segment, played)| Some((*segment, played.as_ref().ok()?)));
        let all = || {
            let asked = self.arrays.iter().map(|one| (self.segment, one));
            asked.chain(suited)
        };
        let layout = |one: &One| one.swan.layout().map_or(String::new(), |name| name.to_string());
        let names = all().map(|(_, one)| layout(one));
        let mut table = Table::new(core::iter::once(String::new()).chain(names));
        let segments = all().map(|(segment, _)| segment.to_string());
        table.row(core::iter::once("segment".to_owned()).chain(segments));
        for name in columns {
            let Some(column) = lab::results::COLUMNS.iter().find(|c| c.name == name) else {
                continue;
            };
            let cell = |one: &One| values::value((column.value)(&one.figures), column.unit);
            table.row(core::iter::once(name.to_owned()).chain(all().map(|(_, one)| cell(one))));
        }
        let cells = all().map(|(_, one)| name(one.verdict).to_owned());
        table.row(core::iter::once("it".to_owned()).chain(cells));
        format!(
            "played on {}, worn before; writes of 4 KiB at random, {} a second; a segment is its part \
             on an SSD\n\n{}\n\n{}",
            self.ssd,
            self.throughput,
            table.text(),
            self.sentence()
        )
    }

    /// The result of more groups, in words.
    fn larger(&self) -> String {
        let Some(most) = self.arrays.iter().max_by_key(|one| one.swan.groups) else {
            return String::new();
        };
        let groups = most.swan.groups;
        match most.verdict {
            Verdict::Keeps => format!("\nwith {groups} groups it is confirmed"),
            Verdict::Slow => format!(
                "\nwith {groups} groups nobody waits for cleaning, but the front is too slow: ask for \
                 more --throughput, which gives groups more members"
            ),
            Verdict::Stalls => format!("\nnor is it with more, up to {groups} groups"),
            Verdict::Short => format!("\nof {groups} groups nothing can be said"),
        }
    }

    /// The result of a larger segment, in words.
    fn with_larger_segment(&self) -> String {
        let Some((segment, played)) = &self.suited else { return String::new() };
        let came = match played.as_ref().map(|one| one.verdict) {
            Ok(Verdict::Keeps) => "it is confirmed".to_owned(),
            Ok(Verdict::Stalls) => "it is not, either".to_owned(),
            Ok(Verdict::Slow) => "nobody waits for cleaning, but it is too slow".to_owned(),
            Ok(Verdict::Short) => "nothing can be said".to_owned(),
            Err(why) => format!("it can't be played on SSDs of this size ({why})"),
        };
        let used = |one: &One| (log_use(one), one.swan.used);
        let less = match played.as_ref().map(used) {
            Ok((found, wanted)) if found < CLOSE * wanted => {
                format!(" (with {:.0}% of the log in use)", 100.0 * found)
            }
            Ok(_) | Err(_) => String::new(),
        };
        format!("; they erase {} at once: with --segment {segment} {came}{less}", self.erased)
    }

    /// The conclusion, in words.
    fn sentence(&self) -> String {
        let Some(first) = self.arrays.first() else { return String::new() };
        let One { swan, figures, verdict } = first;
        let stalls = figures.log.as_ref().map_or(0, |log| log.stalls);
        let mut text = match verdict {
            Verdict::Keeps => "confirmed: the front keeps up, and nobody waits for cleaning".into(),
            Verdict::Stalls => {
                format!("NOT confirmed: users' writes had to wait for cleaning {stalls} times")
            }
            Verdict::Slow => format!(
                "NOT confirmed: nobody had to wait for cleaning, but {} were written",
                values::value(figures.written_bytes_per_second, lab::results::Unit::BytesPerSecond)
            ),
            Verdict::Short => "NOT confirmed: not every group has come to the front; give more \
                               --seconds"
                .into(),
        };
        if first.collects() && *verdict != Verdict::Keeps {
            text += &format!(
                "\nthe SSDs collect garbage themselves, which is not in the model: they program {:.2} \
                 pages for each\nthat is written",
                figures.device_waf
            );
            text += &self.with_larger_segment();
        }
        let used = log_use(first);
        if used < CLOSE * swan.used {
            text += &format!(
                "\nonly {:.0}% of the log was in use, as some segments are always kept: larger SSDs \
                 (--ssd-size) come closer",
                100.0 * used
            );
        }
        if *verdict == Verdict::Stalls {
            text += &self.larger();
        }
        let smaller = self.arrays.iter().find(|one| one.swan.groups < swan.groups);
        let less = match smaller.map(|one| one.verdict) {
            None => "with a group less nothing would be left at the back",
            Some(Verdict::Keeps) => "a group less would do as well, here",
            Some(Verdict::Stalls | Verdict::Slow) => "a group less is too few",
            Some(Verdict::Short) => "of a group less nothing can be said",
        };
        format!("{text}\n{less}")
    }
}

/// The part of the log that was in use.
fn log_use(one: &One) -> f64 {
    one.figures.log.as_ref().map_or(0.0, |log| log.used)
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Keeps => "keeps up",
        Verdict::Stalls => "stalls",
        Verdict::Slow => "is too slow",
        Verdict::Short => "was too short",
    }
}
