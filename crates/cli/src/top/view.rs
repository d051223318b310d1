//! What is on the screen, as plain data: differences of two readings.

use std::time::Duration;

use evenkeel_client::paths::to_text;
use evenkeel_client::{
    ArrayReport, Health, Known, MemberReport, MemberState, MemberWhy, Mood, PassReport, WhyReport,
    disk_name,
};

use super::gather::Told;
use crate::commands::iostat::rates::{Interval, all, count, quantile};
use crate::output::refusal_of;
use crate::size::Size;

/// The screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) interval: Duration,
    pub(super) colour: bool,
    /// Whether it stays as it is.
    pub(super) held: bool,
    /// The array whose members are shown.
    pub(super) selected: usize,
    /// None until the first reading.
    pub(super) arrays: Option<Vec<Array>>,
    last: Vec<(ArrayReport, Option<WhyReport>)>,
}

/// An array.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) name: String,
    /// Or why it is not known.
    pub(super) told: Result<Shown, String>,
}

/// What is shown of one.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) state: &'static str,
    pub(super) is_well: bool,
    pub(super) level: String,
    pub(super) io: Rates,
    pub(super) pass: Option<Pass>,
    pub(super) policy: String,
    /// Parts of the policy that rest.
    pub(super) resting: Vec<String>,
    /// Requests a second that went around busy members: reads, staged writes.
    pub(super) around: (f64, f64),
    /// Bytes that are staged and not at home, if there is a staging log.
    pub(super) staged: Option<u64>,
    /// What is wrong, and what to do.
    pub(super) problems: Vec<(String, String)>,
    pub(super) bounds_ns: Vec<u64>,
    pub(super) members: Vec<Member>,
}

/// What was asked for, a second.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) reads: f64,
    pub(super) writes: f64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// In nanoseconds; none if there were none.
    pub(super) read_p99: Option<f64>,
    pub(super) write_p99: Option<f64>,
}

/// A member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) disk: String,
    pub(super) state: &'static str,
    pub(super) is_well: bool,
    pub(super) device: String,
    /// How many of its I/Os took how long.
    pub(super) heat: Vec<u64>,
    pub(super) io: Rates,
    /// Whether it collects garbage, or was found busy; of a modelled SSD that is not asked, how much of the
    /// time it collected.
    pub(super) mood: String,
    /// Requests a second that went around it, or waited for its collection.
    pub(super) waits: f64,
}

/// Work in the background.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) text: String,
    /// How far it is, from 0 to 1.
    pub(super) done: f64,
}

impl Screen {
    pub(super) fn new(interval: Duration, colour: bool) -> Self {
        Self { interval, colour, held: false, selected: 0, arrays: None, last: Vec::new() }
    }

    /// Takes a reading. The first tells of the time since each array's start.
    pub(super) fn take(&mut self, told: Vec<Told>) {
        let mut last = Vec::new();
        let mut arrays = Vec::new();
        for (name, told) in told {
            let shown = match told {
                Ok((report, why)) => {
                    let before = self.last.iter().find(|(before, _)| before.facts.name == name);
                    let shown = Shown::between(before, &report, why.as_ref());
                    last.push((report, why));
                    shown
                }
                Err(error) => Err(refusal_of(&error.into()).message),
            };
            arrays.push(Array { name, told: shown });
        }
        self.last = last;
        if !self.held {
            self.selected = self.selected.min(arrays.len().saturating_sub(1));
            self.arrays = Some(arrays);
        }
    }

    /// Selects the array so many further on.
    pub(super) fn select(&mut self, by: isize) {
        let arrays = self.arrays.as_ref().map_or(0, Vec::len);
        let to = self.selected.saturating_add_signed(by);
        self.selected = to.min(arrays.saturating_sub(1));
    }
}

impl Shown {
    fn between(
        before: Option<&(ArrayReport, Option<WhyReport>)>,
        now: &ArrayReport,
        why: Option<&WhyReport>,
    ) -> Result<Self, String> {
        let interval = Interval::between(before.map(|(before, _)| before), now);
        let interval = interval.ok_or("it is run by an older release: `evenkeel restart` it")?;
        let seconds = interval.seconds.max(1e-9);
        let before = before.filter(|(before, _)| before.pid == now.pid);
        let reads = |why: Option<&WhyReport>| {
            why.map_or((0, 0), |why| (why.detours.reads, why.staged.writes))
        };
        let (earlier, later) = (reads(before.and_then(|(_, why)| why.as_ref())), reads(why));
        let rate = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64 / seconds;
        let members = now.members.iter().zip(&interval.members).map(|(member, io)| {
            let before = before.and_then(|(before, why)| {
                let same = |other: &&MemberReport| {
                    (other.group, other.member) == (member.group, member.member)
                };
                Some((before.members.iter().find(same)?, why.as_ref()))
            });
            Member::of(member, &io.io, &interval, why, before)
        });
        Ok(Self {
            state: match now.health {
                Health::Online if now.problems.is_empty() => "healthy",
                Health::Online => "see below",
                Health::Degraded => "degraded",
                Health::Failed => "FAILED",
            },
            is_well: now.health == Health::Online && now.problems.is_empty(),
            level: now.facts.shape(),
            io: Rates::of(&interval.requests, &interval),
            pass: now.pass.as_ref().map(Pass::of),
            policy: now.policy.clone(),
            resting: why.map_or_else(Vec::new, |why| {
                let parts = why.parts.iter().filter(|part| !part.on);
                parts.map(|part| part.name.clone()).collect()
            }),
            around: (rate(later.0, earlier.0), rate(later.1, earlier.1)),
            staged: now.staging.as_ref().map(|staging| staging.dirty_bytes),
            problems: now.problems.iter().map(|p| (p.what.clone(), p.action.clone())).collect(),
            members: members.collect(),
            bounds_ns: interval.bounds_ns.clone(),
        })
    }
}

