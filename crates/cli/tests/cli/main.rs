//! The command as people use it: the real binary, on real files.

mod advice;
mod boot;
mod lab;
mod life;
mod refusals;
mod searches;
mod simulate;
mod world;
