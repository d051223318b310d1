//! How the data thread carries out what a log volume says.

use raidcore::units::BLOCK_BYTES;
use raidlog::array::{Action, Input, LogMem};
use raidlog::{Answer, Pages, RecoveryError, codec};

use super::data::Data;
use super::log::{LogStatus, Looked};
use super::machine::Machine;
use super::notes::Happened;

impl Data {
    /// How the log volume is, if it is one and is there.
    pub(super) fn log_status(&self) -> Option<LogStatus> {
        match &self.machine {
            Machine::Array(_) => None,
            Machine::Log(log) => log.status(),
        }
    }

    /// Tells the volume, and begins what it says.
    pub(super) fn step_log(&mut self, input: Input<'_>) {
        let Machine::Log(log) = &mut self.machine else { return };
        let mut actions = std::mem::take(&mut log.actions);
        log.array.step(self.now, input, &mut actions);
        self.carry_out_all(actions);
    }

    /// Tells the volume what it wanted to see, if it wanted to.
    pub(super) fn look(&mut self) -> bool {
        let Machine::Log(log) = &mut self.machine else { return false };
        let Some(Looked { look, slot, blocks, checksums }) = log.looks.pop_front() else {
            return false;
        };
        let seen = self.arena.blocks(log.memory.of(LogMem::Slot { slot, at: 0 }), blocks);
        let answer = if checksums {
            log.checksums.clear();
            log.checksums.extend(seen.chunks_exact(BLOCK_BYTES).map(codec::checksum));
            Answer::Checksums(&log.checksums)
        } else {
            Answer::Bytes(seen)
        };
        let mut actions = std::mem::take(&mut log.actions);
        log.array.step(self.now, Input::Seen { look, answer }, &mut actions);
        self.carry_out_all(actions);
        true
    }

    fn carry_out_all(&mut self, mut actions: Vec<Action>) {
        self.checksums.clear();
        let Machine::Log(log) = &mut self.machine else { return };
        if !log.is_as_said() {
            tracing::error!(
                "the log volume is not what its members' superblocks say; nothing was written"
            );
            self.broken = true;
            return;
        }
        for action in actions.drain(..) {
            match action {
                Action::Array { group, action } => self.carry_out(group, action),
                Action::Complete { tag, result } => self.complete(tag, result),
                action @ (Action::Summary { .. }
                | Action::Pages { .. }
                | Action::Look { .. }
                | Action::Copy { .. }
                | Action::Note(_)
                | Action::Lost(_)
                | Action::Stopped(_)) => self.carry_out_of_log(action),
            }
        }
        if let Machine::Log(log) = &mut self.machine {
            log.actions = actions;
        }
    }

    fn carry_out_of_log(&mut self, action: Action) {
        let Machine::Log(log) = &mut self.machine else { return };
        match action {
            Action::Summary { batch, buffer, first, .. } => {
                let Some(volume) = log.array.volume() else { return };
                log.bytes.resize(volume.shape().summary() as usize * BLOCK_BYTES, 0);
                let place = |at| log.memory.of(LogMem::Segment { buffer, at });
                volume.encode_summary(batch, &mut log.bytes, |at| {
                    codec::checksum(self.arena.blocks(place(at), 1))
                });
                self.arena.put(place(first), &log.bytes);
            }
            Action::Pages { group, pages, blocks, slot } => {
                let Some(volume) = log.array.volume() else { return };
                log.bytes.resize(blocks as usize * BLOCK_BYTES, 0);
                for (n, into) in (0..).zip(log.bytes.chunks_exact_mut(BLOCK_BYTES)) {
                    let page = match pages {
                        Pages::Header => Pages::Header,
                        Pages::From(first) => Pages::From(first + n),
                    };
                    volume.encode_page(group, page, into);
                }
                self.arena.put(log.memory.of(LogMem::Slot { slot, at: 0 }), &log.bytes);
            }
            Action::Look { look, slot, blocks, checksums, .. } => {
                log.looks.push_back(Looked { look, slot, blocks, checksums });
            }
            Action::Copy { from, to, blocks } => {
                self.arena.copy(log.memory.of(from), log.memory.of(to), blocks);
            }
            Action::Note(note) => self.note(Happened::Volume(note)),
            Action::Lost(error) => self.lost(error),
            Action::Stopped(result) => self.stopped = Some(result),
            Action::Array { .. } | Action::Complete { .. } => {}
        }
    }

    fn lost(&mut self, error: RecoveryError) {
        tracing::error!("the log volume can't be started: {error}");
        self.shared.lose(error);
    }
}
