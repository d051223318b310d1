//! The RAID core that decides and never does.
//!
//! Geometry and plans are pure functions; the [`engine`] is a sans-IO machine that is told what
//! happened and when, and answers with what to do. Files, clocks, threads and user data belong to
//! the host.
//!
//! Without its feature `std` it builds for machines without an operating system; only checksums are slower
//! then.
#![no_std]

extern crate alloc;

pub mod engine;
pub mod geometry;
pub mod locks;
pub mod meta;
pub mod parity;
pub mod plan;
pub mod redirects;
pub mod scratch;
pub mod units;
