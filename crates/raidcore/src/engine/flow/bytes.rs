//! The bytes of what only the engine knows: metadata blocks, and entries of the journal and the staging
//! log; and what blocks are of, for devices that want to know.

use crate::engine::flight::Owner;
use crate::engine::form::{Form, entry_blocks};
use crate::engine::{Engine, IoId, Stream};
use crate::meta::{self, JournalRun, MapKind, MetaPage};
use crate::units::{DeviceId, Mem, Set, Stripe};

impl Engine {
    /// The bytes of a metadata block for a device: what [`IoOp::Store`](super::IoOp::Store) writes.
    pub fn encode(&self, page: MetaPage, device: DeviceId, into: &mut [u8]) {
        let array = self.array.membership.record().array;
        match page {
            MetaPage::Superblock { .. } => {
                let uuid = self.array.membership.uuid_of(device);
                self.array.membership.recorder.snapshot().encode(uuid, into);
            }
            MetaPage::Bitmap { index } => {
                self.range.maps.encode(array, MapKind::Bitmap, index, into)
            }
            MetaPage::ZeroMap { index } => {
                self.range.maps.encode(array, MapKind::ZeroMap, index, into)
            }
            MetaPage::Missed { index } => {
                self.range.maps.encode(array, MapKind::Missed, index, into)
            }
            MetaPage::Popularity => {
                let record = self.array.membership.record();
                let (of, stripes) = ((array, record.events), record.areas.stripes());
                meta::encode_popularity(of, stripes, self.range.heat.counts(), into);
            }
        }
    }

    /// How many header blocks the entry of an [`IoOp::Journal`](super::IoOp::Journal) begins with.
    #[must_use]
    pub fn journal_header_blocks(&self, io: IoId) -> u32 {
        if let Some(number) = self.staged_entry(io) {
            return self.range.staging.header_blocks(number);
        }
        if let Owner::Entry { job } = self.array.flights.get(io).owner {
            entry_blocks(self.entry_runs(job)).0
        } else {
            1
        }
    }

    /// Whether an [`IoOp::Discard`](super::IoOp::Discard) is of room in the staging log, which is written again
    /// before long. A file system would have to find the blocks anew each time.
    ///
    /// # Panics
    /// If the I/O has ended.
    #[must_use]
    pub fn is_rewritten_soon(&self, io: IoId) -> bool {
        self.array.flights.get(io).owner == Owner::TrimLog
    }

    /// What an I/O that writes is of.
    ///
    /// # Panics
    /// If the I/O has ended.
    #[must_use]
    pub fn stream(&self, io: IoId) -> Stream {
        match self.array.flights.get(io).owner {
            Owner::Write { job, index } => {
                let job = &self.range.jobs[job];
                let role = job.plan.writes[usize::from(index)].role;
                let geometry = self.layout.of(job.stripe);
                let is_parity = [geometry.p(), geometry.q()].contains(&Some(role));
                if is_parity { Stream::Parity } else { Stream::Data }
            }
            Owner::Staged { .. } | Owner::StagedTail | Owner::Copy { .. } => Stream::Staging,
            Owner::Entry { .. }
            | Owner::Tail { .. }
            | Owner::Page { .. }
            | Owner::Popularity
            | Owner::Superblock => Stream::Journal,
            Owner::Read { .. }
            | Owner::ReadAtOnce { .. }
            | Owner::Fetch { .. }
            | Owner::Discard { .. }
            | Owner::TrimSpare
            | Owner::TrimLog
            | Owner::Clear
            | Owner::Vacate
            | Owner::Flush => Stream::Data,
        }
    }

    /// The payload of an [`IoOp::Journal`](super::IoOp::Journal): memory and how many blocks of it, in
    /// order.
    pub fn journal_payload(&self, io: IoId, mut visit: impl FnMut(Mem, u32)) {
        if let Some(number) = self.staged_entry(io) {
            return self.range.staging.payload(number, visit);
        }
        if let Owner::Entry { job } = self.array.flights.get(io).owner {
            for io in self.entry_runs(job) {
                visit(self.range.jobs[job].bind(io.mem), io.blocks);
            }
        }
    }

    /// Encodes the header blocks of an [`IoOp::Journal`](super::IoOp::Journal). `crc_of` gives the
    /// [`checksum`](crate::meta::checksum) of one block of memory.
    pub fn encode_journal(&self, io: IoId, mut crc_of: impl FnMut(Mem) -> u32, into: &mut [u8]) {
        let op = self.array.flights.get(io);
        let Some(member) = op.member else { return };
        if let Some(number) = self.staged_entry(io) {
            let of = (self.array.membership.record(), &self.layout);
            return self.range.staging.encode(number, member, of, crc_of, into);
        }
        let (number, holders, job) = if let Owner::Entry { job } = op.owner {
            let (entry, holders) = self.range.jobs[job].journaled.entry.unwrap_or((0, Set::EMPTY));
            (entry, holders, Some(job))
        } else if let Owner::Tail { entry } = op.owner {
            (entry, Set::one(member), None)
        } else {
            return;
        };
        let Some((at, tail)) = self.range.journal.header(member, number) else { return };
        let stripe = job.map_or(Stripe(0), |job| self.range.jobs[job].stripe);
        let held = job.into_iter().flat_map(|job| self.entry_runs(job));
        let runs = held.clone().map(|io| JournalRun {
            member: self.layout.member(stripe, io.role),
            row: io.row,
            blocks: io.blocks,
        });
        let left_out = job.and_then(|job| match self.range.jobs[job].journaled.form {
            Form::Partial(role) => Some(self.layout.member(stripe, role)),
            Form::Whole => None,
        });
        let header = meta::JournalHeader {
            log: meta::Log::Journal,
            open: meta::JournalHeader::open_of(left_out),
            array: self.array.membership.record().array,
            epoch: self.array.membership.record().epoch,
            entry: number,
            tail,
            member,
            at,
            holders,
            stripe,
        };
        let blocks = held.flat_map(|io| (0..io.blocks).map(move |i| io.mem.plus(i)));
        let crcs = blocks.map(|mem| crc_of(job.map_or(mem, |job| self.range.jobs[job].bind(mem))));
        meta::encode_journal_header(&header, runs, crcs, into);
    }
}
