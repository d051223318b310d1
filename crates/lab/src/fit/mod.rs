//! From the latencies of a drive to a profile that behaves like it.
//!
//! A [`Plan`] says what is asked of the drive and for how long. Whoever carries it out, on a real drive or on
//! a modelled one ([`play`]), brings back a [`Recording`]. [`fit`] is a pure function of it: equal recordings
//! give equal profiles.
//!
//! What reads and writes take where nothing collects is read off the recording. What collection does is found
//! by search: modelled drives are played under the same writes until they behave as was recorded. So the
//! profile says how the drive behaves, not how it is built.

mod behaviour;
mod fitting;
mod play;
mod recording;
mod search;
mod shape;
mod unsure;

pub use behaviour::{Behaviour, Rested, Stalls};
pub use fitting::{Fit, FitError, fit};
pub use play::play;
pub use recording::{Load, Plan, PlanError, Recorded, Recording, Sample, Step};
pub use unsure::Unsure;
