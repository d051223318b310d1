//! `evenkeel import`.

mod md;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_client::{Facts, Refusal};
use raidcore::units::{BLOCK_BYTES, Pba};
use serde_json::json;
use ublkd::control::facts_of;
use ublkd::history::{self, By, What};
use ublkd::import::{Import, ImportConfig, ImportError, Stage, commit, plan, prepare, undo};
use ublkd::limits::advice_on_files;
use ublkd::members::OpenError;
use ublkd::paths::{shown, to_text};

use crate::args::ImportArgs;
use crate::output::Output;
use crate::size::Size;

pub(crate) fn import(args: &ImportArgs, state_dir: &Path, output: Output) -> Result<ExitCode> {
    let members = md::members(args)?;
    if args.undo {
        undo(&members).map_err(refusal)?;
        output.result(&json!({ "stage": "undone" }), || {
            "nothing is prepared any more: the members are md's (mdadm --assemble)".to_owned()
        });
        return Ok(ExitCode::SUCCESS);
    }
    let config = ImportConfig {
        paths: members,
        name: args.name.clone(),
        consistency: args.consistency.map(Into::into),
        assume_clean: args.assume_clean,
    };
    let import = match (args.dry_run, args.commit) {
        (true, _) => plan(&config),
        (false, false) => prepare(&config),
        (false, true) => commit(&config),
    };
    let import = import.map_err(refusal)?;
    let facts = facts_of(&import.record);
    if import.stage == Stage::Committed {
        // Who has no right to it has imported an array all the same.
        let command = format!("import {} ({}, identity {})", facts.name, facts.shape(), facts.uuid);
        let command = What::command(command, Some(By::this_process()));
        let _ = history::append(state_dir, &facts.name, command);
    }
    let paths: Vec<_> = import.paths.iter().map(|path| to_text(path)).collect();
    let value = json!({
        "stage": stage(import.stage),
        "array": facts,
        "members": paths,
        "needs_resync": import.needs_resync,
    });
    output.result(&value, || text(&import, &facts));
    Ok(ExitCode::SUCCESS)
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Planned => "planned",
        Stage::Prepared => "prepared",
        Stage::Committed => "committed",
    }
}

/// With a code for programs.
fn refusal(error: ImportError) -> Refusal {
    let code = match &error {
        ImportError::Open(OpenError::InUse { .. }) => "in-use",
        ImportError::Open(_) | ImportError::Unreadable { .. } => "device",
        ImportError::Duplicate { .. } => "duplicate",
        ImportError::Md { .. } | ImportError::Other { .. } => "not-md",
        ImportError::Array(_) | ImportError::Device { .. } => "unfit",
        ImportError::Layout(_) | ImportError::InTheWay { .. } => "no-room",
        ImportError::Name(_) => "bad-name",
        ImportError::Taken { .. } => "occupied",
        ImportError::Superblock { .. } => "not-assembled",
        ImportError::Incomplete { .. } => "missing",
        ImportError::UsedSince { .. } => "used-since",
        ImportError::NoWayBack { .. } => "no-way-back",
        ImportError::Io { .. } | ImportError::Unwritten | ImportError::Random(_) => "io",
    };
    let hint = error.advice().map(str::to_owned).or_else(|| advice_on_files(&error));
    Refusal { code: code.to_owned(), message: error.to_string(), hint }
}

fn text(import: &Import, facts: &Facts) -> String {
    let paths: Vec<_> = import.paths.iter().map(|path: &PathBuf| shown(path).to_string()).collect();
    let paths = paths.join(" ");
    let (does, next) = match import.stage {
        Stage::Planned => ("would be imported", format!("evenkeel import {paths}")),
        Stage::Prepared => ("prepared", format!("evenkeel import --commit {paths}")),
        Stage::Committed => ("imported", format!("evenkeel start --background {paths}")),
    };
    let areas = &import.record.areas;
    let kib = |blocks: u64| Size(blocks * BLOCK_BYTES as u64);
    let (Pba(data), (Pba(journal), blocks)) = (areas.data_start(), areas.journal());
    let mut lines = vec![format!(
        "{} {does}: {} of {} members, {} usable, chunks of {}",
        facts.name,
        facts.shape(),
        facts.member_count,
        Size(facts.capacity_bytes),
        kib(u64::from(import.record.geometry.chunk())),
    )];
    lines.push(format!(
        "metadata takes {} of the {} before the data, {} of it the journal",
        kib(journal + blocks),
        kib(data),
        kib(blocks),
    ));
    if import.needs_resync {
        lines.push("the first start makes redundancy anew from the data (a resync)".to_owned());
    } else if facts.redundancy > 0 {
        let name = &facts.name;
        lines.push(format!(
            "no resync: when it runs, `evenkeel scrub start {name}` tells whether redundancy matches"
        ));
    }
    match import.stage {
        Stage::Planned => lines.push(format!("nothing was written; to prepare it: {next}")),
        Stage::Prepared => lines.push(format!(
            "the members are still md's; to make them Evenkeel's: {next}\n\
             to remove what was prepared: evenkeel import --undo {paths}"
        )),
        Stage::Committed => {
            lines.push(format!("md does not know the members any more; start it: {next}"))
        }
    }
    lines.join("\n")
}
