//! The search for the drive that behaves like a recorded one.

use flashsim::profile::DieChoice;
use flashsim::{Precondition, Ssd};

use super::behaviour::{Behaviour, Stalls};
use super::play::Player;
use super::recording::Step;
use super::shape::{Collects, Shape};

/// How often a modelled drive was overwritten before it is looked at.
const OVERWRITES: f64 = 1.0;

/// How many of the kinds of drives are sought among in detail.
const KINDS: usize = 2;

/// The most drives of a kind that are played.
const TRIES: usize = 24;

/// The step of the last tries: parameters are as exact as this.
const FINEST: f64 = 1.02;

/// A drive, and how it behaves.
pub(super) struct Found {
    pub(super) shape: Shape,
    pub(super) behaviour: Behaviour,
}

/// Finds the drive that behaves most like `observed`, from a first guess on.
pub(super) fn search(guess: Shape, observed: &Behaviour) -> Option<Found> {
    let kinds = [Collects::Device, Collects::Unit, Collects::Paced];
    let dies = [DieChoice::RoundRobin, DieChoice::Static];
    let all = kinds.into_iter().flat_map(|collects| dies.map(|die| (collects, die)));
    let mut tried: Vec<Try> = all
        .filter_map(|(collects, die)| Try::of(Shape { collects, die, ..guess }, observed))
        .collect();
    tried.sort_by(|a, b| a.miss.total_cmp(&b.miss));
    tried.truncate(KINDS);
    let best = tried.into_iter().map(|first| descend(first, observed));
    let best = best.min_by(|a, b| a.miss.total_cmp(&b.miss))?;
    Some(Found { shape: best.shape, behaviour: best.behaviour })
}

/// A drive that was played.
struct Try {
    shape: Shape,
    behaviour: Behaviour,
    miss: f64,
}

impl Try {
    /// Not if no drive is like that.
    fn of(shape: Shape, observed: &Behaviour) -> Option<Self> {
        let behaviour = behaviour(&shape, observed)?;
        let miss = miss(&behaviour, observed);
        Some(Self { shape, behaviour, miss })
    }
}

/// Changes one parameter at a time as long as that gains, then by less.
fn descend(mut best: Try, observed: &Behaviour) -> Try {
    let change: [fn(&Shape, f64) -> Shape; 3] = [
        |s, by| Shape { pages: (s.pages * by).clamp(Shape::PAGES.0, Shape::PAGES.1), ..*s },
        |s, by| Shape { spare: (s.spare * by).clamp(Shape::SPARE.0, Shape::SPARE.1), ..*s },
        |s, by| Shape { program_us: s.program_us * by, ..*s },
    ];
    let (mut by, mut tries) = (1.5, 0);
    while by > FINEST && tries < TRIES {
        let mut gained = false;
        for (index, change) in change.iter().enumerate() {
            // How long programs take was measured: it is only corrected.
            let by = if index == 2 { 1.0 + (by - 1.0) / 4.0 } else { by };
            for by in [by, 1.0 / by] {
                tries += 1;
                let next = Try::of(change(&best.shape, by), observed);
                if let Some(next) = next.filter(|next| next.miss < best.miss) {
                    (best, gained) = (next, true);
                    break;
                }
            }
        }
        if !gained {
            by = by.sqrt();
        }
    }
    best
}

/// How a drive behaves under the writes that were recorded, in the long run.
fn behaviour(shape: &Shape, observed: &Behaviour) -> Option<Behaviour> {
    let mut ssd = Ssd::new(&shape.profile(), Precondition::Aged(OVERWRITES), 1).ok()?;
    let blocks = u64::from(ssd.geometry().logical_pages);
    // Some tens of stalls.
    let stalls = 25.0 * observed.stalls.spacing_bytes / 4096.0;
    let requests = if observed.stalls.count > 0 { stalls } else { 0.0 };
    let requests = requests.clamp(5_000.0, 12_000.0) as usize;
    let mut player = Player::new(&mut ssd, 1);
    let forever = 1e9;
    player.step(Step::Sustained, forever, blocks, requests / 2);
    let recorded = player.step(Step::Sustained, forever, blocks, requests);
    let behaviour = Behaviour::of(&recorded, 0.0, observed.stalls.threshold_us);
    if observed.single.count == 0 {
        return Some(behaviour);
    }
    let requests = 25.0 * observed.single.spacing_bytes / 4096.0;
    let requests = requests.clamp(1_000.0, 6_000.0) as usize;
    let single = player.step(Step::Single, forever, blocks, requests);
    Some(behaviour.with_single(Some(&single), observed.single.threshold_us))
}

/// From this share of the time in stalls on, one merges with the next.
const ALWAYS: f64 = 0.8;

/// How far two are apart: squares of logarithms of ratios, by how much each figure counts.
fn miss(modelled: &Behaviour, observed: &Behaviour) -> f64 {
    // Below these, differences are of no account.
    let (us, share) = (observed.stalls.threshold_us / 8.0, 0.002);
    let apart = |modelled: f64, observed: f64, least: f64| {
        libm::log((modelled + least) / (observed + least)).powi(2)
    };
    let (m, o) = (modelled, observed);
    // Where some write is always late, stalls have no length.
    let lengths = if o.stalls.share < ALWAYS { 1.0 } else { 0.0 };
    let single = if o.single.count < Stalls::FEW { 0.0 } else { 2.0 };
    let reads = if o.read_mean_us > 0.0 { 1.0 } else { 0.0 };
    3.0 * apart(m.writes_per_s, o.writes_per_s, 0.0)
        + lengths * apart(m.stalls.mean_us, o.stalls.mean_us, us)
        + single * apart(m.single.mean_us, o.single.mean_us, us)
        + single / 2.0 * apart(m.single.share, o.single.share, share)
        + 2.0 * apart(m.stalls.share, o.stalls.share, share)
        + apart(m.write_p99_us, o.write_p99_us, us)
        + 0.5 * apart(m.write_p999_us, o.write_p999_us, us)
        + reads * apart(m.read_mean_us, o.read_mean_us, us / 4.0)
        + reads * 0.5 * apart(m.read_p99_us, o.read_p99_us, us)
}
