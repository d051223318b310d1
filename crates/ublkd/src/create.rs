//! create.
