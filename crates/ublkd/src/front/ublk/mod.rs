//! ublk.
