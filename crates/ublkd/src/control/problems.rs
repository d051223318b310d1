//! The problems of an array, since when, and what to do about them, in words.

use evenkeel_client::{
    ArrayReport, ByteRange, ErrorReport, Health, MemberReport, MemberState, PassReport, Problem,
    RemedyReport, SpareUseReport, Task, WayBack,
};

use super::scrub::scrub_problem;
use super::spares::absent;
use super::staging::staging_problem;
use crate::paths::shown;

/// What is wrong with an array.
pub(super) trait Findings {
    fn find_problems(&self) -> Vec<Problem>;

    /// The problem that requests fail, and its cause.
    fn failure(&self) -> Option<Problem>;

    /// The problem that refused writes have left stripes inconsistent, though writes are taken.
    fn torn(&self) -> Option<Problem>;

    /// The problem that a pass could not do some stripes.
    fn left_behind(&self, pass: &PassReport) -> Option<Problem>;

    /// The name of a place, and its current or last device.
    fn named(&self, member: &MemberReport) -> String;

    /// The failed member that the next new device goes to; one that the distributed spare replaces
    /// comes last.
    fn next_to_replace(&self) -> Option<&MemberReport>;

    fn problem_of(&self, member: &MemberReport) -> Option<Problem>;

    /// Whether a member's device may come back, and what has to be copied then.
    fn may_come_back(&self, member: &MemberReport) -> Option<String>;

    fn out_of_service(&self, member: &MemberReport) -> (String, Option<u64>, String);
}

impl Findings for ArrayReport {
    fn find_problems(&self) -> Vec<Problem> {
        let name = &self.facts.name;
        let mut problems: Vec<Problem> = self.failure().into_iter().collect();
        let members = self.members.iter();
        problems.extend(members.filter_map(|member| self.problem_of(member)));
        problems.extend(self.torn());
        problems.extend(absent(&self.absent_spares, name));
        problems.extend(self.staging.as_ref().and_then(|staging| staging_problem(staging, name)));
        if let Some(pass) = &self.pass {
            problems.extend(self.left_behind(pass));
            problems.extend(pass_problem(pass, name));
        }
        problems.extend(self.last_scrub.and_then(|scrub| scrub_problem(&scrub, name)));
        problems
    }

    /// The problem that requests fail, and its cause.
    fn failure(&self) -> Option<Problem> {
        if self.health != Health::Failed {
            return None;
        }
        let name = &self.facts.name;
        let full = |m: &&MemberReport| {
            m.state == MemberState::Up && m.last_error == Some(ErrorReport::NoSpace)
        };
        let full: Vec<_> = self.members.iter().filter(full).map(|m| self.named(m)).collect();
        let (what, action) = if full.is_empty() {
            (
                "more members are missing than the redundancy makes up for: requests fail".into(),
                format!("stop it (`evenkeel stop {name}`), bring the members back, start it again"),
            )
        } else {
            let by_itself = self.remedy == Some(RemedyReport::Room);
            let until = if by_itself { "there is room" } else { "the array is started again" };
            let what = format!(
                "no space was left behind {}, which can't be spared: writes are refused, and were not \
                 acknowledged, until {until}",
                full.join(" and ")
            );
            let then = match by_itself {
                true => "the array takes writes again by itself then".to_owned(),
                false => format!("then start the array again: `evenkeel restart {name}`"),
            };
            (what, format!("{MAKE_ROOM}; {then}"))
        };
        Some(Problem::of_array("failed", what, action))
    }

    /// The problem that refused writes have left stripes inconsistent, though writes are taken.
    fn torn(&self) -> Option<Problem> {
        let what = format!(
            "{} stripes are out of step, as writes to them were refused: what is on no other member \
             can't be read there",
            self.torn_stripes
        );
        let action = format!(
            "start the array again (`evenkeel restart {}`), or write these stripes as a whole",
            self.facts.name
        );
        let tells = self.torn_stripes > 0 && self.remedy.is_none();
        tells.then(|| Problem::of_array("torn", what, action))
    }

