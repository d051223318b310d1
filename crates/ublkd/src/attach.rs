//! attach.
