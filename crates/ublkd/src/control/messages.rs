//! Events, in words.

use std::path::PathBuf;

use raidcore::engine::{IoError, Note, PassEnd, PassKind};
use raidcore::units::{DeviceId, MemberId};

use crate::host::Happened;
use crate::paths::shown;

/// What users do when an array has grown.
pub const ROOM_IS_USED_BY: &str = "a file system takes it by resize2fs (ext4), xfs_growfs (XFS) or `btrfs \
    filesystem resize max` (Btrfs), after partitions or LVM below it; clients of NBD connect again";

/// The log level of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weight {
    Info,
    Warning,
    Error,
}

/// How serious an event is.
pub(super) fn weight(what: &Happened) -> Weight {
    match what {
        Happened::Array { note, .. } => match note {
            Note::ArrayFailed => Weight::Error,
            Note::MemberFailed { .. }
            | Note::MemberHangs { .. }
            | Note::CopyFailed { .. }
            | Note::BlocksWrong { .. }
            | Note::PassEnded(_, PassEnd::Stuck(_))
            | Note::Mismatch { .. } => Weight::Warning,
            Note::BlocksRepaired { .. }
            | Note::MemberAnswers { .. }
            | Note::ArrayHealed
            | Note::PassStarted(_)
            | Note::PassEnded(_, PassEnd::Done | PassEnd::Cancelled | PassEnd::Aside)
            | Note::SpareActivated { .. }
            | Note::CopyBegun { .. }
            | Note::MemberReturned { .. }
            | Note::MemberReplaced { .. }
            | Note::JournalReplayed { .. }
            | Note::StagedReclaimed { .. } => Weight::Info,
        },
        Happened::Volume(note) => match note {
            raidlog::Note::Failed(..) => Weight::Error,
            raidlog::Note::Stuck(_) => Weight::Warning,
            raidlog::Note::Front(_) | raidlog::Note::Checkpoint(_) => Weight::Info,
        },
    }
}

/// Whether people are told: a log volume at work changes its front all the time.
pub(super) fn is_news(what: &Happened) -> bool {
    !matches!(what, Happened::Volume(raidlog::Note::Front(_) | raidlog::Note::Checkpoint(_)))
}

/// The kind of an event, for programs: these words don't change between releases.
pub(super) fn kind(what: &Happened) -> &'static str {
    match what {
        Happened::Array { note, .. } => kind_of_note(note),
        Happened::Volume(note) => match note {
            raidlog::Note::Failed(..) => "log-failed",
            raidlog::Note::Stuck(_) => "segment-stuck",
            raidlog::Note::Front(_) => "front",
            raidlog::Note::Checkpoint(_) => "checkpoint",
        },
    }
}

fn kind_of_note(note: &Note) -> &'static str {
    match note {
        Note::ArrayFailed => "failed",
        Note::ArrayHealed => "healed",
        Note::MemberFailed { .. } => "member-failed",
        Note::MemberHangs { .. } => "member-hangs",
        Note::MemberAnswers { .. } => "member-answers",
        Note::MemberReturned { .. } => "member-returned",
        Note::MemberReplaced { .. } => "member-replaced",
        Note::SpareActivated { .. } => "spare-activated",
        Note::CopyBegun { .. } => "copy-begun",
        Note::CopyFailed { .. } => "copy-failed",
        Note::BlocksRepaired { .. } => "blocks-repaired",
        Note::BlocksWrong { .. } => "blocks-wrong",
        Note::Mismatch { .. } => "mismatch",
        Note::JournalReplayed { .. } | Note::StagedReclaimed { .. } => "replayed",
        Note::PassStarted(_) => "pass-started",
        Note::PassEnded(_, PassEnd::Cancelled) => "pass-cancelled",
        Note::PassEnded(_, PassEnd::Aside) => "pass-set-aside",
        Note::PassEnded(_, PassEnd::Stuck(_)) => "pass-stuck",
        Note::PassEnded(kind, PassEnd::Done) => match kind {
            PassKind::Rebuild(_) | PassKind::Distribute(_) => "rebuilt",
            PassKind::Copy(_) => "copied",
            PassKind::Resync => "resynced",
            PassKind::Scrub { .. } => "scrubbed",
            PassKind::Reshape => "reshaped",
        },
    }
}

/// The member that an event is about.
pub(super) fn member_of(what: &Happened) -> Option<MemberId> {
    let Happened::Array { note, .. } = what else { return None };
    match *note {
        Note::MemberFailed { member, .. }
        | Note::MemberHangs { member, .. }
        | Note::MemberAnswers { member, .. }
        | Note::MemberReturned { member, .. }
        | Note::MemberReplaced { member, .. }
        | Note::SpareActivated { member, .. }
        | Note::CopyBegun { member, .. }
        | Note::CopyFailed { member, .. }
        | Note::BlocksRepaired { member, .. }
        | Note::BlocksWrong { member, .. } => Some(member),
        Note::PassStarted(kind) | Note::PassEnded(kind, _) => match kind {
            PassKind::Rebuild(member) | PassKind::Distribute(member) | PassKind::Copy(member) => {
                Some(member)
            }
            PassKind::Resync | PassKind::Scrub { .. } | PassKind::Reshape => None,
        },
        Note::ArrayFailed
        | Note::ArrayHealed
        | Note::Mismatch { .. }
        | Note::JournalReplayed { .. }
        | Note::StagedReclaimed { .. } => None,
    }
}

