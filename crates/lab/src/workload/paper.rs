//! Synthetic stand-ins for the workloads of papers whose traces are not available. They are fitted
//! to the papers' figures (number of requests, share of reads, mean sizes, rate). Figures that the
//! papers lack (bursts, regions, popularity) are plausible choices.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::address::{Address, Regions, ZipfExtents};
use super::pace::{Bursts, Gaps, Open, Pacing};
use super::sizes::Sizes;
use super::synthetic::{Synthetic, block, nothing};
use super::{WorkloadError, range};
use crate::units::Bytes;

/// A paper's workload, by its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Which one.
    pub name: Model,
    /// A factor for its rate.
    #[serde(default = "once")]
    pub scale: f64,
}

fn once() -> f64 {
    1.0
}

impl Paper {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        let positive = self.scale > 0.0 && self.scale.is_finite();
        range("paper.scale", self.scale, positive, "above 0")?;
        self.synthetic().check()
    }

    /// The same, with its laws spelled out.
    #[must_use]
    pub fn synthetic(&self) -> Synthetic {
        let row = self.name.0;
        let sizes = |sizes: &[(u64, f64)]| {
            Sizes(sizes.iter().map(|&(bytes, weight)| (Bytes(bytes), weight)).collect())
        };
        let gaps = match row.bursts {
            Some((peak, share)) => Gaps::Bursts(Bursts { peak, share, dwell: None }),
            None => Gaps::Poisson,
        };
        let address = match row.regions {
            Some([read, write, mixed]) => Address::Regions(Regions {
                read: Bytes(read * MIB),
                write: Bytes(write * MIB),
                mixed: Bytes(mixed * MIB),
                mixed_share: if mixed > 0 { 0.08 } else { 0.0 },
                theta: row.theta,
                extent: EXTENT,
            }),
            None => Address::Zipf(ZipfExtents { theta: row.theta, extent: EXTENT }),
        };
        Synthetic {
            pace: Some(Pacing::Open(Open { rate: row.rate * self.scale, gaps })),
            read: row.read,
            discard: 0.0,
            flush_every: None,
            size: None,
            read_size: Some(sizes(row.reads)),
            write_size: Some(sizes(row.writes)),
            address,
            runs: row.runs,
            align: block(),
            start: nothing(),
            footprint: None,
        }
    }
}

/// One of the workloads that come with the crate.
#[derive(Clone, Copy)]
pub struct Model(&'static Row);

impl Model {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name).map(Self)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(Self)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// How many requests the original has.
    #[must_use]
    pub fn requests(self) -> u64 {
        self.0.requests
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| {
            let names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
            D::Error::custom(format!("there is no {name:?}; there are {}", names.join(", ")))
        })
    }
}

struct Row {
    name: &'static str,
    requests: u64,
    /// The share of reads.
    read: f64,
    /// Sizes in bytes and their weights.
    reads: &'static [(u64, f64)],
    writes: &'static [(u64, f64)],
    /// Requests a second.
    rate: f64,
    /// Peak over mean, and the share of time that is bursts.
    bursts: Option<(f64, f64)>,
    /// In MiB: read, written, mixed. Without them: the whole system.
    regions: Option<[u64; 3]>,
    theta: f64,
    runs: f64,
}

const EXTENT: Bytes = Bytes(64 << 10);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const FIN1: &[(u64, f64)] = &[(4 * KIB, 0.47), (8 * KIB, 0.26), (16 * KIB, 0.19), (64 * KIB, 0.08)];
/// Gives the 510.5 KB that the paper has as the mean.
const HPC: &[(u64, f64)] = &[(4 * KIB, 0.5034), (MIB, 0.4966)];
const SIW_HPC: &[(u64, f64)] = &[(4 * KIB, 0.50), (512 * KIB, 0.17), (MIB, 0.33)];
const WEB: &[(u64, f64)] = &[(8 * KIB, 0.70), (32 * KIB, 0.30)];

/// The defaults of the rows.
const PLAIN: Row = Row {
    name: "",
    requests: 0,
    read: 0.0,
    reads: &[],
    writes: &[(8 * KIB, 1.0)],
    rate: 1.0,
    bursts: None,
    regions: None,
    theta: 0.0,
    runs: 0.10,
};

