//! When the power fails.

use crate::disk::Phase;

/// What makes the power fail at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fuse {
    /// Nothing does.
    #[default]
    None,
    /// The next I/O of a phase does.
    Lit(Phase),
    /// It has failed when this disk had carried out such an I/O.
    Blown(usize),
}
