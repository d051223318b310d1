//! `evenkeel create`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use raidcore::units::BLOCK_BYTES;
use serde_json::json;
use ublkd::control::{Facts, Refusal};
use ublkd::create::{CreateConfig, CreateError, Created};
use ublkd::flash::Named;

use crate::args::{CreateArgs, StagingArg, staging_places};
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
    let (staging, staging_devices) = staging_places(&args.staging).map_err(anyhow::Error::msg)?;
    Ok(CreateConfig {
        name: args.name.clone(),
        level: args.level.into(),
        chunk: blocks as u32,
        paths: args.members.clone(),
        consistency: args.consistency.into(),
        staging,
        staging_devices,
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
        let (each, devices) = (Size(facts.staging_bytes), facts.staging_devices);
        let devices = match (devices, Size(facts.staging_device_bytes)) {
            (0, _) => String::new(),
            (1, size) => format!(", and {size} of a staging device"),
            (n, size) => format!(", and {size} of each of {n} staging devices"),
        };
        lines.push(format!("its staging log has {each} of each member{devices}"));
    }
    // Modelled SSDs are known by what is beside them from now on.
    let plain = |typed: &PathBuf| Named::parse(typed).map_or(typed.clone(), |named| named.path);
    let devices = args.staging.iter().filter_map(|place| match place {
        StagingArg::Dedicated(path) => Some(path),
        StagingArg::Reserved(_) => None,
    });
    let paths = args.members.iter().chain(devices);
    let paths: Vec<_> = paths.map(|path| plain(path).display().to_string()).collect();
    lines.push(format!("start it: evenkeel start --background {}", paths.join(" ")));
    lines.join("\n")
}
