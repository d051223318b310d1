//! `evenkeel lab fit`: a profile of a drive.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_client::paths::{shown, to_text};
use flashsim::Profile;
use lab::fit::{Behaviour, Fit};
use serde_json::{Value, json};

use super::probe::{self, Found};
use super::values;
use crate::args::{FitArgs, ProbeArgs};
use crate::output::Output;
use crate::size::Size;
use crate::table::Table;

pub(super) fn fit(args: &FitArgs, output: Output) -> Result<ExitCode> {
    let drive = probe::open(&args.path, &args.probe)?;
    let found = probe::probe(vec![drive])?;
    let found = found.into_iter().next().context("nothing was recorded")?;
    let fitted = Fitted::of(found)?;
    fitted.store(&args.out, &args.probe)?;
    let value = json!({ "profile": to_text(&args.out), "fit": fitted.json() });
    output.result(&value, || {
        let out = shown(&args.out);
        let path = if args.out.is_relative() { format!("./{out}") } else { out.to_string() };
        format!("{}\n\nthe profile is in {out}: evenkeel lab ssd {path}", fitted.text())
    });
    Ok(ExitCode::SUCCESS)
}

/// A drive's fit.
pub(super) struct Fitted {
    pub(super) drive: Found,
    pub(super) fit: Fit,
}

impl Fitted {
    pub(super) fn of(drive: Found) -> Result<Self> {
        let fit = lab::fit::fit(&drive.recording);
        let mut fit = fit.with_context(|| shown(&drive.path).to_string())?;
        let name = drive.path.file_name().map(|name| name.to_string_lossy());
        fit.profile.name = format!("fitted to {}", name.unwrap_or_default());
        Ok(Self { drive, fit })
    }

    /// Writes the profile to a file.
    pub(super) fn store(&self, path: &Path, args: &ProbeArgs) -> Result<()> {
        let how = if args.write { "by writing" } else { "by reading only" };
        // A name may have any characters, a comment none that end it.
        let name = self.fit.profile.name.escape_debug();
        let text = format!(
            "# Evenkeel {}: {name}, {} bytes, in {} seconds, {how}.\n# It says how the drive behaves, not how it \
             is built.\n{}",
            env!("CARGO_PKG_VERSION"),
            self.drive.bytes,
            args.seconds,
            toml::to_string(&self.fit.profile)?
        );
        // What is written can be read.
        Profile::parse(&text, "the fitted profile")?;
        std::fs::write(path, text).with_context(|| shown(path).to_string())
    }

    pub(super) fn doubts(&self) -> Vec<String> {
        let unsure = self.fit.unsure.iter().map(ToString::to_string);
        self.drive.notes.iter().cloned().chain(unsure).collect()
    }

    /// How long it stalls in all, for a choice among several.
    pub(super) fn stalls(&self) -> f64 {
        let stalls = self.fit.observed.as_ref().map(|observed| observed.stalls);
        stalls.map_or(0.0, |stalls| stalls.share * stalls.mean_us)
    }

    pub(super) fn text(&self) -> String {
        let Fit { profile, read_us, observed, modelled, rested, .. } = &self.fit;
        let path = shown(&self.drive.path);
        let mut text = format!(
            "{path}: {}; a read takes {}, {} things at a time",
            Size(self.drive.bytes),
            values::value(*read_us, lab::results::Unit::Microseconds),
            profile.geometry.channels * profile.geometry.chips,
        );
        if let (Some(observed), Some(modelled)) = (observed, modelled) {
            text += &format!(
                "; a write {}\n\n{}",
                values::value(profile.nand.program_us, lab::results::Unit::Microseconds),
                table(observed, modelled)
            );
            text += &stalled(observed);
        }
        if let Some(rested) = rested {
            text += &format!(
                "\nafter idling it takes {} before it stalls, at {:.0} writes a second",
                Size(rested.bytes as u64),
                rested.writes_per_s
            );
        }
        let doubts: String =
            self.doubts().iter().map(|doubt| format!("\nunsure: {doubt}")).collect();
        format!("{text}\n{doubts}")
    }

    pub(super) fn json(&self) -> Value {
        let Fit { profile, read_us, observed, modelled, rested, unsure } = &self.fit;
        json!({
            "drive": to_text(&self.drive.path),
            "bytes": self.drive.bytes,
            "profile": profile,
            "read_us": read_us,
            "observed": observed,
            "modelled": modelled,
            "rested": rested,
            "unsure": unsure,
            "doubts": self.doubts(),
        })
    }
}

fn table(observed: &Behaviour, modelled: &Behaviour) -> String {
    let mut table = Table::new(["under sustained writes", "the drive", "the profile"]);
    for ((name, unit, of_drive), (_, _, of_profile)) in
        observed.figures().into_iter().zip(modelled.figures())
    {
        table.row([
            name.to_owned(),
            values::value(of_drive, unit),
            values::value(of_profile, unit),
        ]);
    }
    table.text()
}

fn stalled(observed: &Behaviour) -> String {
    let stalls = &observed.stalls;
    let threshold = values::value(stalls.threshold_us, lab::results::Unit::Microseconds);
    match stalls.count {
        0 => format!("\n\nno write took longer than {threshold}, which would count as a stall"),
        count => format!(
            "\n\n{count} stalls: some write took longer than {threshold}; one in {} written",
            Size(stalls.spacing_bytes as u64)
        ),
    }
}
