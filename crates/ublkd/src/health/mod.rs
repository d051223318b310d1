//! What a drive tells of itself: how far it is worn, how much was written to it, how warm it is.
//!
//! NVMe drives are asked for their SMART / health information log, ATA drives for their device
//! statistics, both by the kernel's pass-through; everything else that may be a drive is left to
//! `smartctl`, and so is a drive that the kernel does not pass a command to.
//!
//! Invariants:
//! - A drive that does not tell something is not an error: the field is missing, or all of it.
//! - Only threads of [`Readings`] wait for a drive, and no thread of the daemon waits for these.
//! - Whatever bytes a drive or `smartctl` gives, reading them ends without a panic.

pub mod ata;
mod drive;
mod forecast;
pub mod nvme;
mod read;
mod readings;
mod sectors;
pub mod smartctl;

pub use evenkeel_client::{DriveHealth, Source};
pub use forecast::{Expected, REPLACE_AT_PERCENT};
pub use readings::{Reading, Readings};
