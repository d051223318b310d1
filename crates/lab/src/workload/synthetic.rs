//! Synthetic workloads: times, operations, sizes and addresses, each with its own distribution.

use serde::Deserialize;

use super::address::{Address, AddressLaw, Room};
use super::pace::Pacing;
use super::random::Random;
use super::sizes::{SizeLaw, Sizes};
use super::{Ask, Kind, WorkloadError, range, share};
use crate::units::{Bytes, Portion};

/// A synthetic workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// When they come; one at a time if absent.
    pub pace: Option<Pacing>,
    /// The share of requests that read. Requests that neither read nor discard write.
    pub read: f64,
    /// The share of requests that discard. They have the sizes and places of writes.
    #[serde(default)]
    pub discard: f64,
    /// The number of writes and discards before each flush; no flushes if absent.
    pub flush_every: Option<u64>,
    /// The sizes of all requests.
    pub size: Option<Sizes>,
    /// The sizes of reads, instead of `size`.
    pub read_size: Option<Sizes>,
    /// The sizes of writes, instead of `size`.
    pub write_size: Option<Sizes>,
    /// Their addresses.
    #[serde(default)]
    pub address: Address,
    /// The share of requests that begin where the last request ended.
    #[serde(default)]
    pub runs: f64,
    /// Other requests begin at a multiple of this from `start`.
    #[serde(default = "block")]
    pub align: Bytes,
    /// The start of the used part of the system.
    #[serde(default = "nothing")]
    pub start: Portion,
    /// The size of that part; up to the end if absent.
    pub footprint: Option<Portion>,
}

pub(crate) fn block() -> Bytes {
    Bytes(4096)
}

pub(crate) fn nothing() -> Portion {
    Portion::Bytes(Bytes(0))
}

impl Synthetic {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        if let Some(pace) = &self.pace {
            pace.check()?;
        }
        share("read", self.read)?;
        share("discard", self.discard)?;
        let both = self.read + self.discard;
        range("discard", self.discard, both <= 1.0 + 1e-9, "at most what `read` leaves of 1")?;
        if let Some(every) = self.flush_every {
            range("flush_every", every as f64, every > 0, "at least 1")?;
        }
        share("runs", self.runs)?;
        range("align", self.align.0 as f64, self.align.0 > 0, "at least one byte")?;
        self.sizes(true)?.check("read_size")?;
        self.sizes(false)?.check("write_size")?;
        self.address.check()
    }

    /// The sizes of reads or writes. If one of them never happens, the other's are used.
    fn sizes(&self, read: bool) -> Result<&Sizes, WorkloadError> {
        let (own, other, key) = match read {
            true => (&self.read_size, &self.write_size, "read_size"),
            false => (&self.write_size, &self.read_size, "write_size"),
        };
        let never = self.read == if read { 0.0 } else { 1.0 };
        let sizes = own.as_ref().or(self.size.as_ref());
        let sizes = if never { sizes.or(other.as_ref()) } else { sizes };
        sizes.ok_or(WorkloadError::Missing { key, hint: "give it, or `size` for all requests" })
    }
}

/// Draws requests.
#[derive(Debug)]
pub(crate) struct Generator {
    read: f64,
    discard: f64,
    runs: f64,
    flush_every: u64,
    /// Writes since the last flush.
    unflushed: u64,
    reads: SizeLaw,
    writes: SizeLaw,
    addresses: AddressLaw,
    /// Where the last request ended.
    end: u64,
}

impl Generator {
    pub(crate) fn new(
        synthetic: &Synthetic,
        capacity: u64,
        random: &mut Random,
    ) -> Result<Self, WorkloadError> {
        synthetic.check()?;
        let (reads, writes) = (synthetic.sizes(true)?, synthetic.sizes(false)?);
        let need = reads.largest().max(writes.largest());
        let room =
            Room::new(synthetic.start, synthetic.footprint, synthetic.align, capacity, need)?;
        Ok(Self {
            read: synthetic.read,
            discard: synthetic.discard,
            runs: synthetic.runs,
            flush_every: synthetic.flush_every.unwrap_or(u64::MAX),
            unflushed: 0,
            reads: SizeLaw::new(reads),
            writes: SizeLaw::new(writes),
            addresses: AddressLaw::new(&synthetic.address, room, random),
            end: room.start,
        })
    }

    pub(crate) fn next(&mut self, random: &mut Random) -> Ask {
        if self.unflushed >= self.flush_every {
            self.unflushed = 0;
            return Ask::FLUSH;
        }
        let kind = self.kind(random);
        let read = kind == Kind::Read;
        if !read {
            self.unflushed += 1;
        }
        let bytes = if read { &self.reads } else { &self.writes }.draw(random);
        let again = random.chance(self.runs) && self.addresses.continues(self.end, bytes);
        let offset = if again { self.end } else { self.addresses.draw(read, bytes, random) };
        self.end = offset + u64::from(bytes);
        Ask { kind, offset, bytes }
    }

    fn kind(&self, random: &mut Random) -> Kind {
        if self.read >= 1.0 {
            return Kind::Read;
        }
        if self.read + self.discard <= 0.0 {
            return Kind::Write;
        }
        match random.unit() {
            unit if unit < self.read => Kind::Read,
            unit if unit < self.read + self.discard => Kind::Discard,
            _ => Kind::Write,
        }
    }
}
