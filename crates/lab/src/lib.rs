//! The laboratory: what would this array, on these SSDs, do to that workload?
//!
//! The engine is the daemon's, the SSDs are `flashsim`'s, and time is virtual.

pub mod trace;
pub mod units;
pub mod workload;
