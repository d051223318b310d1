//! NVMe drives: commands to them by the kernel's pass-through.

pub(crate) mod ask;
pub(crate) mod command;
pub mod namespace;
mod passthrough;
pub mod placement;

pub(crate) use command::Command;
#[cfg(test)]
pub(crate) use passthrough::Begun;
pub(crate) use passthrough::{Passthrough, Unfit};

#[cfg(test)]
mod tests;
