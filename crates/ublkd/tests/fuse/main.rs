//! The FUSE front end as the kernel and its users see it, over a back end in memory. Mounting needs
//! root and /dev/fuse.

mod bytes;
mod file;
mod mounts;
mod null;
#[path = "../tools/run.rs"]
mod run;
#[path = "../tools/store.rs"]
mod store;
mod tools;
mod world;
