//! `evenkeel`: create, run and mend an array of SSDs.

mod args;
mod commands;
mod demo;
mod lab;
mod monitor;
mod output;
mod progress;
mod size;
mod table;
mod top;
mod typed;

use std::process::ExitCode;

use args::Command;
use output::Output;

/// The exit status for wrong arguments, as clap has it.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match typed::parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    let output = Output::new(cli.json, typed::command());
    let (run_dir, state_dir) = (&cli.run_dir, &cli.state_dir());
    let done = match cli.command {
        Command::Create(args) => commands::create(&args, state_dir, output),
        Command::Import(args) => commands::import(&args, state_dir, output),
        Command::Start(args) => commands::start(*args, (run_dir, state_dir), output),
        Command::Stop { name, force } => commands::stop(&name, force, run_dir, output),
        Command::Restart { name, force } => commands::restart(&name, force, run_dir, output),
        Command::Reshape(args) => commands::reshape(&args, run_dir, output),
        Command::Iostat(args) => commands::iostat(&args, run_dir, output),
        Command::Events(args) => commands::events(&args, state_dir, output),
        Command::History(args) => commands::history(&args, state_dir, output),
        Command::Monitor(args) => monitor::monitor(&args, (run_dir, state_dir), output),
        Command::Exporter(args) => commands::exporter(&args, run_dir, output),
        Command::Top(args) => top::top(&args, run_dir, output),
        Command::List(args) => commands::list(&args, run_dir, output),
        Command::Status { name: Some(name), why: true } => commands::why(&name, run_dir, output),
        Command::Status { name, .. } => commands::status(name.as_deref(), run_dir, output),
        Command::Disk { action } => commands::disk(action, run_dir, output),
        Command::Rebuild { action } => commands::rebuild(action, run_dir, output),
        Command::Scrub { action } => commands::scrub(action, run_dir, output),
        Command::Policy { action } => commands::policy(&action, run_dir, output),
        Command::Cache { action } => commands::cache(&action, run_dir, output),
        Command::Examine { members, udev: true } => commands::examine_for_udev(&members, output),
        Command::Examine { members, .. } => commands::examine(&members, output),
        Command::Simulate(args) => commands::simulate(&args, output),
        Command::Lab { action } => lab::lab(&action, output),
        Command::Advise(args) => lab::advise(&args, output),
        Command::Plan { action } => lab::plan(&action, output),
        Command::Demo(args) => demo::run(&args, output),
        Command::Generate { dir } => commands::generate(typed::grammar(), &dir, output),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            output.error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints the error of the arguments, or what was requested instead of a command, such as help.
fn not_understood(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || !typed::wants_json() {
        error.exit();
    }
    let command = typed::command();
    Output::new(true, command).error(&typed::refusal(error, command).into());
    ExitCode::from(WRONG_USAGE)
}
