//! The family of drives among which the one is sought that behaves like a recorded one.

use flashsim::Profile;
use flashsim::profile::{
    Arrangement, Background, Collection, CopyPath, DieChoice, Nand, PlaneChoice, Preempt, Scope,
    Suspend, Translation, Unit, Victim, WriteBuffer,
};

/// Pages of a modelled drive, about: enough for a steady state, few enough for a search.
const PAGES: f64 = 16_384.0;

/// Erasing takes so many times as long as programming, as with common flash: the two can't be told apart.
pub(super) const ERASE: f64 = 5.0;

/// How collection gets in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collects {
    /// A block of each unit at a time; the whole drive waits.
    Device,
    /// A block of a unit; that unit waits.
    Unit,
    /// A page at a time, in turn with requests.
    Paced,
}

/// A drive of equal units, each of which does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) collects: Collects,
    pub(super) die: DieChoice,
    /// Whether reads suspend what else a unit does.
    pub(super) suspends: bool,
    pub(super) units: u32,
    pub(super) read_us: f64,
    pub(super) program_us: f64,
    /// Pages of a block.
    pub(super) pages: f64,
    /// The part of the blocks that is not offered to the host.
    pub(super) spare: f64,
    pub(super) buffer_kib: Option<u32>,
    /// What idle units collect beyond what they must, in pages of each; not at all if nothing.
    pub(super) idle_pages: f64,
}

impl Shape {
    /// Pages of a block that are possible.
    pub(super) const PAGES: (f64, f64) = (4.0, 8192.0);
    /// Shares of spare blocks that are possible.
    pub(super) const SPARE: (f64, f64) = (0.02, 0.6);

    /// The drive.
    pub(super) fn profile(&self) -> Profile {
        let pages = self.pages.round().clamp(Self::PAGES.0, Self::PAGES.1);
        let spare = self.spare.clamp(Self::SPARE.0, Self::SPARE.1);
        let few = PAGES / (f64::from(self.units) * pages);
        let blocks = few.clamp(32.0, 256.0).max(8.0 / spare).round();
        let spare_blocks = (spare * blocks).round().max(5.0);
        let start = ((spare_blocks - 3.0) / 3.0).floor().max(1.0);
        // At most so many blocks can be free beside what is being written.
        let idle = (self.idle_pages / pages).ceil().min(spare_blocks - 3.0 - start);
        let share = |of: f64| of / blocks;
        let background =
            Background { start: share(start + idle), stop: None, idle_us: 1000.0, gain: 0.125 };
        let suspend = Suspend { erase: true, program: true, latency_us: 20.0, limit: 1000 };
        let (scope, unit) = match self.collects {
            Collects::Device => (Scope::Device, Unit::Burst(self.units)),
            Collects::Unit => (Scope::Chip, Unit::Block),
            Collects::Paced => (Scope::Chip, Unit::Page),
        };
        Profile {
            name: "fitted".to_owned(),
            told: false,
            obeys: false,
            geometry: Arrangement {
                channels: self.units,
                chips: 1,
                dies: 1,
                planes: 1,
                blocks: blocks as u32,
                pages: pages as u32,
                page_bytes: 4096,
            },
            nand: Nand {
                read_us: tenths(self.read_us),
                program_us: tenths(self.program_us),
                erase_us: tenths(ERASE * self.program_us),
                multi_plane_reads: false,
                program_planes: 1,
                program_pages: 1,
            },
            bus: None,
            link: None,
            ftl: Translation {
                spare: share(spare_blocks),
                mapping_bytes: None,
                summary: false,
                die: self.die,
                plane: PlaneChoice::Static,
                reads_first: 0,
                streams: 1,
                wear_leveling: None,
            },
            gc: Collection {
                victim: Victim::Greedy,
                scope,
                unit,
                start: share(start),
                stop: None,
                hard: if self.collects == Collects::Paced { share(start / 2.0) } else { 0.0 },
                only_when_waiting: false,
                host_turns: u32::from(self.collects == Collects::Paced),
                preempt: Preempt::Never,
                copy: CopyPath::Controller,
                separate: false,
                instant: false,
                background: (idle >= 1.0).then_some(background),
            },
            buffer: self.buffer_kib.map(|kib| WriteBuffer { kib, power_safe: true }),
            suspend: self.suspends.then_some(suspend),
            read_retry: None,
        }
    }
}

/// To a tenth of a microsecond, and at least that.
fn tenths(us: f64) -> f64 {
    ((us * 10.0).round() / 10.0).clamp(0.1, 1e8)
}
