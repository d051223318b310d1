//! `evenkeel lab`: arrays and SSDs in virtual time.

mod advise;
mod check;
mod drive;
mod fit;
mod life;
mod out;
mod plan;
mod probe;
mod run;
mod ssd;
mod trace;
mod verify;

mod results;
mod validate;
pub(crate) mod values;

use std::process::ExitCode;

use anyhow::Result;

pub(crate) use advise::advise;
pub(crate) use plan::plan;

use crate::args::{LabAction, TraceAction};
use crate::output::Output;

pub(crate) fn lab(action: &LabAction, output: Output) -> Result<ExitCode> {
    match action {
        LabAction::Run(args) => run::run(args, output),
        LabAction::Compare(args) => results::compare(args, output),
        LabAction::Check(args) => check::check(args, output),
        LabAction::Report(args) => results::report(args, output),
        LabAction::Merge(args) => results::merge(args, output),
        LabAction::Ssd(args) => ssd::ssd(args, output),
        LabAction::Fit(args) => fit::fit(args, output),
        LabAction::Trace { action: TraceAction::Info(args) } => trace::info(args, output),
        LabAction::Validate(args) => validate::named(args, output),
        LabAction::Profiles => ssd::profiles(output),
    }
}
