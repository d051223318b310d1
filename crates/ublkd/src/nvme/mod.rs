//! NVMe drives: commands to them by the kernel's pass-through.

pub(crate) mod admin;
pub(crate) mod command;
pub mod namespace;
mod passthrough;

pub(crate) use command::Command;
pub(crate) use passthrough::{Passthrough, Unfit};

#[cfg(test)]
mod tests;
