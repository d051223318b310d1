//! Saves a drive, and restores it in another process.
//!
//! The saved state is the one after a power cut: commands under way are gone, a victim stays half
//! moved, an erase that has not ended begins again. The write buffer is kept even if it is
//! volatile, and its pages wait to be programmed again. As a drive holds no data, that only affects
//! timing, and it keeps the write amplification right.

use serde::{Deserialize, Serialize};

use super::Ssd;
use super::die::{Die, JobKind};
use super::work::NONE;
use crate::ftl::{Ftl, Place, Write};
use crate::profile::Profile;
use crate::save::{Reader, RestoreError, Writer};
use crate::stats::Stats;

/// In the list of the buffer's pages: not wanted any more.
const STALE: u32 = 1 << 31;

/// Then it is left out, as releases before it did.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    /// Blocks that were erased before the counters were reset.
    #[serde(default, skip_serializing_if = "is_zero")]
    erased_before: u64,
    profile: Profile,
    stats: Stats,
}

impl Text {
    /// Drives that were saved before their profiles said whether they tell and obey did both.
    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let mut table: toml::Table = toml::from_str(text)?;
        if let Some(toml::Value::Table(profile)) = table.get_mut("profile") {
            for key in ["told", "obeys"] {
                profile.entry(key).or_insert(true.into());
            }
        }
        table.try_into()
    }
}

impl Ssd {
    /// The drive's lasting state, with its profile, as bytes: four for each logical page and for
    /// each block, and a little more.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let text = Text {
            erased_before: self.erased_before,
            profile: self.profile.clone(),
            stats: self.stats(),
        };
        // Tables of strings and numbers always encode.
        let mut out = Writer::new(&toml::to_string(&text).unwrap_or_default());
        out.u64(self.now);
        out.prng(&self.prng);
        out.u32(u32::from(self.events.first().is_none() && self.gc.orders.are_none()));
        (0..self.dies.len() as u32).for_each(|die| out.u32(self.gc_cursor(die)));
        (0..self.geometry().planes).for_each(|plane| out.u32(u32::from(self.is_low(plane))));
        self.ftl.save(&mut out);
        let wanted = |(slot, Write { lpn, .. })| match self.ftl.place(lpn) {
            Place::Buffer(at) if at == slot => lpn,
            Place::Buffer(_) | Place::Flash(_) | Place::Unmapped => lpn | STALE,
        };
        out.list(self.waiting_slots().map(wanted));
        // Earlier releases know nothing of streams, nor of profiles with several.
        if self.ftl.streams() > 1 {
            self.waiting_slots().for_each(|(_, write)| out.u32(write.stream.into()));
        }
        out.finish()
    }

    /// The drive that was saved. It goes on at the time at which it was saved. It remembers no
    /// orders, but decides itself when to collect garbage until it is told: a host that has gone
    /// may be gone for good, and another one need not know what was ordered.
    ///
    /// # Errors
    /// If `bytes` are not what [`Ssd::save`] gave. Whatever they are, there is no panic, neither
    /// now nor when the drive is used.
    pub fn restore(bytes: &[u8]) -> Result<Self, RestoreError> {
        let (mut input, text) = Reader::open(bytes)?;
        let Text { erased_before, profile, stats } =
            Text::read(text).map_err(|error| RestoreError::Text(error.to_string()))?;
        profile.check()?;
        let now = input.count()?;
        let prng = input.prng()?;
        let at_rest = input.below(2, "neither at rest nor not")? == 1;
        let g = profile.sizes();
        let mut cursors = Vec::new();
        for _ in 0..g.dies {
            cursors.push(input.below(g.planes_per_die, "a plane that it doesn't have")?);
        }
        let mut low = Vec::new();
        for _ in 0..g.planes {
            low.push(input.below(2, "neither low nor not")? == 1);
        }
        let ftl = Ftl::restore(&profile, &mut input)?;
        let mut ssd = Self::around(&profile, ftl, prng);
        (ssd.now, ssd.stats, ssd.ftl.stats) = (now, stats, stats.flash);
        ssd.erased_before = erased_before;
        ssd.restore_gc(&stats, &cursors, low)?;
        ssd.restore_buffer(&mut input)?;
        input.finish()?;
        // A drive at rest has nothing to begin.
        if !at_rest {
            ssd.wake.extend(0..g.dies);
        }
        ssd.settle();
        Ok(ssd)
    }

    /// Slots of the write buffer whose programs have not begun, and their pages.
    fn waiting_slots(&self) -> impl Iterator<Item = (u32, Write)> {
        let jobs = self.dies.iter().flat_map(|die| {
            let first = Some(die.first_waiting()).filter(|at| at.1 != NONE);
            core::iter::successors(first, |&at| {
                Some(Die::after(&self.jobs, at)).filter(|at| at.1 != NONE)
            })
        });
        let destaging = jobs.filter_map(|(_, job)| match self.jobs[job].kind {
            JobKind::Destage { slot } => Some(slot),
            JobKind::Read { .. } | JobKind::Program { .. } => None,
        });
        let buffer = self.buffer.as_ref();
        let gathered = buffer.into_iter().flat_map(|buffer| buffer.gathered());
        destaging.chain(gathered).flat_map(move |first| {
            let slots = buffer.into_iter().flat_map(move |buffer| buffer.chain(first));
            slots.filter_map(move |slot| Some((slot, buffer?.write(slot))))
        })
    }

    fn restore_buffer(&mut self, input: &mut Reader) -> Result<(), RestoreError> {
        let program = self.geometry().pages_per_program;
        let logical_pages = self.geometry().logical_pages;
        let room = self.buffer.as_ref().map_or(0, |buffer| buffer.free());
        let mut waiting = Vec::new();
        for _ in 0..input.length(room)? {
            waiting.push((input.u32()?, 0));
        }
        let streams = self.ftl.streams();
        for (_, stream) in waiting.iter_mut().filter(|_| streams > 1) {
            *stream = input.below(streams.into(), "a stream that it doesn't have")? as u16;
        }
        for (value, stream) in waiting {
            let (lpn, stale) = (value & !STALE, value & STALE != 0);
            let wrong = RestoreError::Impossible("a page is buffered that can't be");
            if lpn >= logical_pages || (!stale && self.ftl.place(lpn) != Place::Unmapped) {
                return Err(wrong);
            }
            let write = Write { lpn, stream };
            let Some(slot) = self.buffer.as_mut().and_then(|buffer| buffer.add(write)) else {
                return Err(wrong);
            };
            if !stale {
                self.ftl.put_in_buffer(lpn, slot);
            }
            self.destage(stream, program);
        }
        Ok(())
    }
}
