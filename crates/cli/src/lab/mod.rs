//! `evenkeel lab`: arrays and SSDs in virtual time.

mod drive;
mod judged;
mod out;
mod plan;
mod played;
mod run;
mod ssd;
mod table;
mod trace;

mod validate;
mod values;
mod written;

use std::process::ExitCode;

use anyhow::Result;

pub(crate) use plan::plan;

use crate::args::{LabAction, TraceAction};
use crate::output::Output;

pub(crate) fn lab(action: &LabAction, output: Output) -> Result<ExitCode> {
    match action {
        LabAction::Run(args) => run::run(args, output),
        LabAction::Compare(args) => written::compare(args, output),
        LabAction::Check(args) => judged::check(args, output),
        LabAction::Report(args) => written::report(args, output),
        LabAction::Merge(args) => written::merge(args, output),
        LabAction::Ssd(args) => ssd::ssd(args, output),
        LabAction::Trace { action: TraceAction::Info(args) } => trace::info(args, output),
        LabAction::Validate(args) => validate::named(args, output),
        LabAction::Profiles => ssd::profiles(output),
    }
}
