//! Rules for the repository's sources and documents, checked by reading them.
//!
//! Each module finds offences of one kind in text that is handed to it. `tests/repository.rs` feeds
//! the repository to them, and holds the offences that there are against the lists in [`known`].

pub mod circles;
pub mod code;
pub mod files;
pub mod known;
pub mod links;
pub mod ratchet;
pub mod sizes;
pub mod words;
