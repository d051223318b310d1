//! Profiles fitted to recordings of drives whose profiles are known.

mod fitted;