    /// The problem that a pass could not do some stripes.
    fn left_behind(&self, pass: &PassReport) -> Option<Problem> {
        let first = self.left.first()?;
        let goes = if pass.stuck_at_stripe.is_some() { "waits for" } else { "goes on without" };
        let (task, stripes) = (pass.task.name(), counted(self.left.len(), "stripe"));
        let lost = self.left.iter().flat_map(|left| left.lost.iter().map(range));
        let bad = self.left.iter().flat_map(|left| &left.unreadable);
        let bad =
            bad.map(|bad| format!("{} at {}", self.facts.place(bad.member), range(&bad.range)));
        let is_log = self.facts.groups > 0 || self.facts.group.is_some();
        let resume = format!("let it try again: `evenkeel rebuild resume {}`", self.facts.name);
        let ranges = some_of(self.left.iter().map(|left| range(&left.range)));
        let (what, action) = match (some_of(lost), some_of(bad)) {
            (Some(lost), Some(bad)) if !is_log => (
                format!(
                    "what was at {lost} of the array is lost: {bad} of its device could not be read, and \
                     redundancy is missing there; the {task} {goes} {stripes}"
                ),
                format!(
                    "bring missing members back, and {resume}; or restore or delete the files that are \
                     there, save what else is in these stripes, and overwrite or discard them as a whole \
                     ({}): they are done by themselves then",
                    ranges.unwrap_or_default()
                ),
            ),
            (Some(_), Some(bad)) => (
                format!(
                    "blocks of the log are lost: {bad} of its device could not be read, and redundancy \
                     is missing there; the {task} {goes} {stripes}"
                ),
                format!("bring missing members back, and {resume}"),
            ),
            (None, Some(bad)) => (
                format!("the {task} {goes} {stripes}: {bad} of its device could not be read"),
                match ranges.filter(|_| !is_log) {
                    Some(ranges) => format!(
                        "save what else is in these stripes and overwrite them as a whole ({ranges}), or \
                         {resume}"
                    ),
                    None => resume,
                },
            ),
            (_, None) => (
                format!(
                    "the {task} {goes} {stripes} that could not be read or written, the first is number \
                     {}",
                    first.stripe
                ),
                format!("bring missing members back, or make room behind them, and {resume}"),
            ),
        };
        Some(Problem::of_array("left-behind", what, action))
    }

    /// The name of a place, and its current or last device.
    fn named(&self, member: &MemberReport) -> String {
        self.facts.place(member.member) + &device_of(member)
    }

    /// The failed member that the next new device goes to; one that the distributed spare replaces
    /// comes last.
    fn next_to_replace(&self) -> Option<&MemberReport> {
        let failed = self.members.iter().filter(|m| m.state == MemberState::Failed);
        let spared = |m: &&MemberReport| {
            self.distributed_spare == Some(SpareUseReport::StandsInFor(m.member))
        };
        failed.min_by_key(spared)
    }

    fn problem_of(&self, member: &MemberReport) -> Option<Problem> {
        let name = &self.facts.name;
        let named = self.named(member);
        let number = self.facts.disk(member.member);
        let kind = match member.state {
            MemberState::Failed => "degraded",
            MemberState::Up | MemberState::Rebuilding if member.hangs => "hangs",
            MemberState::Rebuilding => "rebuilding",
            MemberState::Up => "errors",
        };
        let (what, since, action) = match member.state {
            MemberState::Failed => self.out_of_service(member),
            MemberState::Up | MemberState::Rebuilding if member.hangs => (
                format!("{named} does not answer, and what needs it waits"),
                None,
                "bring the device back (cables, power, the network, the kernel's log): nothing is \
                 lost, and nothing fails meanwhile"
                    .into(),
            ),
            MemberState::Rebuilding => (
                match member.missed_bytes {
                    None => format!("{named} is being rebuilt"),
                    Some(bytes) => {
                        format!("{named} has come back, and catches up: {} left", mebibytes(bytes))
                    }
                },
                Some(member.since),
                format!("wait (`evenkeel rebuild status {name} --wait`)"),
            ),
            MemberState::Up if member.read_errors + member.write_errors > 0 => (
                format!(
                    "{named} had {} read and {} write errors since the start{}",
                    member.read_errors,
                    member.write_errors,
                    member.last_error.map_or("", told)
                ),
                None,
                match member.last_error {
                    Some(ErrorReport::NoSpace) => format!("{MAKE_ROOM}: nothing is broken"),
                    Some(
                        ErrorReport::Medium
                        | ErrorReport::Gone
                        | ErrorReport::Shrunk
                        | ErrorReport::TimedOut,
                    )
                    | None => format!(
                        "check the device (smartctl, cables, the kernel's log), or replace it: \
                         `evenkeel disk replace {name} {number} PATH`"
                    ),
                },
            ),
            MemberState::Up => return None,
        };
        Some(Problem { kind: kind.to_owned(), disk: Some(number), what, since, action })
    }

