//! Whether it pays to lead requests around busy members, judged apart by what they are.
//!
//! A write that goes home reads old data and parity first. If a member is found to be busy only then, the write may have
//! waited for it already, and there may be little left to wait for. So writes that are late win another amount by
//! being staged than those that are staged at once. They are judged by what they take from then on.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, Judged, Outcome, Way};

use crate::detour_trial::DetourTrial;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Trials {
    /// Of reads.
    pub reads: DetourTrial,
    /// Of writes before they read anything.
    pub writes: DetourTrial,
    /// Of writes that are [late](raidcore::engine::Redirect::late).
    pub late: DetourTrial,
}

impl Trials {
    /// Whether a write of this many blocks is staged at this [price](DetourTrial::is_in_question), if it could be.
    pub fn stages(&mut self, now: Instant, late: bool, blocks: u32, price: u32) -> bool {
        if late { &mut self.late } else { &mut self.writes }.pays(now, blocks, price)
    }

    /// A write has ended.
    pub fn written(&mut self, Outcome { blocks, way, took, late, .. }: Outcome) {
        match (way, late) {
            (Way::Calm, _) => {
                self.writes.ended(blocks, way, took);
                self.late.ended(blocks, way, took);
            }
            (Way::Home | Way::Around, None) => self.writes.ended(blocks, way, took),
            (Way::Home | Way::Around, Some(took)) => self.late.ended(blocks, way, took),
        }
    }

    /// How long reads or writes of this many blocks take that no busy member delays, once it is known.
    #[must_use]
    pub fn calm(&self, read: bool, blocks: u32) -> Option<Duration> {
        if read { self.reads.calm(blocks) } else { self.writes.calm(blocks) }
    }

    /// The findings on small and large writes, at once and late.
    pub fn of_writes(&self) -> impl Iterator<Item = Judged> {
        let at_once = self.writes.judged(|small| Choice::Detour { reads: false, small });
        at_once.chain(self.late.judged(|small| Choice::Late { small }))
    }
}
