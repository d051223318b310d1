//! The real binary, on real files.

mod advice;
mod boot;
mod exporter;
mod fit;
mod generated;
mod history;
mod lab;
mod life;
mod limits;
mod monitor;
mod programs;
mod refusals;
mod returns;
mod searches;
mod several;
#[path = "../clients/signal.rs"]
mod signal;
mod simulate;
mod volatile;
mod wear;
mod world;
