//! The control protocol of a running array: lines of JSON over a Unix socket that only its owner
//! can open, one per array, `<run directory>/<name>.sock`.
//!
//! A request is `{"v":1,"cmd":"disk-fail","disk":"2"}`, the answer `{"v":1,"ok":…}` or
//! `{"v":1,"error":{"code":…,"message":…,"hint":…}}`. A connection can carry any number of
//! requests, one after the other.
//!
//! Invariants:
//! - A line is at most [`LINE_BYTES_MAX`] long. A client that sends more gets one answer and is
//!   disconnected.
//! - Every request gets one answer, in order. A request of another version is refused before
//!   anything else of it is read.

mod answers;
mod away;
mod commands;
mod disks;
mod drives;
mod events;
mod io;
mod lease;
mod log;
mod messages;
mod newcomer;
mod orderly;
mod problems;
mod report;
mod returns;
mod scrub;
mod server;
mod service;
mod site;
mod spares;
mod staging;
mod stopper;
mod volatile;

use std::pin::Pin;
use std::sync::Arc;

pub use evenkeel_client::{
    ArrayReport, Client, ClientError, DriveReport, ErrorReport, EventReport, Facts, FlashLog,
    Front, GroupReport, Health, IoReport, LINE_BYTES_MAX, Launch, LeftReport, LogReport,
    MemberReport, MemberState, PaceReport, PassReport, Problem, RUN_DIR, Refusal, RemedyReport,
    Request, ScrubEndReport, ScrubReport, SpareReport, SpareUseReport, StagingReport, Task,
    TransfersReport, VERSION, Waits, WayBack, WhyReport, disk_name, running, socket_path,
};
pub use messages::ROOM_IS_USED_BY;
pub(crate) use messages::recovered;
pub use report::{drive_report, facts_of, facts_of_all};
pub(crate) use report::{group_of, pass_report};
pub use server::{BindError, CLIENTS_MAX, Server};
pub use service::Service;
pub use stopper::{Manner, Stopper};

/// Makes pages of metrics.
pub trait MetricsPages: Send + Sync {
    /// A page of now, or almost; none if there is nothing to tell any more.
    fn page(&self) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send + '_>>;
}