static ROWS: [Row; 15] = [
    // Microsoft Research Cambridge's servers.
    Row {
        name: "hm_0",
        requests: 3_993_316,
        read: 0.355,
        reads: &[(4 * KIB, 0.62), (8 * KIB, 0.16), (16 * KIB, 0.12), (32 * KIB, 0.10)],
        writes: &[(4 * KIB, 0.54), (8 * KIB, 0.28), (16 * KIB, 0.135), (32 * KIB, 0.045)],
        rate: 6.6,
        bursts: Some((10.0, 0.06)),
        regions: Some([1500, 900, 200]),
        theta: 0.9,
        ..PLAIN
    },
    Row {
        name: "mds_0",
        requests: 1_211_034,
        read: 0.119,
        reads: &[(4 * KIB, 0.70), (8 * KIB, 0.10), (16 * KIB, 0.20)],
        writes: &[(4 * KIB, 0.60), (8 * KIB, 0.25), (16 * KIB, 0.12), (32 * KIB, 0.03)],
        rate: 2.0,
        bursts: Some((10.0, 0.06)),
        regions: Some([2600, 400, 100]),
        theta: 0.8,
        runs: 0.20,
    },
    Row {
        name: "prxy_0",
        requests: 12_518_968,
        read: 0.027,
        reads: &[(512, 0.1), (4 * KIB, 0.5), (8 * KIB, 0.3), (16 * KIB, 0.1)],
        writes: &[(512, 0.27), (KIB, 0.24), (2 * KIB, 0.10), (4 * KIB, 0.33), (8 * KIB, 0.06)],
        rate: 20.7,
        bursts: Some((8.0, 0.10)),
        regions: Some([180, 650, 100]),
        theta: 1.0,
        runs: 0.08,
    },
    Row {
        name: "rsrch_0",
        requests: 1_433_655,
        read: 0.093,
        reads: &[(4 * KIB, 0.6), (8 * KIB, 0.2), (32 * KIB, 0.2)],
        writes: &[(4 * KIB, 0.55), (8 * KIB, 0.25), (16 * KIB, 0.12), (32 * KIB, 0.08)],
        rate: 2.4,
        bursts: Some((10.0, 0.06)),
        regions: Some([450, 450, 60]),
        theta: 1.0,
        ..PLAIN
    },
    Row {
        name: "wdev_0",
        requests: 1_143_261,
        read: 0.201,
        reads: &[(4 * KIB, 0.50), (8 * KIB, 0.15), (32 * KIB, 0.35)],
        writes: &[(4 * KIB, 0.57), (8 * KIB, 0.22), (16 * KIB, 0.15), (32 * KIB, 0.06)],
        rate: 1.9,
        bursts: Some((12.0, 0.05)),
        regions: Some([250, 300, 40]),
        theta: 1.0,
        runs: 0.12,
    },
    // UMass's Financial1: as a paper describes it, and as the trace is.
    Row {
        name: "fin1_paper",
        requests: 5_334_987,
        read: 0.328,
        reads: FIN1,
        writes: FIN1,
        rate: 122.0,
        bursts: Some((3.0, 0.3)),
        regions: Some([150, 250, 100]),
        theta: 0.9,
        runs: 0.20,
    },
    Row {
        name: "fin1_umass",
        requests: 5_334_987,
        read: 0.232,
        reads: &[(512, 0.2), (2 * KIB, 0.6), (4 * KIB, 0.15), (8 * KIB, 0.05)],
        writes: &[(512, 0.15), (2 * KIB, 0.25), (4 * KIB, 0.45), (8 * KIB, 0.15)],
        rate: 122.0,
        bursts: Some((3.0, 0.3)),
        regions: Some([150, 250, 100]),
        theta: 0.9,
        runs: 0.05,
    },
    // UMass's WebSearch: hardly a write, hardly any locality.
    Row {
        name: "web1",
        requests: 1_055_448,
        read: 0.9998,
        reads: WEB,
        rate: 335.0,
        regions: Some([9000, 8, 0]),
        theta: 0.25,
        ..PLAIN
    },
    Row {
        name: "web2",
        requests: 4_579_809,
        read: 0.9997,
        reads: WEB,
        rate: 297.0,
        regions: Some([12_000, 8, 0]),
        theta: 0.25,
        ..PLAIN
    },
    Row {
        name: "web3",
        requests: 4_261_709,
        read: 0.9998,
        reads: &[(8 * KIB, 0.69), (32 * KIB, 0.31)],
        rate: 16.0,
        regions: Some([12_000, 8, 0]),
        theta: 0.25,
        ..PLAIN
    },
    // Benchmarks that imitate checkpoints of large computations.
    Row {
        name: "hpc_w",
        requests: 500_000,
        read: 0.201,
        reads: HPC,
        writes: HPC,
        rate: 10.0,
        bursts: Some((3.0, 0.3)),
        runs: 0.0,
        ..PLAIN
    },
    Row {
        name: "hpc_r",
        requests: 500_000,
        read: 0.799,
        reads: HPC,
        writes: HPC,
        rate: 10.0,
        bursts: Some((3.0, 0.3)),
        runs: 0.0,
        ..PLAIN
    },
    Row {
        name: "siw_hpc",
        requests: 100_000,
        read: 0.40,
        reads: SIW_HPC,
        writes: SIW_HPC,
        rate: 50.0,
        runs: 0.0,
        ..PLAIN
    },
    // A mail server.
    Row {
        name: "exchange",
        requests: 1_000_000,
        read: 0.40,
        reads: &[(8 * KIB, 0.7), (32 * KIB, 0.2), (64 * KIB, 0.1)],
        writes: &[(8 * KIB, 0.6), (16 * KIB, 0.2), (32 * KIB, 0.12), (64 * KIB, 0.08)],
        rate: 600.0,
        bursts: Some((4.0, 0.2)),
        regions: Some([2000, 2000, 500]),
        theta: 0.7,
        runs: 0.15,
    },
    // McEwan and Komsul's random pages, a fifth of them in sequence.
    Row {
        name: "mcewan",
        requests: 1_000_000,
        read: 0.20,
        reads: &[(4 * KIB, 1.0)],
        writes: &[(4 * KIB, 1.0)],
        rate: 1000.0 / 3.0,
        runs: 0.2,
        ..PLAIN
    },
];
