//! The laboratory simulates arrays of modelled SSDs under workloads.
//!
//! The engine is the daemon's, the SSDs are [`flashsim`]'s, and time is virtual. An
//! [`experiment::Experiment`] is a file with the points to measure; [`sweep`] runs it on all cores,
//! and every [shard](shard::run_shard) of it becomes a line of JSON, a [`results::Record`].

pub mod advise;
mod arrival;
pub mod calibrate;
pub mod experiment;
pub mod fit;
pub mod judge;
pub mod measure;
mod pages;
pub mod plan;
pub mod play;
mod point;
pub mod report;
pub mod results;
pub mod run;
pub mod shard;
pub mod sweep;
pub mod system;
pub mod trace;
pub mod units;
pub mod workload;
