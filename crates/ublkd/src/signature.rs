//! signature.
