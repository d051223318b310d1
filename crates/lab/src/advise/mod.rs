//! Advice: which array of these drives serves a workload best.
//!
//! A [`Question`] is a drive, a number of them and a workload. [`advise`] plays the workload in virtual time on
//! the arrays that `evenkeel create` can make of such drives, in two rounds: all [`candidates`] briefly, then
//! the best of them longer, with several seeds and other chunks. Equal questions get equal [`Advice`].
//!
//! Invariant: only what the daemon does is played, and only what it accepts: no policy that is
//! nothing without drives that take orders, where there are none, and no staging log where there can be none.

mod candidates;
mod doubt;
mod judge;
mod rounds;

pub use candidates::{Candidate, Question, QuestionError, candidates, usual_level};
pub use doubt::Doubt;
pub use judge::{Beside, FIGURES, WEAR};
pub use rounds::{Advice, AdviceError, Row, advise};
