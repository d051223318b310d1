//! The senders of commands, which wait for answers.

use std::collections::BTreeMap;

use raidcore::units::DeviceId;

use super::handle::Reply;

/// The sender that waits for the engine's answer to a command.
pub(super) enum Asker {
    Command(Reply<()>),
    Add(DeviceId, Reply<DeviceId>),
}

/// The senders that wait for an answer, by the number of their command.
#[derive(Default)]
pub(super) struct Askers {
    waiting: BTreeMap<u64, Asker>,
    next: u64,
}

impl Askers {
    /// The number of a new command, by which its sender is answered.
    pub(super) fn ask(&mut self, asker: Asker) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, asker);
        number
    }

    /// The sender to answer. Each command is answered once.
    pub(super) fn answered(&mut self, number: u64) -> Option<Asker> {
        self.waiting.remove(&number)
    }
}
