//! The array on real devices: members over io_uring, front ends, creating, attaching, control.
//!
//! One thread per array owns the engine and carries out its actions ([`host`]). Front ends submit
//! requests through a [`volume`].

mod arena;
pub mod attach;
pub mod becomes;
mod compute;
pub mod control;
pub mod create;
pub mod daemon;
pub mod flash;
pub mod front;
mod guests;
pub mod health;
pub mod history;
mod holder;
pub mod host;
pub mod import;
mod label;
pub mod lease;
pub mod limits;
pub mod members;
mod memory;
pub mod metrics;
pub mod null;
pub mod nvme;
mod open_members;
mod ops;
pub mod paths;
pub mod policy;
pub mod probe;
pub mod random;
mod region;
mod resident;
mod ring;
pub mod run_dir;
pub mod signature;
pub mod thread;
pub mod topology;
mod users;
pub mod volume;
