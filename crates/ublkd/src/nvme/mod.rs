//! NVMe drives: commands to them by the kernel's pass-through.

pub(crate) mod ask;
pub(crate) mod command;
pub mod latency;
pub mod namespace;
mod passthrough;
pub mod placement;
mod windows;

pub(crate) use command::Command;
#[cfg(test)]
pub(crate) use passthrough::Begun;
pub(crate) use passthrough::{Passthrough, Unfit};
pub(crate) use windows::{Order, View, Windows};

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
