//! A model of SSDs: flash translation layer, garbage collection and NAND timing.
//!
//! A [`Profile`] describes a drive. An [`Ssd`] is one: a deterministic state machine without a
//! clock, thread or data. [`real::RealTime`] runs it by a clock. `docs/flashsim.md` tells how it
//! works and how far it can be trusted.

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
pub use ssd::{
    Command, CommandError, Completion, GcMode, GcOrder, GcState, Op, Space, Ssd, Thresholds,
};
pub use stats::{FlashStats, Stats, Sum, Wear};
