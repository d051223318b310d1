//! `evenkeel generate`: what a package installs for people beside the program, from the grammar of the
//! command line.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::aot::{Shell, generate_to};
use evenkeel_client::paths::{shown, to_text};
use serde_json::json;

use crate::output::Output;

/// The shells that have completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes a manual page for each command into `man`, a file for each shell into `completions`, and the schema
/// of the control socket.
pub(crate) fn generate(mut grammar: Command, dir: &Path, output: Output) -> Result<ExitCode> {
    let (man, completions) = (dir.join("man"), dir.join("completions"));
    for made in [&man, &completions] {
        fs::create_dir_all(made).with_context(|| shown(made).to_string())?;
    }
    clap_mangen::generate_to(without_help(grammar.clone()), &man)
        .with_context(|| shown(&man).to_string())?;
    for shell in SHELLS {
        generate_to(shell, &mut grammar, "evenkeel", &completions)
            .with_context(|| shown(&completions).to_string())?;
    }
    let protocol = dir.join("control-socket.schema.json");
    let text = serde_json::to_string_pretty(&evenkeel_client::schema())? + "\n";
    fs::write(&protocol, text).with_context(|| shown(&protocol).to_string())?;
    let value = json!({
        "man": to_text(&man),
        "completions": to_text(&completions),
        "schema": to_text(&protocol),
    });
    output.result(&value, || {
        let (man, completions) = (shown(&man), shown(&completions));
        let protocol = shown(&protocol);
        format!(
            "manual pages are in {man}, completions in {completions}, the schema of the control \
             socket is {protocol}"
        )
    });
    Ok(ExitCode::SUCCESS)
}

/// Without the subcommands `help`, whose pages would tell nothing.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}
