//! `evenkeel create`.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use evenkeel_client::paths::shown;
use evenkeel_client::{Facts, Refusal};
use raidcore::geometry::{Level, Placement};
use raidcore::units::BLOCK_BYTES;
use raidlog::Layout;
use serde_json::json;
use steering::scheme::Scheme;
use ublkd::control::{facts_of, facts_of_all};
use ublkd::create::{CreateConfig, CreateError, LogConfig, check_name, create_log};
use ublkd::flash::Named;
use ublkd::history::{self, By, What};
use ublkd::limits::advice_on_files;

use crate::args::{CreateArgs, ParityShares, StagingArg, staging_places};
use crate::output::Output;
use crate::size::Size;

pub(crate) fn create(args: &CreateArgs, state_dir: &Path, output: Output) -> Result<ExitCode> {
    // Checked first: the other checks depend on more.
    check_name(&args.name).map_err(refusal)?;
    let (facts, needs_resync, notes) = match (args.layout, args.level) {
        (Some(layout), _) => {
            let created = create_log(&log_config(args, layout)?).map_err(refusal)?;
            (facts_of_all(&created.records), created.needs_resync, created.notes)
        }
        (None, Some(level)) => {
            let created = ublkd::create::create(&config(args, level.into())?).map_err(refusal)?;
            (facts_of(&created.record), created.needs_resync, created.notes)
        }
        (None, None) => bail!("give --level or --layout"),
    };
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    // Who has no right to it has made an array all the same.
    let command = format!("create {} ({}, identity {})", facts.name, facts.shape(), facts.uuid);
    let command = What::command(command, Some(By::this_process()));
    let _ = history::append(state_dir, &facts.name, command);
    let value = json!({ "array": facts, "needs_resync": needs_resync, "notes": notes });
    output.result(&value, || text(args, &facts, &notes));
    Ok(ExitCode::SUCCESS)
}

fn log_config(args: &CreateArgs, layout: Layout) -> Result<LogConfig> {
    let Size(segment) = args.segment;
    if !segment.is_multiple_of(BLOCK_BYTES as u64) || segment == 0 {
        bail!("a segment must be a multiple of 4K, not {segment} bytes");
    }
    let new = LogConfig::new(&args.name, layout, args.members.clone());
    Ok(LogConfig {
        chunk: args.chunk,
        consistency: args.consistency.map_or(new.consistency, Into::into),
        segment: u32::try_from(args.segment.blocks()).unwrap_or(u32::MAX),
        spare: args.over_provisioning.unwrap_or(new.spare),
        policy: args.policy,
        member_blocks: args.member_size.map(Size::blocks),
        file_blocks: args.file_size.map(Size::blocks),
        force: args.force,
        preallocate: args.preallocate,
        ..new
    })
}

fn config(args: &CreateArgs, level: Level) -> Result<CreateConfig> {
    let (staging, staging_devices) = staging_places(&args.staging).map_err(anyhow::Error::msg)?;
    let new = CreateConfig::new(&args.name, level, args.members.clone());
    let (placement, by_age) = match args.parity_shares {
        Some(ParityShares::Given(shares)) => (Placement::Uneven(shares), false),
        Some(ParityShares::Auto) => (new.placement, true),
        None => (args.placement.unwrap_or(new.placement), false),
    };
    Ok(CreateConfig {
        placement,
        by_age,
        chunk: args.chunk,
        consistency: args.consistency.map_or(new.consistency, Into::into),
        staging,
        staging_devices,
        distributed_spare: args.distributed_spare,
        lease: args.lease,
        policy: policy(args),
        member_blocks: args.member_size.map(Size::blocks),
        spare: args.over_provisioning.unwrap_or(new.spare),
        file_blocks: args.file_size.map(Size::blocks),
        force: args.force,
        preallocate: args.preallocate,
        ..new
    })
}

fn policy(args: &CreateArgs) -> Scheme {
    let by_wear = args.wear.and_then(|wear| Scheme::named(wear.scheme()));
    let policy = by_wear.unwrap_or(args.policy);
    args.cache.map_or(policy, |cache| policy.with(cache))
}

