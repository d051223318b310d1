//! Policies: when members collect garbage, and where requests go meanwhile.
//!
//! Everything here decides and does nothing: no I/O, no clock, no randomness of its own.
#![no_std]

extern crate alloc;
