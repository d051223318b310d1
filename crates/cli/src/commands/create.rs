//! `evenkeel create`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use raidcore::units::BLOCK_BYTES;
use serde_json::json;
use ublkd::control::{Facts, Refusal};
use ublkd::create::{CreateConfig, CreateError, Created};
use ublkd::flash::Named;

use crate::args::CreateArgs;
use crate::output::Output;
use crate::size::Size;

pub(crate) fn create(args: &CreateArgs, output: Output) -> Result<ExitCode> {
    let created = ublkd::create::create(&config(args)?).map_err(refusal)?;
    let facts = Facts::of(&created.record);
    let notes: Vec<String> = created.notes.iter().map(ToString::to_string).collect();
    let value = json!({
        "array": facts,
        "needs_resync": created.needs_resync,
        "notes": notes,
    });
    output.result(&value, || text(args, &created, &facts, &notes));
    Ok(ExitCode::SUCCESS)
}

fn config(args: &CreateArgs) -> Result<CreateConfig> {
    let Size(chunk) = args.chunk;
    let block = BLOCK_BYTES as u64;
    let blocks = chunk / block;
    if !chunk.is_multiple_of(block) || !blocks.is_power_of_two() || blocks > 256 {
        bail!("the chunk must be a power of two from 4K to 1M, not {chunk} bytes");
    }
    Ok(CreateConfig {
        name: args.name.clone(),
        level: args.level.into(),
        chunk: blocks as u32,
        paths: args.members.clone(),
        consistency: args.consistency.into(),
        staging: args.staging,
        policy: args.policy,
        member_blocks: args.member_size.map(Size::blocks),
        file_blocks: args.file_size.map(Size::blocks),
        force: args.force,
        preallocate: args.preallocate,
    })
}

/// With a code for programs.
fn refusal(error: CreateError) -> Refusal {
    let code = match &error {
        CreateError::Name(_) => "bad-name",
        CreateError::Open(_) | CreateError::Unreadable { .. } => "device",
        CreateError::Missing { .. } => "missing",
        CreateError::Duplicate { .. } => "duplicate",
        CreateError::Layout(_) | CreateError::Staging(_) => "bad-shape",
        CreateError::Policy(_) => "no-staging",
        CreateError::Occupied { .. } => "occupied",
        CreateError::Io { .. } | CreateError::Random(_) => "io",
    };
    let hint = if let CreateError::Policy(error) = &error { Some(error.hint()) } else { None };
    Refusal { code: code.to_owned(), message: error.to_string(), hint }
}

fn text(args: &CreateArgs, created: &Created, facts: &Facts, notes: &[String]) -> String {
    let mut lines: Vec<String> = notes.iter().map(|note| format!("note: {note}")).collect();
    let members = created.record.geometry.members();
    lines.push(format!(
        "created {}: {} of {members} members, {} usable, {}",
        facts.name,
        facts.level,
        Size(facts.capacity_bytes),
        match facts.redundancy {
            0 => "without redundancy".to_owned(),
            1 => "one member may fail".to_owned(),
            n => format!("{n} members may fail"),
        }
    ));
    if facts.staging_bytes > 0 {
        lines.push(format!("its staging log has {} of each member", Size(facts.staging_bytes)));
    }
    // Modelled SSDs are known by what is beside them from now on.
    let plain = |typed: &PathBuf| Named::parse(typed).map_or(typed.clone(), |named| named.path);
    let paths: Vec<_> = args.members.iter().map(|p| plain(p).display().to_string()).collect();
    lines.push(format!("start it: evenkeel start --background {}", paths.join(" ")));
    lines.join("\n")
}
