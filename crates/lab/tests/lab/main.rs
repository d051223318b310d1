//! The laboratory, from an experiment's file to its results.

mod calibration;
mod examples;
mod expectations;
mod experiments;
mod figures;
mod full;
mod pdb;
mod sweeps;
mod world;