    /// Whether a member's device may come back, and what has to be copied then.
    fn may_come_back(&self, member: &MemberReport) -> Option<String> {
        let known = member.missed_bytes.map(|bytes| {
            format!("and {} at most are copied, which it has missed", mebibytes(bytes))
        });
        known.filter(|_| self.facts.redundancy > 0)
    }

    fn out_of_service(&self, member: &MemberReport) -> (String, Option<u64>, String) {
        let name = &self.facts.name;
        let number = self.facts.disk(member.member);
        let spared = self.distributed_spare == Some(SpareUseReport::StandsInFor(member.member));
        let what = format!(
            "{} is out of service{}{}{}",
            self.facts.place(member.member),
            device_of(member),
            member.last_error.map_or("", told),
            if spared { "; the distributed spare stands in for it" } else { "" }
        );
        let what = match &member.why_away {
            None => what,
            Some(why) => format!("{what}; it does not come back: {why}"),
        };
        let replace = format!("`evenkeel disk replace {name} {number} PATH`");
        let action = match self.next_to_replace() {
            _ if self.facts.redundancy == 0 => {
                "this level has no redundancy: bring the device back, or restore a backup".into()
            }
            Some(next) if next.member != member.member => {
                format!("replace {} first, then this one: {replace}", self.facts.place(next.member))
            }
            Some(_) | None if member.last_error == Some(ErrorReport::NoSpace) => {
                format!("{MAKE_ROOM}, or take another device: {replace}")
            }
            Some(_) | None => format!("give the array a new device: {replace}"),
        };
        let action = match (self.may_come_back(member), member.comes_back) {
            (None, _) | (_, None) => action,
            (Some(how), Some(WayBack::ByItself)) => {
                format!("bring the device back: it is taken in by itself, {how}; or {action}")
            }
            (Some(how), Some(WayBack::ByCommand)) => {
                format!("`evenkeel disk add {name} PATH` takes its device back, {how}; or {action}")
            }
        };
        (what, Some(member.since), action)
    }
}

/// Its current or last device, as a suffix.
fn device_of(member: &MemberReport) -> String {
    // Files have no name but the path.
    let label = member.label.as_ref().filter(|&label| Some(label) != member.path.as_ref());
    let known = [member.path.as_ref(), label].into_iter().flatten();
    let known = known.map(|path| shown(path).to_string());
    let serial = member.serial.as_ref().map(|serial| format!("serial number {serial}"));
    let known: Vec<_> = known.chain(serial).collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

/// A range, for people.
fn range(range: &ByteRange) -> String {
    format!("{}+{}", range.offset_bytes, range.bytes)
}

/// The first of some things, and how many more there are; none if there are none.
fn some_of(things: impl Iterator<Item = String>) -> Option<String> {
    let things: Vec<_> = things.collect();
    let (first, others) = things.split_at(things.len().min(TOLD));
    match others.len() {
        _ if first.is_empty() => None,
        0 => Some(first.join(", ")),
        more => Some(format!("{} and {more} more places", first.join(", "))),
    }
}

/// So many, with the word for one.
fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// So many bytes, for people.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// How many places are told in words; `--json` tells all.
const TOLD: usize = 4;

/// What to do about a device that has run out of space.
const MAKE_ROOM: &str =
    "make room where it lies (its file system, or the pool behind a thin device)";

/// The state as an adjective of a member.
fn told(error: ErrorReport) -> &'static str {
    match error {
        ErrorReport::Medium => ": it failed to read or write",
        ErrorReport::NoSpace => ": no space was left behind it",
        ErrorReport::Gone => ": it was gone",
        ErrorReport::Shrunk => ": it was smaller than before, and has lost what was behind its end",
        ErrorReport::TimedOut => ": it did not answer",
    }
}

fn pass_problem(pass: &PassReport, name: &str) -> Option<Problem> {
    let task = pass.task.name();
    let (kind, what, action) = match (pass.paused, pass.task) {
        (true, _) => (
            "paused",
            format!("the {task} is paused"),
            format!("let it go on: `evenkeel rebuild resume {name}`"),
        ),
        (false, _) if pass.stuck_at_stripe.is_some() => return None,
        (false, Task::Resync) => (
            "resync",
            "redundancy is being brought into step with the data".to_owned(),
            format!("wait (`evenkeel rebuild status {name} --wait`)"),
        ),
        (false, Task::Rebuild | Task::Distribute | Task::Copy | Task::Scrub | Task::Reshape) => {
            return None;
        }
    };
    Some(Problem::of_array(kind, what, action))
}
