//! Properties that must hold, one a file. A check that fails panics.

pub(crate) mod content;
pub(crate) mod kept;
pub(crate) mod leaks;
pub(crate) mod metadata;
pub(crate) mod ordering;
pub(crate) mod overlap;
pub(crate) mod parity;
pub(crate) mod progress;
pub(crate) mod said;
pub(crate) mod streams;
pub(crate) mod volatile;
pub(crate) mod warm;
