//! Policies: when members collect garbage, where requests go meanwhile, and how parity is shared so that members do
//! not wear out together.
//!
//! A [scheme](scheme::SCHEMES) is a row of a table: which policies go together. It may have a
//! [cache](hold::CACHES). Everything here
//! decides and does nothing: no I/O, no clock, no randomness of its own.
#![no_std]

extern crate alloc;

mod array;
mod burden;
pub mod collect;
mod controller;
pub mod detect;
pub mod detour_trial;
pub mod hedge;
pub mod hedge_trial;
pub mod hedged_home;
mod histogram;
pub mod hold;
pub mod popularity;
pub mod scheme;
mod signals;
pub mod stagger;
pub mod steer;
pub mod trials;
pub mod turn_trial;
pub mod wear;
pub mod young;

pub use array::{Devices, Steering};
pub use controller::{Controller, Members};
pub use signals::Signals;
