//! Deterministic building blocks: simulated or real time as a plain number, seeded randomness,
//! and slot tables with generational ids. Nothing here reads a clock or an entropy source.
#![no_std]

extern crate alloc;

mod prng;
mod slots;
mod time;

pub use prng::Prng;
pub use slots::{Id, Slots};
pub use time::Instant;
