//! Talks to running arrays of Evenkeel: typed requests and answers of the control socket.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use evenkeel_client::{Client, ClientError, Health, RUN_DIR, Request};
//!
//! fn main() -> Result<(), ClientError> {
//!     let mut tank = Client::connect(Path::new(RUN_DIR), "tank")?;
//!     let report = tank.status()?;
//!     for problem in &report.problems {
//!         println!("{}: {}", problem.what, problem.action);
//!     }
//!     if report.health == Health::Online {
//!         tank.call(&Request::ScrubStart { repair: false })?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # What is promised
//!
//! The protocol has a [version](VERSION), which each line has. As long as it is the same:
//!
//! - Requests, their arguments, and codes of [refusals](Refusal) stay and mean the same. New ones can be
//!   added: an array of an older release refuses such a request with the code `bad-request`.
//! - A field of an answer stays, and keeps its type and its meaning. New ones can be added, and are ignored
//!   by older clients; in answers of older arrays they have a default.
//! - Kinds of problems and events, which are texts, can be added. So can values of enumerations, such as a
//!   new [`Task`]: a client of an older release does not understand such an answer
//!   ([`ClientError::NotUnderstood`]), and says so.
//!
//! `tests/answers.rs` keeps it: it reads the answers of every release that are stored beside it.

mod answers;
mod client;
pub mod paths;
mod protocol;
mod report;
#[cfg(feature = "schema")]
mod schema;

pub use answers::{DiskAnswer, Done, FlushAnswer, Page, PolicyAnswer, StopAnswer};
pub use client::{Client, ClientError, running};
pub use protocol::{
    LINE_BYTES_MAX, Launch, RUN_DIR, Refusal, Request, VERSION, decode_request, encode_reply,
    encode_request, socket_path,
};
pub use report::*;
#[cfg(feature = "schema")]
pub use schema::schema;
