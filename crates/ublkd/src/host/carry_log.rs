//! How the data thread carries out what a log volume says, besides what the engines of its groups say.

use raidcore::units::BLOCK_BYTES;
use raidlog::array::{Action, Input};
use raidlog::{Answer, Pages, RecoveryError, codec};

use super::data::Data;
use super::log::Looked;
use super::notes::Happened;

impl Data {
    /// Tells the volume what it wanted to see, if it wanted to.
    pub(super) fn look(&mut self) -> bool {
        let Some(mut log) = self.log.take_if(|log| !log.looks.is_empty()) else { return false };
        let looked = log.looks.pop_front();
        let Looked { look, from, blocks, checksums } = looked.expect("it wants to see something");
        let seen = self.arena.blocks(from, blocks);
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

    /// Whether the log volume is what it should be, if it is one.
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
            Action::Summary { batch, to, .. } => {
                let Some(volume) = self.machine.volume() else { return };
                log.bytes.resize(volume.shape().summary() as usize * BLOCK_BYTES, 0);
                volume.encode_summary(batch, &mut log.bytes, |mem| {
                    codec::checksum(self.arena.blocks(mem, 1))
                });
                self.arena.put(to, &log.bytes);
            }
            Action::Pages { group, pages, blocks, to } => {
                let Some(volume) = self.machine.volume() else { return };
                log.bytes.resize(blocks as usize * BLOCK_BYTES, 0);
                for (n, into) in (0..).zip(log.bytes.chunks_exact_mut(BLOCK_BYTES)) {
                    let page = match pages {
                        Pages::Header => Pages::Header,
                        Pages::From(first) => Pages::From(first + n),
                    };
                    volume.encode_page(group, page, into);
                }
                self.arena.put(to, &log.bytes);
            }
            Action::Look { look, from, blocks, checksums, .. } => {
                log.looks.push_back(Looked { look, from, blocks, checksums });
            }
            Action::Copy { from, to, blocks } => {
                self.arena.copy(from, to, blocks);
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