impl Rates {
    fn of(io: &[evenkeel_client::TransfersReport], interval: &Interval) -> Self {
        let (reads, writes) = (all(io, "read"), all(io, "write"));
        let p99 = |rate| quantile(rate, &interval.bounds_ns, 0.99);
        let bytes = |bytes| interval.per_second(bytes).round() as u64;
        Self {
            reads: interval.per_second(count(&reads)),
            writes: interval.per_second(count(&writes)),
            read_bytes: bytes(reads.bytes),
            written_bytes: bytes(writes.bytes),
            read_p99: p99(&reads),
            write_p99: p99(&writes),
        }
    }
}

impl Member {
    fn of(
        member: &MemberReport,
        io: &[evenkeel_client::TransfersReport],
        interval: &Interval,
        why: Option<&WhyReport>,
        before: Option<(&MemberReport, Option<&WhyReport>)>,
    ) -> Self {
        let find = |why: Option<&WhyReport>| {
            let same =
                |other: &&MemberWhy| (other.group, other.member) == (member.group, member.member);
            why.and_then(|why| why.members.iter().find(same).cloned())
        };
        let (now, earlier) = (find(why), find(before.and_then(|(_, why)| why)));
        let around =
            |why: &Option<MemberWhy>| why.as_ref().map_or(0, |why| why.detours + why.staged_writes);
        let delayed = |member: &MemberReport| {
            member.flash.as_ref().map_or(0, |f| f.reads_delayed.count + f.writes_delayed.count)
        };
        let waited = around(&now) + delayed(member);
        let waited_before = around(&earlier) + before.map_or(0, |(before, _)| delayed(before));
        let mood = match now.as_ref().map(|now| &now.known) {
            _ if member.hangs => "hangs",
            Some(Known::Told { busy: true }) => "collects",
            Some(Known::Detected(detected)) if detected.mood == Mood::Busy => "busy",
            Some(Known::Detected(detected)) if detected.mood == Mood::Suspect => "suspect",
            Some(Known::Told { busy: false } | Known::Detected(_)) => "free",
            Some(Known::Nothing) | None => "",
        };
        let collected = member.flash.as_ref().map(|flash| {
            let before =
                before.and_then(|(before, _)| before.flash.as_ref()).map(|before| &before.drive);
            let (gc, open) = before.map_or((0, 0), |before| (before.gc_ns, before.open_ns));
            // One that was opened anew counts from the beginning.
            let (gc, open) = if open > flash.drive.open_ns { (0, 0) } else { (gc, open) };
            let (gc, open) = (flash.drive.gc_ns.saturating_sub(gc), flash.drive.open_ns - open);
            format!("{:.0}% GC", 100.0 * gc as f64 / open.max(1) as f64)
        });
        let mut heat: Vec<u64> = vec![0; interval.bounds_ns.len() + 1];
        for (sum, number) in io.iter().flat_map(|io| io.buckets.iter().enumerate()) {
            if let Some(heat) = heat.get_mut(sum) {
                *heat += number;
            }
        }
        let errors = member.read_errors + member.write_errors > 0;
        Self {
            disk: disk_name(member.group, member.member),
            state: match member.state {
                MemberState::Up if errors => "errors",
                MemberState::Up => "up",
                MemberState::Rebuilding => "filling",
                MemberState::Failed => "FAILED",
            },
            is_well: member.state == MemberState::Up && !errors && !member.hangs,
            device: member
                .path
                .as_ref()
                .map(|path| to_text(path).replace('\0', "\\x"))
                .unwrap_or_default(),
            heat,
            io: Rates::of(io, interval),
            mood: if mood.is_empty() { collected.unwrap_or_default() } else { mood.to_owned() },
            waits: waited.saturating_sub(waited_before) as f64 / interval.seconds.max(1e-9),
        }
    }
}

impl Pass {
    fn of(pass: &PassReport) -> Self {
        let done = pass.done_bytes as f64 / (pass.total_bytes.max(1)) as f64;
        let member = pass.member.map(|member| disk_name(pass.group, member));
        let of = member.map(|member| format!(" of member {member}")).unwrap_or_default();
        let how = if pass.paused {
            ", paused".to_owned()
        } else if pass.stuck_at_stripe.is_some() {
            ", waits: see `evenkeel status`".to_owned()
        } else {
            let left = pass.left_ms.map(|ms| Duration::from_secs(ms.div_ceil(1000)));
            let left = left.map(|left| format!(", {} left", humantime::format_duration(left)));
            format!(" at {}/s{}", Size(pass.bytes_per_second), left.unwrap_or_default())
        };
        Self { text: format!("{}{of}{how}", pass.task.name()), done: done.clamp(0.0, 1.0) }
    }
}
