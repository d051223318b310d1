//! What an array is planned by: its size for a load ([`Swan`]), and how long its drives last ([`life`]).

pub mod life;
mod swan;

pub use swan::{
    SegmentTimes, Swan, groups, groups_without_erase, longest_wait, victim_utilisation,
};
