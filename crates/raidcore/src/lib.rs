//! The RAID core, which decides and does no I/O.
//!
//! Geometry and plans are pure functions; the [`engine`] is a sans-IO state machine: it is given
//! events with their times, and answers with actions. Files, clocks, threads and user data belong
//! to the host.
//!
//! Without its feature `std` it builds for machines without an operating system. Only checksums are
//! slower then.
#![no_std]

extern crate alloc;

pub mod engine;
pub mod geometry;
pub mod lease;
pub mod locks;
pub mod meta;
pub mod parity;
pub mod plan;
pub mod redirects;
pub mod scratch;
pub mod units;
