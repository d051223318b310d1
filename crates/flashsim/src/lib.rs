//! SSDs that are not there: flash translation layer, garbage collection and NAND timing.
//!
//! A [`Profile`] says what a drive is like, an [`Ssd`] is one: a deterministic machine without a
//! clock, thread or data. [`real::RealTime`] is one that follows a clock. How it works and how far it can be trusted is told in
//! `docs/flashsim.md`.

mod ftl;
mod geometry;
pub mod profile;
pub mod real;
mod save;
mod ssd;
mod stats;
mod timing;
pub mod validate;

pub use ftl::Precondition;
pub use geometry::Geometry;
pub use profile::{Profile, ProfileError};
pub use save::RestoreError;
pub use ssd::{Command, CommandError, Completion, GcOrder, GcState, Op, Space, Ssd};
pub use stats::{FlashStats, Stats, Sum, Wear};
