//! Whole arrays in simulated worlds: the real engine and metadata over disks in memory. The disks
//! distinguish cached and durable content, end I/O in any order and fail, and their power fails.
//!
//! Invariants:
//! - A seed is a run: every decision comes from it, so the same seed gives the same trace.
//! - Faults stay within what the array promises to survive, so every error and every wrong byte is
//!   a bug.
//! - A check that fails panics, in the step in which it fails; [`run`] turns it into a [`Failure`].

mod arithmetic;
mod around;
mod checks;
mod create;
mod digest;
mod disk;
mod faults;
mod flash;
mod fuse;
mod hang;
mod hold;
mod host;
pub mod lease;
pub mod log;
mod memory;
mod model;
mod operator;
mod phases;
mod play;
mod power;
#[cfg(test)]
mod regressions;
mod reshape;
mod returns;
mod run;
mod scenario;
mod shrink;
mod silent;
mod simpler;
mod source;
pub mod stack;
mod summary;
mod torn;
mod under_way;
mod user;
mod variants;
mod volatile;
mod world;

pub use play::{Play, Playable, Sink};
pub use run::{Failure, run, run_bytes, trace};
pub use scenario::{Faults, Load, Scenario};
pub use source::Source;
pub use summary::{FaultCounts, Summary};
pub use volatile::Volatile;