/// A note of a log volume in words.
pub(super) fn describe_volume(note: &raidlog::Note) -> String {
    match note {
        raidlog::Note::Front(group) => format!("group {} takes what users write", group.0),
        raidlog::Note::Failed(group, _) => {
            format!("group {} could not be written: the log volume takes no more writes", group.0)
        }
        raidlog::Note::Stuck(segment) => format!(
            "segment {} can't be cleaned, as it can't be read; what can be read stays there",
            segment.0
        ),
        raidlog::Note::Checkpoint(number) => format!("checkpoint {number} is durable"),
    }
}

/// Why a member is out of service.
fn reason(why: IoError) -> &'static str {
    match why {
        IoError::Medium => "it failed to read or write",
        IoError::NoSpace => "no space is left behind it",
        IoError::Gone => "it is gone",
        IoError::Shrunk => "it is smaller than it was",
        IoError::TimedOut => "it does not answer",
    }
}

/// What a pass does.
fn pass(kind: PassKind, place: impl Fn(MemberId) -> String) -> String {
    match kind {
        PassKind::Resync => "resync".to_owned(),
        PassKind::Rebuild(member) => format!("rebuild of {}", place(member)),
        PassKind::Distribute(member) => {
            format!("rebuild of {} onto the distributed spare", place(member))
        }
        PassKind::Copy(member) => format!("copy of {}", place(member)),
        PassKind::Scrub { repair: false } => "scrub".to_owned(),
        PassKind::Scrub { repair: true } => "scrub with repair".to_owned(),
        PassKind::Reshape => "reshape".to_owned(),
    }
}

/// How a pass has ended.
fn ended(kind: PassKind, end: PassEnd) -> String {
    match end {
        PassEnd::Done if kind == PassKind::Reshape => {
            format!("finished; if it adds room, that is there now: {ROOM_IS_USED_BY}")
        }
        PassEnd::Done => "finished".to_owned(),
        PassEnd::Cancelled => "was cancelled".to_owned(),
        PassEnd::Aside => "goes on when others are rebuilt".to_owned(),
        PassEnd::Stuck(stripe) => {
            format!("could not do stripe {} yet: see `evenkeel status`", stripe.0)
        }
    }
}

/// A note of an array in words; `place` gives the name of a place.
pub(super) fn describe(
    note: &Note,
    place: impl Fn(MemberId) -> String,
    path: impl Fn(DeviceId) -> Option<PathBuf>,
) -> String {
    let named = |device| match path(device) {
        Some(path) => format!(" ({})", shown(path)),
        None => String::new(),
    };
    match *note {
        Note::MemberFailed { member, device, why } => {
            let why = why.map_or("as told", reason);
            format!("{}{} was taken out of service: {why}", place(member), named(device))
        }
        Note::MemberHangs { member, device } => format!(
            "{}{} does not answer, and can't be spared: what needs it waits",
            place(member),
            named(device)
        ),
        Note::MemberAnswers { member, device } => {
            format!("{}{} answers again", place(member), named(device))
        }
        Note::ArrayFailed => {
            "more failed than the redundancy makes up for: no more writes are taken".to_owned()
        }
        Note::ArrayHealed => {
            "there is room for what was refused, and it is in its place: writes are taken again"
                .to_owned()
        }
        Note::BlocksRepaired { member, at, blocks } => format!(
            "{}: {blocks} unreadable blocks from block {} on were rewritten from redundancy",
            place(member),
            at.0
        ),
        Note::PassStarted(kind) => format!("{} started", pass(kind, &place)),
        Note::PassEnded(kind, end) => format!("{} {}", pass(kind, &place), ended(kind, end)),
        Note::BlocksWrong { member, stripe, blocks, corrected } => format!(
            "{}: {blocks} blocks of stripe {} are not what was written{}",
            place(member),
            stripe.0,
            if corrected { "; they were rewritten from redundancy" } else { "" }
        ),
        Note::Mismatch { stripe, rows, corrected } => format!(
            "stripe {}: redundancy does not match the data in {rows} rows, and nothing tells what \
             is wrong{}",
            stripe.0,
            if corrected { "; the data was believed, and redundancy made anew" } else { "" }
        ),
        Note::SpareActivated { member, device } => {
            format!("a spare{} takes the place of {}", named(device), place(member))
        }
        Note::CopyBegun { member, device } => {
            format!("{} serves on, and is copied to its successor{}", place(member), named(device))
        }
        Note::MemberReturned { member, device, regions } => format!(
            "{}{} is back, and is filled where something was written meanwhile ({regions} regions)",
            place(member),
            named(device)
        ),
        Note::CopyFailed { member, device, why } => format!(
            "{} stays, as its successor{} failed: {}",
            place(member),
            named(device),
            reason(why)
        ),
        Note::MemberReplaced { member, device, old } => format!(
            "a copy{} has taken the place of {}{}, whose device is free",
            named(device),
            place(member),
            named(old)
        ),
        Note::JournalReplayed { entries, blocks } => format!(
            "after an unclean stop, {entries} entries of the journal were carried out ({blocks} \
             blocks, redundancy included)"
        ),
        Note::StagedReclaimed { blocks } => {
            format!("after an unclean stop, {blocks} blocks were brought home from the staging log")
        }
    }
}

/// The replay of a start, in words, if a note is about that.
pub(crate) fn recovered(what: &Happened) -> Option<String> {
    let Happened::Array { note, .. } = what else { return None };
    let tells = matches!(note, Note::JournalReplayed { .. } | Note::StagedReclaimed { .. });
    tells.then(|| describe(note, |member| member.0.to_string(), |_| None))
}