/// With a code for programs.
fn refusal(error: CreateError) -> Refusal {
    let code = match &error {
        CreateError::Name(_) => "bad-name",
        CreateError::Open(_) | CreateError::Unreadable { .. } => "device",
        CreateError::Missing { .. } => "missing",
        CreateError::Duplicate { .. } => "duplicate",
        CreateError::Layout(_)
        | CreateError::TooSmall { .. }
        | CreateError::Staging(_)
        | CreateError::Lease(_)
        | CreateError::LeaseOnFlash { .. }
        | CreateError::Members { .. }
        | CreateError::Volume(_) => "bad-shape",
        CreateError::Policy(error) => error.code(),
        CreateError::Ageless { .. } => "no-age",
        CreateError::Occupied { .. } => "occupied",
        CreateError::Elsewhere { .. } => "in-use",
        CreateError::Io { .. } | CreateError::Random(_) | CreateError::Unfinished(_) => "io",
    };
    let hint = if let CreateError::Policy(error) = &error {
        Some(error.hint())
    } else if let CreateError::Io { source, .. } = &error
        && let Some(hint) = no_room(source)
    {
        Some(hint.to_owned())
    } else {
        advice_on_files(&error)
    };
    Refusal { code: code.to_owned(), message: error.to_string(), hint }
}

/// What to do if a member has no room for its metadata.
fn no_room(error: &io::Error) -> Option<&'static str> {
    let kind = error.kind();
    if kind == ErrorKind::FileTooLarge {
        return Some(
            "its file system, or a limit (ulimit -f), takes no file of this size: use smaller ones, \
             or another file system",
        );
    }
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded).then_some(
        "make room where it lies (its file system, or the pool behind a thin device), or use other \
         members",
    )
}

fn text(args: &CreateArgs, facts: &Facts, notes: &[String]) -> String {
    let mut lines: Vec<String> = notes.iter().map(|note| format!("note: {note}")).collect();
    let members = facts.member_count;
    let of_each = if facts.groups > 1 { " of each group" } else { "" };
    lines.push(format!(
        "created {}: {} of {members} members, {} usable, {}",
        facts.name,
        facts.shape(),
        Size(facts.capacity_bytes),
        match facts.redundancy {
            0 => "without redundancy".to_owned(),
            1 if facts.level == Level::Raid10.name() =>
                "one member of each pair may fail".to_owned(),
            1 => format!("one member{of_each} may fail"),
            n => format!("{n} members{of_each} may fail"),
        }
    ));
    if facts.staging_bytes > 0 {
        let (each, devices) = (Size(facts.staging_bytes), facts.staging_devices);
        let devices = match (devices, Size(facts.staging_device_bytes)) {
            (0, _) => String::new(),
            (1, size) => format!(", and {size} of a staging device"),
            (n, size) => format!(", and {size} of each of {n} staging devices"),
        };
        lines.push(format!("its staging log has {each} of each member{devices}"));
    }
    if facts.distributed_spare_bytes > 0 {
        let each = Size(facts.distributed_spare_bytes);
        lines.push(format!("its distributed spare takes {each} of each member"));
    }
    // From now on modelled SSDs are known by the state beside them.
    let plain = |typed: &PathBuf| Named::parse(typed).map_or(typed.clone(), |named| named.path);
    let devices = args.staging.iter().filter_map(|place| match place {
        StagingArg::Dedicated(path) => Some(path),
        StagingArg::Reserved(_) => None,
    });
    let paths = args.members.iter().chain(devices);
    let paths: Vec<_> = paths.map(|path| shown(plain(path)).to_string()).collect();
    lines.push(format!("start it: evenkeel start --background {}", paths.join(" ")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_room_comes_with_what_to_do() {
        for (code, word) in [(28, "make room"), (122, "make room"), (27, "of this size")] {
            let source = io::Error::from_raw_os_error(code);
            let told = refusal(CreateError::Io { path: "m0".into(), source });
            assert!(told.hint.as_ref().is_some_and(|hint| hint.contains(word)), "{told:?}");
            assert!(told.message.starts_with("m0: "), "{told:?}");
        }
    }
}
