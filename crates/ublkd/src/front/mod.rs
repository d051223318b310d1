//! The protocols that serve a [`Volume`](crate::volume::Volume) to its users. They don't know each
//! other.

pub mod fuse;
pub mod nbd;
mod thread;
pub mod ublk;
