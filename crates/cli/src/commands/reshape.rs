//! `evenkeel reshape`: makes an array one of another level, with more members, or with parity that lies
//! otherwise. The array's process is replaced by one that begins that; it goes on in the background, across
//! stops and starts.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_client::{ArrayReport, Client, Request};
use serde_json::json;
use ublkd::control::ROOM_IS_USED_BY;

use super::restart::replace_process;
use super::start::text;
use crate::args::ReshapeArgs;
use crate::output::Output;

pub(crate) fn reshape(args: &ReshapeArgs, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let mut client = Client::connect(run_dir, &args.name)?;
    let report: ArrayReport = serde_json::from_value(client.call(&Request::Status)?)?;
    let word = args.word(report.facts.member_count);
    let begins = [OsString::from("--reshape"), word.into()];
    let ready = replace_process(&args.name, args.force, &begins, run_dir)?;
    output.result(&json!({ "array": ready }), || {
        let name = &args.name;
        let what = match args.size {
            Some(_) => format!("it uses all of its members; {ROOM_IS_USED_BY}"),
            None => format!(
                "it is being reshaped; `evenkeel status {name}` tells how far, and what to do when it has \
                 grown"
            ),
        };
        format!("{}\n{what}", text(&ready))
    });
    Ok(ExitCode::SUCCESS)
}
