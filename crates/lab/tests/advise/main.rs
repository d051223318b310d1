//! Profiles fitted to recordings of drives whose profiles are known, and advice whose answer is known.

mod advice;
mod fitted;
