//! The laboratory, from an experiment's file to its results.

mod cached;
mod calibration;
mod examples;
mod expectations;
mod experiments;
mod figures;
mod full;
mod life;
mod pdb;
mod streams;
mod sweeps;
mod world;
