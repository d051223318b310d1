//! The commands, apart from the demonstration.

pub(crate) mod ask;
mod cache;
mod create;
mod diagnosis;
mod examine;
mod exporter;
mod generate;
mod held;
mod history;
mod import;
pub(crate) mod iostat;
mod list;
mod manage;
mod reshape;
mod restart;
mod scrub_all;
mod simulate;
mod start;
mod status;
mod wear;

pub(crate) use cache::cache;
pub(crate) use create::create;
pub(crate) use diagnosis::why;
pub(crate) use examine::{examine, examine_for_udev};
pub(crate) use exporter::exporter;
pub(crate) use generate::generate;
pub(crate) use history::{events, history};
pub(crate) use import::import;
pub(crate) use iostat::iostat;
pub(crate) use list::list;
pub(crate) use manage::{disk, policy, rebuild, scrub, stop};
pub(crate) use reshape::reshape;
pub(crate) use restart::restart;
pub(crate) use simulate::simulate;
pub(crate) use start::{start, start_in_background};
pub(crate) use status::{rate, status};
