//! Power failures at chosen moments.

use crate::disk::Phase;

/// Makes the power fail at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fuse {
    /// It does not.
    #[default]
    None,
    /// The next I/O of this phase makes it fail.
    Lit(Phase),
    /// It has failed after this disk had carried out such an I/O.
    Blown(usize),
}
