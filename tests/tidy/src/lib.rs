//! Rules for the repository's sources and documents, checked by reading them.
//!
//! Each module finds offences of one kind in a text. `tests/repository.rs` applies them to the
//! repository, and compares the offences with the lists in [`known`].

pub mod book;
pub mod circles;
pub mod code;
pub mod files;
pub mod known;
pub mod links;
pub mod messages;
pub mod ratchet;
pub mod sizes;
pub mod words;
