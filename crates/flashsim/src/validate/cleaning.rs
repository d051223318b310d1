//! Write amplification against the closed forms: the flash translation layer alone, in no time.

use det::Prng;

use super::formulas;
use super::row::Row;
use super::workload::Classes;
use crate::ftl::{Ftl, Precondition, Writer};
use crate::profile::{
    Arrangement, Collection, CopyPath, DieChoice, Nand, PlaneChoice, Preempt, Profile, Scope,
    Translation, Unit, Victim,
};

/// Free blocks at which collection starts: as few as can be, so that `alpha` is the spare space.
const FREE: u32 = 3;

/// A drive of one plane, with space for `alpha` times `logical` pages and the free blocks.
pub(super) fn plane(victim: Victim, pages: u32, logical: u32, alpha: f64) -> Profile {
    let offered = logical.div_ceil(pages);
    let blocks = (f64::from(offered) * alpha).round() as u32 + FREE + 1;
    Profile {
        name: "one plane".into(),
        told: false,
        obeys: false,
        geometry: Arrangement {
            channels: 1,
            chips: 1,
            dies: 1,
            planes: 1,
            blocks,
            pages,
            page_bytes: 4096,
        },
        nand: Nand {
            read_us: 25.0,
            program_us: 200.0,
            erase_us: 1500.0,
            multi_plane_reads: false,
            program_planes: 1,
            program_pages: 1,
        },
        bus: None,
        link: None,
        ftl: Translation {
            spare: f64::from(blocks - offered) / f64::from(blocks),
            mapping_bytes: None,
            summary: false,
            die: DieChoice::Static,
            plane: PlaneChoice::Static,
            reads_first: 0,
            streams: 1,
            wear_leveling: None,
        },
        gc: Collection {
            victim,
            scope: Scope::Chip,
            unit: Unit::Block,
            start: f64::from(FREE) / f64::from(blocks),
            stop: None,
            hard: 0.0,
            only_when_waiting: false,
            host_turns: 0,
            preempt: Preempt::Never,
            copy: CopyPath::CopyBack,
            separate: false,
            instant: false,
            background: None,
        },
        buffer: None,
        suspend: None,
        read_retry: None,
    }
}

/// What random writes did to a drive.
struct Measured {
    amplification: f64,
    /// As the formulas define it, with the free pool as it was on average.
    alpha: f64,
}

/// Writes `overwrites` times the logical space, once before measuring and once measured.
fn measure(profile: &Profile, writes: Option<&Classes>, overwrites: f64, seed: u64) -> Measured {
    let mut prng = Prng::new(seed);
    let mut ftl = Ftl::new(profile, prng.next_u64());
    ftl.precondition(Precondition::Filled, &mut prng);
    let logical = ftl.geometry().logical_pages;
    let count = (f64::from(logical) * overwrites) as u64;
    let mut writer = Writer::default();
    let (mut free, mut before) = (0u64, ftl.stats);
    for write in 0..2 * count {
        if write == count {
            (free, before) = (0, ftl.stats);
        }
        let lpn = match writes {
            Some(classes) => classes.draw(&mut prng),
            None => prng.below(logical.into()) as u32,
        };
        ftl.write_now(lpn, &mut writer);
        free += u64::from(ftl.free_pages(0, 0));
    }
    let programmed = (ftl.stats.programmed - before.programmed) as f64;
    let moved = (ftl.stats.moved - before.moved) as f64;
    let unwritten = free as f64 / count as f64;
    Measured {
        amplification: 1.0 + moved / programmed,
        alpha: (ftl.geometry().raw_pages() as f64 - unwritten) / f64::from(logical),
    }
}

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Enough to see a mistake, in seconds.
    Short,
    /// As much as the tolerances were made for.
    Full,
}

/// Uniform writes, collected greedily and in order of age, at several `alpha` and block sizes.
#[must_use]
pub fn uniform(depth: Depth) -> Vec<Row> {
    let full: &[f64] = &[1.05, 1.07, 1.10, 1.15, 1.20, 1.25, 1.35, 1.50, 2.00, 3.00];
    let alphas = if depth == Depth::Full { full } else { &[1.10, 1.25, 2.00] };
    let mut rows = Vec::new();
    for &alpha in alphas {
        for (victim, pages) in [(Victim::Fifo, 256), (Victim::Greedy, 64), (Victim::Greedy, 256)] {
            let profile = plane(victim, pages, 256 << 10, alpha);
            let is = measure(&profile, None, 5.0, 1);
            let (name, reference) = match victim {
                Victim::Fifo => ("FIFO".into(), formulas::fifo(is.alpha)),
                Victim::Greedy | Victim::DChoices(_) | Victim::WindowedGreedy(_) => {
                    (format!("greedy {pages}"), formulas::greedy(is.alpha, f64::from(pages)))
                }
            };
            rows.push(Row::new(
                format!("write amplification, uniform, {name}, alpha {:.3}", is.alpha),
                "",
                (reference, is.amplification),
                if is.alpha < 1.1 { 0.02 } else { 0.01 },
            ));
        }
    }
    rows
}

/// Hot and cold data, and Zipf, collected in order of age.
#[must_use]
pub fn skewed(depth: Depth) -> Vec<Row> {
    let logical = 256 << 10;
    let mut cases = vec![
        ("80% to 20%", Classes::new(&[(0.8, 0.2), (0.2, 0.8)], logical), 1.25),
        ("Zipf 0.9", Classes::zipf(0.9, logical), 1.25),
    ];
    if depth == Depth::Full {
        cases.push(("80% to 20%", Classes::new(&[(0.8, 0.2), (0.2, 0.8)], logical), 1.12));
        cases.push(("90% to 10%", Classes::new(&[(0.9, 0.1), (0.1, 0.9)], logical), 1.5));
        let three = &[(0.6, 0.05), (0.3, 0.25), (0.1, 0.7)];
        cases.push(("60/30/10% to 5/25/70%", Classes::new(three, logical), 1.2));
        cases.push(("Zipf 0.9", Classes::zipf(0.9, logical), 1.12));
        cases.push(("Zipf 1.2", Classes::zipf(1.2, logical), 1.5));
    }
    let mut rows = Vec::new();
    for (name, classes, alpha) in cases {
        // Cold pages keep their places in the log from round to round, so that it forgets how it
        // was filled only once most of them have been written again.
        let overwrites = if name == "Zipf 1.2" { 40.0 } else { 5.0 };
        let profile = plane(Victim::Fifo, 64, logical, alpha);
        let is = measure(&profile, Some(&classes), overwrites, 1);
        let reference = formulas::fifo_classes(is.alpha, &classes.shares);
        rows.push(Row::new(
            format!("write amplification, {name}, FIFO, alpha {:.3}", is.alpha),
            "",
            (reference, is.amplification),
            if is.alpha < 1.1 { 0.02 } else { 0.01 },
        ));
    }
    rows
}
