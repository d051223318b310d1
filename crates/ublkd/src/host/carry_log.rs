//! Carries out the actions of a log volume, apart from those of its groups' engines.

use raidcore::units::BLOCK_BYTES;
use raidlog::array::{Action, Input, LogMem};
use raidlog::{Answer, Pages, RecoveryError, codec};

use super::data::Data;
use super::log::Looked;
use super::notes::Happened;

impl Data {
    /// Answers one of the volume's looks, if there is one.
    pub(super) fn look(&mut self) -> bool {
        let Some(mut log) = self.log.take_if(|log| !log.looks.is_empty()) else { return false };
        let looked = log.looks.pop_front();
        let Looked { look, slot, blocks, checksums } = looked.expect("it wants to see something");
        let seen = self.arena.blocks(self.places.of(LogMem::Slot { slot, at: 0 }), blocks);
        let answer = if checksums {
            log.checksums.clear();
            log.checksums.extend(seen.chunks_exact(BLOCK_BYTES).map(codec::checksum));
            Answer::Checksums(&log.checksums)
        } else {
            Answer::Bytes(seen)
        };
        let mut actions = self.actions.take().unwrap_or_default();
        self.machine.step(self.now, Input::Seen { look, answer }, &mut actions);
        self.log = Some(log);
        self.carry_out_all(&mut actions);
        self.actions = Some(actions);
        true
    }

    /// Checks that the log volume, if it is one, matches the superblocks.
    pub(super) fn is_as_said(&mut self) -> bool {
        let machine = &self.machine;
        let as_said = self.log.as_mut().is_none_or(|log| log.is_as_said(machine));
        if !as_said {
            tracing::error!(
                "the log volume is not what its members' superblocks say; nothing was written"
            );
            self.broken = true;
        }
        as_said
    }

    pub(super) fn carry_out_of_log(&mut self, action: Action) {
        let Some(log) = &mut self.log else { return };
        match action {
            Action::Summary { batch, buffer, first, .. } => {
                let Some(volume) = self.machine.volume() else { return };
                log.bytes.resize(volume.shape().summary() as usize * BLOCK_BYTES, 0);
                let place = |at| self.places.of(LogMem::Segment { buffer, at });
                volume.encode_summary(batch, &mut log.bytes, |at| {
                    codec::checksum(self.arena.blocks(place(at), 1))
                });
                self.arena.put(place(first), &log.bytes);
            }
            Action::Pages { group, pages, blocks, slot } => {
                let Some(volume) = self.machine.volume() else { return };
                log.bytes.resize(blocks as usize * BLOCK_BYTES, 0);
                for (n, into) in (0..).zip(log.bytes.chunks_exact_mut(BLOCK_BYTES)) {
                    let page = match pages {
                        Pages::Header => Pages::Header,
                        Pages::From(first) => Pages::From(first + n),
                    };
                    volume.encode_page(group, page, into);
                }
                self.arena.put(self.places.of(LogMem::Slot { slot, at: 0 }), &log.bytes);
            }
            Action::Look { look, slot, blocks, checksums, .. } => {
                log.looks.push_back(Looked { look, slot, blocks, checksums });
            }
            Action::Copy { from, to, blocks } => {
                self.arena.copy(self.places.of(from), self.places.of(to), blocks);
            }
            Action::Note(note) => self.note(Happened::Volume(note)),
            Action::Lost(error) => self.lost(error),
            Action::Array { group, action } => self.carry_out(group, action),
            Action::Complete { tag, result } => self.complete(tag, result),
            Action::Stopped(result) => self.stopped = Some(result),
        }
    }

    fn lost(&mut self, error: RecoveryError) {
        tracing::error!("the log volume can't be started: {error}");
        self.shared.lose(error);
    }
}
