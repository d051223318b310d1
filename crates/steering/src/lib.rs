//! Policies: when members collect garbage, and where requests go meanwhile.
//!
//! A [scheme](scheme::SCHEMES) is a row of a table: which policies go together. Everything here
//! decides and does nothing: no I/O, no clock, no randomness of its own.
#![no_std]

extern crate alloc;

pub mod collect;
pub mod detect;
pub mod hedge;
mod histogram;
pub mod place;
pub mod popularity;
pub mod rest;
pub mod scheme;
mod signals;
mod steward;
pub mod trial;

pub use signals::{Signals, Source};
pub use steward::{Members, Steward};
