//! Operators' commands, at any moment.

use raidcore::engine::{Command, Note, Pace, PassEnd, PassKind, REBUILD_ORDERS};
use raidcore::meta::SlotState;
use raidcore::units::MemberId;

use crate::world::World;

/// The most disks of a world.
const DISKS_MAX: usize = 16;

impl World {
    /// Finds out whether redundancy can be relied on again.
    pub(crate) fn look_synced(&mut self) {
        if !self.unsynced || !self.engine().is_serving() {
            return;
        }
        let resyncs = self.engine().pass().is_some_and(|p| p.kind == PassKind::Resync);
        let ended = |note: &Note| matches!(note, Note::PassEnded(PassKind::Resync, PassEnd::Done));
        if !resyncs && self.notes.iter().any(ended) {
            self.unsynced = false;
            self.exposed.clear();
        }
    }

    pub(crate) fn operate(&mut self) {
        if !self.engine().is_serving() {
            return;
        }
        if self.scenario.volatile.is_some() && self.source.chance(1, 6) {
            let holds = self.source.chance(2, 3);
            self.command(Command::SetVolatile(holds));
            return;
        }
        let impaired = !self.is_whole();
        let redundant = self.redundancy() > 0;
        let spares: Vec<_> = self.engine().spares().collect();
        let successor = self.engine().successor().map(|successor| successor.device);
        let removable: Vec<_> = spares.iter().copied().chain(successor).collect();
        let member = MemberId(self.source.below(self.scenario.places() as u64) as u8);
        let command = match self.source.below(21) {
            16..=19 => {
                self.return_a_disk();
                return;
            }
            0..=3 if impaired && spares.is_empty() && redundant => self.new_spare(),
            0 if self.scenario.staging > 0 => Command::BringHome,
            4 if self.disks.len() < DISKS_MAX => self.new_spare(),
            5 | 6 => Command::Scrub { repair: self.source.chance(1, 2) },
            7 => Command::Pause,
            8 => Command::Resume,
            9 => Command::SetPace(Pace {
                min: 1 << self.source.below(30),
                max: u64::MAX >> self.source.below(40),
            }),
            // No member is missing while one that serves is replaced.
            10 | 11 if (self.serves(member) || self.can_lose(member)) && !spares.is_empty() => {
                Command::Replace { member, spare: self.source.one_of(&spares) }
            }
            12 | 13 if self.can_lose(member) => Command::Fail(member),
            14 if !removable.is_empty() => Command::Remove(self.source.one_of(&removable)),
            15 => Command::CancelScrub,
            20 => {
                let order = self.source.below(REBUILD_ORDERS.len() as u64);
                Command::SetRebuildOrder(&REBUILD_ORDERS[order as usize])
            }
            _ => return,
        };
        self.command(command);
    }

    fn serves(&self, member: MemberId) -> bool {
        let found = self.engine().members().nth(member.index());
        found.is_some_and(|m| m.state == SlotState::Up)
    }
}
