//! What the lease's agent is told.

use det::Instant;
use raidcore::lease::Answer;
use raidcore::units::{DeviceId, MemberId};

use super::file::LeaseFile;

/// What the agent is told.
#[derive(Debug)]
pub(super) enum Message {
    /// A member has done what it was asked for.
    Answered { member: MemberId, number: u64, answer: Answer },
    /// The record tells that these members serve.
    Serve(Serve),
    /// It is to end.
    End(Ending),
    /// The array has no lease any more.
    Free,
}

/// Members that serve, as the record tells since `at`.
#[derive(Debug)]
pub(crate) struct Serve {
    /// When that was found to be durable, by the lease's clock.
    pub(crate) at: Instant,
    /// How many changes of the record that takes in.
    pub(crate) events: u64,
    /// The members, their devices as far as they are known, and files of those that are open.
    pub(crate) members: Vec<(MemberId, Option<DeviceId>, Option<LeaseFile>)>,
}

/// How an agent ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Nothing is under way any more, and others may have the lease at once.
    GiveUp,
    /// It is renewed no more: the next process of this host goes on with it, or others take it.
    Leave,
}
